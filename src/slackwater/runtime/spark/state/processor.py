"""The stateful operator: a Spark state machine that hosts one shard per key. Exactly once comes from Spark.

Invariant: this file costs little to import. Spark starts a Python process for every new query only to ask the operator
what state it keeps; the query is unpacked, and everything that runs it imported, when the first rows come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slackwater.core.time import MILLISECOND
from slackwater.runtime.spark.state.store import ShardStore
from slackwater.runtime.spark.workers import settle

if TYPE_CHECKING:
    import pandas as pd


class Host(Protocol):
    """What runs one key of the operator in one task."""

    def take_in(self, key: Any, rows: Iterator[pd.DataFrame], now: int | None) -> Iterator[pd.DataFrame]:
        """An epoch with these lines of the packed stream."""

    def on_processing_time(self, key: Any, now: int) -> Iterator[pd.DataFrame]:
        """An epoch in which nothing arrived."""

    def wake_at(self, now: int) -> int:
        """When, in milliseconds, it wants to be asked again if nothing arrives."""


class Hosted(Protocol):
    """A query, or a set of them, as it is shipped to workers."""

    def host(self, store: Any) -> Host:
        """What runs one shard of it, over the state of that shard."""


_serializer: Any = CloudPickleSerializer


class ShardProcessor(StatefulProcessor):
    """Blocks in; results, late tuples and metrics out."""

    def __init__(
        self, hosted: Hosted, beats: bool = False, store: Callable[[StatefulProcessorHandle], Any] = ShardStore
    ) -> None:
        # As Spark ships any function of ours, but not unpacked where it is not needed.
        self._shipped: bytes = _serializer().dumps(hosted)
        self._beats = beats
        """Whether moments count: streams are told silent by the clock on the wall, also while nothing arrives."""
        self._stored = store
        """How the state of a shard is laid out."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._store = self._stored(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        now = self._moment(timerValues)
        host = self._host()
        yield from host.take_in(key, rows, now)
        self._set_timer(host, now)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Nothing has arrived for so long that a stream may be silent."""
        now = self._moment(timerValues)
        if now is not None:
            host = self._host()
            yield from host.on_processing_time(key, now)
            self._set_timer(host, now)

    def _host(self) -> Host:
        settle()
        hosted: Hosted = _serializer().loads(self._shipped)
        return hosted.host(self._store)

    def _moment(self, timer_values: Any) -> int | None:
        return int(timer_values.getCurrentProcessingTimeInMs()) * MILLISECOND if self._beats else None

    def _set_timer(self, host: Host, now: int | None) -> None:
        if now is None:
            return
        for old in list(self._handle.listTimers()):
            self._handle.deleteTimer(old)
        self._handle.registerTimer(host.wake_at(now))

    def close(self) -> None:
        """Nothing to give back: kept shards wait for the next micro-batch."""
