"""Binding a query to tables: their columns become its streams' schemas.

Invariant: a column whose type no query can read is never passed over in silence: naming it is an error that says so,
and `SELECT *` leaves it out with a word.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from slackwater.expressions.tree import Column
from slackwater.language.bind import Bound, bind
from slackwater.language.bound import BoundQuery, JoinQuery, streams_read
from slackwater.model.errors import QueryError
from slackwater.model.schema import kind_of
from slackwater.sources.files import schema_of


def bind_to_tables(text: str, tables: Mapping[str, pa.Table], time: str) -> Bound:
    """Bind a query to the columns of tables, by the names of its sources.

    >>> bind_to_tables("SELECT v FROM s", {"s": pa.table({"ts": [1], "v": [2]})}, "ts").query.outputs[0].name
    'v'
    """
    schemas = {name: schema_of(name, table, time) for name, table in tables.items()}
    try:
        return bind(text, schemas)
    except QueryError as error:
        raise _unreadable_column(error, tables) or error from None


def left_out(query: BoundQuery, tables: Mapping[str, pa.Table]) -> list[str]:
    """Columns that `SELECT *` cannot give because no query can read their type, as alias.column (type)."""
    inside = [name for stream in streams_read(query) if stream.query for name in left_out(stream.query, tables)]
    if not isinstance(query, JoinQuery):
        return inside
    given = {(item.expr.stream, item.expr.name) for item in query.outputs if isinstance(item.expr, Column)}
    return inside + [
        f"{stream.alias}.{field.name} ({field.type})"
        for position, stream in enumerate(query.streams)
        if stream.query is None and all((position, name) in given for name in stream.schema.names)
        for field in tables[stream.source].schema
        if kind_of(field.type) is None
    ]


def _unreadable_column(error: QueryError, tables: Mapping[str, pa.Table]) -> QueryError | None:
    """A better error where the place of this one is the name of a column whose type no query can read."""
    if error.start is None:
        return None
    named = error.text[error.start : error.stop].rpartition(".")[2].strip('"`')
    for name, table in tables.items():
        for field in table.schema:
            if field.name.lower() == named.lower() and kind_of(field.type) is None:
                message = f"column '{field.name}' of stream {name} holds {field.type}, which a query cannot read"
                return QueryError(message, error.text, error.start, error.stop)
    return None
