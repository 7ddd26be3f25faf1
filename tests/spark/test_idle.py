"""A stream that falls silent, on the clock of the wall."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import slackwater as sw

pytestmark = pytest.mark.xdist_group("spark")

START = 1_700_000_000_000


def stream_of(*seconds: int) -> pa.Table:
    return pa.table({"ts": [START + second * 1000 for second in seconds], "key": [1] * len(seconds)})


def test_results_come_out_although_nothing_arrives_any_more(spark, streamed, tmp_path):
    a, b = streamed("a", [stream_of(0, 1, 2, 3)]), streamed("b", [stream_of(0, 1)])
    pairs = sw.join(
        {"a": a, "b": b}, time="ts", within="5 seconds", where="a.key = b.key", select="a.ts AS at, b.ts AS bt",
        quality=sw.no_wait(), options={"idle_timeout": "1 second"},
    )  # fmt: skip
    query = (
        pairs.writeStream.format("parquet")
        .option("path", str(tmp_path / "pairs"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        limit = time.monotonic() + 120
        found = 0
        while found < 8 and time.monotonic() < limit and query.isActive:
            time.sleep(0.5)
            if (tmp_path / "pairs" / "_spark_metadata").exists():
                found = spark.read.schema(pairs.schema).parquet(str(tmp_path / "pairs")).count()
    finally:
        query.stop()
    assert query.exception() is None
    # The frontier of the two clocks is 1 s: six pairs stay behind it until both streams are told silent.
    assert found == 8
