"""Where nothing is late, our operators equal Spark's own, row for row, and can stand before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

import slackwater as sw
from slackwater.observe.value import QueryProgress
from slackwater.runtime.spark.progress import shards_of
from tests.spark.conftest import Streamed
from tests.spark.streams import counted, pieces

pytestmark = pytest.mark.xdist_group("spark")

Finished = Callable[..., pa.Table]
LARGEST_DELAY = "400 milliseconds"
"""Tuples of these streams come up to so much later than others, also in later micro-batches."""
BATCHES, EACH = 3, 4000


def last_metrics(finished: Finished) -> list[QueryProgress]:
    """What the shards told at the end of the last micro-batch that had data."""
    return [shards for shards in map(shards_of, finished.progress) if shards][-1]  # type: ignore[attr-defined]


def watermark_of(finished: Finished) -> datetime:
    """Up to where everything has been emitted, by shards that agree on it and found nothing late."""
    shards = last_metrics(finished)
    assert [shard.late + sum(shard.rejected.values()) for shard in shards] == [0] * len(shards)
    (watermark,) = {shard.observed.watermark for shard in shards}
    return datetime.fromtimestamp(watermark // 1_000_000, UTC).replace(microsecond=watermark % 1_000_000)


def timed(frame: DataFrame, prefix: str = "") -> DataFrame:
    """The same stream with a timestamp and a watermark, as Spark's own operators want it."""
    moment = frame.select(fn.timestamp_millis("ts").alias("moment"), "key", "v").withWatermark("moment", LARGEST_DELAY)
    return moment.select(*(fn.col(name).alias(f"{prefix}{name}") for name in moment.columns))


def up_to(table: pa.Table, name: str, last: datetime) -> pa.Table:
    return table.filter(pa.array([moment <= last for moment in table.column(name).to_pylist()]))


def test_a_join_equals_the_native_stream_stream_join(streamed: Streamed, finished: Finished) -> None:
    frames = {name: streamed(name, pieces(seed, BATCHES, EACH)) for seed, name in enumerate("ab")}
    ours = finished(
        sw.join(
            frames, time="ts", within="50 milliseconds", where="a.key = b.key",
            select="a.key AS key, a.v AS av, b.v AS bv", quality=sw.delay(LARGEST_DELAY),
        )
    )  # fmt: skip
    watermark = watermark_of(finished)
    a, b = (timed(frame, name) for name, frame in frames.items())
    near = fn.expr("amoment BETWEEN bmoment - INTERVAL 50 MILLISECONDS AND bmoment + INTERVAL 50 MILLISECONDS")
    joined = a.join(b, (fn.col("akey") == fn.col("bkey")) & near).select(
        fn.col("akey").alias("key"), "av", "bv", fn.greatest("amoment", "bmoment").alias("_ts"),
        fn.abs(fn.unix_millis("amoment") - fn.unix_millis("bmoment")).alias("apart"),
    )  # fmt: skip
    native = finished(joined, "native")
    released = up_to(native, "_ts", watermark)
    assert released.num_rows > 0.9 * native.num_rows > 9000
    assert max(released.column("apart").to_pylist()) == 50, "both ends of a window belong to it"
    names = ("key", "av", "bv", "_ts")
    assert counted(ours, *names) == counted(released, *names)


@pytest.mark.parametrize(
    "by",
    [["key"], pytest.param([], marks=pytest.mark.long("by key, here; over all, tests/runtime/test_aggregates.py"))],
    ids=["by key", "over all"],
)
def test_an_aggregate_equals_the_native_one(
    streamed: Streamed, finished: Finished, tmp_path: Path, by: list[str]
) -> None:
    frame = streamed("s", pieces(0, BATCHES, EACH))
    ours = finished(
        sw.aggregate(
            frame, time="ts", window="400 milliseconds", slide="100 milliseconds", by=by,
            select={"total": "SUM(v)", "n": "COUNT(*)", "most": "MAX(v)", "mean": "AVG(v)"},
            quality=sw.delay(LARGEST_DELAY),
        )
    )  # fmt: skip
    watermark = watermark_of(finished)

    def aggregated(stream: DataFrame) -> DataFrame:
        windows = stream.groupBy(fn.window("moment", "400 milliseconds", "100 milliseconds"), *by).agg(
            fn.sum("v").alias("total"), fn.count("*").alias("n"), fn.max("v").alias("most"), fn.avg("v").alias("mean")
        )
        return windows.select(
            fn.col("window.start").alias("window_start"), fn.col("window.end").alias("window_end"),
            *by, "total", "n", "most", "mean",
        )  # fmt: skip

    native = up_to(finished(aggregated(timed(frame)), "native"), "window_end", watermark)
    everything = aggregated(timed(frame.sparkSession.read.parquet(str(tmp_path / "s")))).count()
    assert native.num_rows > 0.9 * everything > 90
    places = ("window_start", "window_end", *by)
    assert counted(ours, *places) == counted(native, *places)
    for name in ("total", "n", "most", "mean"):
        assert by_place(ours, places, name) == pytest.approx(by_place(native, places, name), rel=1e-9)


def by_place(table: pa.Table, places: tuple[str, ...], name: str) -> dict[tuple[Any, ...], float]:
    """One value of every window and group."""
    columns = [table.column(column).to_pylist() for column in (*places, name)]
    return {tuple(row[:-1]): row[-1] for row in zip(*columns, strict=True)}


def test_a_native_aggregate_behind_a_join_counts_every_pair(streamed: Streamed, finished: Finished) -> None:
    """Results leave in the order of their time, so a watermark without delay drops none of them."""
    pairs = sw.join(
        {name: streamed(name, pieces(seed, BATCHES, EACH)) for seed, name in enumerate("ab")},
        time="ts", within="50 milliseconds", where="a.key = b.key", quality=sw.delay("100 milliseconds"),
    )  # fmt: skip
    alone = finished(pairs).column("_ts").to_pylist()
    late = sum(shard.late for shard in last_metrics(finished))
    per_second = pairs.withWatermark("_ts", "0 seconds").groupBy(fn.window("_ts", "1 second")).count()
    chained = finished(per_second.select(fn.col("window.start").alias("second"), "count"), "chained")
    dropped = [
        operator["numRowsDroppedByWatermark"]
        for progress in finished.progress  # type: ignore[attr-defined]
        for operator in progress["stateOperators"]
    ]
    closed = max(alone).replace(microsecond=0)
    expected = Counter(moment.replace(microsecond=0) for moment in alone if moment < closed)
    assert late > 0
    assert sum(dropped) == 0
    assert dict(zip(*(chained.column(name).to_pylist() for name in ("second", "count")), strict=True)) == expected
    assert len(expected) >= 10
