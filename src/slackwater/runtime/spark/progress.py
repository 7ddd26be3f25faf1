"""Reading progress: from a running query when asked, by polling it, or pushed to a function by a listener.

One listener of the session warns as soon as most rows of a stream are rejected, or the target cannot be met: a query
must not be silent about why its results are not what was asked for.

Invariant: all give the same value for the same micro-batch, made of what Spark itself carries in `observedMetrics`.
While a query is polled, Spark is asked for its latest micro-batch, and for the recent ones only where some were missed.
Every stream of a query is warned of once in a session, and its target at every change. Of a set whoever hears its
shards warns: to a listener Spark hands the metrics of all queries over one by one, in every micro-batch.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.language.dialect import parse_quality
from slackwater.observe.foreseen import reachable_again
from slackwater.observe.value import QueryProgress
from slackwater.observe.views import ProgressHistory
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.follow import Source
from slackwater.runtime.side_outputs.rejections import rejection_warning
from slackwater.runtime.spark.failures import as_ours, one_sentence

OBSERVED = "slackwater"
"""How the names begin under which Spark carries what shards report."""
_numbers = count()


def observed_name() -> str:
    """A name that no other DataFrame of ours has: Spark refuses two of one name in a query."""
    return f"{OBSERVED}_{next(_numbers)}"


def progress(query: StreamingQuery | Any) -> ProgressHistory:
    """How a query does: its latest micro-batch, and the recent ones.

    Takes what `writeStream...start()` or `slackwater.start` gives. A value of every number is in the attributes of the
    latest `QueryProgress`; printed, and in a notebook, it is a small table with a picture of slack and quality over
    time.
    """
    running = getattr(query, "query", query)
    with one_sentence():
        done = tuple(one for reported in running.recentProgress for key, one in parsed(reported).items() if not key)
        failure = None if done or running.isActive else running.exception()
    return (
        ProgressHistory(done)
        if failure is None
        else ProgressHistory(done, f"the query has failed: {as_ours(str(failure))}")
    )


def parsed(reported: Any) -> dict[str, QueryProgress]:
    """The progress in what Spark reports of a micro-batch: of every query of a set that it had something for, by its
    key; of a query alone, by none."""
    fields = _fields(reported)
    found: dict[str, QueryProgress] = {}
    for one in shards_of(fields):
        found[one.query] = found[one.query] + one if one.query in found else one
    own = fields.get("name") or str(fields.get("id", ""))
    # The name stands before the last dot of a key, quoted.
    names = {key: unquote(key.rpartition(".")[0]) if key else own for key in found}
    return {key: _of_micro_batch(one, names[key], fields) for key, one in found.items()}


def _fields(reported: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = reported if isinstance(reported, Mapping) else json.loads(reported.json)
    return found


def shards_of(reported: Any) -> list[QueryProgress]:
    """What every shard reported after a micro-batch, to the last DataFrame of ours in the query; others may be among
    what that one reads, and were made before it."""
    metrics = _fields(reported).get("observedMetrics", {})
    numbers = {name: name.rpartition("_") for name in metrics}
    own = [
        (int(number), name) for name, (said, _, number) in numbers.items() if said == OBSERVED and number.isdecimal()
    ]
    observed = metrics[max(own)[1]] if own else None
    if not observed:
        return []
    columns = observed if isinstance(observed, Mapping) else observed.asDict()
    # Over Connect the names of observed columns are lost; they come in their order.
    [shards] = columns["values"] if "values" in columns else columns.values()
    return [QueryProgress.of_json(json.loads(one)) for one in shards]


def _of_micro_batch(shards: QueryProgress, name: str, fields: Mapping[str, Any]) -> QueryProgress:
    """The sum of what shards reported, with what Spark itself says of the micro-batch."""
    return replace(
        shards,
        query=name,
        batch=int(fields.get("batchId", 0)),
        time=_seconds(str(fields.get("timestamp", ""))),
        seconds=float(fields.get("batchDuration") or 0) / 1000,
        # Spark itself tells listeners more digits than who asks.
        rows_per_second=round(float(fields.get("processedRowsPerSecond") or 0.0), 1),
    )


def _seconds(timestamp: str) -> float | None:
    """When a micro-batch began, as Spark writes it."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None


