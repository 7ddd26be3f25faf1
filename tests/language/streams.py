"""The streams the language tests query, and a bound query in a few readable lines."""

from __future__ import annotations

import pyarrow as pa

from slackwater.core.emitting import ONCE
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.results import AS_MADE
from slackwater.core.schema import Field, Kind, Schema
from slackwater.core.time import format_duration
from slackwater.expressions.relational import Aggregate, Join, Project, Relation, Scan, Select
from slackwater.expressions.tree import Call, Column, Expr
from slackwater.language.asof import AsOfQuery
from slackwater.language.bind import Bound, bind
from slackwater.language.bound import (
    BoundQuery,
    FillingWindow,
    InstantQuery,
    JoinQuery,
    LandmarkWindow,
    RateWindow,
    RowsQuery,
    RowWindow,
    SessionWindow,
    StreamRef,
    UnionQuery,
    streams_read,
)
from slackwater.language.top import NUMBER, TopQuery

_ARROW = {
    Kind.TIME: pa.timestamp("us", "UTC"),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TEXT: pa.string(),
}


def schema(**columns: Kind) -> Schema:
    return Schema(tuple(Field(name, kind, _ARROW[kind]) for name, kind in columns.items()), "ts")


_READINGS = schema(ts=Kind.TIME, key=Kind.INT, v=Kind.FLOAT, name=Kind.TEXT, ok=Kind.BOOL)
_SALES = schema(ts=Kind.TIME, ItemNum=Kind.INT, ItemName=Kind.TEXT)
SCHEMAS = {
    **{f"Store{number}": _SALES for number in (1, 2, 3)},
    **{f"Camera{number}": schema(ts=Kind.TIME, ObjID=Kind.INT) for number in (1, 2, 3, 4)},
    **{f"Network{number}": schema(ts=Kind.TIME, PacktID=Kind.INT) for number in (1, 2, 3)},
    "a": _READINGS,
    "b": _READINGS,
    "s": _READINGS,
    "positions": schema(ts=Kind.TIME, id=Kind.INT, x=Kind.FLOAT, y=Kind.FLOAT),
    "odd": schema(
        ts=Kind.TIME,
        limit=Kind.INT,
        left=Kind.INT,
        v=Kind.INT,
        V=Kind.INT,
        Case=Kind.INT,
        _ts=Kind.TIME,
        Pos=Kind.INT,
        POS=Kind.INT,
    ),
}


def bound(text: str) -> Bound:
    return bind(text, SCHEMAS)


def show(result: Bound) -> str:
    """Everything a bound query holds, one fact a line."""
    query = result.query
    lines = [] if result.explain is None else ["explain" + {"TEXT": ""}.get(result.explain, f" as {result.explain}")]
    lines += _query(query)
    lines += [] if query.emit == ONCE else [f"emit {query.emit}"]
    lines.append(f"quality {query.quality}{'' if result.quality_stated else ' (not stated)'}")
    stated = [f"{name} = {value}" for name, value in vars(query.options).items() if value != getattr(Options(), name)]
    if stated:
        lines.append(f"options {', '.join(stated)}")
    return "\n".join(lines) + "\n"


def _query(query: BoundQuery) -> list[str]:
    lines: list[str] = []
    if query.out != AS_MADE:
        lines.append(f"out {query.out}" + (f" every {format_duration(query.out.every)}" if query.out.every else ""))
    for position, stream in enumerate(streams_read(query)):
        lines += _stream(position, stream)
    if isinstance(query, InstantQuery):
        lines.append(f"slide {format_duration(query.slide)}")
        lines += tree(query.relation)
    elif isinstance(query, UnionQuery):
        lines += [f"united {output.name} {output.expr.kind.value}" for output in query.outputs]
    elif isinstance(query, AsOfQuery):
        lines += [f"as of {'older' if query.strict else 'not newer'}{', or nothing' * query.outer}"]
        lines += [] if query.within is None else [f"within {format_duration(query.within)}"]
        lines += [f"key {_expr(mine)} = {_expr(other)}" for mine, other in query.keys]
        lines += [f"kept {_expr(condition)}" for condition in query.kept]
        lines += [f"output {output.name} = {_expr(output.expr)} {output.expr.kind.value}" for output in query.outputs]
    elif isinstance(query, TopQuery):
        lines += [f"part {_expr(expr)}" for expr in query.partition]
        nulls = {True: "first", False: "last"}
        lines += [
            f"order {_expr(one.expr)}{' descending' * one.descending}, nulls {nulls[one.nulls_first]}"
            for one in query.order
        ]
        lines.append(f"first {query.most}")
        said = [(one.name, "number" if one.expr == NUMBER else _expr(one.expr), one.expr) for one in query.outputs]
        lines += [f"output {name} = {text} {expr.kind.value}" for name, text, expr in said]
    elif isinstance(query, RowsQuery) and not isinstance(query, JoinQuery):
        kind = type(query).__name__.removesuffix("Query").lower()
        lines += [f"{kind} {output.name} = {_expr(output.expr)} {output.expr.kind.value}" for output in query.outputs]
    elif isinstance(query, JoinQuery):
        lines += _bounds(query)
        if query.match is not None:
            within = query.match.within
            lines.append("match time" if within is None else f"match time within {format_duration(within)}")
        lines += [] if query.kind is JoinKind.INNER else [f"{query.kind.value} join"]
        lines += [f"condition {_expr(condition)}" for condition in query.conditions]
        lines += [f"kept {_expr(condition)}" for condition in query.kept]
        if isinstance(query, JoinQuery):
            lines += [
                f"closes {format_duration(one.most)} after {one.name}{'' if one.required else ', where that is known'}"
                for one in query.closing
            ]
        lines += [f"output {output.name} = {_expr(output.expr)} {output.expr.kind.value}" for output in query.outputs]
    else:
        lines += [f"key {key.name} = {_expr(key.expr)} {key.expr.kind.value}" for key in query.keys]
        for call in query.aggregates:
            inside = [_expr(read) for read in call.reads]
            inside += [] if call.parameter is None else [str(call.parameter)]
            lines.append(f"aggregate {call.name} = {call.function}({', '.join(inside)}) {call.kind.value}")
        lines += [f"computed {one.name} = {_expr(one.expr)} {one.expr.kind.value}" for one in query.computed]
        lines += [f"having {_expr(condition)}" for condition in query.having]
        lines.append(f"order {', '.join(query.order)}")
    return lines


