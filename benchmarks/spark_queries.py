"""Many queries on Spark: as a set, each of ours by itself, each of Spark's own: `python -m benchmarks.spark_queries`.

All sides read the same files, one file of every stream a micro-batch, and write folders of parquet; each side has a
process and a session of its own, with the same settings. Rates are those of the source, in rows a second: `whole` from
when the first query is started until all have taken in everything, `sustained` without the first micro-batch, from when
the last of the queries had that behind it. Who is alone may run ahead of that, and what Spark's own operators do when
there is no more input is not counted. Times are those that Spark tells of micro-batches. `read` has the input rows of
the progress of all queries, by the rows of the source. Memory is the most that the JVM and the workers had, pages that
workers share counted once.

Invariant: the queries are the same on all sides, and wait as long for late rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

import slackwater as sw

WAIT_MS = 1000
Streams = dict[str, DataFrame]


@dataclass(frozen=True)
class Asked:
    """One query, in both languages."""

    text: str
    native: Callable[[Streams], DataFrame]


def asked(count: int) -> dict[str, Asked]:
    """So many queries: of every four one is a join, the others are aggregates by three different keys."""
    return {f"q{number:02d}": join(number) if number % 4 == 0 else aggregate(number) for number in range(count)}


def aggregate(number: int) -> Asked:
    """A sliding sum over the rows that pass a filter of its own."""
    by = [["key"], ["g"], []][number % 3]
    least, size = (number % 7) / 10, 1000 * (1 + number % 5)
    keys = "".join(f"{name}, " for name in by)
    group = f" GROUP BY {', '.join(by)}" if by else ""
    text = (
        f"SELECT {keys}SUM(v) AS total, COUNT(*) AS n FROM a [RANGE {size} MS SLIDE 500 MS] WHERE v >= {least}{group}"
        f" WITH DELAY {WAIT_MS} MS"
    )

    def native(streams: Streams) -> DataFrame:
        window = fn.window("moment", f"{size} milliseconds", "500 milliseconds")
        rows = timed(streams["a"]).where(fn.col("v") >= least)
        return rows.groupBy(window, *by).agg(fn.sum("v").alias("total"), fn.count("*").alias("n"))

    return Asked(text, native)


def join(number: int) -> Asked:
    """Pairs of rows with the same key."""
    within, least = 100 * (1 + number % 3), 0.5 + (number % 5) / 20
    text = (
        f"SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE {within} MS], b [RANGE {within} MS]"
        f" WHERE a.key = b.key AND a.v >= {least} WITH DELAY {WAIT_MS} MS"
    )

    def native(streams: Streams) -> DataFrame:
        a, b = (
            timed(streams[name]).select(*(fn.col(column).alias(name + column) for column in ("moment", "key", "v")))
            for name in "ab"
        )
        apart = f"INTERVAL {within} MILLISECONDS"
        near = fn.expr(f"amoment BETWEEN bmoment - {apart} AND bmoment + {apart}")
        return a.where(fn.col("av") >= least).join(b, (fn.col("akey") == fn.col("bkey")) & near)

    return Asked(text, native)


def timed(frame: DataFrame) -> DataFrame:
    """A stream as Spark's own operators want it."""
    return frame.select(fn.timestamp_millis("ts").alias("moment"), "key", "g", "v").withWatermark(
        "moment", f"{WAIT_MS} milliseconds"
    )


def write_streams(folder: Path, batches: int, rows: int) -> None:
    """Two streams of 10 000 rows a second of event time, one in ten up to a second late; a file a micro-batch."""
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        (folder / name).mkdir()
        for number in range(batches):
            ts = 1_700_000_000_000 + (number * rows + np.arange(rows)) // 10
            ts -= np.where(rng.random(rows) < 0.1, rng.integers(0, WAIT_MS, rows), 0)
            columns = {"ts": ts, "key": rng.integers(0, 1000, rows), "g": rng.integers(0, 20, rows)}
            pq.write_table(pa.table(columns | {"v": rng.random(rows)}), folder / name / f"{number:05d}.parquet")


