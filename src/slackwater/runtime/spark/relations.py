"""Static relations on Spark: batch DataFrames and tables, joined with streams before rows are packed.

One that is read when the query starts is joined by Spark itself; the rows are those that `sources.lookups` makes of
tables. Spark reads a batch DataFrame anew with every micro-batch, so what changes in its files changes what later rows
are joined with.

One that is read anew has versions in the checkpoint, and tasks join them. A version is a file that is named after the
first micro-batch which sees it. A micro-batch sees the newest that is not named after a later one. The driver writes it
before the micro-batch has a task, so all tasks see the same.

Invariant: a micro-batch that runs again sees what it saw before. The first one of a start may be such, so it takes what
there is; what was read since then comes into force with the next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from urllib.parse import quote as escaped

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from slackwater.core.errors import DataError, UsageError
from slackwater.core.time import SECOND
from slackwater.language.static import StaticJoin
from slackwater.runtime.history import History
from slackwater.runtime.spark import versions
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.query import empty_table
from slackwater.runtime.spark.store import At, Store, sealed, store_at, unsealed
from slackwater.runtime.spark.types import column, quoted
from slackwater.runtime.spark.workers import micro_batch
from slackwater.sources.lookups import (
    Lookup,
    check_free,
    check_types,
    joined_streams,
    looked_up,
    named_keys,
    not_unique,
    widened,
)
from slackwater.sources.refreshing import Refreshing, columns_of
from slackwater.sources.tabular import as_table

RELATIONS = "slackwater-relations"
"""The folder of versions inside of the checkpoint."""
KEPT = 3
"""So many versions are kept: a micro-batch that runs again is one of the last two."""
Take = Callable[[DataFrame, int], None]


def with_lookups(
    spark: SparkSession, query: str, streams: Mapping[str, Any], relations: Relations | None = None
) -> tuple[str, dict[str, Any]]:
    """A query over DataFrames and static relations as one over DataFrames alone; `relations` are those that are read
    anew, where that is offered."""
    texts, frames = with_lookups_of_each(spark, {"": query}, streams, relations, apart=False)
    return texts[""], frames


def with_lookups_of_each(
    spark: SparkSession,
    queries: Mapping[str, str],
    streams: Mapping[str, Any],
    relations: Relations | None = None,
    apart: bool = True,
) -> tuple[dict[str, str], dict[str, Any]]:
    """The same of queries that read the same streams."""

    def widen(name: str, frame: DataFrame, join: StaticJoin) -> DataFrame:
        given = streams[join.relation]
        if given.refresh is not None:
            if relations is None:
                raise UsageError(f"static relation {join.relation}: on Spark refresh is for sw.start; leave it out")
            return relations.widened(frame, join, given)
        return _widened(frame, _frame(spark, given.read, join), join, given.unique)

    found = {name: looked_up(text, streams, apart) for name, text in queries.items()}
    joins = [join for _, own in found.values() for join in own]
    return {name: text for name, (text, _) in found.items()}, joined_streams(joins, streams, widen)


def history_with_lookups(spark: SparkSession, query: str, streams: Mapping[str, Any], told: History) -> History:
    """A history of streams that are joined with static relations, joined with them too."""
    if not any(isinstance(given, Lookup) for given in streams.values()):
        return told
    anew = next((name for name, given in streams.items() if isinstance(given, Lookup) and given.refresh), None)
    if anew is not None:
        raise UsageError(f"static relation {anew}: refresh does not go with a history; leave one of them out")
    own = {name: rows for name, rows in told.streams.items() if rows is not None}
    _, frames = with_lookups(spark, query, {**streams, **own})
    return replace(told, streams={name: frames[name] if name in own else None for name in told.streams})


def _frame(spark: SparkSession, rows: Any, join: StaticJoin) -> DataFrame:
    """A static relation as a DataFrame."""
    if not hasattr(rows, "sparkSession"):
        table = as_table(join.relation, rows)
        lines = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return spark.createDataFrame(lines, from_arrow_schema(table.schema))
    if rows.isStreaming:
        raise UsageError(f"static relation {join.relation} is a streaming DataFrame; give that as a stream")
    frame: DataFrame = rows
    return frame


def _widened(frame: DataFrame, relation: DataFrame, join: StaticJoin, unique: bool) -> DataFrame:
    """The rows of a stream with what a static relation has for them, in a nested column."""
    check_free(join, frame.columns)
    mine, theirs = empty_table(frame).schema, empty_table(relation).schema
    keys = named_keys(join, mine.names, theirs.names)
    for own, other in keys:
        check_types(join, (own, mine.field(own).type), (other, theirs.field(other).type))
    if unique:
        _check_unique(relation, join, [other for _, other in keys])
    whole = fn.struct(*(column(name) for name in relation.columns)).alias(join.alias)
    named = [f"__slackwater_key{at}" for at in range(len(keys))]
    held = relation.select(whole, *(column(other).alias(name) for name, (_, other) in zip(named, keys, strict=True)))
    equal = [frame[quoted(own)] == held[name] for name, (own, _) in zip(named, keys, strict=True)]
    return frame.join(held, reduce(lambda one, more: one & more, equal), "left").drop(*named)


def _check_unique(relation: DataFrame, join: StaticJoin, keys: list[str]) -> None:
    counted = relation.dropna(subset=list(map(quoted, keys))).groupBy(*map(column, keys)).count()
    found = counted.where("count > 1").head()
    if found is not None:
        raise DataError(not_unique(join, list(found)[:-1], found[-1]))


class Relations:
    """The relations of a query that are read anew; `checkpoint` is where their versions are written down."""

    def __init__(self, spark: SparkSession, checkpoint: str | os.PathLike[str] | None) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._all: list[_Relation] = []

    def widened(self, frame: DataFrame, join: StaticJoin, given: Lookup) -> DataFrame:
        """The rows of a stream with what the version of their micro-batch has for them, in a nested column."""
        where = None if self._checkpoint is None else os.fspath(self._checkpoint).rstrip("/")
        at = None if where is None else location_of(self._spark, f"{where}/{RELATIONS}/{escaped(join.alias, safe='')}")
        if at is None:
            raise UsageError(
                f"static relation {join.relation}: with refresh give checkpoint='folder', where its versions are"
                " written down"
            )
        relation = _Relation(store_at(at), join, Refreshing(join, given, read))
        self._all.append(relation)
        # What is wrong with the keys is said before anything starts.
        widened(empty_table(frame), relation.refreshing.table, join, given.unique)
        held = StructField(join.alias, from_arrow_schema(relation.refreshing.schema))
        schema = StructType([*frame.schema.fields, held])
        return versions.map_in_arrow(frame, Widening(join, at), schema)

    def before(self, take: Take) -> Take:
        """What takes the rows of a micro-batch, after it was decided which versions it sees."""
        if not self._all:
            return take
        begun: list[int] = []

        def each(frame: DataFrame, number: int) -> None:
            for relation in self._all:
                relation.before(number, round(time.time() * SECOND), first=not begun)
            begun.append(number)
            take(frame, number)

        return each


@dataclass
class _Relation:
    store: Store
    join: StaticJoin
    refreshing: Refreshing
    unwritten: bool = True
    """Whether what was read last is not in force yet."""

    def before(self, batch: int, now: int, first: bool) -> None:
        """Decide what a micro-batch sees."""
        there = [number for number in numbers_in(self.store) if number <= batch]
        changed = self.refreshing.look(now)
        if first and there:
            table, asked = read_version(self.store, there[-1]), self.refreshing
            if table.schema != asked.schema:
                raise DataError(
                    f"static relation {self.join.relation}: in the checkpoint its columns are"
                    f" {columns_of(table.schema)}, and now {columns_of(asked.schema)}; use a new checkpoint folder"
                )
            self.unwritten = not table.equals(asked.table)
        elif changed or self.unwritten:
            self.store.write(_named(batch), sealed(_as_bytes(self.refreshing.table)), durable=True)
            self.unwritten = False
            self.store.remove(*map(_named, there[: -KEPT + 1]))


@dataclass(frozen=True)
class Widening:
    """What tasks do: rows of a stream with what the version of their micro-batch has for them."""

    join: StaticJoin
    at: At

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        relation = version_of(self.at, micro_batch())
        for batch in batches:
            yield from widened(pa.Table.from_batches([batch]), relation, self.join, unique=False).to_batches()


_last: dict[At, tuple[int, pa.Table]] = {}
"""The version of each relation that this worker has read last."""


def version_of(at: At, batch: int) -> pa.Table:
    """The version that a micro-batch sees."""
    store = store_at(at)
    number = max(number for number in numbers_in(store) if number <= batch)
    if at not in _last or _last[at][0] != number:
        _last[at] = number, read_version(store, number)
    return _last[at][1]


def numbers_in(store: Store) -> list[int]:
    """The micro-batches that versions are named after."""
    return sorted(int(name.partition(".")[0]) for name in store.names())


def read_version(store: Store, number: int) -> pa.Table:
    """A version as it was written."""
    content = unsealed(store.read(_named(number)) or b"", store.path(_named(number)))
    return pa.ipc.open_stream(content).read_all()


def _named(number: int) -> str:
    return f"{number:010d}.arrow"


def _as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read(rows: Any) -> pa.Table:
    """The rows of a relation as they are now."""
    if not hasattr(rows, "sparkSession"):
        return as_table("relation", rows)
    if rows.isStreaming:
        raise UsageError("it is a streaming DataFrame; give that as a stream")
    return as_table("relation", versions.as_table(_anew(rows)))


def _anew(frame: DataFrame) -> DataFrame:
    """A DataFrame that looks again which files there are: Spark keeps the list that it made at first."""
    try:
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        for at in range(leaves.size()):
            leaves.apply(at).relation().location().refresh()
    except (AttributeError, Py4JError):
        pass
    return frame.select("*")
