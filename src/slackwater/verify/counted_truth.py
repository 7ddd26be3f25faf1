"""How many combinations join in each second, without making them.

Invariant: the result of a combination is counted at its trigger, the member with the greatest time (among equals, the
stream that comes first in FROM), so each combination is counted exactly once.

With the trigger's time T fixed, member j may be any tuple in [T - W_j, T] that satisfies the conditions. A stream
whose only conditions are equalities in one class of equal attributes (a leaf) contributes a factor: how many of its
tuples have that value and lie in that range, the difference of two running counts. Only the streams that tie classes
together, or that other conditions read, are enumerated. With one class over all streams nothing but the trigger is;
with a star, its centre. Where windows are stated between pairs of streams, all combinations are enumerated.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from slackwater.core.schema import Kind
from slackwater.core.time import SECOND
from slackwater.expressions.tree import Call, Expr, columns_of, streams_of
from slackwater.language.bound import JoinQuery
from slackwater.verify.join_truth import Enumeration
from slackwater.verify.recall import Int64s
from slackwater.verify.sql import Renderer

EqualClass = dict[int, list[Expr]]
"""Expressions that must all be equal, by the stream that each reads."""


@dataclass(frozen=True)
class Shape:
    """The conditions of a join, taken apart."""

    classes: tuple[EqualClass, ...]
    others: tuple[Expr, ...]
    """Conditions that are no equality of two streams."""

    def enumerated(self, trigger: int) -> list[int]:
        """The streams to enumerate when `trigger` is the last of a combination: with them every class has its value."""
        tied = {stream for condition in self.others for stream in streams_of(condition)}
        tied |= {stream for stream in self._touched() if len(self.classes_of(stream)) > 1}
        chosen = tied | {trigger}
        for equal in self.classes:
            if not chosen & equal.keys():
                chosen.add(min(equal))
        return sorted(chosen)

    def classes_of(self, stream: int) -> list[EqualClass]:
        return [equal for equal in self.classes if stream in equal]

    def conditions(self, streams: Sequence[int]) -> list[Expr]:
        """What must hold among some of the streams, implied equalities included."""
        found = [condition for condition in self.others if streams_of(condition) <= set(streams)]
        for equal in self.classes:
            terms = [term for stream in streams for term in equal.get(stream, [])]
            found += [Call("=", pair, Kind.BOOL) for pair in pairwise(terms)]
        return found

    def _touched(self) -> set[int]:
        return {stream for equal in self.classes for stream in equal}


def shape_of(conditions: Sequence[Expr]) -> Shape:
    """Gather the equalities of a join into classes."""
    classes: list[EqualClass] = []
    others: list[Expr] = []
    for condition in conditions:
        sides = condition.args if isinstance(condition, Call) and condition.op == "=" else ()
        if len(sides) != 2 or any(len(streams_of(side)) != 1 for side in sides):
            others.append(condition)
            continue
        terms = {(stream, side) for side in sides for stream in streams_of(side)}
        apart = []
        for equal in classes:
            known = {(stream, term) for stream, found in equal.items() for term in found}
            if known & terms:
                terms |= known
            else:
                apart.append(equal)
        merged: EqualClass = {}
        for stream, term in sorted(terms, key=lambda pair: (pair[0], repr(pair[1]))):
            merged.setdefault(stream, []).append(term)
        classes = [*apart, merged]
    return Shape(tuple(classes), tuple(others))


def count_by_second(
    connection: Any, query: JoinQuery, render: Renderer, tables: Sequence[str]
) -> tuple[Int64s, Int64s]:
    """The seconds (microseconds, rising) that have results, and how many each has."""
    shape, streams = shape_of(query.conditions), list(range(len(query.streams)))
    enumeration = Enumeration(connection, query, render, tables)
    # A factor asks for one window; windows between pairs tie streams to each other.
    tied = enumeration.windows.of_streams is None
    if tied or all(shape.enumerated(trigger) == streams for trigger in streams):
        rows = enumeration.combinations(streams, query.conditions, ())
        time = f"greatest({', '.join(f'ts_{i}' for i in streams)})"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE counted AS {_by_second(time, '1', f'({rows})')}")
    else:
        connection.execute("CREATE OR REPLACE TEMP TABLE counted (second BIGINT, n HUGEINT)")
        for stream in streams:
            _make_running_counts(connection, shape, stream, render, tables[stream])
        for trigger in streams:
            connection.execute(f"INSERT INTO counted {_triggered(enumeration, shape, trigger)}")
    found = connection.execute(
        "SELECT second, CAST(sum(n) AS BIGINT) AS n FROM counted GROUP BY second HAVING sum(n) > 0 ORDER BY second"
    ).fetchnumpy()
    return found["second"], found["n"]


def _triggered(enumeration: Enumeration, shape: Shape, trigger: int) -> str:
    """SELECT (second, n): the combinations whose last member is of stream `trigger`."""
    query, render = enumeration.query, enumeration.render
    members, windows = shape.enumerated(trigger), enumeration.windows.of_streams
    assert windows is not None, "counting by factors where streams are tied to each other"
    leaves = [i for i in range(len(query.streams)) if i not in members]
    keys = {leaf: _key_of_leaf(shape, leaf, members) for leaf in leaves}
    keep = {render.column(*pair) for key in keys.values() if key is not None for pair in columns_of(key)}
    rows = enumeration.combinations(members, shape.conditions(members), keep)
    last = [f"ts_{i} {_before(i, trigger)} ts_{trigger}" for i in members if i != trigger]
    values = "".join(f", {render(key) if key is not None else '0'} AS key_{leaf}" for leaf, key in keys.items())
    source = f"(SELECT ts_{trigger} AS time{values} FROM ({rows}) WHERE {' AND '.join(last) or 'true'}) e"
    factors = []
    for leaf in leaves:
        same = f"e.key_{leaf} = {{0}}.key"
        source += f" ASOF JOIN running_{leaf} u{leaf} ON {same.format(f'u{leaf}')}"
        source += f" AND e.time {'>' if leaf < trigger else '>='} u{leaf}.ts"
        source += f" ASOF LEFT JOIN running_{leaf} l{leaf} ON {same.format(f'l{leaf}')}"
        source += f" AND e.time - {windows[leaf]} > l{leaf}.ts"
        factors.append(f"(u{leaf}.upto - coalesce(l{leaf}.upto, 0))")
    return _by_second("time", " * ".join(factors) or "1", source)


def _before(stream: int, trigger: int) -> str:
    return "<" if stream < trigger else "<="


def _by_second(time: str, weight: str, source: str) -> str:
    return f"SELECT sw_floor({time}, {SECOND}) AS second, sum({weight}) AS n FROM {source} GROUP BY second"


def _key_of_leaf(shape: Shape, leaf: int, members: Sequence[int]) -> Expr | None:
    """The expression over the enumerated streams that a leaf's own must equal; None for a leaf that any tuple fits."""
    for equal in shape.classes_of(leaf):
        return next(equal[stream][0] for stream in members if stream in equal)
    return None


def _make_running_counts(connection: Any, shape: Shape, stream: int, render: Renderer, table: str) -> None:
    """Table `running_<stream>`: of the tuples with a key, how many there are up to each time."""
    classes = shape.classes_of(stream)
    if len(classes) > 1:
        return
    key = render(classes[0][stream][0]) if classes else "0"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE running_{stream} AS"
        f" SELECT key, ts, CAST(sum(n) OVER (PARTITION BY key ORDER BY ts) AS BIGINT) AS upto FROM"
        f" (SELECT {key} AS key, ts_{stream} AS ts, count(*) AS n FROM {table}"
        f" WHERE {render.all_of(shape.conditions([stream]))} GROUP BY ALL) WHERE key IS NOT NULL"
    )
