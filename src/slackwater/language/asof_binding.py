"""As-of joins: `FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key WITHIN 5 MINUTES`.

Each tuple of a with the latest tuple of b that has its key and is not newer; with `>`, that is older. WITHIN says how
much older at most. An inner join leaves out what finds none, a LEFT one gives nulls. A row stands at the event time of
its tuple of a. As in DuckDB, the condition on event times may stand behind ON instead.

Invariant: ON says who can be the version of a tuple, before one is chosen; WHERE is asked of rows, afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import ISTREAM
from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call, Column, Expr, streams_of
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import StreamRef
from slackwater.language.groups import conjuncts_of
from slackwater.language.nodes import ASOF_JOINS, Select, Stream, refused, text_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope
from slackwater.language.selection import bind_outputs

_STRICT = {">=": False, ">": True}
_TURNED = {"<=": ">=", "<": ">"}


def as_of(select: Select) -> Stream | None:
    """The stream that stands behind ASOF JOIN, if one does."""
    return next((stream for stream in select.streams if stream.join in ASOF_JOINS), None)


def check_as_of(select: Select) -> None:
    """Refuse what an as-of join does not go with."""
    found = as_of(select)
    if found is None:
        return
    what = found.join
    if len(select.streams) > 2:
        raise refused(select.streams[2], f"{what} is of two streams, and this is a third; run another query for it")
    if select.kind:
        message = f"SELECT {select.kind} does not go with {what}; leave it out"
        raise refused(found, message, select.kind_place)
    for stream in select.streams:
        if stream.window is not None:
            message = f"{what} takes no windows: the latest tuple counts; write WITHIN behind ON for how old it may be"
            raise refused(stream.window, message)
    for clause in (*select.windows, *([] if select.match is None else [select.match])):
        raise refused(
            clause, f"{what} takes no windows; write WITHIN behind ON, as in ON a.key = b.key WITHIN 5 MINUTES"
        )
    if select.to_stream is not None and select.out.kind != ISTREAM:
        raise refused(
            select.to_stream, f"{select.out.kind} is not offered with {what}; its rows leave when they are made"
        )


def bind_as_of(select: Select, streams: tuple[StreamRef, ...], quality: Quality, options: Options) -> AsOfQuery:
    """The bound query."""
    joined = select.streams[1]
    scope = Scope(text_of(select), streams)
    on = [] if joined.on is None else conjuncts_of([Scalars(scope, "ON").condition(joined.on)])
    strict, on = _by_time(joined, on, scope)
    filters: list[list[Expr]] = [[], []]
    keys = []
    for expr in on:
        sides = _sides(expr)
        if sides is not None:
            keys.append(sides)
        elif streams_of(expr) <= {1}:
            filters[1].append(expr)
        elif streams_of(expr) == {0} and not joined.outer:
            filters[0].append(expr)
        else:
            message = (
                f"ON of {joined.join} takes equalities of both streams, and conditions on {streams[1].alias} alone"
            )
            raise refused(joined.on or joined, f"{message}; write others in WHERE, where they are asked of rows")
    where = [] if select.where is None else conjuncts_of([Scalars(scope, "WHERE").condition(select.where)])
    filters[0] += [expr for expr in where if streams_of(expr) == {0}]
    kept = tuple(expr for expr in where if streams_of(expr) != {0})
    both = tuple(replace(one, filters=tuple(own)) for one, own in zip(streams, filters, strict=True))
    outputs = bind_outputs(select.items, replace(scope, streams=both))
    return AsOfQuery(both, tuple(keys), outputs, quality, options, strict, joined.within, joined.outer, kept)


def _by_time(joined: Stream, on: list[Expr], scope: Scope) -> tuple[bool, list[Expr]]:
    """Whether a version must be older, and what else ON says."""
    streams = scope.streams
    first, second = (f"{stream.alias}.{stream.schema.time}" for stream in streams)
    if joined.as_of is not None:
        if Scalars(scope, "FOR SYSTEM_TIME AS OF").bind(joined.as_of) != _time_of(streams, 0):
            message = f"a version is that of the event time of the other stream; write FOR SYSTEM_TIME AS OF {first}"
            raise refused(joined.as_of, message)
        return False, on
    if joined.match_condition is None:
        times = [one for one in on if _strict(one, streams) is not None]
        on = [one for one in on if one not in times]
    else:
        times = [Scalars(scope, "MATCH_CONDITION").condition(joined.match_condition)]
    strict = _strict(times[0], streams) if len(times) == 1 else None
    if strict is None:
        message = (
            f"{joined.join} goes by one comparison of the event times: MATCH_CONDITION ({first} >= {second}), or >"
        )
        raise refused(joined.match_condition or joined, message)
    return strict, on


def _time_of(streams: tuple[StreamRef, ...], stream: int) -> Column:
    return Column(stream, streams[stream].schema.time, Kind.TIME)


def _strict(expr: Expr, streams: tuple[StreamRef, ...]) -> bool | None:
    """Whether a comparison of the event times says older, and not only not newer; None if it is no such comparison."""
    if not isinstance(expr, Call) or expr.op not in (*_STRICT, *_TURNED):
        return None
    sides = expr.args if expr.op in _STRICT else expr.args[::-1]
    times = [one.stream for one in sides if isinstance(one, Column) and one == _time_of(streams, one.stream)]
    return _STRICT[_TURNED.get(expr.op, expr.op)] if times == [0, 1] else None


def _sides(expr: Expr) -> tuple[Expr, Expr] | None:
    """What an equality says of the first stream, and of the second."""
    if not isinstance(expr, Call) or expr.op != "=":
        return None
    reads = [streams_of(side) for side in expr.args]
    if reads == [{0}, {1}]:
        return expr.args[0], expr.args[1]
    return (expr.args[1], expr.args[0]) if reads == [{1}, {0}] else None
