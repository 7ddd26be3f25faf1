"""The results of a query as a stream for the query around it.

Invariant: a result stands at one event time, which is its column `_ts`: that of the newest member of a join's result,
and the last instant of an aggregate's window. Windows are `[start, end)`, so that is `window_end` less a microsecond,
as in Spark's `window_time`: minutes that are aggregated by the hour then belong to the hour they lie in.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import (
    RESULT_TIME,
    WINDOW_COLUMNS,
    AggregateQuery,
    BoundQuery,
    StreamRef,
    UnionQuery,
)
from slackwater.model.schema import ARROW_OF, UTC, Field, Kind, Schema


def result_schema(query: BoundQuery) -> Schema:
    """The columns that a query around this one can read, and their event time."""
    if isinstance(query, AggregateQuery):
        fields = _of_aggregate(query)
    elif isinstance(query, UnionQuery):
        fields = [_united(query, at, output.name) for at, output in enumerate(query.outputs)]
    else:
        fields = [Field(o.name, o.expr.kind, leaves_as(o.expr, query.streams)) for o in query.outputs]
    return Schema((*fields, Field(RESULT_TIME, Kind.TIME, UTC)), RESULT_TIME)


def leaves_as(expr: Expr, streams: Sequence[StreamRef]) -> pa.DataType:
    """The Arrow type in which the value of an expression leaves: a column's own, but for times, which are in UTC."""
    if isinstance(expr, Column) and expr.kind is not Kind.TIME and expr.name in streams[expr.stream].schema:
        return streams[expr.stream].schema[expr.name].arrow
    return ARROW_OF[expr.kind]


def columns_of_result(schema: Schema) -> tuple[Field, ...]:
    """The columns of a result without the time that every result has."""
    return tuple(field for field in schema.fields if field.name != RESULT_TIME)


def _of_aggregate(query: AggregateQuery) -> list[Field]:
    known = {key.name: Field(key.name, key.expr.kind, leaves_as(key.expr, (query.stream,))) for key in query.keys}
    known |= {call.name: Field(call.name, call.kind, ARROW_OF[call.kind]) for call in query.aggregates}
    return [*(Field(name, Kind.TIME, UTC) for name in WINDOW_COLUMNS), *(known[name] for name in query.order)]


def _united(query: UnionQuery, at: int, name: str) -> Field:
    """A column of a union: of its inputs' type where all agree."""
    found = [columns_of_result(stream.schema)[at] for stream in query.streams]
    same = all(field.arrow == found[0].arrow for field in found)
    return Field(name, found[0].kind, found[0].arrow if same else ARROW_OF[found[0].kind])
