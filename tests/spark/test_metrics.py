"""What a running query tells about itself, in its progress and to listeners: one line a shard and micro-batch."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

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
from slackwater.core.memory import Resident
from slackwater.core.values import total
from slackwater.observe.value import QueryProgress
from slackwater.observe.waiting import Waiting
from slackwater.runtime.spark.progress import shards_of
from slackwater.runtime.spark.started import KEY_GROUPS
from tests.spark.conftest import write_stream
from tests.spark.streams import pieces

pytestmark = pytest.mark.xdist_group("spark")

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH DELAY 100 MS"
Shards = list[QueryProgress]
EACH = 60
"""Tuples of each stream in a micro-batch: fewer milliseconds than the slack."""


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
        reported = shards_of(event.progress)
        if reported:
            self._heard.setdefault(str(event.progress.runId), []).append(reported)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._changed:
            self._over.add(str(event.runId))
            self._changed.notify_all()


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


@dataclass(frozen=True)
class Told:
    """One run, and what was told of it: of each micro-batch, and of each shard."""

    a: list[pa.Table]
    b: list[pa.Table]
    in_progress: list[Shards]
    to_listeners: list[Shards]
    rows: pa.Table


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A join in four micro-batches: the first is too short for any result, and one row of the third has no time."""
    folder = tmp_path_factory.mktemp("told")
    a, b = pieces(0, 4, EACH), pieces(1, 4, EACH)
    timeless = pa.table({name: pa.nulls(1, a[0].schema.field(name).type) for name in a[0].column_names})
    frames = {
        "a": write_stream(spark, folder / "a", [*a[:2], pa.concat_tables([a[2], timeless]), a[3]]),
        "b": write_stream(spark, folder / "b", b),
    }
    listener = Overhearing()
    spark.streams.addListener(listener)
    query = run(sw.sql(spark, JOIN, **frames), folder)
    heard = listener.of(query)
    spark.streams.removeListener(listener)
    reported = [*map(shards_of, query.recentProgress)]
    return Told(a, b, reported, heard, spark.read.parquet(str(folder / "rows")).toArrow())


def test_progress_and_listeners_tell_what_every_shard_knows(told: Told) -> None:
    a, b, reported = told.a, told.b, told.in_progress
    assert len(reported) == 4
    assert told.to_listeners == reported

    last = reported[-1]
    assert sorted(shard.shards[0].shard for shard in last) == list(range(KEY_GROUPS))
    assert [shard.observed.epochs for shard in last] == [4] * KEY_GROUPS
    clocks = [max(table.column("ts").to_pylist()) * 1000 for table in (a[-1], b[-1])]
    assert [shard.observed.clocks for shard in last] == [tuple(clocks)] * KEY_GROUPS
    assert [shard.observed.slack for shard in last] == [100_000] * KEY_GROUPS
    assert [shard.observed.watermark for shard in last] == [min(clocks) - 100_000] * KEY_GROUPS

    added = total(last)
    assert added is not None
    rejected = sum(added.rejected.values())
    local = sw.replay(JOIN, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2 * EACH))
    assert added.results == told.rows.num_rows > 0
    assert added.late == local.report["late"] > 0
    assert rejected == 1
    assert added.held > 0
    assert added.in_time + added.late + rejected + added.held == 8 * EACH + 1

    memory, until = added.observed.memory, added.observed.watermark
    assert memory is not None
    since = until - 50_000
    for alias, tables in (("a", a), ("b", b)):
        inside = sum(since <= 1000 * ts <= until for table in tables for ts in table.column("ts").to_pylist())
        assert memory.windows[alias] == Resident(inside, inside, 8 * 4 * inside)
        assert inside > 0


def test_latency_is_that_of_the_results_of_the_micro_batch(told: Told) -> None:
    before, last = told.to_listeners[-2:]
    earlier = {shard.shards[0].shard: shard.results for shard in before}
    weights = [shard.results - earlier[shard.shards[0].shard] for shard in last]
    moments = told.rows.column("_ts").cast(pa.int64()).to_pylist()
    times = [moment for moment in moments if moment > before[0].observed.watermark]
    assert sum(weights) == len(times) > 0
    clock = max(last[0].observed.clocks)
    reported = [shard.waiting for shard in last]
    assert [one.results for one in reported] == weights
    added = total(last)
    assert added is not None
    mean = sum(added.waiting.average().values()) / 1000
    assert mean == pytest.approx(sum(clock - moment for moment in times) / len(times) / 1000, abs=0.01)
    assert all(100_000 <= entry.p50 <= entry.p95 <= clock - min(times) for entry in reported if entry.results)


def test_latency_is_unknown_where_nothing_came_out(told: Told) -> None:
    first = told.to_listeners[0]
    assert [shard.results for shard in first] == [0] * KEY_GROUPS
    assert [shard.waiting for shard in first] == [Waiting()] * KEY_GROUPS
    added = total(first)
    assert added is not None
    assert added.latency is None


def test_a_query_without_a_target_tells_no_quality(told: Told) -> None:
    assert [shard.quality for shard in told.to_listeners[-1]] == [None] * KEY_GROUPS
