"""Processes that tests start, watch and kill.

Invariant: a kill reaches every process that one has started: Python workers leave its process group, so they are found
by its session. What it says is in one file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 900.0
"""Seconds after which what does not come has failed; only a broken run comes near it."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
"""For JVMs that live for seconds: compiling well, or collecting garbage in parallel, costs more than it brings."""


class Process:
    """A command that runs, in a session of its own."""

    def __init__(
        self, command: Sequence[str], log: Path, given: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> None:
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                list(command), cwd=cwd, env=os.environ | (given or {}), stdout=file, stderr=file, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def members(self) -> dict[int, str]:
        """The processes of its session that live now, with their command lines."""
        return session_members(self.pid)

    def kill(self, limit: float = LIMIT) -> None:
        """End everything at once; nothing gets a chance to tidy up."""
        deadline = time.monotonic() + limit
        while members := self.members():
            for pid in members:
                kill_now(pid)
            assert time.monotonic() < deadline, members
            time.sleep(0.02)
        self._process.wait()

    def until(self, reached: Callable[[], bool], limit: float = LIMIT) -> None:
        """Wait for something, while the process runs."""
        deadline = time.monotonic() + limit
        while not reached():
            assert self.runs, f"the process ended by itself:\n{self.said()}"
            assert time.monotonic() < deadline, f"it does not come:\n{self.said()}"
            time.sleep(0.05)

    def ended(self, limit: float = LIMIT) -> int:
        """Wait for its end; its exit code."""
        code = self._process.wait(limit)
        # Workers of Python may outlive it by a moment.
        self.kill()
        return code

    def said(self) -> str:
        """The end of what it has said."""
        return self.log.read_text(errors="replace")[-5000:]


def python(*arguments: str) -> list[str]:
    """The command that runs this interpreter."""
    return [sys.executable, *arguments]


def spark_home(folder: Path) -> Path:
    """A folder as that of Spark: workers of a cluster write where Spark is installed, so let that be here."""
    import pyspark

    folder.mkdir(parents=True)
    for part in ("bin", "jars", "python"):
        (folder / part).symlink_to(Path(pyspark.__path__[0]) / part)
    return folder


def session_members(session: int) -> dict[int, str]:
    """Living processes of a session, with their command lines."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its_session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def kill_now(pid: int, how: int = signal.SIGKILL) -> None:
    """A signal, if it is not too late for that."""
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return