def read_streams(spark: SparkSession, folder: Path) -> Streams:
    """The streams, a file a micro-batch."""
    return {
        name: spark.readStream.schema("ts long, key long, g long, v double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / name))
        for name in "ab"
    }


def as_set(spark: SparkSession, queries: dict[str, Asked], streams: Streams, out: Path) -> list[StreamingQuery]:
    """All of them as one streaming query."""
    handle = sw.queries(spark, streams=streams, queries={name: one.text for name, one in queries.items()})
    sinks = {name: str(out / name) for name in queries}
    return [handle.start(out / "checkpoint", sinks=sinks, trigger="available").query]


def apart(spark: SparkSession, queries: dict[str, Asked], streams: Streams, out: Path) -> list[StreamingQuery]:
    """Each of ours by itself."""
    running = []
    for name, one in queries.items():
        mine = streams if " b [" in one.text else {"a": streams["a"]}
        given = {"results": str(out / name), "checkpoint": str(out / "checkpoints" / name), "trigger": "available"}
        running.append(sw.start(spark, one.text, **given, **mine).query)  # type: ignore[arg-type]
    return running


def native(spark: SparkSession, queries: dict[str, Asked], streams: Streams, out: Path) -> list[StreamingQuery]:
    """Each of Spark's own."""
    return [
        one.native(streams)
        .writeStream.format("parquet")
        .option("path", str(out / name))
        .option("checkpointLocation", str(out / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
        for name, one in queries.items()
    ]


SIDES = {"set": as_set, "apart": apart, "native": native}


def ends(query: StreamingQuery) -> list[float]:
    """When each micro-batch of a query that brought rows was done, in seconds."""
    return [
        datetime.fromisoformat(one.timestamp).timestamp() + one.durationMs["triggerExecution"] / 1000
        for one in query.recentProgress
        if one.numInputRows
    ]


class Processes:
    """This process and all that it has started, as `/proc` tells of them: the JVM, and workers of Python."""

    def __init__(self) -> None:
        self._fields: dict[int, list[str]] = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                self._fields[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()

    def _ours(self) -> Iterator[int]:
        def is_ours(pid: int) -> bool:
            return pid == os.getpid() or (pid in self._fields and is_ours(int(self._fields[pid][1])))

        return filter(is_ours, self._fields)

    def cpu_seconds(self) -> float:
        """What they have used by now, and those of theirs that have ended."""
        ticks = sum(sum(map(int, self._fields[pid][11:15])) for pid in self._ours())
        return ticks / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """The memory that they have, without this process."""
        kilobytes = 0
        for pid in self._ours():
            with suppress(OSError):
                lines = [] if pid == os.getpid() else Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return kilobytes / 1024


class Watch:
    """Looks at the processes every second, in a thread of its own."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._seen: list[tuple[float, float]] = []
        self.most_megabytes = 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(1):
            now = Processes()
            self._seen.append((time.time(), now.cpu_seconds()))
            self.most_megabytes = max(self.most_megabytes, now.megabytes())

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self._thread.join()

    def cpu_seconds(self, begin: float, end: float) -> float:
        """What was used between two moments."""
        times, used = zip(*self._seen, strict=True)
        return float(np.interp(end, times, used) - np.interp(begin, times, used))


def measured(
    side: str, spark: SparkSession, folder: Path, queries: dict[str, Asked], batches: int, rows: int
) -> dict[str, float]:
    """One side, by the clock."""
    out = Path(tempfile.mkdtemp(dir=folder))
    begun, watch = time.time(), Watch()
    running = SIDES[side](spark, queries, read_streams(spark, folder), out)
    for one in running:
        one.awaitTermination()
    watch.stop()
    ended = [ends(one) for one in running]
    first, last = max(mine[0] for mine in ended), max(mine[-1] for mine in ended)
    read = sum(progress.numInputRows for one in running for progress in one.recentProgress)
    shutil.rmtree(out, ignore_errors=True)
    return {
        "whole": 2 * rows * batches / (last - begun),
        "sustained": 2 * rows * (batches - 1) / (last - first),
        "seconds": last - begun,
        "seconds_after_first": last - first,
        "cpu_seconds": watch.cpu_seconds(begun, last),
        "cpu_seconds_after_first": watch.cpu_seconds(first, last),
        "megabytes": watch.most_megabytes,
        "read": read / (2 * rows * batches),
    }


def one_side(side: str, given: argparse.Namespace) -> None:
    """Measure one side here."""
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": given.memory}
    spark = sw.session(given.master, shards=2, quiet=True, **settings)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_streams(folder, given.batches, given.rows)
        found = measured(side, spark, folder, asked(given.queries), given.batches, given.rows)
        asking = {"side": side, "queries": given.queries, "batches": given.batches, "rows": given.rows}
        print(json.dumps(asking | {name: round(value, 2) for name, value in found.items()}), flush=True)
    spark.stop()


def main() -> None:
    """Measure the sides that are named, or all, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sides", nargs="*", default=list(SIDES))
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000, help="of one stream in a micro-batch")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="2g", help="of the JVM")
    given = parser.parse_args()
    if len(given.sides) == 1:
        one_side(given.sides[0], given)
        return
    options = [f"--{name}={getattr(given, name)}" for name in ("queries", "batches", "rows", "master", "memory")]
    for side in given.sides:
        subprocess.run([sys.executable, "-m", "benchmarks.spark_queries", side, *options], check=True)


if __name__ == "__main__":
    main()
