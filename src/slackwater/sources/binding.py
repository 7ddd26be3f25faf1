"""Binding a query to tables: their columns become its streams' schemas.

Invariant: a column whose type no query can read is never passed over in silence: naming it is an error that says so,
and `SELECT *` leaves it out with a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from slackwater.core.errors import QueryError
from slackwater.core.nested import leaves, nested
from slackwater.core.schema import DIGITS, Schema, kind_of, type_name
from slackwater.expressions.tree import Column
from slackwater.language.bind import Bound, bind
from slackwater.language.bound import BoundQuery, RowsQuery, streams_read
from slackwater.language.dialect import sources_of
from slackwater.sources.files import schema_of


def bind_to_tables(text: str, tables: Mapping[str, pa.Table], time: str) -> Bound:
    """Bind a query to the columns of tables, by the names of its sources.

    >>> bind_to_tables("SELECT v FROM s", {"s": pa.table({"ts": [1], "v": [2]})}, "ts").query.outputs[0].name
    'v'
    """
    try:
        return bind(text, _schemas(text, tables, time))
    except QueryError as error:
        raise _unreadable_column(error, tables) or error from None


def _schemas(text: str, tables: Mapping[str, pa.Table], time: str) -> dict[str, Schema]:
    read = {name.lower() for name in sources_of(text)}
    found = {}
    for name, table in tables.items():
        try:
            found[name] = schema_of(name, table, time)
        except QueryError:
            # A program may have more streams at hand than this query reads; those need no event times.
            if name.lower() in read:
                raise
    return found


def left_out(query: BoundQuery, tables: Mapping[str, pa.Table]) -> list[str]:
    """Columns that `SELECT *` cannot give because no query can read their type, as alias.column (type)."""
    inside = [name for stream in streams_read(query) if stream.query for name in left_out(stream.query, tables)]
    if not isinstance(query, RowsQuery):
        return inside
    given = {(item.expr.stream, item.expr.name) for item in query.outputs if isinstance(item.expr, Column)}
    return inside + [
        f"{stream.alias}.{name} ({type_name(leaf.type)})"
        for position, stream in enumerate(query.streams)
        if stream.query is None and all((position, name) in given for name in stream.schema.names)
        for name, leaf in leaves(tables[stream.source].schema).items()
        if kind_of(leaf.type) is None and name != stream.schema.time
    ]


def _unreadable_column(error: QueryError, tables: Mapping[str, pa.Table]) -> QueryError | None:
    """A better error where the place of this one is the name of a column whose type no query can read."""
    if error.start is None:
        return None
    named = _named_at(error.text, error.start, error.stop or error.start)
    for name, table in tables.items():
        for column, type_ in _unreadable(table.schema).items():
            # The place of the error may be the last part of a name; what stands before it may be an alias.
            if named == column.lower() or named.endswith("." + column.lower()):
                message = f"column '{column}' of stream {name} holds {type_name(type_)}{_remedy(column, type_)}"
                return QueryError(message, error.text, error.start, error.stop)
    return None


def _unreadable(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Columns and fields that no query can read, by their path, the longest paths first; nested columns themselves
    are among them."""
    found = {name: leaf.type for name, leaf in leaves(schema).items() if kind_of(leaf.type) is None}
    found |= nested(schema)
    return dict(sorted(found.items(), key=lambda one: -len(one[0])))


def _remedy(column: str, type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_) and 0 <= type_.scale <= DIGITS:
        return f"; at most {DIGITS} digits can be read; cast it to decimal({DIGITS}, {type_.scale}) or double"
    if pa.types.is_struct(type_) and type_.num_fields:
        return f", which a query cannot read; name a field of it, as in {column}.{_first_field(type_)}"
    return ", which a query cannot read"


def _first_field(type_: pa.DataType) -> str:
    return next(iter(leaves(pa.schema(list(type_)))), type_.field(0).name)


_PATH = re.compile(r"""(?:(?:\w+|"[^"]*"|`[^`]*`)\s*\.\s*)*$""")


def _named_at(text: str, start: int, stop: int) -> str:
    """The name whose last part stands at a place of the text, in lower case, without quotes."""
    before = _PATH.search(text, 0, start)
    written = (before.group() if before else "") + text[start:stop]
    return re.sub(r"""["`\s]""", "", written).lower()
