"""The stateful operator of Spark as the host of shards, one a key, with their state in Spark's store.

A query that somebody else starts has nowhere else to keep its state; those we start ourselves are hosted by `stage.py`.

Invariant: this file costs little to import. Spark starts a Python process for every new query only to ask the operator
what state it keeps; the query is unpacked, and everything that runs it imported, when the first rows come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slackwater.core.time import MILLISECOND
from slackwater.runtime.spark.state.pages import PageStore
from slackwater.runtime.spark.state.spark_pages import SparkPages
from slackwater.runtime.spark.workers import settle

if TYPE_CHECKING:
    import pandas as pd

    from slackwater.runtime.spark.folders import TaskFiles


class Host(Protocol):
    """What runs one shard in one task."""

    def take_in(self, label: int, lines: Iterable[tuple[Any, ...]], now: int | None) -> Iterator[list[tuple[Any, ...]]]:
        """An epoch with these lines of the packed stream; lists of lines that it emits."""

    def on_processing_time(self, label: int, now: int) -> Iterator[list[tuple[Any, ...]]]:
        """An epoch in which nothing arrived."""

    def wake_at(self, now: int) -> int:
        """When, in milliseconds, it wants to be asked again if nothing arrives."""


class Hosted(Protocol):
    """A query, or a set of them, as it is shipped to workers."""

    takes: ClassVar[tuple[str, ...]]
    """The columns of a line that comes, without its shard."""
    emits: ClassVar[str]
    """The schema of a line that goes."""

    def host(self, store: PageStore, files: TaskFiles) -> Host:
        """What runs one shard of it, over the state of that shard; `files` take what goes to folders."""

    def written(self, output: Any, name: str) -> tuple[Any, ...]:
        """The line that tells of a file with the rows of an output."""


_serializer: Any = CloudPickleSerializer


class ShardProcessor(StatefulProcessor):
    """Blocks in; results, late tuples and metrics out."""

    def __init__(self, hosted: Hosted, beats: bool = False) -> None:
        # As Spark ships any function of ours, but not unpacked where it is not needed.
        self._shipped: bytes = _serializer().dumps(hosted)
        self._takes = list(hosted.takes)
        self._emits = column_names(hosted.emits)
        self._beats = beats
        """Whether moments count: streams are told silent by the clock on the wall, also while nothing arrives."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._store = PageStore(SparkPages(handle))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        now = self._moment(timerValues)
        hosted, files = self._hosted(), _files()
        host = hosted.host(self._store, files)
        lines = (line for frame in rows for line in zip(*(_plain(frame[name]) for name in self._takes), strict=True))
        yield from map(self._frame, host.take_in(int(key[0]), lines, now))
        yield from self._written(hosted, files)
        self._set_timer(host, now)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Nothing has arrived for so long that a stream may be silent."""
        now = self._moment(timerValues)
        if now is not None:
            hosted, files = self._hosted(), _files()
            host = hosted.host(self._store, files)
            yield from map(self._frame, host.on_processing_time(int(key[0]), now))
            yield from self._written(hosted, files)
            self._set_timer(host, now)

    def _hosted(self) -> Hosted:
        settle()
        hosted: Hosted = _serializer().loads(self._shipped)
        return hosted

    def _written(self, hosted: Hosted, files: TaskFiles) -> Iterator[pd.DataFrame]:
        lines = [hosted.written(*one) for one in files.close()]
        if lines:
            yield self._frame(lines)

    def _frame(self, lines: list[tuple[Any, ...]]) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(lines, columns=self._emits)

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


def _files() -> TaskFiles:
    from slackwater.runtime.spark.folders import TaskFiles

    return TaskFiles()


def column_names(schema: str) -> list[str]:
    """The names of a schema as Spark writes it."""
    return [field.split()[0] for field in schema.split(", ")]


def _plain(column: pd.Series[Any]) -> list[Any]:
    """The values of a column, None where there is none."""
    return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]
