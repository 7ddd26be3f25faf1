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
    FROM impressions i [RANGE 30 SECONDS], clicks c [RANGE 30 SECONDS]
    WHERE i.user = c.user AND i.ad = c.ad AND c.ts >= i.ts
    WITH {}
"""
COUNTS = "SELECT ad, COUNT(*) AS n FROM impressions [RANGE 1 MINUTE] GROUP BY ad WITH {}"


@dataclass
class Measured:
    """What one way of running the job gave."""

    name: str
    rows: dict[Any, Any] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    backwards: int = 0
    state_rows: int = 0
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
        latest[0] = max([latest[0], *times])
        for row in rows:
            seen.rows[tuple(row[key] for key in keys)] = 1 if value is None else row[value]
        # What the flush at the end emits has waited for nothing but the end.
        if number < len(job.clock):
            seen.waits += [float(job.clock[number]) - moment for moment in times]

    return take


def native_join(job: Job, delay: str) -> Measured:
    """The join as Spark's guide writes it."""
    i = job.stream("impressions").withWatermark("ts", delay).alias("i")
    c = job.stream("clicks").withWatermark("ts", delay).alias("c")
    close = "i.user = c.user AND i.ad = c.ad AND c.ts >= i.ts AND c.ts <= i.ts + INTERVAL 30 SECONDS"
    joined = i.join(c, fn.expr(close)).select(
        fn.col("i.ad"), fn.col("i.user"), fn.col("i.ts").alias("shown"), fn.col("c.ts").alias("clicked"),
        fn.col("c.ts").alias("_ts"),
    )  # fmt: skip
    return native(job, joined, f"Spark, watermark {delay}", ["ad", "user", "shown", "clicked"], "_ts", None)


def native_counts(job: Job, delay: str) -> Measured:
    """The windows as Spark's guide writes them."""
    windows = job.stream("impressions").withWatermark("ts", delay).groupBy(fn.window("ts", "1 minute"), "ad").count()
    counts = windows.select("ad", fn.col("window.end").alias("window_end"), fn.col("count").alias("n"))
    return native(job, counts, f"Spark, watermark {delay}", ["ad", "window_end"], "window_end", "n")


def native(job: Job, frame: DataFrame, name: str, keys: list[str], at: str, value: str | None) -> Measured:
    seen = Measured(name)
    begun = time.perf_counter()
    query = frame.writeStream.outputMode("append").foreachBatch(collector(job, seen, keys, at, value))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    seen.seconds = time.perf_counter() - begun
    for progress in running.recentProgress:
        for operator in progress["stateOperators"]:
            seen.state_rows = max(seen.state_rows, operator["numRowsTotal"])
            seen.dropped += operator["numRowsDroppedByWatermark"]
    return seen


def ours(job: Job, text: str, target: str, keys: list[str], at: str, value: str | None) -> Measured:
    seen = Measured(f"slackwater, {target}")
    begun = time.perf_counter()
    names = [name for name in ("impressions", "clicks") if name in text]
    streams = {name: job.stream(name) for name in names}
    sink = collector(job, seen, keys, at, value)
    rows: list[int] = []

    def note(batch: sw.MicroBatch) -> None:
        rows.append(batch.progress.state_rows if batch.progress is not None else 0)

    running = sw.start(
        job.spark, text.format(target), trigger="available", flush=True, results=sink, foreach=note, **streams
    )
    assert isinstance(running, sw.RunningQuery)
    running.wait()
    seen.seconds = time.perf_counter() - begun
    seen.state_rows = max(rows)
    seen.dropped = running.progress().late
    return seen


def line_of(one: Measured, right: str) -> str:
    waits = np.array(one.waits)
    wait = f"{waits.mean():6.1f} {np.quantile(waits, 0.95):6.1f}" if len(waits) else "     -      -"
    return f"{one.name:42} {right:>9} {wait} {one.backwards:7,} {one.state_rows:8,} {one.dropped:6,} {one.seconds:7.1f}"


def main() -> int:
    """Print both tables."""
    spark = sw.session(shards=2, quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(spark, Path(folder))
        impressions, clicks = job.table("impressions").alias("i"), job.table("clicks").alias("c")
        close = "i.user = c.user AND i.ad = c.ad AND c.ts >= i.ts AND c.ts <= i.ts + INTERVAL 30 SECONDS"
        true_pairs = impressions.join(clicks, fn.expr(close)).count()
        heading = f"{'':42} {'':>9} {'wait':>6} {'95 %':>6} {'backw.':>7} {'state':>8} {'late':>6} {'seconds':>7}"
        print(f"join: {true_pairs:,} pairs are true\n{heading.replace(' ' * 9, '   recall', 1)}")
        ways: list[Callable[[], Measured]] = [
            *(lambda delay=delay: native_join(job, delay) for delay in ("2 seconds", "10 seconds", "1 minute")),
            *(
                lambda target=target: ours(job, JOIN, target, ["ad", "user", "shown", "clicked"], "_ts", None)
                for target in ("NO WAIT", "RECALL 0.95 OVER 1 MINUTE", "RECALL 0.99 OVER 1 MINUTE", "COMPLETE")
            ),
        ]
        for way in ways:
            one = way()
            print(line_of(one, f"{len(one.rows) / true_pairs:.4f}"))
        windows = impressions.groupBy(fn.window("ts", "1 minute"), "ad").count().collect()
        truth = {(row["ad"], row["window"]["end"]): row["count"] for row in windows}
        print(f"\ncounts a minute: {len(truth):,} windows are true; right: share of emitted ones within 1 %\n{heading}")
        counts: list[Callable[[], Measured]] = [
            *(lambda delay=delay: native_counts(job, delay) for delay in ("2 seconds", "10 seconds", "1 minute")),
            *(
                lambda target=target: ours(job, COUNTS, target, ["ad", "window_end"], "window_end", "n")
                for target in ("NO WAIT", "ERROR 1%", "COMPLETE")
            ),
        ]
        for way in counts:
            one = way()
            near = [abs(n - truth[key]) <= 0.01 * truth[key] for key, n in one.rows.items()]
            print(line_of(one, f"{np.mean(near):.4f}" if near else "-"))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