class _MicroBatches:
    """The micro-batches of a query since they were last asked for."""

    def __init__(self, running: Callable[[], Any]) -> None:
        """`running` gives Spark's handle, which another start may replace."""
        self._running = running
        self._seen: tuple[str, int] | None = None

    def poll(self) -> list[QueryProgress]:
        """The progress after those that are done since the last call."""
        query = self._running()
        reported = query.lastProgress
        if reported is None or _number(latest := _fields(reported)) == self._seen:
            return []
        run, number = _number(latest)
        missed = (
            self._seen is None or self._seen[0] != run or number > self._seen[1] + 1 or not latest["observedMetrics"]
        )
        before, self._seen = self._seen, (run, number)
        recent = map(_fields, query.recentProgress) if missed else [latest]
        return [one for fields in recent if _is_after(_number(fields), before) for one in parsed(fields).values()]


def _number(fields: Mapping[str, Any]) -> tuple[str, int]:
    """The run and the last micro-batch that is done. Where nothing came, Spark reports the number of the next one."""
    return str(fields["runId"]), int(fields["batchId"]) - (not fields["observedMetrics"])


def _is_after(number: tuple[str, int], before: tuple[str, int] | None) -> bool:
    return before is None or number[0] != before[0] or number[1] > before[1]


def polled(
    query: Any,
    plans: Mapping[str, PhysicalPlan] | None = None,
    set_target: Callable[[str, str], None] | None = None,
    names: Callable[[], Container[str]] | None = None,
) -> Source:
    """How Spark's handle of a query, or one of ours, is followed; `plans` has the plans of queries by name."""

    def running() -> Any:
        return getattr(query, "query", query)

    def over() -> str | bool:
        active = query.is_active if hasattr(query, "is_active") else query.isActive
        if active:
            return False
        failure = running().exception()
        return True if failure is None else str(as_ours(str(failure))).splitlines()[0]

    known = {running().name or str(running().id): None} if plans is None else plans
    return Source(known, set_target, _MicroBatches(running).poll, over, names=names)


class Listener(StreamingQueryListener):
    """Calls a function with the `QueryProgress` of every micro-batch of every query of ours, those of sets among them.

    Add it with `spark.streams.addListener(slackwater.Listener(print))`.
    """

    def __init__(self, function: Callable[[QueryProgress], None]) -> None:
        self._function = function

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for one in parsed(event.progress).values():
            self._function(one)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing more is reported."""


MARK = "_slackwater_warns"


def watch_rejections(spark: SparkSession) -> None:
    """Have a session warn of streams most of whose rows are rejected, and of targets that cannot be met."""
    if getattr(spark, MARK, False):
        return
    setattr(spark, MARK, True)
    try:
        spark.streams.addListener(_OfSingleQueries(Warner()))
    except PySparkException:
        # Where no listener can be added, `slackwater.progress` tells the same.
        return


class _OfSingleQueries(Listener):
    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for key, one in parsed(event.progress).items():
            if not key:
                self._function(one)


class Warner:
    """Warns of every stream once, and of a target when it cannot be met, or can be again; says of which query, where
    there are several."""

    def __init__(self, several: bool = False) -> None:
        self._several = several
        self._warned: set[tuple[str, str]] = set()
        self._unreachable: set[str] = set()

    def __call__(self, progress: QueryProgress) -> None:
        outlook = progress.outlook
        if outlook is not None and outlook.unreachable != (progress.query in self._unreachable):
            if outlook.said is not None:
                self._unreachable.add(progress.query)
                self._warn(progress, outlook.said)
            else:
                self._unreachable.discard(progress.query)
                cap = outlook.cap // timedelta(microseconds=1)
                self._warn(progress, reachable_again(parse_quality(progress.target), cap))
        for name, stream in progress.streams.items():
            sentence = rejection_warning(name, stream.rows or 0, stream.rejected, stream.example)
            if sentence is not None and (progress.query, name) not in self._warned:
                self._warned.add((progress.query, name))
                self._warn(progress, sentence)

    def _warn(self, progress: QueryProgress, sentence: str) -> None:
        warnings.warn(f"query {progress.query}: {sentence}" if self._several else sentence, stacklevel=3)
