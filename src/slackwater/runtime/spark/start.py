"""Starting a query: with sinks for its outputs, or as a handle that a program asks for time steps."""

from __future__ import annotations

import os
import time as wall
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.core.errors import UsageError
from slackwater.runtime.history import History, as_history
from slackwater.runtime.request.handle import Clock, Patience
from slackwater.runtime.spark.batches import ForEach
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.in_front import computed_in_front
from slackwater.runtime.spark.live import SparkLiveQuery
from slackwater.runtime.spark.progress import watch_rejections
from slackwater.runtime.spark.queries import Outputs, alone
from slackwater.runtime.spark.query import is_streaming, planned_over, read_by
from slackwater.runtime.spark.relations import Relations, history_with_lookups, with_lookups
from slackwater.runtime.spark.running import RunningQuery
from slackwater.runtime.spark.sinks import Given
from slackwater.runtime.spark.started import AVAILABLE


def start(
    spark: SparkSession,
    query: str,
    /,
    *,
    results: Given | None = None,
    late: Given | None = None,
    rejected: Given | None = None,
    foreach: ForEach | None = None,
    flush: bool = False,
    name: str | None = None,
    patience: Patience | None = None,
    keep: str | None = None,
    tap: bool = True,
    trigger: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    time: str = "ts",
    time_unit: str = "ms",
    shards: int | None = None,
    key_groups: int | None = None,
    clock: Clock = wall.time,
    history: History | Mapping[str, DataFrame | None] | None = None,
    **streams: DataFrame,
) -> RunningQuery | SparkLiveQuery:
    """Start a query over streaming DataFrames.

    With a sink for any of its outputs it writes them, every micro-batch, until it is stopped:

        query = sw.start(
            spark, "SELECT ... WITH RECALL 0.99 OVER 1 MINUTE", i=impressions, c=clicks,
            results="out/clicked", late="out/late", checkpoint="out/checkpoint",
        )
        query.progress()
        query.set_target(sw.recall(0.999))

    A sink is the path of a folder, `sw.kafka_sink(...)`, or a function of a DataFrame and the number of the
    micro-batch; `foreach` is called with each `MicroBatch` whole. `trigger` is a duration, or "available" for what is
    there now; `flush` then emits at the end what is held.

    `shards` run at the same time; state is kept in `key_groups` (16, or 4 with a target or in a join without a key, if
    nothing is said), so that a start from the same checkpoint may have more shards or fewer.

    `history` has rows from before the streams, as `slackwater.history` says: they are read first, in the order of event
    time, by the first start on a checkpoint; then the streams, with the same state.

    Without sinks it gives a handle that a program asks for time steps with `next`, as that of `slackwater.live`. With
    `tap`, every row that the query reads comes to the driver as well, with the results of its micro-batch, so that
    steps can be made without a slow stream; without it, a slow stream is waited for. `patience` and `keep` are as
    there.
    """
    if history is not None:
        history = history_with_lookups(spark, query, streams, as_history(history))
    relations = Relations(spark, checkpoint)
    query, streams = with_lookups(spark, query, streams, relations)
    query, streams = computed_in_front(query, streams, history)
    bound, plan = planned_over(query, streams, time, time_unit, stacklevel=2)
    streams = read_by(plan, streams)
    watch_rejections(spark)
    one = alone(spark, plan, query, streams, time, time_unit, shards, relations=relations)
    sinks: dict[str, Any] = {"results": results, "late": late, "rejected": rejected, "foreach": foreach}
    if any(given is not None for given in sinks.values()):
        return Outputs(one).start(
            **sinks, checkpoint=checkpoint, trigger=trigger, flush=flush, name=name, key_groups=key_groups,
            history=history,
        )  # fmt: skip
    if flush or name is not None or trigger == AVAILABLE or not is_streaming(streams):
        raise UsageError(
            "say where rows go: results='folder', late=..., rejected=... or foreach=...; without, a query over streams"
            " is asked for time steps, and flush, name and trigger='available' do not go with that"
        )
    live = SparkLiveQuery(bound, plan, patience, keep, time_unit, clock)
    with one_sentence():
        live.begin(one, trigger or "0 seconds", checkpoint, tap, key_groups, history)
    return live
