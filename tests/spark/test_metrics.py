"""What a running query tells about itself, in its progress and to listeners: one line a shard and micro-batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

import slackwater as sw
from slackwater.core.memory import Memory, Resident, together
from tests.spark.conftest import Streamed
from tests.spark.streams import pieces

pytestmark = pytest.mark.xdist_group("spark, second half")

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH DELAY 100 MS"
TOLD = {"shard", "slack", "watermark", "clocks", "late", "rejected", "results", "held", "latency_ms"}
Shards = list[dict[str, Any]]


class Overhearing(StreamingQueryListener):
    """Keeps what listeners are told, by query: events of the queries of other tests may still be on their way."""

    def __init__(self) -> None:
        self._heard: dict[str, list[Shards]] = {}
        self._over: set[str] = set()
        self._changed = threading.Condition()

    def of(self, query: StreamingQuery) -> list[Shards]:
        """All that was told of a query, once it is over."""
        with self._changed:
            assert self._changed.wait_for(lambda: str(query.runId) in self._over, timeout=120)
            return self._heard.get(str(query.runId), [])

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        reported = event.progress.observedMetrics.get("slackwater")
        if reported is not None:
            of_query = self._heard.setdefault(str(event.progress.runId), [])
            of_query.append([json.loads(shard) for shard in reported["shards"]])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._changed:
            self._over.add(str(event.runId))
            self._changed.notify_all()


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[Overhearing]:
    made = Overhearing()
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)


def run(answer: DataFrame, folder: Path) -> StreamingQuery:
    """A query over all that is there now, at its end."""
    query = (
        answer.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_progress_and_listeners_tell_what_every_shard_knows(
    spark: SparkSession, streamed: Streamed, listener: Overhearing, tmp_path: Path
) -> None:
    a, b = pieces(0, 3), pieces(1, 3)
    timeless = pa.table({name: pa.nulls(1, a[0].schema.field(name).type) for name in a[0].column_names})
    one = streamed("a", [a[0], pa.concat_tables([a[1], timeless]), a[2]])
    query = run(sw.sql(spark, JOIN, a=one, b=streamed("b", b)), tmp_path)
    reported: list[Shards] = [
        [json.loads(shard) for shard in progress["observedMetrics"]["slackwater"]["shards"]]
        for progress in query.recentProgress
    ]
    assert len(reported) == 3
    assert listener.of(query) == reported
    assert all(shard.keys() >= TOLD for shards in reported for shard in shards)

    last = reported[-1]
    assert len({shard["shard"] for shard in last}) == 2
    assert [shard["epochs"] for shard in last] == [3, 3]
    clocks = [max(table.column("ts").to_pylist()) * 1000 for table in (a[2], b[2])]
    assert [shard["clocks"] for shard in last] == [clocks, clocks]
    assert [shard["slack"] for shard in last] == [100_000] * 2
    assert [shard["watermark"] for shard in last] == [min(clocks) - 100_000] * 2

    total = {name: sum(shard[name] for shard in last) for name in ("results", "late", "rejected", "in_time", "held")}
    local = sw.replay(JOIN, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2000))
    assert total["results"] == spark.read.parquet(str(tmp_path / "rows")).count() > 0
    assert total["late"] == local.report["late"] > 0
    assert total["rejected"] == 1
    assert total["held"] > 0
    assert total["in_time"] + total["late"] + total["rejected"] + total["held"] == 6001

    memory = together([Memory.of_json(shard["memory"]) for shard in last])
    since, until = last[0]["watermark"] - 50_000, last[0]["watermark"]
    for alias, tables in (("a", a), ("b", b)):
        inside = sum(since <= 1000 * ts <= until for table in tables for ts in table.column("ts").to_pylist())
        assert memory.windows[alias] == Resident(inside, inside, 8 * 4 * inside)
        assert inside > 0


def test_latency_is_that_of_the_results_of_the_micro_batch(
    spark: SparkSession, streamed: Streamed, listener: Overhearing, tmp_path: Path
) -> None:
    query = run(sw.sql(spark, JOIN, a=streamed("a", pieces(0, 2)), b=streamed("b", pieces(1, 2))), tmp_path)
    first, second = listener.of(query)
    earlier = {shard["shard"]: shard["results"] for shard in first}
    weights = [shard["results"] - earlier[shard["shard"]] for shard in second]
    rows = spark.read.parquet(str(tmp_path / "rows")).toArrow()
    times = [moment for moment in rows.column("_ts").cast(pa.int64()).to_pylist() if moment > first[0]["watermark"]]
    assert sum(weights) == len(times) > 0
    clock = max(second[0]["clocks"])
    reported = [shard["latency_ms"] for shard in second]
    mean = sum(entry["avg"] * weight for entry, weight in zip(reported, weights, strict=True)) / sum(weights)
    assert mean == pytest.approx(sum(clock - moment for moment in times) / len(times) / 1000, abs=0.01)
    assert all(100 <= entry["p50"] <= entry["p95"] <= (clock - min(times)) / 1000 for entry in reported)


def test_latency_is_unknown_where_nothing_came_out(
    spark: SparkSession, streamed: Streamed, listener: Overhearing, tmp_path: Path
) -> None:
    query = run(sw.sql(spark, JOIN, a=streamed("a", pieces(0, 1, 50)), b=streamed("b", pieces(1, 1, 50))), tmp_path)
    (only,) = listener.of(query)
    assert [shard["results"] for shard in only] == [0, 0]
    assert {value for shard in only for value in shard["latency_ms"].values()} == {None}


def test_a_query_with_a_target_tells_the_quality_it_has_measured(
    spark: SparkSession, streamed: Streamed, listener: Overhearing, tmp_path: Path
) -> None:
    a, b = pieces(0, 3), pieces(1, 3)
    text = JOIN.replace("DELAY 100 MS", "RECALL 0.9 OVER 300 MS OPTIONS (retention = 500 MS)")
    query = run(sw.sql(spark, text, a=streamed("a", a), b=streamed("b", b)), tmp_path)
    local = sw.replay(text, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2000))
    last = listener.of(query)[-1]
    reported = [shard["quality"] for shard in last]
    assert all((one["of"], one["target"]) == ("results", 0.9) for one in reported)
    assert sum(one["good"] for one in reported) == sum(shard["results"] for shard in last) > 0
    # A live query is never flushed: its newest results are still to come, and so may be their late tuples.
    assert sum(one["good"] for one in reported) <= local.report["measured_quality"]["good"]
    for shard, one in zip(last, reported, strict=True):
        assert one["provisional_from"] == shard["watermark"] - 500_000
        assert one["measured"] == one["good"] / (one["good"] + one["bad"])
        assert one["low"] <= one["measured"] == one["high"]


def test_a_query_without_a_target_tells_no_quality(
    spark: SparkSession, streamed: Streamed, listener: Overhearing, tmp_path: Path
) -> None:
    query = run(sw.sql(spark, JOIN, a=streamed("a", pieces(0, 1)), b=streamed("b", pieces(1, 1))), tmp_path)
    assert [shard["quality"] for shard in listener.of(query)[-1]] == [None, None]
