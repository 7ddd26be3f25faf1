"""Feeds, watches, kills and restarts the process of `supervised.py`.

Invariant: file i + 1 appears only when both queries have committed micro-batch i.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from tests.kit.processes import QUICK_JVM, Process, python, spark_home
from tests.spark.supervised import QUERIES, publish


class Supervisor:
    """One run over fixed micro-batches, however many processes it takes."""

    module = "tests.spark.supervised"

    def __init__(self, folder: Path, master: str, batches: Sequence[tuple[pa.Table, pa.Table]]) -> None:
        self._folder, self._master, self._batches = folder, master, batches
        self._process: Process | None = None
        self.fed = 0
        (folder / "files").mkdir(parents=True)
        spark_home(folder / "spark")

    def start(self) -> None:
        """Start the queries, or go on with them."""
        (self._folder / "tmp").mkdir()
        java = f"-Djava.io.tmpdir={self._folder / 'tmp'} {QUICK_JVM}"
        given = {"JDK_JAVA_OPTIONS": java, "SPARK_HOME": str(self._folder / "spark")}
        command = python("-m", self.module, str(self._folder), self._master)
        self._process = Process(command, self._folder / "log", given)

    def processes(self) -> dict[int, str]:
        """The processes that live now, with their command lines."""
        return {} if self._process is None else self._process.members()

    def kill(self) -> None:
        """End everything at once; nothing gets a chance to tidy up."""
        if self._process is None:
            return
        self._process.kill()
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

        def fed() -> bool:
            if self.fed < len(self._batches) and self.committed() == self.fed and self.may_feed():
                publish(self._folder / "files", self.fed, *self._batches[self.fed])
                self.fed += 1
            return reached()

        assert self._process is not None
        self._process.until(fed)


def _length(log: Path) -> int:
    """Entries of a checkpoint's log, numbered from 0; all are kept in a run this short."""
    return len([entry for entry in log.glob("[0-9]*") if entry.name.isdigit()])
