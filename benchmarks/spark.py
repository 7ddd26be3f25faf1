"""Side by side with Spark's own operators: `python -m benchmarks.spark [--quick] [--json FILE] [NAME ...]`.

Invariant: both sides read the same files in the same session and write to the same sink; each is given the micro-batch
size that suits it best, and its rate is the sustained one, over all micro-batches but the first third.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from rich.console import Console
from rich.table import Table

import slackwater as sw
from benchmarks.stream_files import Recorded, pairs_on_disk, readings_on_disk

WAIT = "2 seconds"
Streams = dict[str, DataFrame]


@dataclass(frozen=True)
class Race:
    """One query, both ways."""

    name: str
    says: str
    tuples: int
    quick: int
    write: Callable[[Path, int], Recorded]
    ours: Callable[[Streams], DataFrame]
    native: Callable[[Streams], DataFrame]
    our_sizes: tuple[int, ...]
    """Micro-batch sizes to try, in tuples."""
    native_sizes: tuple[int, ...]
    ratio: float
    """How many times as fast as Spark's own operator this must be."""
    rate: float = 0.0
    """Tuples a second that must be kept up."""


@dataclass(frozen=True)
class Measured:
    """The best that one side did."""

    rate: float
    size: int
    rows: int


def our_sum(keys: list[str]) -> Callable[[Streams], DataFrame]:
    """A sliding SUM through slackwater."""
    return lambda streams: sw.aggregate(
        streams["s"], time="ts", window="1 second", slide="100 milliseconds", by=keys,
        select={"total": "SUM(v)"}, quality=sw.delay(WAIT),
    )  # fmt: skip


def native_sum(keys: list[str]) -> Callable[[Streams], DataFrame]:
    """The same through groupBy(window())."""
    return lambda streams: (
        timed(streams["s"]).groupBy(fn.window("moment", "1 second", "100 milliseconds"), *keys).agg(fn.sum("v"))
    )


def our_join(streams: Streams) -> DataFrame:
    """An equi-join on 1000 keys through slackwater."""
    return sw.join(
        streams, time="ts", within="5 seconds", where="a.key = b.key", select="a.key, a.v AS av, b.v AS bv",
        quality=sw.delay(WAIT),
    )  # fmt: skip


def native_join(streams: Streams) -> DataFrame:
    """The same through Spark's stream-stream join."""
    a, b = (timed(streams[name]).alias(name) for name in ("a", "b"))
    near = fn.expr("a.key = b.key AND a.moment BETWEEN b.moment - INTERVAL 5 SECONDS AND b.moment + INTERVAL 5 SECONDS")
    return a.join(b, near).select(
        "a.key", fn.col("a.v").alias("av"), fn.col("b.v").alias("bv"), fn.greatest("a.moment", "b.moment").alias("_ts")
    )


def timed(frame: DataFrame) -> DataFrame:
    """A stream with the watermark that Spark's own operators want."""
    return frame.withColumn("moment", fn.timestamp_millis("ts")).withWatermark("moment", WAIT)


MILLION = 1_000_000
RACES = (
    Race(
        "A1", "sliding SUM 1 s / 100 ms, no key", 24 * MILLION, 6 * MILLION, readings_on_disk, our_sum([]),
        native_sum([]), (2 * MILLION, 4 * MILLION), (2 * MILLION, 4 * MILLION), 1.0, 0.8e6,
    ),
    Race(
        "A2", "the same for 1000 keys", 5 * MILLION, 1 * MILLION, readings_on_disk, our_sum(["key"]),
        native_sum(["key"]), (500_000, 1 * MILLION), (500_000, 1 * MILLION), 3.0,
    ),
    Race(
        "J2", "equi-join on 1000 keys within 5 s", 1 * MILLION, 200_000, pairs_on_disk, our_join, native_join,
        (100_000, 200_000), (20_000, 100_000), 5.0,
    ),
)  # fmt: skip
WARM = 1 / 3
"""The share of micro-batches in which both sides warm up: they compile, open state and fill their windows."""


def measure(race: Race, side: str, spark: SparkSession, folder: Path, tuples: int, size: int) -> Measured:
    """Run one side once, in micro-batches of `size` tuples."""
    recorded = race.write(folder, tuples)
    streams = recorded.streams(spark, size)
    frame = (race.ours if side == "ours" else race.native)(streams)
    rows = frame.observe("rows", fn.count("*").alias("n"))
    checkpoint = tempfile.mkdtemp(dir=folder)
    query = (
        rows.writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    made = sum(int(p["observedMetrics"].get("rows", {"n": 0})["n"] or 0) for p in query.recentProgress)
    shutil.rmtree(checkpoint)
    counted = progress[round(WARM * len(progress)) :]
    seconds = sum(p["durationMs"]["triggerExecution"] for p in counted) / 1000
    return Measured(sum(p["numInputRows"] for p in counted) / seconds, size, made)


def main() -> int:
    """Run, print, and say whether all targets were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description="Against Spark's own operators.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(race.name for race in RACES)}")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--ours", action="store_true", help="without Spark's own operators")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    asked = parser.parse_args()
    console = Console()
    table = Table("", "query", "slackwater", "Spark's own", "ratio", "target", box=None)
    figures, met = [], True
    spark = sw.session(shards=2, **{"spark.driver.memory": "6g", "spark.sql.streaming.numRecentProgressUpdates": "500"})
    with tempfile.TemporaryDirectory() as name:
        for race in RACES:
            if asked.names and race.name not in asked.names:
                continue
            tuples = race.quick if asked.quick else race.tuples
            best = {}
            for side, sizes in (("ours", race.our_sizes), ("native", () if asked.ours else race.native_sizes)):
                for size in sizes:
                    with console.status(f"{race.name}: {side}, {size:,} tuples a micro-batch"):
                        one = measure(race, side, spark, Path(name), tuples, size)
                    done = f"{one.rate:,.0f} tuples/s, {one.rows:,} rows"
                    console.print(f"{race.name} {side}, {size:,} a micro-batch: {done}", highlight=False)
                    best[side] = max(best.get(side, one), one, key=lambda p: p.rate)
            figures.append({"race": race.name, **{side: vars(p) for side, p in best.items()}})
            if "native" not in best:
                continue
            ratio = best["ours"].rate / best["native"].rate
            met = met and ratio >= race.ratio and best["ours"].rate >= race.rate
            table.add_row(
                race.name, race.says, f"{best['ours'].rate:,.0f} tuples/s", f"{best['native'].rate:,.0f} tuples/s",
                f"{ratio:.1f}x", f">= {race.ratio}x" + (f", {race.rate:,.0f} tuples/s" if race.rate else ""),
            )  # fmt: skip
    spark.stop()
    console.print(table)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
