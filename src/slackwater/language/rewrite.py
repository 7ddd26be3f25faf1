"""Aggregates above a join in one SELECT, as an aggregate over a sub-query.

`SELECT COUNT(DISTINCT s.k) FROM s, t WHERE s.k = t.k WINDOW 10 MINUTES` means: the results of the join within 10
minutes, counted in windows of 10 minutes by the event time of each result. As everywhere, a window without SLIDE
tumbles.

Invariant: what comes out says the same as the sub-query written out would.

References: 000 §1.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.expressions.tree import Call, Column, Expr, walk
from slackwater.language.bound import AggregateQuery, JoinQuery, Output, StreamRef
from slackwater.language.derived import result_schema
from slackwater.language.nodes import Clause, Select, Window, WindowForAll, refused

_OWN = "give it one of its own, as in SELECT COUNT(*) FROM (SELECT ...) j [RANGE 1 MINUTE SLIDE 10 SECONDS]"


def window_above(select: Select) -> tuple[int, int | None]:
    """Range and slide of an aggregate above a join: the one window that all streams of the join have."""
    clauses = select.windows
    if len(clauses) == 1 and isinstance(clauses[0], WindowForAll) and not any(s.window for s in select.streams):
        clause: Clause = clauses[0]
        size, slide = clauses[0].size, clauses[0].slide
    else:
        sizes = {stream.window.range if isinstance(stream.window, Window) else None for stream in select.streams}
        if clauses or len(sizes) > 1:
            message = f"an aggregate above a join takes the window of its streams, and these have several; {_OWN}"
            raise refused(clauses[0] if clauses else select.streams[1], message)
        window = select.streams[0].window
        assert isinstance(window, Window), "windows are checked before"
        clause, size, slide = window, window.range, None
    if size <= 0:
        raise refused(clause, "the window of an aggregate must be longer than nothing")
    return size, slide


def lifted(query: AggregateQuery, join: JoinQuery, size: int, slide: int | None) -> AggregateQuery:
    """The aggregate of a query whose expressions read the streams of a join, over the results of that join."""
    exprs = [key.expr for key in query.keys]
    exprs += [call.argument for call in query.aggregates if call.argument is not None]
    names: dict[Column, str] = {}
    for node in (node for expr in exprs for node in walk(expr)):
        if isinstance(node, Column) and node not in names:
            name = f"{join.streams[node.stream].alias}.{node.name}"
            # A quoted name may have a dot in it.
            names[node] = f"{name}#{len(names)}" if name in names.values() else name
    inner = replace(join, outputs=tuple(Output(name, column) for column, name in names.items()))
    alias = " ⨝ ".join(stream.alias for stream in join.streams)
    return replace(
        query,
        stream=StreamRef(alias, "", result_schema(inner), size, slide, query=inner),
        keys=tuple(replace(key, expr=_renamed(key.expr, names)) for key in query.keys),
        aggregates=tuple(
            call if call.argument is None else replace(call, argument=_renamed(call.argument, names))
            for call in query.aggregates
        ),
    )


def _renamed(expr: Expr, names: dict[Column, str]) -> Expr:
    if isinstance(expr, Column):
        return replace(expr, stream=0, name=names[expr])
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_renamed(arg, names) for arg in expr.args))
    return expr
