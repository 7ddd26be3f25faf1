"""Whoever feeds, watches, kills and restarts the process of `supervised.py`.

Invariant: file i + 1 appears only when both queries have committed micro-batch i. A kill reaches every process that the
query has started: Python workers leave the process group, so processes are found by their session.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyspark

from tests.spark.supervised import QUERIES, publish

LIMIT = 240.0
"""Seconds after which a process that gets nowhere has failed; only a broken one comes near it."""
ROOT = Path(__file__).parents[2]


class Supervisor:
    """One run over fixed micro-batches, however many processes it takes."""

    module = "tests.spark.supervised"

    def __init__(self, folder: Path, master: str, batches: Sequence[tuple[pa.Table, pa.Table]]) -> None:
        self._folder, self._master, self._batches = folder, master, batches
        self._process: subprocess.Popen[bytes] | None = None
        self.fed = 0
        for name in ("files", "spark"):
            (folder / name).mkdir(parents=True)
        # Workers of a local cluster write where Spark is installed; let that be here.
        for part in ("bin", "jars", "python"):
            (folder / "spark" / part).symlink_to(Path(pyspark.__path__[0]) / part)

    def start(self) -> None:
        """Start the queries, or go on with them."""
        (self._folder / "tmp").mkdir()
        java = f"-Djava.io.tmpdir={self._folder / 'tmp'} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        java += " -Djdk.lang.Process.launchMechanism=VFORK"
        given = {"JDK_JAVA_OPTIONS": java, "SPARK_HOME": str(self._folder / "spark")}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, str(self._folder), self._master],
                cwd=ROOT, env=os.environ | given, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def processes(self) -> dict[int, str]:
        """The processes that live now, with their command lines."""
        return {} if self._process is None else session_members(self._process.pid)

    def kill(self) -> None:
        """End everything at once; nothing gets a chance to tidy up."""
        if self._process is None:
            return
        deadline = time.monotonic() + LIMIT
        while members := self.processes():
            for pid in members:
                kill_now(pid)
            assert time.monotonic() < deadline, members
            time.sleep(0.02)
        self._process.wait()
        self._process = None
        # A restart finds its checkpoint, and nothing else that the dead have left.
        shutil.rmtree(self._folder / "tmp")

    def planned(self) -> int:
        """Micro-batches that some query has planned."""
        return max(_length(self._folder / name / "checkpoint" / "offsets") for name in QUERIES)

    def committed(self) -> int:
        """Micro-batches that both queries have finished."""
        return min(_length(self._folder / name / "checkpoint" / "commits") for name in QUERIES)

    def may_feed(self) -> bool:
        """Whether the next file may appear."""
        return True

    def feed_until(self, reached: Callable[[], bool]) -> None:
        """Let files appear, each when the one before is done with, until something has been reached."""
        deadline = time.monotonic() + LIMIT
        while not reached():
            if self.fed < len(self._batches) and self.committed() == self.fed and self.may_feed():
                publish(self._folder / "files", self.fed, *self._batches[self.fed])
                self.fed += 1
            assert self._process is not None
            assert self._process.poll() is None, self._complaint("the process ended by itself")
            assert time.monotonic() < deadline, self._complaint("nothing happens")
            time.sleep(0.02)

    def _complaint(self, what: str) -> str:
        return f"{what}:\n{(self._folder / 'log').read_text(errors='replace')[-5000:]}"


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


def kill_now(pid: int) -> None:
    """SIGKILL, if it is not too late for that."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _length(log: Path) -> int:
    """Entries of a checkpoint's log, numbered from 0; all are kept in a run this short."""
    return len([entry for entry in log.glob("[0-9]*") if entry.name.isdigit()])
