"""What a micro-batch costs that brings almost nothing, and how soon rows are there: `python -m benchmarks.spark_floor`.

The floor: micro-batches of 200 tuples a stream, a sum for 1000 keys and a join on them, ours and Spark's own, all in
one session, each writing parquet; medians of `triggerExecution` without the first third. Spark's own is measured as it
comes, and with the settings by which `sw.session` has Spark write its logs. Ours is started by `sw.start`, and also by
`sw.queries` as a set of one and by `sw.sql` and `writeStream`. `packed` is ours over
`format("slackwater")`, `recall` the join with a target.

Latency (`--latency`): files of 100 ms of a stream appear at 20,000 tuples/s for a while; event time is the clock on the
wall, and nothing is late. A window of a second is there when its row is visible in the sink; its latency is how long
after its end that was. Micro-batches follow each other as fast as they can.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

import slackwater as sw
from slackwater.runtime.spark.session import ON_DISK as OURS

SCHEMA = "ts long, key long, v double"
SUM = "SELECT key, SUM(v) AS total FROM a [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY key WITH DELAY 1 SECOND"
JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.key = b.key WITH "
PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
RATE, PIECE_MS = 20_000, 100


def write_streams(folder: Path, batches: int, rows: int = 200) -> None:
    """Two streams, a file a micro-batch."""
    for seed, name in enumerate("ab"):
        (folder / name).mkdir()
        rng = np.random.default_rng(seed)
        for number in range(batches):
            ts = 1_700_000_000_000 + number * 1000 + np.arange(rows) * 1000 // rows
            columns = {"ts": ts, "key": rng.integers(0, 1000, rows), "v": rng.random(rows)}
            pq.write_table(pa.table(columns), folder / name / f"{number:05d}.parquet")


def read(spark: SparkSession, folder: Path | str, format: str = "parquet", most: int | None = 1) -> DataFrame:
    """A stream of files."""
    reader = spark.readStream.format(format).schema(SCHEMA)
    return (reader if most is None else reader.option("maxFilesPerTrigger", most)).load(str(folder))


def timed(frame: DataFrame, wait: str = "1 second") -> DataFrame:
    """As Spark's own operators want it."""
    return frame.select(fn.timestamp_millis("ts").alias("moment"), "key", "v").withWatermark("moment", wait)


def native(spark: SparkSession, folder: Path, which: str) -> DataFrame:
    """Spark's own sum, or join."""
    a, b = (timed(read(spark, folder / name)) for name in "ab")
    if which == "sum":
        return a.groupBy(fn.window("moment", "2 seconds", "1 second"), "key").agg(fn.sum("v").alias("total"))
    left, right = a.toDF("am", "ak", "av"), b.toDF("bm", "bk", "bv")
    return left.join(right, fn.expr("ak = bk AND am BETWEEN bm - INTERVAL 1 SECOND AND bm + INTERVAL 1 SECOND"))


def floors(spark: SparkSession, batches: int) -> Iterator[tuple[str, StreamingQuery]]:
    """Each query, run to its end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_streams(folder, batches)
        for which in ("sum", "join"):
            yield f"{which}: Spark's own", by_itself(spark, folder, which, "as it comes", dict.fromkeys(OURS))
            yield f"{which}: Spark's own, our settings", by_itself(spark, folder, which, "ours", OURS)
        texts = {"sum": SUM, "join": JOIN + "DELAY 1 SECOND", "recall": JOIN + "RECALL 0.95 OVER 1 MINUTE"}
        for format in ("parquet", "slackwater"):
            for which, text in texts.items():
                streams = {one: read(spark, folder / one, format) for one in "ab" if f"{one} [" in text}
                places = {kind: str(folder / f"{kind}-{which}-{format}") for kind in ("results", "checkpoint")}
                # As many kernels with a target as without: else the target would seem to cost less than nothing.
                running: Any = sw.start(spark, text, trigger="available", key_groups=16, **places, **streams)
                running.wait()
                yield f"{which}: ours{', packed' if format == 'slackwater' else ''}", running.query
        for which in ("sum", "join"):
            yield f"{which}: ours by sw.queries", by_set(spark, folder, which, texts[which])
            yield f"{which}: ours by sw.sql", by_sql(spark, folder, which, texts[which])


def by_itself(
    spark: SparkSession, folder: Path, which: str, under: str, settings: Mapping[str, str | None]
) -> StreamingQuery:
    """Spark's own operator, in a session with these settings; None is what Spark has by itself."""
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    writer = (
        native(spark, folder, which).writeStream.format("parquet").option("path", str(folder / f"o-{which}-{under}"))
    )
    writer = writer.option("checkpointLocation", str(folder / f"c-{which}-{under}")).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    return query


