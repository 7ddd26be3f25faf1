"""Reading progress: from a running query when asked, or pushed to a function by a listener.

Invariant: both give the same value for the same micro-batch, made of what Spark itself carries in `observedMetrics`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.runtime.spark.progress.history import History
from slackwater.runtime.spark.progress.value import Progress, progress_of

OBSERVED, OBSERVED_SET = "slackwater", "slackwater_set"
"""The names under which Spark carries what the shards say, of one query or of a set of them."""


def progress(query: StreamingQuery | Any) -> History:
    """How a query does: its latest micro-batch, and the recent ones.

    Takes what `writeStream...start()` or `slackwater.start` gives. A value of every number is in the attributes of the
    latest `Progress`; printed, and in a notebook, it is a small table with a picture of slack and quality over time.
    """
    running = getattr(query, "query", query)
    return History(tuple(one for one in map(parsed, running.recentProgress) if one is not None))


def parsed(reported: Any) -> Progress | None:
    """The progress in what Spark tells of a micro-batch; None where it is not one of a query of ours."""
    fields: Mapping[str, Any] = reported if isinstance(reported, Mapping) else json.loads(reported.json)
    observed = fields.get("observedMetrics", {}).get(OBSERVED)
    if not observed:
        return None
    reported, streams = _observed(observed)
    shards = [json.loads(one) for one in reported]
    return progress_of(shards, json.loads(streams), fields) if shards else None


def parsed_set(reported: Any) -> dict[str, Progress]:
    """The progress of every query of a set, by its key; of those that the micro-batch had something for."""
    fields: Mapping[str, Any] = reported if isinstance(reported, Mapping) else json.loads(reported.json)
    observed = fields.get("observedMetrics", {}).get(OBSERVED_SET)
    if not observed:
        return {}
    told = observed if isinstance(observed, Mapping) else observed.asDict()
    shards: dict[str, list[Any]] = {}
    for one in map(json.loads, told["values"][0] if "values" in told else told["queries"]):
        shards.setdefault(one["query"], []).append(one)
    # The name stands before the last dot of a key, quoted.
    return {
        key: progress_of(mine, mine[0]["aliases"], {**fields, "name": unquote(key.rpartition(".")[0])})
        for key, mine in shards.items()
    }


def _observed(observed: Any) -> tuple[list[str], str]:
    """What every shard said, and the names of the streams."""
    if isinstance(observed, Mapping):
        # Over Connect the names of observed columns are lost; they come in their order.
        return tuple(observed["values"]) if "values" in observed else (observed["shards"], observed["streams"])
    return _observed(observed.asDict())


class Listener(StreamingQueryListener):
    """Calls a function with the `Progress` of every micro-batch of every query of ours, those of sets among them.

    Add it with `spark.streams.addListener(slackwater.Listener(print))`.
    """

    def __init__(self, function: Callable[[Progress], None]) -> None:
        self._function = function

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A micro-batch is done."""
        found = parsed(event.progress)
        for one in parsed_set(event.progress).values() if found is None else [found]:
            self._function(one)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing more is to be told."""
