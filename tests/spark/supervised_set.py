"""A set of queries as a process of its own, which can be killed and started again on the same folder.

Invariant: every micro-batch with rows reads one file, as in `supervised.py`, and one query is added between two files
that are known beforehand: the process adds it when a file `add` is there, and says so by a file `added`. A process that
was killed in between finds out from the checkpoint whether it has.

Run as `python -m tests.spark.supervised_set FOLDER MASTER`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import slackwater as sw
from slackwater.runtime.spark.running import RunningQueries
from tests.spark.supervised import QUERIES, QUICK_START, SCHEMA, SHARDS
from tests.spark.supervisor import Supervisor

STATED = QUERIES | {"over all": "SELECT COUNT(*) AS n FROM b [RANGE 100 MS] WITH NO WAIT"}
ADDED = "later"
ADDED_TEXT = "SELECT key, MAX(v) AS most FROM a [RANGE 200 MS] WHERE v > 0.5 GROUP BY key WITH DELAY 100 MS"
ADDED_AFTER = 3
"""Files that are done with when the query is added."""
OUTPUTS = ("results", "late", "rejected")


def sinks(folder: Path, name: str) -> dict[str, str]:
    """Where the rows of a query go."""
    return {what: str(folder / "out" / name / what) for what in OUTPUTS}


def started(spark: SparkSession, folder: Path) -> RunningQueries:
    """The set over the files in `folder/files`."""
    both = spark.readStream.schema(SCHEMA).parquet(str(folder / "files"))
    streams: dict[str, DataFrame] = {name: both.where(fn.col("stream") == name).drop("stream") for name in ("a", "b")}
    handle = sw.queries(spark, streams=streams, queries=STATED, shards=SHARDS)
    return handle.start(folder / "checkpoint", sinks={name: sinks(folder, name) for name in STATED})


def add(running: RunningQueries, folder: Path) -> None:
    """Add a query, unless that has been done."""
    if ADDED not in running.names:
        running.add(ADDED, ADDED_TEXT, sinks=sinks(folder, ADDED))


def files_of(folder: Path, log: str) -> int:
    """Files that belong to the micro-batches in a log of the checkpoint: planned ones, or committed ones."""
    numbers = [int(one.name) for one in (folder / "checkpoint" / log).glob("[0-9]*") if one.name.isdigit()]
    if not numbers:
        return 0
    # Behind two lines of its own an entry has a line a source, in their order; the files are the first.
    lines = (folder / "checkpoint" / "offsets" / str(max(numbers))).read_text().splitlines()
    return 0 if len(lines) < 3 or lines[2] == "-" else int(json.loads(lines[2])["logOffset"]) + 1


class SetSupervisor(Supervisor):
    """Feeds, watches, kills and restarts a set."""

    module = "tests.spark.supervised_set"

    def planned(self) -> int:
        """Files that some micro-batch has taken."""
        return files_of(self._folder, "offsets")

    def committed(self) -> int:
        """Files that are done with."""
        return files_of(self._folder, "commits")

    @property
    def adding(self) -> bool:
        """Whether the process has been told to add the query."""
        return (self._folder / "add").exists()

    def may_feed(self) -> bool:
        """Not before the query is added, where it is time for that."""
        if self.fed != ADDED_AFTER:
            return True
        (self._folder / "add").touch()
        return (self._folder / "added").exists()


def main(arguments: Sequence[str]) -> None:
    folder, master = Path(arguments[0]), arguments[1]
    running = started(sw.session(master, shards=SHARDS, **QUICK_START), folder)
    while running.is_active:
        if (folder / "add").exists() and not (folder / "added").exists():
            add(running, folder)
            (folder / "added").touch()
        time.sleep(0.05)
    running.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
