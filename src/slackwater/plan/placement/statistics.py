"""What is known of the streams before a plan is made: rates, selectivities, distinct values.

A condition or key is known by what it reads of the streams, not by where it stands in the tree: in its *meaning* a
column is one of a stream, by the number of the stream in the query. So what is known of it still holds when the plan is
changed.

Invariant: a value object; what is not known has a default.

References: 004 §6.3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call, Column, Expr, Literal, columns_of

SECOND = 1_000_000
RATE = 1000.0
"""Tuples a second of a stream of which nothing is known."""
DISTINCT = 100.0
"""Distinct values of a column of which nothing is known."""
EQUAL, RANGE, OTHER = 0.1, 1 / 3, 1 / 3
"""Selectivities of conditions of which nothing is known; those of System R."""
ASSUMED, STATED, RECORDED, LEARNED = "assumed", "stated", "measured on the recording", "learned while running"


@dataclass(frozen=True)
class Statistics:
    """Statistics of the streams of one query."""

    slide: int
    """Microseconds between two instants."""
    rates: Mapping[int, float] = field(default_factory=dict)
    """Tuples a second that enter the window, by stream: those that pass its filter."""
    distinct: Mapping[tuple[int, str], float] = field(default_factory=dict)
    """How many values a column of a stream has within a window."""
    selectivities: Mapping[Expr, float] = field(default_factory=dict)
    """The share of rows for which a condition is true, by its meaning; of a join, the share of pairs."""
    groups: Mapping[frozenset[Expr], float] = field(default_factory=dict)
    """How many combinations of values several expressions have within a window; what is not known is taken to be
    independent."""
    source: str = ASSUMED
    """Where rates come from; for EXPLAIN."""

    @property
    def slides(self) -> float:
        """Instants a second: n_slide of Eq. 6.3."""
        return SECOND / self.slide

    def rate(self, stream: int) -> float:
        return self.rates.get(stream, RATE)

    def faster(self, factor: float, streams: Iterable[int]) -> Statistics:
        """The same streams at other rates."""
        return replace(self, rates={stream: self.rate(stream) * factor for stream in streams})

    def selectivity(self, meaning: Expr) -> float:
        """The share of rows, or pairs, for which a condition is true.

        >>> x = Column(0, "x", Kind.INT)
        >>> is_one = Call("=", (x, Literal(1, Kind.INT)), Kind.BOOL)
        >>> Statistics(SECOND, distinct={(0, "x"): 20}).selectivity(is_one)
        0.05
        >>> Statistics(SECOND, selectivities={is_one: 0.5}).selectivity(Call("not", (is_one,), Kind.BOOL))
        0.5
        """
        if meaning in self.selectivities:
            return self.selectivities[meaning]
        if isinstance(meaning, Literal):
            return 1.0 if meaning.value else 0.0
        if not isinstance(meaning, Call):
            return 0.5
        below = meaning.args
        if meaning.op == "and":
            return float(np.prod([self.selectivity(one) for one in below]))
        if meaning.op == "or":
            return 1 - float(np.prod([1 - self.selectivity(one) for one in below]))
        if meaning.op == "not":
            return 1 - self.selectivity(below[0])
        if meaning.op == "=":
            if any(isinstance(one, Literal) and not self._is_known(other) for one, other in (below, below[::-1])):
                return EQUAL
            return 1 / max(1.0, *map(self.values, below))
        if meaning.op == "<>":
            return 1 - self.selectivity(Call("=", below, Kind.BOOL))
        if meaning.op == "in":
            return min(0.5, (len(below) - 1) * self.selectivity(Call("=", (below[0], below[0]), Kind.BOOL)))
        return RANGE if meaning.op in ("<", "<=", ">", ">=") else OTHER

    def _is_known(self, meaning: Expr) -> bool:
        return isinstance(meaning, Column) and (meaning.stream, meaning.name) in self.distinct

    def values(self, meaning: Expr) -> float:
        """How many distinct values an expression may have."""
        if isinstance(meaning, Literal):
            return 1.0
        if meaning.kind is Kind.BOOL:
            return 2.0
        if isinstance(meaning, Column):
            return self.distinct.get((meaning.stream, meaning.name), DISTINCT)
        read = columns_of(meaning)
        return float(np.prod([self.distinct.get(one, DISTINCT) for one in read])) if read else 1.0
