"""The job of examples/clicks.py with Spark's own operators and with slackwater: what each of them gives, measured.

Both read the same JSON files, one of each stream a micro-batch, on the same session. The truth is a batch join of all
rows. Waiting is the largest event time that has arrived when a row is emitted, minus the time of that row.

Run it with `python -m benchmarks.vs_native`; docs/vs-native.md holds the figures.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import slackwater as sw

SECONDS = 300
EXAMPLE = Path(__file__).parent.parent / "examples" / "clicks.py"
JOIN = """
    SELECT i.ad, i.user, i.ts AS shown, c.ts AS clicked
    FROM impressions i JOIN clicks c
    ON i.user = c.user AND i.ad = c.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 30 SECONDS
    {}
"""
LEFT = JOIN.replace(" JOIN ", " LEFT JOIN ")
CLOSE = "i.user = c.user AND i.ad = c.ad AND c.ts >= i.ts AND c.ts <= i.ts + INTERVAL 30 SECONDS"
DELAYS = ("2 seconds", "10 seconds", "15 seconds", "1 minute")
JOINED = (
    "WITH NO WAIT", "WITH RECALL 0.95 OVER 1 MINUTE", "WITH RECALL 0.99 OVER 1 MINUTE", "WITH COMPLETE",
    "EMIT ON ARRIVAL WITH RECALL 0.95 OVER 1 MINUTE", "EMIT ON ARRIVAL WITH RECALL 0.99 OVER 1 MINUTE",
    "EMIT IN ORDER WITH CORRECTIONS FOR 2 MINUTES WITH RECALL 0.95 OVER 1 MINUTE",
)  # fmt: skip
LEFT_JOINED = (
    "WITH RECALL 0.99 OVER 1 MINUTE", "EMIT ON ARRIVAL WITH RECALL 0.99 OVER 1 MINUTE",
    "WITH RECALL 0.95 PRECISION 0.999 OVER 1 MINUTE",
)  # fmt: skip
COUNTED = (
    "WITH NO WAIT", "WITH ERROR 1%", "WITH COMPLETE", "EMIT IN ORDER WITH CORRECTIONS FOR 2 MINUTES WITH ERROR 1%",
)  # fmt: skip
COUNTS = "SELECT ad, COUNT(*) AS n FROM impressions [RANGE 1 MINUTE] GROUP BY ad {}"


@dataclass
class Measured:
    """What one way of running the job gave."""

    name: str
    alone: bool = False
    """Whether waits are those of rows without partner."""
    rows: dict[Any, Any] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    backwards: int = 0
    first: set[Any] = field(default_factory=set)
    """The keys of the first answer, where corrections follow."""
    state_rows: int = 0
    """The most rows that were findable."""
    retained: int = 0
    """The most rows that were kept, those among them that only measure what late ones cost."""
    dropped: int = 0
    seconds: float = 0.0


class Job:
    """The streams, and what of them has arrived by when."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        example = load(EXAMPLE)
        rows = example.arrivals(SECONDS, random.Random(11))
        example.write_files(folder, rows, 0, SECONDS + 80)
        self.spark, self.folder = spark, folder
        self._schemas = {"impressions": example.IMPRESSIONS, "clicks": example.CLICKS}
        files = sorted((folder / "impressions").glob("*.json"))
        newest = [self._newest(name) for name in (file.name for file in files)]
        self.clock = np.maximum.accumulate(newest)

    def _newest(self, name: str) -> float:
        frames = [self.spark.read.schema(of).json(str(self.folder / one / name)) for one, of in self._schemas.items()]
        times = [frame.agg(fn.max("ts").cast("double")).first() for frame in frames]
        return max((float(one[0]) for one in times if one is not None and one[0] is not None), default=-np.inf)

    def stream(self, name: str) -> DataFrame:
        reader = self.spark.readStream.schema(self._schemas[name]).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / name))

    def table(self, name: str) -> DataFrame:
        return self.spark.read.schema(self._schemas[name]).json(str(self.folder / name)).where("ts IS NOT NULL")


