"""Static relations: tables beside streams, joined with them where they are read.

Invariant: rows of a stream keep their order; each stands once for each row of the relation that has its keys, or once,
with nulls, where there is none. Nulls are equal to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import Kind, kind_of
from slackwater.core.time import parse_duration
from slackwater.language.scope import did_you_mean, matching
from slackwater.language.static import StaticJoin, without_static
from slackwater.sources.tabular import as_table

Widen = Callable[[str, Any, StaticJoin], Any]
"""A stream by its name, its rows, and what they are joined with: the same with what there is for them."""
ROW, AT, KEY = "\0row", "\0at", "\0key"
"""Names of columns that are for a moment; nobody else has such."""


@dataclass(frozen=True)
class Lookup:
    """A static relation as it was given."""

    rows: Any
    unique: bool = False
    """Whether each key is promised to be there once."""
    refresh: int | None = None
    """How often it is read anew, in microseconds; None: never."""

    @property
    def read(self) -> Any:
        """The rows, as they are now."""
        return self.rows() if callable(self.rows) else self.rows


def lookup(rows: Any, *, unique: bool = False, refresh: str | None = None) -> Lookup:
    """A static relation for `slackwater.replay`, `live`, `sql` and `start`: a table, or a batch DataFrame, that a query
    joins with its streams, as in `FROM o JOIN customers c ON o.customer = c.id`, inner or left.

    With `unique`, a key that is there twice is refused; without, it gives several rows. With `refresh`, as in
    `sw.lookup("customers.parquet", refresh="10 minutes")`, `live` and `start` read it anew so often: a path, a
    DataFrame, or a function that gives the rows as they are then. If it cannot be read, or has other columns, the
    version before stays in force, and a warning says so.

    >>> import slackwater as sw
    >>> orders = [{"ts": 1, "customer": 7}, {"ts": 2, "customer": 9}]
    >>> names = sw.lookup([{"id": 7, "name": "Ada"}], unique=True)
    >>> query = "SELECT o.customer, c.name AS called FROM o LEFT JOIN names c ON o.customer = c.id"
    >>> sw.replay(query, {"o": orders, "names": names}).results["called"].to_pylist()
    ['Ada', None]
    """
    return Lookup(rows, unique, None if refresh is None else _refresh_of(rows, refresh))


def _refresh_of(rows: Any, refresh: str) -> int:
    try:
        every = parse_duration(refresh)
    except (ValueError, TypeError) as error:
        raise UsageError(f"refresh={refresh!r}: {error}") from None
    if not every:
        raise UsageError(f"refresh={refresh!r}: it is longer than nothing")
    if not (callable(rows) or isinstance(rows, str | Path) or hasattr(rows, "sparkSession")):
        raise UsageError(
            f"refresh reads a relation anew, and a {type(rows).__name__} stays as it is; give a path, a DataFrame of"
            " Spark, or a function that reads it"
        )
    return every


def looked_up(query: str, streams: Mapping[str, Any], apart: bool = False) -> tuple[str, tuple[StaticJoin, ...]]:
    """The query over streams alone, and what has to be joined with them; the text as it is where nothing has. `apart`
    is for queries of a set, as in `without_static`."""
    relations = [name for name, given in streams.items() if isinstance(given, Lookup)]
    return without_static(query, relations, apart) if relations else (query, ())


def joined_streams(joins: Iterable[StaticJoin], streams: Mapping[str, Any], widen: Widen) -> dict[str, Any]:
    """The streams as queries read them that have these joins."""
    given = without_lookups(streams)
    made = dict(given)
    for join in dict.fromkeys(joins):
        name = stream_of(join, list(given))
        made[join.read_as or name] = widen(name, made.get(join.read_as or name, given[name]), join)
    return made


def without_lookups(streams: Any) -> Any:
    """The streams alone."""
    if not isinstance(streams, Mapping):
        return streams
    return {name: given for name, given in streams.items() if not isinstance(given, Lookup)}


def stream_of(join: StaticJoin, streams: Sequence[str]) -> str:
    """The stream that a static relation is joined with, as it was given."""
    return _named(join.stream, streams, "the streams")


def named_keys(join: StaticJoin, own: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
    """The keys of a join as the stream and the relation spell them."""
    return [
        (_named(mine, own, f"stream {join.stream}"), _named(other, others, f"static relation {join.relation}"))
        for mine, other in join.keys
    ]


def _named(name: str, columns: Sequence[str], whose: str) -> str:
    found = matching(name, columns)
    if len(found) != 1:
        raise UsageError(f"there is no '{name}' in {whose}{did_you_mean(name, columns)}")
    return found[0]


def check_types(join: StaticJoin, mine: tuple[str, pa.DataType], other: tuple[str, pa.DataType]) -> None:
    """Refuse keys of two kinds, and those that are equal by chance alone."""
    kinds = {kind_of(one[1]) for one in (mine, other)}
    if len(kinds) > 1 or kinds & {None, Kind.FLOAT}:
        raise DataError(
            f"{join.stream}.{mine[0]} is {mine[1]}, and {join.relation}.{other[0]} is {other[1]}; keys are both whole"
            " numbers, or decimals, texts, times or truth values"
        )


def with_lookups(query: str, streams: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A query over tables and static relations as one over tables alone."""
    if not isinstance(streams, Mapping):
        return query, streams
    text, joins = looked_up(query, streams)
    return text, joined_tables(joins, streams)