def tree(relation: Relation, deep: int = 0) -> list[str]:
    """A tree of relation-to-relation operators, one a line, with what it gives."""
    columns = ", ".join(column.name for column in relation.columns)
    match relation:
        case Scan():
            said = f"window of stream {relation.stream}, {format_duration(relation.range)}"
        case Select():
            said = f"select {_expr(relation.condition)}"
        case Project():
            said = f"project {', '.join(map(_expr, relation.expressions))}"
        case Join():
            said = f"{relation.kind} join" + "".join(f" {_expr(one)} = {_expr(other)}" for one, other in relation.keys)
            said += "" if relation.condition is None else f" if {_expr(relation.condition)}"
        case Aggregate():
            calls = [
                f"{call.function}({'' if call.argument is None else _expr(call.argument)}"
                f"{'' if call.parameter is None else f', {call.parameter}'})"
                for call in relation.calls
            ]
            said = f"aggregate {', '.join(calls)}" + (
                f" by {', '.join(map(_expr, relation.keys))}" * bool(relation.keys)
            )
        case _:
            said = type(relation).__name__.lower()
    lines = [f"{'  ' * deep}{said} -> {columns}"]
    return lines + [line for below in relation.inputs for line in tree(below, deep + 1)]


def _bounds(query: JoinQuery) -> list[str]:
    lines = []
    for number, alternative in enumerate(query.bounds):
        said = ", ".join(f"{b.newer} - {b.older} <= {format_duration(b.most)}" for b in alternative)
        lines.append(f"{'or ' if number else ''}bounds {said}")
    return lines


def _stream(position: int, stream: StreamRef) -> list[str]:
    window = "" if stream.range is None else f" range {format_duration(stream.range)}"
    slide = "" if stream.slide is None else f" slide {format_duration(stream.slide)}"
    if isinstance(stream.window, RowWindow):
        window = f" rows {stream.window.rows}"
        slide = "" if stream.window.slide is None else f" slide {stream.window.slide}"
    if isinstance(stream.window, RateWindow):
        window = f" rate {format_duration(stream.window.interval)}{' by arrival' * stream.window.by_arrival}"
    if isinstance(stream.window, LandmarkWindow):
        end = "" if stream.window.end is None else f" end {_expr(stream.window.end)}"
        window = f" start {_expr(stream.window.start)}{end}"
        slide = "" if stream.window.slide is None else f" slide {format_duration(stream.window.slide)}"
    if isinstance(stream.window, FillingWindow):
        window = f" range {format_duration(stream.window.range)}"
        slide = f" cumulate {format_duration(stream.window.step)}"
    if isinstance(stream.window, SessionWindow):
        most = "" if stream.window.most is None else f" at most {format_duration(stream.window.most)}"
        window = f" session {format_duration(stream.window.gap)}{most}"
    source = stream.source if stream.query is None else "a query"
    lines = [f"stream {position} {stream.alias} from {source}{window}{slide}"]
    lines += [f"  filter {_expr(condition)}" for condition in stream.filters]
    return lines if stream.query is None else lines + [f"  {line}" for line in _query(stream.query)]


def _expr(expr: Expr) -> str:
    if isinstance(expr, Column):
        return f"{expr.stream}.{expr.name}"
    if isinstance(expr, Call):
        return f"({' '.join([expr.op, *map(_expr, expr.args)])})"
    return f"{expr.value!r}{'' if expr.kind.value in ('integer', 'float', 'boolean') else ':' + expr.kind.value}"
