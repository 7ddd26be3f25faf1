"""Side by side with Spark's own operators and with Flink: `python -m benchmarks.spark [--quick] [NAME ...]`.

Every run has a process of its own. All sides read the same parquet files, half of whose tuples arrive out of order.
Ours writes its results as parquet; Spark's own operators count them, Flink throws them away. `whole` is from the start
of the query to its end, JVM and session being there; `sustained` leaves out the first third of the micro-batches (of
Flink, which has none: what the second half of the input costs beyond a run of the first). Each side has the micro-batch
size that suits it best, of those that are tried. `--sides files,sql,set` starts the same job in three ways, over the
file source of Spark: by `sw.start`, by `sw.sql` and `writeStream`, and by `sw.queries` of one. `noop` is `sw.sql` into
Spark's sink that writes nothing: what `sql` takes longer than that is Spark's own parquet writer.

Flink is its package from PyPI in an environment of its own, made when it is missing (`--flink FOLDER`, a temporary one
unless it is named); where that cannot be made, it is left out with a word.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from rich.console import Console
from rich.table import Table

import slackwater as sw
from benchmarks.flink import made_environment, run_flink
from benchmarks.stream_files import (
    Recorded,
    pairs_on_disk,
    places_on_disk,
    readings_on_disk,
    synthetic_on_disk,
)
from slackwater.plan.planner import plan
from slackwater.runtime.spark.queries import Outputs, alone
from slackwater.runtime.spark.query import planned_over

WAIT = "2 seconds"
Streams = dict[str, DataFrame]
SHARDS = 2


@dataclass(frozen=True)
class Race:
    """One query, in three languages; Flink's is in `flink_side.py`."""

    name: str
    says: str
    tuples: int
    quick: int
    write: Callable[[Path, int], Recorded]
    ours: str
    native: Callable[[Streams], DataFrame] | None
    our_sizes: tuple[int, ...]
    """Micro-batch sizes to try, in tuples."""
    native_sizes: tuple[int, ...]
    rate: float
    """Tuples a second that ours must keep up."""
    native_tuples: int | None = None
    """Where the others would take too long over all of them, or make more results than there is room for."""
    counted: bool = False
    """Whether results are counted by the second, and not made."""


@dataclass(frozen=True)
class Measured:
    """What one side did once, in tuples a second."""

    whole: float
    sustained: float
    size: int
    results: int


def native_sum(keys: list[str]) -> Callable[[Streams], DataFrame]:
    """A sliding sum through groupBy(window())."""
    return lambda streams: (
        timed(streams["s"]).groupBy(fn.window("moment", "1 second", "100 milliseconds"), *keys).agg(fn.sum("v"))
    )


def native_join(streams: Streams) -> DataFrame:
    """An equi-join through Spark's stream-stream join."""
    return _joined(streams, "a.key = b.key").select("a.key", fn.col("a.v").alias("av"), fn.col("b.v").alias("bv"))


def native_distance(streams: Streams) -> DataFrame:
    """A distance join by a grid made by hand: a goes to the nine cells around it."""
    cell = "CAST(FLOOR(x / 5) AS INT)", "CAST(FLOOR(y / 5) AS INT)"
    around = fn.explode(fn.expr("sequence(-1, 1)"))
    a = streams["a"].select("*", around.alias("i")).select("*", around.alias("j"))
    a = a.withColumn("key", fn.expr(f"({cell[0]} + i) * 1000 + {cell[1]} + j"))
    b = streams["b"].withColumn("key", fn.expr(f"{cell[0]} * 1000 + {cell[1]}"))
    near = "a.key = b.key AND (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) < 25"
    return _joined({"a": a, "b": b}, near).select(fn.col("a.v").alias("av"), fn.col("b.v").alias("bv"))


def _joined(streams: Streams, condition: str) -> DataFrame:
    a, b = (timed(streams[name]).alias(name) for name in ("a", "b"))
    near = "a.moment BETWEEN b.moment - INTERVAL 5 SECONDS AND b.moment + INTERVAL 5 SECONDS"
    return a.join(b, fn.expr(f"{condition} AND {near}"))


def timed(frame: DataFrame) -> DataFrame:
    """A stream with the watermark that Spark's own operators want."""
    return frame.withColumn("moment", fn.timestamp_millis("ts")).withWatermark("moment", WAIT)


