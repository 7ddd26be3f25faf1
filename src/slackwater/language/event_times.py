"""What conditions on event times say about windows: `c.ts BETWEEN i.ts AND i.ts + INTERVAL 30 SECONDS` is one.

Invariant: what is inferred follows from the condition for every pair of tuples, so it never takes a result away; a
condition is let go only where what was inferred says all of it. Event times are whole microseconds and never null, so
`<` is `<=` of one less. A bound is never negative (`core.time`): of one that would be, the condition stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slackwater.core.join_kinds import JoinKind
from slackwater.core.schema import Kind
from slackwater.core.time import DAY, HOUR, LONGEST, MILLISECOND, MINUTE, SECOND, Bounds, WindowBound
from slackwater.core.window_graph import WindowGraph
from slackwater.expressions.text_rules import bucket_of
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.language.bound import (
    RESULT_TIME,
    WINDOW_COLUMNS,
    AggregateQuery,
    Closing,
    JoinQuery,
    Output,
    StreamRef,
    UnionQuery,
)
from slackwater.language.distinct import DistinctQuery

_LONGEST_UNIT = {
    "year": 366 * DAY,
    "quarter": 92 * DAY,
    "month": 31 * DAY,
    "week": 7 * DAY,
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": MILLISECOND,
    "microsecond": 1,
}
"""What `date_trunc` cuts off is less than this."""
_Known = Sequence[dict[str, tuple[int, int]]]
"""By the position of a stream, `event_times` of it."""
_SHORTEST_MONTH, _LONGEST_MONTH = 28 * DAY, 31 * DAY
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class _Moment:
    """The event time of a stream, moved by no less than `low` and no more than `high` microseconds."""

    stream: int
    low: int = 0
    high: int = 0

    def moved(self, low: int, high: int) -> _Moment:
        return _Moment(self.stream, self.low + low, self.high + high)


@dataclass(frozen=True)
class _Apart:
    """How much later one moment is than another; `either`, how far apart they are."""

    later: _Moment
    earlier: _Moment
    either: bool = False


def inferred(conjuncts: Iterable[Expr], streams: Sequence[StreamRef]) -> tuple[Bounds, tuple[Expr, ...]]:
    """The bounds between streams that conditions say, and the conditions that say more than these.

    >>> from slackwater.core.schema import UTC, Field, Schema
    >>> schema = Schema((Field("ts", Kind.TIME, UTC),), "ts")
    >>> a, b = Column(0, "ts", Kind.TIME), Column(1, "ts", Kind.TIME)
    >>> streams = [StreamRef(alias, alias, schema, None) for alias in "ab"]
    >>> inferred([Call("<", (a, b), Kind.BOOL)], streams)[0]
    (WindowBound(newer=0, older=1, most=0),)
    """
    known = [event_times(stream) for stream in streams]
    bounds: list[WindowBound] = []
    kept: list[Expr] = []
    for conjunct in conjuncts:
        found, whole = _said(conjunct, known)
        bounds += found
        if not whole:
            kept.append(conjunct)
    return tuple(dict.fromkeys(bounds)), tuple(kept)


def event_times(stream: StreamRef) -> dict[str, tuple[int, int]]:
    """The columns that are the event time of a stream, or keep to it: how much later each is, at least and at most.

    A row of an aggregate stands at the last instant of its window, a selected row where the row below it does, and a
    row of a join behind its members, by their windows at most.
    """
    found = {stream.schema.time: (0, 0)}
    below = stream.query
    if isinstance(below, JoinQuery) and not any(one.window for one in below.streams):
        found |= _computed(below.outputs, [_of_member(below, at) for at in range(len(below.streams))])
    elif isinstance(below, DistinctQuery):
        found |= _computed(below.outputs, [event_times(below.streams[0])])
    elif isinstance(below, AggregateQuery) and below.stream.range is not None:
        start, end = WINDOW_COLUMNS
        found |= {start: (1 - below.stream.range,) * 2, end: (1, 1)}
        found |= _computed(below.computed, [found])
        # A key is of the time of each row of its group, and these stand in the window.
        keys = _computed(below.keys, [event_times(below.stream)])
        found |= {name: (low + 1 - below.stream.range, high) for name, (low, high) in keys.items()}
    elif isinstance(below, UnionQuery):
        found |= _of_all(below)
    return {
        name: moved for name, moved in found.items() if name == RESULT_TIME or stream.schema[name].kind is Kind.TIME
    }


def _of_all(union: UnionQuery) -> dict[str, tuple[int, int]]:
    """Those of a union that each of its queries has, at the same place."""
    found = {}
    for at, output in enumerate(union.outputs):
        named = [
            (stream, [name for name in stream.schema.names if name != RESULT_TIME][at]) for stream in union.streams
        ]
        moved = [known[name] for stream, name in named if name in (known := event_times(stream))]
        if len(moved) == len(named):
            found[output.name] = min(low for low, _ in moved), max(high for _, high in moved)
    return found


def _of_member(join: JoinQuery, at: int) -> dict[str, tuple[int, int]]:
    """Those of a member of a join, against the event time of a row."""
    known = event_times(join.streams[at])
    if len(join.streams) == 1:
        return known
    # A column that may be null says less than a bound does, so none may be taken for the other.
    later = max(_windows(join)[at], join.kind is not JoinKind.INNER)
    found = {name: (low - later, high) for name, (low, high) in known.items()}
    for one in join.closing if at == 0 else ():
        found[one.name] = max(found[one.name][0], min(known[one.name][0], -one.most)), found[one.name][1]
    return found


def closing_of(conditions: Iterable[Expr], streams: Sequence[StreamRef]) -> tuple[Closing, ...]:
    """What conditions say of how much newer a tuple of the second input may be than times that one of the first
    carries; one that is null says nothing, or that there is no partner."""
    first, second = map(event_times, streams)
    found = []
    for name in (name for name, (low, high) in first.items() if low < high):
        for condition in conditions:
            absent = Call("is_null", (Column(0, name, Kind.TIME),), Kind.BOOL)
            parts = condition.args if isinstance(condition, Call) and condition.op == "or" else (condition,)
            asked = [part for part in parts if part != absent]
            said = _said(asked[0], [{name: (0, 0)}, second])[0] if len(asked) == 1 else []
            found += [Closing(name, one.most, absent not in parts) for one in said if one.newer == 1]
    return tuple(found)


def _windows(join: JoinQuery) -> tuple[int, ...]:
    """How much newer than a tuple of each stream a row may be."""
    if join.bounds:
        return WindowGraph(len(join.streams), join.bounds).windows
    return tuple(stream.range or 0 for stream in join.streams)


def _computed(outputs: Iterable[Output], known: _Known) -> dict[str, tuple[int, int]]:
    """Those of computed columns that keep to the event time of a stream."""
    moments = {output.name: _moment(output.expr, known) for output in outputs}
    return {name: (moment.low, moment.high) for name, moment in moments.items() if moment is not None}


def _said(expr: Expr, known: _Known) -> tuple[list[WindowBound], bool]:
    """The bounds that follow from a condition, and whether they say all of it."""
    if isinstance(expr, Call) and expr.op == "not":
        (inner,) = expr.args
        expr = replace(inner, op=_OPPOSITE.get(inner.op, "")) if isinstance(inner, Call) else inner
    if not isinstance(expr, Call) or expr.op not in _TURNED:
        return [], False
    apart, op, most = _compared(expr, known)
    if apart is None or apart.later.stream == apart.earlier.stream:
        return [], False
    later, earlier = apart.later, apart.earlier
    # later.ts - earlier.ts lies in [apart - high, apart - low].
    low, high = later.low - earlier.high, later.high - earlier.low
    stated = []
    if op in ("<=", "<", "="):
        stated.append((later.stream, earlier.stream, most - (op == "<") - low))
    if op in (">=", ">", "=") and not apart.either:
        stated.append((earlier.stream, later.stream, high - most - (op == ">")))
    if apart.either and stated:
        stated.append((earlier.stream, later.stream, most - (op == "<") + high))
    bounds = [WindowBound(newer, older, max(0, most)) for newer, older, most in stated if most <= LONGEST]
    # An equality stays, since its sides are looked up by their hashes.
    whole = op != "=" and low == high and all(0 <= most <= LONGEST for *_, most in stated) and bool(stated)
    return bounds, whole


def _compared(expr: Call, known: _Known) -> tuple[_Apart | None, str, int]:
    """A comparison as the distance of two moments, a sign, and what it is compared with."""
    left, right = expr.args
    if left.kind is Kind.TIME and right.kind is Kind.TIME:
        return _difference(left, right, known), expr.op, 0
    op = expr.op
    if isinstance(left, Literal):
        left, right, op = right, left, _TURNED[op]
    if not isinstance(right, Literal) or right.kind is not Kind.INT or right.value is None:
        return None, op, 0
    return _apart(left, known), op, int(right.value)


def _apart(expr: Expr, known: _Known) -> _Apart | None:
    if not isinstance(expr, Call):
        return None
    if expr.op == "abs":
        inner = _apart(expr.args[0], known)
        return None if inner is None else _Apart(inner.later, inner.earlier, True)
    if expr.op == "neg":
        inner = _apart(expr.args[0], known)
        return None if inner is None or inner.either else _Apart(inner.earlier, inner.later)
    if expr.op != "-" or expr.args[0].kind is not Kind.TIME:
        return None
    later, earlier = expr.args
    return _difference(later, earlier, known)


def _difference(left: Expr, right: Expr, known: _Known) -> _Apart | None:
    later, earlier = _moment(left, known), _moment(right, known)
    return None if later is None or earlier is None else _Apart(later, earlier)


def _moment(expr: Expr, known: _Known) -> _Moment | None:
    """An expression that keeps to the event time of a stream."""
    if isinstance(expr, Column):
        moved = known[expr.stream].get(expr.name)
        return None if moved is None else _Moment(expr.stream, *moved)
    if not isinstance(expr, Call):
        return None
    bucket = bucket_of(expr)
    if bucket is not None:
        inner = _moment(bucket[1], known)
        return None if inner is None else inner.moved(1 - bucket[0], 0)
    if expr.op == "date_trunc":
        inner = _moment(expr.args[1], known)
        return None if inner is None else inner.moved(1 - _LONGEST_UNIT[_literal(expr.args[0])], 0)
    if expr.op not in ("shift", "shift_months"):
        return None
    inner, by = _moment(expr.args[0], known), expr.args[1]
    if inner is None or not isinstance(by, Literal) or not isinstance(by.value, int):
        return None
    if expr.op == "shift":
        return inner.moved(by.value, by.value)
    ends = by.value * _SHORTEST_MONTH, by.value * _LONGEST_MONTH
    return inner.moved(min(ends), max(ends))


def _literal(expr: Expr) -> str:
    assert isinstance(expr, Literal), "a unit is written out"
    return str(expr.value)