def load(path: Path) -> Any:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location("clicks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def collector(
    job: Job, seen: Measured, keys: list[str], at: str, value: str | None
) -> Callable[[DataFrame, int], None]:
    """For foreachBatch: keeps every row, how long it waited, and whether it came after a later one."""
    latest = [-np.inf]

    def take(frame: DataFrame, number: int) -> None:
        rows = frame.withColumn("at", fn.col(at).cast("double")).collect()
        times = [row["at"] for row in rows]
        seen.backwards += sum(moment < latest[0] for moment in times)
        for row, moment in zip(rows, times, strict=True):
            key = tuple(row[name] for name in keys)
            seen.rows[key] = 1 if value is None else row[value]
            if moment >= latest[0]:
                seen.first.add(key)
        latest[0] = max([latest[0], *times])
        # What the flush at the end emits has waited for nothing but the end.
        if number < len(job.clock):
            counted = [not seen.alone or row["clicked"] is None for row in rows]
            seen.waits += [
                float(job.clock[number]) - moment for moment, counts in zip(times, counted, strict=True) if counts
            ]

    return take


def native_join(job: Job, delay: str, how: str = "inner") -> Measured:
    """The join as Spark's guide writes it; a row without partner is a fact when its window closes."""
    i = job.stream("impressions").withWatermark("ts", delay).alias("i")
    c = job.stream("clicks").withWatermark("ts", delay).alias("c")
    joined = i.join(c, fn.expr(CLOSE), how).select(
        fn.col("i.ad"), fn.col("i.user"), fn.col("i.ts").alias("shown"), fn.col("c.ts").alias("clicked"),
        fn.expr("coalesce(c.ts, i.ts + INTERVAL 30 SECONDS)").alias("_ts"),
    )  # fmt: skip
    keys = ["ad", "user", "shown", "clicked"]
    return native(job, joined, f"Spark, watermark {delay}", keys, "_ts", None, how == "left")


def native_counts(job: Job, delay: str) -> Measured:
    """The windows as Spark's guide writes them."""
    windows = job.stream("impressions").withWatermark("ts", delay).groupBy(fn.window("ts", "1 minute"), "ad").count()
    counts = windows.select("ad", fn.col("window.end").alias("window_end"), fn.col("count").alias("n"))
    return native(job, counts, f"Spark, watermark {delay}", ["ad", "window_end"], "window_end", "n")


def native(
    job: Job, frame: DataFrame, name: str, keys: list[str], at: str, value: str | None, alone: bool = False
) -> Measured:
    seen = Measured(name, alone)
    begun = time.perf_counter()
    query = frame.writeStream.outputMode("append").foreachBatch(collector(job, seen, keys, at, value))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    seen.seconds = time.perf_counter() - begun
    for progress in running.recentProgress:
        for operator in progress["stateOperators"]:
            seen.state_rows = seen.retained = max(seen.state_rows, operator["numRowsTotal"])
            seen.dropped += operator["numRowsDroppedByWatermark"]
    return seen


def ours(job: Job, text: str, target: str, keys: list[str], at: str, value: str | None) -> Measured:
    seen = Measured("slackwater, " + target.replace("WITH RECALL", "RECALL"), text == LEFT)
    begun = time.perf_counter()
    names = [name for name in ("impressions", "clicks") if name in text]
    streams = {name: job.stream(name) for name in names}
    sink = collector(job, seen, keys, at, value)

    def note(batch: sw.MicroBatch) -> None:
        if batch.progress is not None:
            held = batch.progress.observed.held
            memory = batch.progress.observed.memory
            findable = held + (0 if memory is None else memory.query.tuples)
            seen.state_rows = max(seen.state_rows, findable)
            seen.retained = max(seen.retained, held + batch.progress.state_rows)

    running = sw.start(
        job.spark, text.format(target), trigger="available", flush=True, results=sink, foreach=note, **streams
    )
    assert isinstance(running, sw.RunningQuery)
    running.wait()
    seen.seconds = time.perf_counter() - begun
    seen.dropped = running.progress().late
    return seen


HEADING = f"{'':62} {'':>9} {'wait':>6} {'95 %':>6} {'backw.':>7} {'state':>7} {'kept':>7} {'late':>5} {'seconds':>7}"


