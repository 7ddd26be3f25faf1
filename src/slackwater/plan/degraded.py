"""A query without some of its streams: what can still be said while they are slow or gone.

Invariant: every whole result, cut down to the streams that are left, is a result of the reduced query. Conditions that
read a missing stream are dropped, unless an equality of the query says the same of a stream that is there: of
`a.k = b.k AND b.k = c.k` without b, `a.k = c.k` is left. Select items that cannot be had are left out; whoever gives
the rows out puts nulls in their place.

References: 001 §1 (a simulation goes on under reduced conditions until a stream picks back up).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import NoWait
from slackwater.core.results import AS_MADE
from slackwater.core.time import Bounds, WindowBound
from slackwater.core.window_graph import UNBOUNDED, WindowGraph, close
from slackwater.expressions.functions import mixes_streams
from slackwater.expressions.tree import Call, Column, Expr, streams_of
from slackwater.language.bound import (
    BoundQuery,
    JoinQuery,
    Output,
    RateWindow,
    RowWindow,
    StreamRef,
    follows_rates,
    streams_read,
)
from slackwater.language.derived import result_schema

SETTLING = 4
"""Windows that follow a rate are at their size after so many intervals."""


def can_reduce(query: BoundQuery) -> bool:
    """Whether streams can be taken out of a query: it is made of joins and selections, and results leave as made."""
    if not isinstance(query, JoinQuery) or query.out != AS_MADE or query.kind is not JoinKind.INNER:
        return False
    return all(stream.query is None or can_reduce(stream.query) for stream in query.streams)


def without(query: BoundQuery, gone: Collection[str]) -> JoinQuery | None:
    """The query without the sources `gone`, for tuples in order; None where nothing is left.

    >>> import pyarrow as pa
    >>> from slackwater.language.bind import bind
    >>> from slackwater.core.schema import Field, Kind, Schema
    >>> one = Schema((Field("ts", Kind.TIME, pa.timestamp("us")), Field("k", Kind.INT, pa.int64())), "ts")
    >>> text = "SELECT a.k, b.ts AS bt FROM a [5 s], b [5 s], c [5 s] WHERE a.k = b.k AND b.k = c.k"
    >>> left = without(bind(text, {"a": one, "b": one, "c": one}).query, {"b"})
    >>> [stream.alias for stream in left.streams], [item.name for item in left.outputs], len(left.conditions)
    (['a', 'c'], ['k'], 1)
    """
    assert can_reduce(query), "this query is not made of joins alone"
    assert isinstance(query, JoinQuery)
    left = _taken_out(query, gone)
    # Of the options, only how rates are sampled says what is answered, and not how; it needs rates to be sampled.
    rated = left is not None and any(isinstance(stream.window, RateWindow) for stream in left.streams)
    options = Options(sampling=query.options.sampling if rated else None)
    return None if left is None else replace(left, quality=NoWait(), options=options)


def reach(query: BoundQuery) -> int:
    """How much older than a result its oldest member can be, in microseconds; windows of rows are not counted."""
    assert isinstance(query, JoinQuery)
    if len(query.streams) == 1:
        windows: tuple[int, ...] = (0,)
    elif query.bounds:
        windows = WindowGraph(len(query.streams), query.bounds).windows
    else:
        windows = tuple(_window(stream) for stream in query.streams)
    inside = (0 if stream.query is None else reach(stream.query) for stream in query.streams)
    return max(window + below for window, below in zip(windows, inside, strict=True))


def remembers_rates(query: BoundQuery) -> bool:
    """Whether windows of the query follow rates, so that an answer hangs on how these were at first."""
    inside = (stream.query for stream in streams_read(query) if stream.query is not None)
    return (isinstance(query, JoinQuery) and follows_rates(query)) or any(map(remembers_rates, inside))


def rows_needed(query: BoundQuery) -> dict[str, int]:
    """Per source, how many tuples its largest window of rows holds."""
    assert isinstance(query, JoinQuery)
    needed: dict[str, int] = {}
    for stream in query.streams:
        inside = {} if stream.query is None else rows_needed(stream.query)
        if isinstance(stream.window, RowWindow) and len(query.streams) > 1:
            inside = {stream.source: stream.window.rows}
        for source, rows in inside.items():
            needed[source] = max(rows, needed.get(source, 0))
    return needed


def _window(stream: StreamRef) -> int:
    # A window that follows a rate is as long as its interval once it has settled.
    return SETTLING * stream.window.interval if isinstance(stream.window, RateWindow) else stream.range or 0


def _taken_out(query: JoinQuery, gone: Collection[str]) -> JoinQuery | None:
    entries = [_entry(stream, gone) for stream in query.streams]
    left = [at for at, stream in enumerate(entries) if stream is not None]
    if not left:
        return None
    rewriting = _Rewriting(query, entries, left)
    filters: list[list[Expr]] = [[] for _ in left]
    conditions: list[Expr] = []
    for at, stream in enumerate(query.streams):
        for expr in stream.filters:
            rewriting.place(expr, filters, conditions, left.index(at) if at in left else None)
    for expr in query.conditions:
        rewriting.place(expr, filters, conditions, None)
    streams = []
    for at, own in zip(left, filters, strict=True):
        entry = entries[at]
        assert entry is not None
        streams.append(replace(entry, filters=tuple(own)))
    outputs = ((item.name, rewriting.of(item.expr)) for item in query.outputs)
    degraded = replace(
        query,
        streams=tuple(streams),
        conditions=tuple(conditions),
        outputs=tuple(Output(name, expr) for name, expr in outputs if expr is not None),
        bounds=tuple(_among(left, len(entries), bounds) for bounds in query.bounds),
    )
    return degraded if len(streams) > 1 else _selection(degraded)


def _entry(stream: StreamRef, gone: Collection[str]) -> StreamRef | None:
    """An entry of FROM as it is without the sources; None where it is gone itself."""
    if stream.query is None:
        return None if stream.source in gone else stream
    assert isinstance(stream.query, JoinQuery)
    inner = _taken_out(stream.query, gone)
    return None if inner is None else replace(stream, query=inner, schema=result_schema(inner))


def _selection(query: JoinQuery) -> JoinQuery:
    """One stream is left, so nothing is joined and there are no windows."""
    alone = replace(query.streams[0], range=None, slide=None, window=None)
    return replace(query, streams=(alone,), bounds=(), match=None)


def _among(left: list[int], streams: int, bounds: Bounds) -> Bounds:
    """What follows from bounds for the streams that are left."""
    closed = close(streams, bounds)
    return tuple(
        WindowBound(i, j, closed[newer][older])
        for i, newer in enumerate(left)
        for j, older in enumerate(left)
        if i != j and closed[newer][older] < UNBOUNDED
    )


class _Rewriting:
    """Expressions of the whole query over the streams that are left."""

    def __init__(self, query: JoinQuery, entries: list[StreamRef | None], left: list[int]) -> None:
        self._entries, self._place = entries, {at: i for i, at in enumerate(left)}
        self._equals: dict[Column, set[Column]] = {}
        for condition in query.conditions:
            if isinstance(condition, Call) and condition.op == "=":
                a, b = condition.args
                if isinstance(a, Column) and isinstance(b, Column) and a.kind == b.kind:
                    together = self._equals.get(a, {a}) | self._equals.get(b, {b})
                    self._equals |= dict.fromkeys(together, together)

    def of(self, expr: Expr) -> Expr | None:
        """The expression over what is left; None where it cannot be had."""
        if isinstance(expr, Column):
            return self._column(expr)
        if isinstance(expr, Call):
            args = [self.of(arg) for arg in expr.args]
            known = tuple(arg for arg in args if arg is not None)
            return replace(expr, args=known) if len(known) == len(args) else None
        return expr

    def _column(self, column: Column) -> Column | None:
        equal = sorted(self._equals.get(column, ()), key=lambda one: (one.stream, one.name))
        for one in (column, *equal):
            stream = self._entries[one.stream]
            if stream is not None and one.name in stream.schema:
                return replace(one, stream=self._place[one.stream])
        return None

    def place(self, expr: Expr, filters: list[list[Expr]], conditions: list[Expr], own: int | None) -> None:
        """Put a condition where it belongs now: with one stream, between several, or nowhere."""
        rewritten = self.of(expr)
        if rewritten is None or _is_trivial(rewritten) or mixes_streams(rewritten):
            return
        read = streams_of(rewritten)
        if len(read) == 1:
            own = next(iter(read))
        if len(read) > 1:
            home = conditions
        elif own is not None:
            home = filters[own]
        else:
            return
        if rewritten not in home:
            home.append(rewritten)


def _is_trivial(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.op == "=" and expr.args[0] == expr.args[1]