MILLION = 1_000_000
SUM = "SELECT {}SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 100 MS]{} WITH DELAY 2 SECONDS"
PAIR = "FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE {} WITH DELAY 2 SECONDS"
RACES = (
    Race(
        "A1", "sliding SUM 1 s / 100 ms, no key", 24 * MILLION, 6 * MILLION, readings_on_disk,
        SUM.format("", ""), native_sum([]), (2 * MILLION, 4 * MILLION), (4 * MILLION,), 4e6,
    ),
    Race(
        "A2", "the same for 1000 keys", 6 * MILLION, 2 * MILLION, readings_on_disk,
        SUM.format("key, ", " GROUP BY key"), native_sum(["key"]), (1 * MILLION, 2 * MILLION), (1 * MILLION,), 1e6,
    ),
    Race(
        "J2", "equi-join on 1000 keys within 5 s", 1_200_000, 400_000, pairs_on_disk,
        "SELECT a.key, a.v AS av, b.v AS bv " + PAIR.format("a.key = b.key"), native_join, (200_000, 400_000),
        (100_000,), 0.4e6,
    ),
    Race(
        "J2A", "the same, each result on arrival", 1_200_000, 400_000, pairs_on_disk,
        "SELECT a.key, a.v AS av, b.v AS bv " + PAIR.format("a.key = b.key") + " EMIT ON ARRIVAL", native_join,
        (200_000, 400_000), (100_000,), 0.4e6,
    ),
    Race(
        "T2", "distance join within 5 m and 5 s", 396_000, 66_000, places_on_disk,
        "SELECT a.v AS av, b.v AS bv " + PAIR.format("dist(a.x, a.y, b.x, b.y) < 5"), native_distance,
        (66_000, 132_000), (66_000,), 0.1e6,
    ),
    Race(
        "J3", "3-way equi-join within 5 s, counted", 2_160_000, 180_000, synthetic_on_disk,
        "SELECT s1.a1 FROM s1 [RANGE 5 SECONDS], s2 [RANGE 5 SECONDS], s3 [RANGE 5 SECONDS]"
        " WHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1 WITH DELAY 2 SECONDS",
        None, (360_000, 720_000), (), 0.5e6, 18_000, counted=True,
    ),
)  # fmt: skip
FIRST = 1 / 3
"""The share of micro-batches in which both sides warm up: they compile, open state and fill their windows."""


def measure(race: Race, side: str, folder: Path, tuples: int, size: int) -> Measured:
    """Run one side once, in micro-batches of `size` tuples."""
    recorded = race.write(folder, tuples)
    settings = {"spark.driver.memory": "6g", "spark.sql.streaming.numRecentProgressUpdates": "500"}
    if side == "native":
        # Spark's own operators work in the JVM, and have it as Spark starts it.
        settings["spark.driver.extraJavaOptions"] = ""
    spark = sw.session(f"local[{SHARDS}]", SHARDS, quiet=True, **settings)
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        took, batches, results = SIDES[side](race, spark, recorded, place, size)
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)
    # Files are of one size, so micro-batches are, too.
    first = round(FIRST * len(batches))
    sustained = tuples * (len(batches) - first) / len(batches) / (sum(batches[first:]) / 1000)
    return Measured(tuples / took, sustained, size, results)


Run = tuple[float, list[int], int]
"""Seconds of the whole run, milliseconds of every micro-batch with rows, results."""


def _ours(race: Race, spark: SparkSession, recorded: Recorded, place: Path, size: int) -> Run:
    """As `sw.start` does it."""
    streams = recorded.streams(spark, size, "slackwater")
    folders = {"results": str(place / "results"), "checkpoint": str(place / "checkpoint")}
    bound, _ = planned_over(race.ours, streams, "ts", "ms", stacklevel=1)
    begun = time.monotonic()
    one = alone(spark, plan(bound, count_only=race.counted), race.ours, streams, "ts", "ms", SHARDS)
    return _run(Outputs(one).start(trigger="available", **folders), begun)


def _of_files(race: Race, spark: SparkSession, recorded: Recorded, place: Path, size: int) -> Run:
    """`sw.start` over the file source of Spark, which `sw.sql` must take, too."""
    begun = time.monotonic()
    folders = {"results": str(place / "results"), "checkpoint": str(place / "checkpoint")}
    running: Any = sw.start(
        spark, race.ours, trigger="available", shards=SHARDS, **folders, **recorded.streams(spark, size)
    )
    return _run(running, begun)


def _set(race: Race, spark: SparkSession, recorded: Recorded, place: Path, size: int) -> Run:
    """`sw.queries` of one, over the file source of Spark."""
    begun = time.monotonic()
    stated = sw.queries(spark, streams=recorded.streams(spark, size), queries={"one": race.ours}, shards=SHARDS)
    running = stated.start(str(place / "checkpoint"), sinks={"one": str(place / "results")}, trigger="available")
    return _run(running, begun)


def _sql(race: Race, spark: SparkSession, recorded: Recorded, place: Path, size: int, format: str = "parquet") -> Run:
    """`sw.sql` and the writer of Spark."""
    begun = time.monotonic()
    rows = sw.sql(spark, race.ours, shards=SHARDS, state=place / "state", **recorded.streams(spark, size))
    writer = rows.writeStream.format(format).option("checkpointLocation", str(place / "checkpoint"))
    query = writer.option("path", str(place / "results")).trigger(availableNow=True).start()
    query.awaitTermination()
    took = time.monotonic() - begun
    latest = sw.progress(query).latest
    assert latest is not None
    return took, _milliseconds(query.recentProgress), latest.results