def by_set(spark: SparkSession, folder: Path, which: str, text: str) -> StreamingQuery:
    """As a set of one."""
    streams = {one: read(spark, folder / one) for one in "ab" if f"{one} [" in text}
    stated = sw.queries(spark, streams=streams, queries={"one": text})
    running = stated.start(str(folder / f"set-{which}"), sinks={"one": str(folder / f"s-{which}")}, trigger="available")
    running.wait()
    return running.query


def by_sql(spark: SparkSession, folder: Path, which: str, text: str) -> StreamingQuery:
    """As a DataFrame that Spark writes."""
    streams = {one: read(spark, folder / one) for one in "ab" if f"{one} [" in text}
    rows = sw.sql(spark, text, state=folder / f"state-{which}", **streams)
    writer = rows.writeStream.format("parquet").option("path", str(folder / f"q-{which}"))
    query = writer.option("checkpointLocation", str(folder / f"sql-{which}")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def told(name: str, query: StreamingQuery) -> str:
    """The median of micro-batches and of their parts, in milliseconds."""
    progress: list[Any] = [one for one in query.recentProgress if one["numInputRows"]]
    after = progress[len(progress) // 3 :]

    def median(part: str) -> float:
        return statistics.median(one["durationMs"].get(part, 0) for one in after)

    parts = ", ".join(f"{part} {median(part):.0f}" for part in PARTS)
    first = progress[0]["durationMs"]["triggerExecution"]
    return f"{name:28} {median('triggerExecution'):5.0f} ms ({parts}; the first {first} ms)"


def fed(folder: Path, seconds: float) -> threading.Thread:
    """Files that appear as time goes by."""

    def feed() -> None:
        rng = np.random.default_rng(0)
        rows, begun, number = RATE * PIECE_MS // 1000, time.time(), 0
        while time.time() - begun < seconds:
            end = begun + (number + 1) * PIECE_MS / 1000
            time.sleep(max(0.0, end - time.time()))
            ts = ((end - PIECE_MS / 1000) * 1000 + np.arange(rows) * PIECE_MS / rows).astype(np.int64)
            hidden = folder / f".{number:06d}"
            pq.write_table(pa.table({"ts": ts, "key": rng.integers(0, 1000, rows), "v": rng.random(rows)}), hidden)
            os.rename(hidden, folder / f"{number:06d}.parquet")
            number += 1

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    return thread


def latencies(spark: SparkSession, side: str, seconds: float) -> list[float]:
    """How long after its end each window was there, in seconds; without those of the first quarter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "s").mkdir()
        seen: list[tuple[float, float]] = []

        if side == "ours":
            text = "SELECT key, SUM(v) AS total FROM s [RANGE 1 SECOND] GROUP BY key WITH NO WAIT"
            frame = read(spark, folder / "s", "slackwater", None)
            running: Any = sw.start(
                spark, text, results=str(folder / "out"), checkpoint=str(folder / "checkpoint"), s=frame
            )
        else:
            sums = timed(read(spark, folder / "s", most=None), "0 seconds")
            sums = sums.groupBy(fn.window("moment", "1 second"), "key").agg(fn.sum("v").alias("total"))
            writer = sums.writeStream.format("parquet").option("path", str(folder / "out"))
            running = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        feeding = fed(folder / "s", seconds)
        known: set[str] = set()
        while feeding.is_alive():
            # A file counts as soon as it can be read, also one of Spark's that its sink has not committed yet.
            out = folder / "out"
            for file in (*out.glob("*.parquet"), *out.glob("batch=*/*.parquet")):
                if file.name not in known:
                    try:
                        seen.extend((end, time.time()) for end in ends_in(file))
                        known.add(file.name)
                    except (pa.ArrowInvalid, FileNotFoundError):
                        # Spark's own sink lets a file be seen before it is whole.
                        continue
            time.sleep(0.005)
        running.stop()
    first = min(end for end, _ in seen) + seconds / 4
    return [at - end for end, at in seen if end > first]


def ends_in(file: Path) -> set[float]:
    """The ends of the windows that a file has rows of."""
    table = pq.read_table(file)
    column = table.column("window_end") if "window_end" in table.column_names else table.column("window")
    values = column.combine_chunks()
    if pa.types.is_struct(values.type):
        values = values.field("end")
    return {one.timestamp() for one in values.unique().to_pylist()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    spark = sw.session("local[2]", 2, quiet=True, **{"spark.ui.enabled": "false"})
    if asked.latency:
        for side in ("ours", "Spark's own"):
            found = sorted(latencies(spark, side, asked.seconds))
            median, most = found[len(found) // 2], found[int(len(found) * 0.99)]
            print(f"{side:12} median {median:.2f} s, 99 of 100 within {most:.2f} s", flush=True)
    else:
        for name, query in floors(spark, asked.batches):
            print(told(name, query), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
