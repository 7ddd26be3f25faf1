"""Clocks of streams that fall silent, or that are read from several parts."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.runtime.spark.progress import shards_of

pytestmark = pytest.mark.xdist_group("spark")

START = 1_700_000_000_000


def stream_of(*seconds: int) -> pa.Table:
    return pa.table({"ts": [START + second * 1000 for second in seconds], "key": [1] * len(seconds)})


def test_the_first_micro_batch_that_begins_after_the_timeout_emits_what_waited_for_a_silent_stream(
    spark, streamed, tmp_path
):
    # A file a micro-batch. The silent stream speaks in the first ones, which take long.
    timeout, spoken, files = 1.5, 5, 20
    a = streamed("a", [stream_of(second) for second in range(files)])
    b = streamed("b", [stream_of(0)] * spoken)
    pairs = sw.join(
        {"a": a, "b": b}, time="ts", within="1 minute", where="a.key = b.key", select="a.ts AS at, b.ts AS bt",
        quality=sw.no_wait(), options={"idle_timeout": f"{timeout * 1000:.0f} ms"},
    )  # fmt: skip
    found: dict[int, int] = {}
    query = (
        pairs.writeStream.foreachBatch(lambda frame, number: found.update({number: frame.count()}))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        limit = time.monotonic() + 120
        while sum(found.values()) < spoken * files and time.monotonic() < limit and query.isActive:
            time.sleep(0.1)
    finally:
        query.stop()
    assert query.exception() is None
    assert sum(found.values()) == spoken * files

    begun = {}
    for entry in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        begun[int(entry.name)] = json.loads(entry.read_text().splitlines()[1])["batchTimestampMs"] / 1000
    due = min(number for number, moment in begun.items() if moment > begun[spoken - 1] + timeout)
    assert due > spoken, "nothing has waited, so this shows nothing"
    # Until it is due, the watermark is the time of all tuples of the silent stream.
    assert [found[number] for number in range(due + 1)] == [1] * spoken + [0] * (due - spoken) + [spoken * due]


def test_a_query_that_times_silence_ends_with_what_is_there_and_can_be_flushed(spark, streamed, tmp_path):
    a, b = streamed("a", [stream_of(0, 1, 2, 3)]), streamed("b", [stream_of(0, 1)])
    query = (
        "SELECT a.ts AS at, b.ts AS bt FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.key = b.key"
        " WITH DELAY 1 HOUR OPTIONS (idle_timeout = 1 HOUR)"
    )
    for flush, found in ((False, 0), (True, 8)):
        started = sw.start(
            spark, query, a=a, b=b, time_unit="ms", results=str(tmp_path / "pairs"), checkpoint=tmp_path / "checkpoint",
            trigger="available", flush=flush,
        )  # fmt: skip
        try:
            assert started.wait(120), "Spark goes on for ever to let it ask for the time"
        finally:
            started.stop()
        assert started.progress().results == found
    assert spark.read.parquet(str(tmp_path / "pairs")).count() == 8


def test_a_backlog_that_is_read_beside_the_present_is_not_late(spark, streamed, finished):
    parts = [
        pa.table(
            {
                "ts": [START + begin + i + (0 if i % 2 else 60_000) for i in range(100)],
                "source": ["then" if i % 2 else "now" for i in range(100)],
            }
        )
        for begin in (0, 100, 200)
    ]
    frame = streamed("s", parts)
    query = "SELECT ts FROM s WITH NO WAIT"
    late = finished(sw.sql(spark, query, s=frame, give="late"), "late")
    assert late.num_rows == 100
    waited = f"{query} OPTIONS (clock_by = 'source')"
    assert finished(sw.sql(spark, waited, s=frame, give="late"), "waited").num_rows == 0
    assert [shard.observed.clocks for shard in shards_of(finished.progress[-1])] == [((START + 299) * 1000,)]