def _run(running: Any, begun: float) -> Run:
    running.wait()
    took = time.monotonic() - begun
    known = running.progress()
    latest = (known["one"] if isinstance(known, dict) else known).latest
    assert latest is not None
    return took, _milliseconds(running.query.recentProgress), latest.results


def _native(race: Race, spark: SparkSession, recorded: Recorded, place: Path, size: int) -> Run:
    assert race.native is not None
    rows = race.native(recorded.streams(spark, size)).observe("rows", fn.count("*").alias("n"))
    writer = (
        rows.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(place / "checkpoint"))
    )
    begun = time.monotonic()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    took = time.monotonic() - begun
    made = sum(int(one["observedMetrics"].get("rows", {"n": 0})["n"] or 0) for one in query.recentProgress)
    return took, _milliseconds(query.recentProgress), made


def _noop(race: Race, spark: SparkSession, recorded: Recorded, place: Path, size: int) -> Run:
    """`sw.sql`, with rows that reach Spark and are not written."""
    return _sql(race, spark, recorded, place, size, "noop")


SIDES = {"ours": _ours, "native": _native, "files": _of_files, "sql": _sql, "noop": _noop, "set": _set}
ROADS = ("files", "sql", "noop", "set")
"""Ways to start the same job; sustained rates should be alike."""


def _milliseconds(progress: list[object]) -> list[int]:
    return [one["durationMs"]["triggerExecution"] for one in progress if one["numInputRows"]]  # type: ignore[index]


def sides_of(race: Race, quick: bool, which: list[str]) -> Iterator[tuple[str, int, int]]:
    """What is measured: a side, tuples, and a micro-batch size."""
    tuples = race.quick if quick else race.tuples
    if "ours" in which:
        yield from (("ours", tuples, size) for size in race.our_sizes)
    for road in ROADS:
        if road in which and not race.counted:
            yield road, tuples, race.our_sizes[0]
    if "native" in which and race.native is not None:
        yield from (("native", min(tuples, race.native_tuples or tuples), size) for size in race.native_sizes)
    if "flink" in which:
        yield "flink", min(tuples, race.native_tuples or tuples), 0


def main() -> int:
    """Run, print, and say whether all targets were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(race.name for race in RACES)}")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--sides", default="ours,native,flink", help="some of ours,native,flink,files,sql,noop,set")
    parser.add_argument("--flink", type=Path, metavar="FOLDER", help="where the environment of Flink is, or is made")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--one", nargs=4, metavar=("SIDE", "FOLDER", "TUPLES", "SIZE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    races = [race for race in RACES if not asked.names or race.name in asked.names]
    if asked.one:
        side, folder, tuples, size = asked.one
        print(json.dumps(asdict(measure(races[0], side, Path(folder), int(tuples), int(size)))))
        return 0
    console, which = Console(), asked.sides.split(",")
    table = Table("", "query", "", "whole run", "sustained", "micro-batch", "asked for", box=None)
    figures: list[dict[str, object]] = []
    met = True
    with tempfile.TemporaryDirectory() as name:
        python = made_environment(asked.flink or Path(name, "flink"), console) if "flink" in which else None
        for race in races:
            best: dict[str, Measured] = {}
            for side, tuples, size in sides_of(race, asked.quick, which):
                with console.status(f"{race.name}: {side}, {tuples:,} tuples"):
                    one = run_side(race, side, Path(name), tuples, size, python)
                if one is None:
                    continue
                console.print(f"{race.name} {side}: {one}", highlight=False)
                best[side] = max(best.get(side, one), one, key=lambda p: p.sustained)
            for side, one in best.items():
                goal = f">= {race.rate:,.0f}" if side == "ours" else ""
                table.add_row(
                    race.name, race.says, side, f"{one.whole:,.0f}/s", f"{one.sustained:,.0f}/s", f"{one.size:,}", goal
                )
                figures.append({"race": race.name, "side": side, **asdict(one)})
            ahead = "ours" not in best or all(
                best["ours"].whole > one.whole for side, one in best.items() if side != "ours"
            )
            met = met and "ours" in best and best["ours"].sustained >= race.rate and ahead
    console.print(table)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if met else 1


def run_side(race: Race, side: str, folder: Path, tuples: int, size: int, flink: Path | None) -> Measured | None:
    """One side in a process of its own; None where it cannot be run."""
    if side == "flink":
        if flink is None:
            return None
        recorded = race.write(folder, tuples)
        half = race.write(folder, tuples // 2)
        whole = run_flink(flink, race.name, recorded.folders)
        later = whole - run_flink(flink, race.name, half.folders)
        # Starts differ by seconds: where the second half seems to cost next to nothing, nothing is known.
        return Measured(tuples / whole, tuples / 2 / later if later > whole / 4 else math.nan, 0, 0)
    command = [sys.executable, "-m", "benchmarks.spark", race.name, "--one", side, str(folder), str(tuples), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    raise SystemExit(main())
