"""What is known of the streams before a plan is made: rates, selectivities, distinct values.

A condition or key is known by what it reads of the streams, not by where it stands in the tree: in its *meaning* a
column is one of a stream, by the number of the stream in the query. So what is known of it still holds when the plan is
changed.

Invariant: a value object; what is not known has a default. A sample is only read.

References: 004 §6.3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.schema import Kind
from slackwater.expressions.compile import compile_filter
from slackwater.expressions.functions import has_text_call
from slackwater.expressions.tree import Call, Column, Expr, Literal, columns_of, streams_of, walk

SECOND = 1_000_000
RATE = 1000.0
"""Tuples a second of a stream of which nothing is known."""
DISTINCT = 100.0
"""Distinct values of a column of which nothing is known."""
EQUAL, RANGE, OTHER = 0.1, 1 / 3, 1 / 3
"""Selectivities of conditions of which nothing is known; those of System R."""


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


def sampled(
    tables: Mapping[int, pa.Table], time: str, slide: int, keys: Iterable[Expr] = (), conditions: Iterable[Expr] = ()
) -> Statistics:
    """Statistics by a sample of each stream: some rows one after the other. `time` is the column of event times;
    `keys` and `conditions` are those of the query, in their meaning. What a sample cannot tell is left to defaults."""
    rates, distinct, selectivities = {}, {}, {}
    for stream, table in tables.items():
        at = table[time].cast(pa.int64()).to_numpy() if len(table) else np.empty(0, np.int64)
        if len(at) > 1 and at.max() > at.min():
            rates[stream] = (len(at) - 1) * SECOND / float(at.max() - at.min())
    for key in keys:
        for stream, name in columns_of(key):
            if stream in tables and name in tables[stream].column_names:
                distinct[stream, name] = float(pc.count_distinct(tables[stream][name]).as_py())
    for condition in conditions:
        share = _share(condition, tables)
        if share is not None:
            selectivities[condition] = share
    return Statistics(slide, rates, distinct, selectivities)


def _share(condition: Expr, tables: Mapping[int, pa.Table]) -> float | None:
    """The share of a stream's sample for which a condition on numbers of that stream alone is true."""
    read = sorted(name for _, name in columns_of(condition))
    columns = [one for one in walk(condition) if isinstance(one, Column)]
    if len(streams_of(condition)) != 1 or has_text_call(condition):
        return None
    (stream,) = streams_of(condition)
    table = tables.get(stream)
    if table is None or not len(table) or not set(read) <= set(table.column_names):
        return None
    if any(one.kind not in (Kind.INT, Kind.FLOAT) for one in columns) or any(table[name].null_count for name in read):
        return None
    floats = {one.name for one in columns if one.kind is Kind.FLOAT}
    rows = [
        table[name].cast(pa.float64()).to_numpy().view(np.int64) if name in floats
        else table[name].cast(pa.int64()).to_numpy()
        for name in read
    ]  # fmt: skip
    words = np.array(rows, np.int64)
    keep = compile_filter([condition], lambda _, name: read.index(name), lambda text: 0)
    return float(keep(words, words.view(np.float64), len(table)).mean())
