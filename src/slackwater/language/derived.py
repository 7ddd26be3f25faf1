"""The results of a query as a stream for the query around it.

Invariant: a result stands at one event time, which is its column `_ts`: that of the newest member of a join's result,
and the last instant of an aggregate's window. Windows are `[start, end)`, so that is `window_end` less a microsecond,
as in Spark's `window_time`: minutes that are aggregated by the hour then belong to the hour they lie in.

A decimal has never fewer digits than its value, and never more than a word holds. The rules are Spark's where it has
them: a sum has one digit more than its longer side, a product those of both.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.core.quality import asks_estimates
from slackwater.core.schema import (
    ARROW_OF,
    AVERAGE_DIGITS,
    SUM_DIGITS,
    UTC,
    WORD_DIGITS,
    Field,
    Kind,
    Schema,
    decimal_type,
    time_type,
)
from slackwater.expressions.aggregates import FUNCTIONS, Gives
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.language.bound import (
    RESULT_TIME,
    WINDOW_COLUMNS,
    Aggregate,
    AggregateQuery,
    BoundQuery,
    RowsQuery,
    StreamRef,
    UnionQuery,
)
from slackwater.language.estimates import estimate_columns
from slackwater.language.top import TopQuery

_CHOOSING = frozenset(("abs", "neg", "coalesce", "nullif", "least", "greatest"))
_INTEGERS = {pa.int8(): 3, pa.uint8(): 3, pa.int16(): 5, pa.uint16(): 5, pa.int32(): 10, pa.uint32(): 10}
CHOOSING = frozenset(("case", "coalesce", "nullif", "least", "greatest", "min", "max"))
"""Calls whose value is one of their arguments."""


def result_schema(query: BoundQuery) -> Schema:
    """The columns that a query around this one can read, and their event time."""
    if isinstance(query, AggregateQuery):
        fields = _of_aggregate(query)
    elif isinstance(query, UnionQuery):
        fields = [_united(query, at, output.name) for at, output in enumerate(query.outputs)]
    else:
        assert isinstance(query, RowsQuery), "no query reads the relations of another"
        fields = [Field(name, Kind.TIME, UTC) for name in WINDOW_COLUMNS] if isinstance(query, TopQuery) else []
        fields += [Field(o.name, o.expr.kind, leaves_as(o.expr, query.streams)) for o in query.outputs]
    return Schema((*fields, Field(RESULT_TIME, Kind.TIME, UTC)), RESULT_TIME)


def leaves_as(expr: Expr, streams: Sequence[StreamRef]) -> pa.DataType:
    """The Arrow type in which the value of an expression leaves: a column's own, of moments as `time_type` says; a
    computed decimal has the digits it needs, and a moment chosen among dates is a date."""
    if isinstance(expr, Column) and expr.name in streams[expr.stream].schema:
        arrow = streams[expr.stream].schema[expr.name].arrow
        return time_type(arrow) if expr.kind is Kind.TIME else arrow
    if expr.kind is Kind.DECIMAL:
        return decimal_type(expr.scale, digits(expr, streams))
    if expr.kind is Kind.TIME and isinstance(expr, Call) and expr.op in CHOOSING:
        chosen = {leaves_as(value, streams) for value in _chosen_from(expr)}
        return chosen.pop() if len(chosen) == 1 else UTC
    return ARROW_OF[expr.kind]


def aggregate_leaves_as(call: Aggregate, streams: Sequence[StreamRef]) -> pa.DataType:
    """The Arrow type of an aggregate: one of its values keeps the type of its argument, and decimals get room as in
    Spark: a sum ten digits more, an average four behind the point."""
    gives = FUNCTIONS[call.function].gives
    if call.argument is None or not (gives is Gives.ARGUMENT or call.kind is Kind.DECIMAL):
        return ARROW_OF[call.kind]
    arrow = leaves_as(call.argument, streams)
    if gives is Gives.TOTAL:
        return decimal_type(arrow.scale, arrow.precision + SUM_DIGITS)
    if gives is Gives.AVERAGE:
        return decimal_type(arrow.scale + AVERAGE_DIGITS, arrow.precision + AVERAGE_DIGITS)
    return arrow


def _chosen_from(call: Call) -> tuple[Expr, ...]:
    """The arguments that a value can be of, without NULLs."""
    args = (*call.args[1:-1:2], call.args[-1]) if call.op == "case" else call.args
    return tuple(arg for arg in args if not (isinstance(arg, Literal) and arg.value is None))


def columns_of_result(schema: Schema) -> tuple[Field, ...]:
    """The columns of a result without the time that every result has."""
    return tuple(field for field in schema.fields if field.name != RESULT_TIME)


def _of_aggregate(query: AggregateQuery) -> list[Field]:
    groups = groups_of(query)
    known = {field.name: field for field in groups.schema.fields}
    for one in query.computed:
        known[one.name] = Field(one.name, one.expr.kind, leaves_as(one.expr, (groups,)))
    names = [*WINDOW_COLUMNS, *query.order]
    if asks_estimates(query.quality):
        beside = {one.name: estimate_columns(one.name) for one in query.aggregates}
        known |= {name: Field(name, Kind.FLOAT, pa.float64()) for own in beside.values() for name in own}
        names = [name for own in names for name in (own, *beside.get(own, ()))]
    return [known[name] for name in names]


def groups_of(query: AggregateQuery) -> StreamRef:
    """The groups of an aggregate as if they were a stream: what HAVING and computed columns read."""
    fields = [Field(name, Kind.TIME, UTC) for name in WINDOW_COLUMNS]
    fields += [Field(key.name, key.expr.kind, leaves_as(key.expr, (query.stream,))) for key in query.keys]
    fields += [Field(one.name, one.kind, aggregate_leaves_as(one, (query.stream,))) for one in query.aggregates]
    return StreamRef("groups", "", Schema(tuple(fields), WINDOW_COLUMNS[1]), None)


def _united(query: UnionQuery, at: int, name: str) -> Field:
    """A column of a union: of its inputs' type where all agree."""
    found = [columns_of_result(stream.schema)[at] for stream in query.streams]
    same = all(field.arrow == found[0].arrow for field in found)
    if not same and found[0].kind is Kind.DECIMAL:
        return Field(name, Kind.DECIMAL, decimal_type(found[0].scale, max(field.arrow.precision for field in found)))
    return Field(name, found[0].kind, found[0].arrow if same else ARROW_OF[found[0].kind])


