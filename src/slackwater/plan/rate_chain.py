"""A join of several streams whose windows follow rates, as a chain of joins of two.

((a ⨝ b) ⨝ c): a combination is a tuple of the next join, as the results of a sub-query are. It stands at the event time
of its newest member, in a window of the longest interval of its members, and has the columns that are read above it.

Invariant: a condition is asked at the lowest join that has its streams. Where MATCH TIME states how near members must
be, any two members of a result are: one more condition on the times carried along, since a join by itself compares a
tuple with the newest member alone. So which combinations are true does not hang on the order.

References: 001 §4.3, Fig. 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slackwater.core.options import Options
from slackwater.core.quality import Complete
from slackwater.core.schema import Kind
from slackwater.expressions.tree import Column, Expr, streams_of, walk, with_columns
from slackwater.language.bound import JoinQuery, Output, RateWindow, StreamRef
from slackwater.language.derived import result_schema
from slackwater.operators.join.operator import at_most

Reading = Callable[[Column], Column]


def as_chain(query: JoinQuery, order: Sequence[int]) -> JoinQuery:
    """The same query as joins of two inputs, in this order of its streams."""
    streams = query.streams
    conditions = _conditions(query, order)
    left, read = streams[order[0]], _at(0)
    for number in range(1, len(order)):
        done, one = set(order[: number + 1]), order[number]
        reading = _either(read, one)
        own = replace(streams[one], filters=_moved(streams[one].filters, reading))
        if number == 1:
            left = replace(left, filters=_moved(left.filters, reading))
        here = [condition for condition in conditions if streams_of(condition) <= done]
        conditions = [condition for condition in conditions if condition not in here]
        asked = _moved(here, reading)
        if number + 1 == len(order):
            outputs = tuple(replace(output, expr=with_columns(output.expr, reading)) for output in query.outputs)
            return replace(query, streams=(left, own), conditions=asked, outputs=outputs)
        wanted = [*conditions, *(output.expr for output in query.outputs)]
        names = _names(wanted, done, streams)
        outputs = tuple(Output(name, reading(column)) for column, name in names.items())
        inner = JoinQuery((left, own), asked, outputs, Complete(), Options(), match=query.match)
        left, read = _combined(inner), _named(names)
    raise AssertionError("a chain of one stream")


def _conditions(query: JoinQuery, order: Sequence[int]) -> list[Expr]:
    """What is asked, and that a tuple comes not too long after any member of the combination it meets."""
    within = None if query.match is None else query.match.within
    asked = list(query.conditions)
    if within is not None:
        times = [Column(number, stream.schema.time, Kind.TIME) for number, stream in enumerate(query.streams)]
        # It is not too long before them either: the newest member is near enough, and no other one is newer.
        asked += [at_most(times[one], times[m], within) for at, one in enumerate(order) if at > 1 for m in order[:at]]
    return asked


def _combined(inner: JoinQuery) -> StreamRef:
    """The results of a join as an input of the next."""
    windows = [stream.window for stream in inner.streams if isinstance(stream.window, RateWindow)]
    assert len(windows) == len(inner.streams), "a join whose windows follow rates"
    longest = RateWindow(max(window.interval for window in windows), windows[0].by_arrival)
    left, right = (stream.alias for stream in inner.streams)
    shown = f"({left})" if inner.streams[0].query is not None and " ⨝ " in left else left
    return StreamRef(f"{shown} ⨝ {right}", "", result_schema(inner), None, query=inner, window=longest)


def _names(exprs: Iterable[Expr], done: set[int], streams: Sequence[StreamRef]) -> dict[Column, str]:
    """The columns of some streams that expressions read, and what they are called on the way."""
    names: dict[Column, str] = {}
    for node in (node for expr in exprs for node in walk(expr)):
        if isinstance(node, Column) and node.stream in done and node not in names:
            name = f"{streams[node.stream].alias}.{node.name}"
            # A quoted name may have a dot in it.
            names[node] = f"{name}#{len(names)}" if name in names.values() else name
    return names


def _at(position: int) -> Reading:
    return lambda column: replace(column, stream=position)


def _named(names: dict[Column, str]) -> Reading:
    return lambda column: Column(0, names[column], column.kind, column.scale)


def _either(left: Reading, stream: int) -> Reading:
    """A column of the stream that is joined now, or of what was joined before."""
    return lambda column: replace(column, stream=1) if column.stream == stream else left(column)


def _moved(exprs: Iterable[Expr], reading: Reading) -> tuple[Expr, ...]:
    return tuple(with_columns(expr, reading) for expr in exprs)
