"""Trees of relation-to-relation operators as SQL, for all instants of a segment of time at once.

Every relation gets one more column, the instant T; what belongs to different instants never meets.

Invariant: as in `sql.py`. The window of a stream has at T the tuples with T - range <= ts < T, where T is a multiple of
the slide; of those that a run had at T, a late one met a watermark before T.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.core.errors import UsageError
from slackwater.expressions.relational import (
    Aggregate,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    nodes,
)
from slackwater.expressions.tree import Expr
from slackwater.language.bound import Aggregate as BoundAggregate
from slackwater.verify.aggregate_truth import value_of
from slackwater.verify.sql import Renderer


@dataclass(frozen=True)
class InstantRange:
    """The instants from `first` on and before `end`."""

    first: int
    end: int
    slide: int


class _Inputs(Renderer):
    """Renders expressions over the inputs of an operator: column k of an input is `c<k>`."""

    def __init__(self, *inputs: tuple[str, Relation]) -> None:
        super().__init__([])
        self._columns = [
            {column.name: f"{table}.c{k}" for k, column in enumerate(relation.columns)} for table, relation in inputs
        ]

    def column(self, stream: int, name: str) -> str:
        """The SQL name of a column of an input."""
        return self._columns[stream][name]


def tree_expressions(relation: Relation) -> Iterator[Expr]:
    """Every expression of a tree."""
    for node in nodes(relation):
        match node:
            case Select():
                yield node.condition
            case Project():
                yield from node.expressions
            case Join():
                yield from (side for pair in node.keys for side in pair)
                yield from () if node.condition is None else (node.condition,)
            case Aggregate():
                yield from node.keys
                yield from (call.argument for call in node.calls if call.argument is not None)


class TreeRenderer:
    """Renders the tree of one query; `streams` renders the columns of the tables s0, s1, ... that its windows read."""

    def __init__(self, streams: Renderer, segment: InstantRange, with_late: bool) -> None:
        self._streams, self._segment, self._with_late = streams, segment, with_late

    def select(self, relation: Relation) -> str:
        """A SELECT of T and `c<k>` for the k-th column."""
        match relation:
            case Scan():
                return self._scan(relation)
            case Select():
                render = _Inputs(("i", relation.input))
                return f"SELECT * FROM ({self.select(relation.input)}) i WHERE {render(relation.condition)}"
            case Project():
                render = _Inputs(("i", relation.input))
                listed = _listed([render.value(expr) for expr in relation.expressions])
                return f"SELECT i.T{listed} FROM ({self.select(relation.input)}) i"
            case Join():
                return self._join(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Distinct():
                return f"SELECT DISTINCT * FROM ({self.select(relation.input)})"
        raise UsageError("verify judges whole queries, not fragments of a plan")

    def _scan(self, scan: Scan) -> str:
        at, slide = scan.stream, self._segment.slide
        since = f"greatest(sw_floor(ts_{at}, {slide}) + {slide}, {self._segment.first})"
        until = f"least(sw_floor(ts_{at} + {scan.range}, {slide}) + 1, {self._segment.end})"
        listed = _listed([self._streams.column(at, column.name) for column in scan.columns])
        there = "true" if self._with_late else f"met_{at} < T"
        instants = f"SELECT *, unnest(range({since}, {until}, {slide})) AS T FROM s{at}"
        return f"SELECT T{listed} FROM ({instants}) WHERE {there}"

    def _join(self, relation: Join) -> str:
        left, right = _Inputs(("l", relation.left)), _Inputs(("r", relation.right))
        both = _Inputs(("l", relation.left), ("r", relation.right))
        on = ["l.T = r.T", *(f"{left(one)} = {right(other)}" for one, other in relation.keys)]
        on += [] if relation.condition is None else [both(relation.condition)]
        sides = self.select(relation.left), self.select(relation.right)
        if relation.kind != "inner":
            word = "EXISTS" if relation.kind == "semi" else "NOT EXISTS"
            return f"SELECT * FROM ({sides[0]}) l WHERE {word} (SELECT 1 FROM ({sides[1]}) r WHERE {' AND '.join(on)})"
        listed = [f"l.c{k}" for k in range(len(relation.left.columns))]
        listed += [f"r.c{k}" for k in range(len(relation.right.columns))]
        return f"SELECT l.T{_listed(listed)} FROM ({sides[0]}) l JOIN ({sides[1]}) r ON {' AND '.join(on)}"

    def _aggregate(self, relation: Aggregate) -> str:
        render = _Inputs(("i", relation.input))
        keys = [render.value(key) for key in relation.keys]
        read = ["1" if call.argument is None else render.value(call.argument) for call in relation.calls]
        named = "".join(f", {sql} AS k{n}" for n, sql in enumerate(keys))
        named += "".join(f", {sql} AS x{n}" for n, sql in enumerate(read))
        rows = f"SELECT i.T{named} FROM ({self.select(relation.input)}) i"
        values = [
            value_of(BoundAggregate("", call.function, call.argument, call.parameter, call.column.kind), f"x{n}", "")
            for n, call in enumerate(relation.calls)
        ]
        groups = ", ".join(["T", *(f"k{n}" for n in range(len(keys)))])
        return f"SELECT T{_listed([*(f'k{n}' for n in range(len(keys))), *values])} FROM ({rows}) GROUP BY {groups}"


def _listed(columns: list[str]) -> str:
    return "".join(f", {sql} AS c{k}" for k, sql in enumerate(columns))
