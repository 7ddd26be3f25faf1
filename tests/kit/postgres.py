"""A PostgreSQL for tests: a cluster of its own on loopback, by the programs of the system.

Invariant: it listens on 127.0.0.1 alone, and runs as somebody other than root, as PostgreSQL demands.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from slackwater.testing.broker import UnavailableError, free_port

USERS = ("postgres", "nobody")
"""Who runs it where we are root."""


def programs() -> Path:
    """The folder with the programs of the newest PostgreSQL there is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: float(one.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise UnavailableError("there is no PostgreSQL: apt-get install postgresql")
    return Path(on_path).parent


class Postgres:
    """A cluster in a folder of its own; a `with` block starts it, and removes it with its data."""

    def __init__(self) -> None:
        self._programs = programs()
        self._user = self._who()
        # The folders of pytest are for nobody but us.
        self._folder = Path(tempfile.mkdtemp(prefix="slackwater-postgres-"))
        self.port = free_port()
        self.dsn = f"host=127.0.0.1 port={self.port} dbname=postgres user=tester"
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "-D", "data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    @staticmethod
    def _who() -> str | None:
        if os.geteuid() != 0:
            return None
        known = {one.pw_name for one in pwd.getpwall()}
        return next(one for one in USERS if one in known)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments], cwd=self._folder, user=self._user, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c shared_buffers=16MB"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start")

    def kill(self) -> None:
        """End it at once, as if it had crashed; what is committed stays."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (self._folder / "data" / "postmaster.pid").exists():
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