def joined_tables(joins: Iterable[StaticJoin], streams: Mapping[str, Any]) -> dict[str, Any]:
    """Tables as queries read them that have these joins."""

    def widen(name: str, table: Any, join: StaticJoin) -> pa.Table:
        given = streams[join.relation]
        if given.refresh is not None:
            raise UsageError(
                f"static relation {join.relation}: refresh is for sw.live and sw.start; recorded streams are joined"
                " with one version, so leave it out"
            )
        return widened(as_table(name, table), as_table(join.relation, given.read), join, given.unique)

    return joined_streams(joins, streams, widen)


def widened(table: pa.Table, relation: pa.Table, join: StaticJoin, unique: bool) -> pa.Table:
    """The rows of a stream with what a static relation has for them, in a nested column.

    >>> join = StaticJoin("o", "people", "c", (("by", "id"),))
    >>> people = pa.table({"id": [7, 7], "name": ["Ada", "Bob"]})
    >>> widened(pa.table({"by": [7, 8]}), people, join, unique=False)["c"].to_pylist()
    [{'id': 7, 'name': 'Ada'}, {'id': 7, 'name': 'Bob'}, None]
    """
    check_free(join, table.column_names)
    left, right = (
        {ROW: pa.array(range(table.num_rows), pa.int64())},
        {AT: pa.array(range(relation.num_rows), pa.int64())},
    )
    for at, (own, other) in enumerate(named_keys(join, table.column_names, relation.column_names)):
        mine, theirs = (_plain(column) for column in (table.column(own), relation.column(other)))
        check_types(join, (own, mine.type), (other, theirs.type))
        common = pa.int64() if pa.types.is_integer(mine.type) else mine.type
        try:
            left[f"{KEY}{at}"], right[f"{KEY}{at}"] = mine.cast(common), theirs.cast(common)
        except pa.ArrowInvalid as error:
            raise DataError(f"static relation {join.relation}: {other} does not fit {own}: {error}") from None
    keys = [name for name in left if name != ROW]
    if unique:
        check_unique(relation, join)
    pairs = pa.table(left).join(pa.table(right), keys, join_type="left outer")
    pairs = pairs.sort_by([(ROW, "ascending"), (AT, "ascending")]).combine_chunks()
    at = pairs.column(AT).combine_chunks()
    columns = [column.take(at).combine_chunks() for column in relation.columns]
    held = pa.StructArray.from_arrays(columns, fields=list(relation.schema), mask=pc.is_null(at))
    return table.take(pairs.column(ROW)).append_column(join.alias, held)


def check_free(join: StaticJoin, columns: Sequence[str]) -> None:
    """Refuse a name that the stream has a column of."""
    if matching(join.alias, columns):
        raise UsageError(
            f"stream {join.stream} has a column '{join.alias}', as the static relation is called; call that otherwise"
        )


def check_unique(relation: pa.Table, join: StaticJoin) -> None:
    """Refuse a relation in which a key is there twice; nulls are equal to nothing."""
    names = [_named(other, relation.column_names, f"static relation {join.relation}") for _, other in join.keys]
    keys = pa.table([_plain(relation.column(name)) for name in names], names=names).drop_null()
    counted = keys.group_by(names).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted.column("count_all"), 1))
    if twice.num_rows:
        found = [twice.column(name)[0].as_py() for name in names]
        raise DataError(not_unique(join, found, twice.column("count_all")[0].as_py()))


def not_unique(join: StaticJoin, found: Sequence[Any], times: int) -> str:
    """What is said of a key that is there more often than was promised."""
    key = ", ".join(f"{other} = {value!r}" for value, (_, other) in zip(found, join.keys, strict=True))
    return (
        f"static relation {join.relation} has {key} {times} times, and unique=True promises it once; leave that out to"
        " get a row for each"
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