def digits(expr: Expr, streams: Sequence[StreamRef]) -> int:
    """The digits of an integer or a decimal, on both sides of the point."""
    return min(WORD_DIGITS, _digits(expr, streams))


def _digits(expr: Expr, streams: Sequence[StreamRef]) -> int:
    if isinstance(expr, Column):
        schema = streams[expr.stream].schema
        arrow = schema[expr.name].arrow if expr.name in schema else pa.int64()
        return int(arrow.precision) if pa.types.is_decimal(arrow) else _INTEGERS.get(arrow, WORD_DIGITS)
    if isinstance(expr, Literal):
        return 1 if expr.value is None else len(str(abs(int(expr.value))))
    if expr.op == "sign":
        return 0
    if expr.op not in (*_CHOOSING, "case", "+", "-", "*", "%", "rescale", "//"):
        return WORD_DIGITS
    values = (*expr.args[1:-1:2], expr.args[-1]) if expr.op == "case" else expr.args
    each = [_digits(value, streams) for value in values]
    match expr.op:
        case "*":
            return sum(each)
        case "rescale":
            return each[0] + each[1] - 1
        case "//":
            return max(1, each[0] - each[1] + 1)
        case "+" | "-":
            return max(each) + 1
        case "%":
            return each[0]
    return max(each)