def line_of(one: Measured, right: str) -> str:
    waits = np.array(one.waits)
    wait = f"{waits.mean():6.1f} {np.quantile(waits, 0.95):6.1f}" if len(waits) else "     -      -"
    held = f"{one.backwards:7,} {one.state_rows:7,} {one.retained:7,} {one.dropped:5,} {one.seconds:7.1f}"
    return f"{one.name:62} {right:>9} {wait} {held}"


def joins(job: Job, impressions: DataFrame, clicks: DataFrame) -> None:
    """Pairs: how many of them, and of those after the first minute, each way finds."""
    pairs = impressions.join(clicks, fn.expr(CLOSE)).select(
        "i.ad", "i.user", fn.col("i.ts").alias("shown"), fn.col("c.ts").alias("clicked")
    )
    true = {tuple(row) for row in pairs.collect()}
    begun = min(row[-1] for row in true) + timedelta(minutes=1)
    later = {row for row in true if row[-1] >= begun}
    print(f"join: {len(true):,} pairs are true, {len(later):,} of them after the first minute\n{HEADING}")
    keys = ["ad", "user", "shown", "clicked"]
    ways: list[Callable[[], Measured]] = [
        *(lambda delay=delay: native_join(job, delay) for delay in DELAYS),
        *(lambda asked=asked: ours(job, JOIN, asked, keys, "_ts", None) for asked in JOINED),
    ]
    for way in ways:
        one = way()
        found = set(one.rows)
        print(line_of(one, f"{len(found & true) / len(true):.4f}"), end="")
        print(f"  after a minute {len(found & later) / len(later):.4f}, first {len(one.first & true) / len(true):.4f}")


def left_joins(job: Job, impressions: DataFrame, clicks: DataFrame) -> None:
    """Rows without partner: when they leave, and how many of them are false."""
    pairs = impressions.join(clicks, fn.expr(CLOSE), "left").select(
        "i.ad", "i.user", fn.col("i.ts").alias("shown"), fn.col("c.ts").alias("clicked")
    )
    true = {tuple(row) for row in pairs.collect()}
    alone = {row for row in true if row[-1] is None}
    print(f"\nleft join: {len(alone):,} of {len(true):,} rows have no partner; waits are of these\n{HEADING}")
    keys = ["ad", "user", "shown", "clicked"]
    ways: list[Callable[[], Measured]] = [
        *(lambda delay=delay: native_join(job, delay, "left") for delay in DELAYS),
        *(lambda asked=asked: ours(job, LEFT, asked, keys, "_ts", None) for asked in LEFT_JOINED),
    ]
    for way in ways:
        one = way()
        given = {row for row in one.rows if row[-1] is None}
        print(line_of(one, f"{len(set(one.rows) & true) / len(true):.4f}"), end="")
        wrong = len(set(one.rows) - true - given)
        print(f"  without partner {len(given & alone):,}, false {len(given - alone):,}, wrong {wrong:,}")


def counts(job: Job, impressions: DataFrame) -> None:
    """Windows: the share of those emitted that are right."""
    windows = impressions.groupBy(fn.window("ts", "1 minute"), "ad").count().collect()
    truth = {(row["ad"], row["window"]["end"]): row["count"] for row in windows}
    print(f"\ncounts a minute: {len(truth):,} windows are true; right: share of emitted ones within 1 %\n{HEADING}")
    ways: list[Callable[[], Measured]] = [
        *(lambda delay=delay: native_counts(job, delay) for delay in DELAYS),
        *(lambda asked=asked: ours(job, COUNTS, asked, ["ad", "window_end"], "window_end", "n") for asked in COUNTED),
    ]
    for way in ways:
        one = way()
        near = [abs(n - truth[key]) <= 0.01 * truth[key] for key, n in one.rows.items()]
        print(line_of(one, f"{np.mean(near):.4f}" if near else "-"))


def main() -> int:
    """Print all tables."""
    spark = sw.session(shards=2, quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(spark, Path(folder))
        impressions, clicks = job.table("impressions").alias("i"), job.table("clicks").alias("c")
        joins(job, impressions, clicks)
        left_joins(job, impressions, clicks)
        counts(job, impressions)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
