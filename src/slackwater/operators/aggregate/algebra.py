"""Aggregates as lift / combine / lower, with their algebra as types that decide how a window slides.

A `Commutative` aggregate keeps a few components of constant size; a pane's partial result is made once, and windows are
combined from panes by two stacks, which never take anything back (see `sliding`). An `Invertible` one can also take
back what it combined: quantiles and distinct counts keep all values, count one in when its pane enters the window, and
out when it leaves (see `holistic_values`). Counts and integer sums could be taken back as well, but float sums could
not without losing digits, and two stacks cost the same; so they stay with the others.

FIRST and MIN_BY choose the value whose row has the least of something, LAST and MAX_BY the greatest: its event time, or
what the query names. Among equals the least is the first and the greatest the last, so that nothing depends on the
order of arrival, nor on shards.

Invariant: `combine` is commutative and associative up to float rounding; sums are compensated, integer sums are 128
bits, and moments are as in `spread`.

References: Gray et al., Data Cube, 1997 (distributive, holistic); Chan, Golub, LeVeque 1983 (moments); Neumaier 1974
(sums).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.errors import DataError
from slackwater.core.schema import AVERAGE_DIGITS, NULL_FLOAT, NULL_WORD, Kind
from slackwater.expressions.aggregates import FUNCTIONS, Gives
from slackwater.operators.aggregate import registers, spread


class Op(IntEnum):
    """What a component does with a value; `WIDTH` words of state each."""

    COUNT = 0
    SUM_INT = 1
    SUM_FLOAT = 2
    MIN_INT = 3
    MAX_INT = 4
    MIN_FLOAT = 5
    MAX_FLOAT = 6
    MOMENTS = 7
    MIN_TEXT = 8
    MAX_TEXT = 9
    MOMENTS_INT = 10
    FIRST = 11
    LAST = 12
    REGISTERS = 13


class Commutative:
    """`combine` takes partials in any order, so panes may fill out of order and a late value joins where it belongs."""

    slides_by = "partial results per pane, two stacks per window"


class Invertible(Commutative):
    """What was combined can be taken back, so a window is kept as one value that panes enter and leave."""

    slides_by = "values kept per pane, counted in and out of the window"


_MIN = {Kind.FLOAT: Op.MIN_FLOAT, Kind.TEXT: Op.MIN_TEXT}
_MAX = {Kind.FLOAT: Op.MAX_FLOAT, Kind.TEXT: Op.MAX_TEXT}
_TEXT = (Op.MIN_TEXT, Op.MAX_TEXT)
WIDTH = dict.fromkeys((Op.SUM_INT, Op.SUM_FLOAT, Op.FIRST, Op.LAST), 2)
WIDTH |= {Op.MOMENTS: spread.FLOAT_WORDS, Op.MOMENTS_INT: spread.INT_WORDS}


@dataclass(frozen=True)
class Component:
    """One accumulator over one argument; `row` is the word row of the argument, or -1 to count tuples."""

    op: Op
    row: int
    float_argument: bool
    by: int = TS
    """The row by which the first and the last value are chosen."""
    float_by: bool = False
    tie: Op | None = None
    """Which of several values that are equal in it is the first or the last: the least or the greatest."""
    bits: int = 0
    """Of a sketch, how many bits choose a register."""

    @property
    def width(self) -> int:
        return registers.words_of(self.bits) if self.op is Op.REGISTERS else WIDTH.get(self.op, 1)

    @property
    def compares_text(self) -> bool:
        """Whether it looks texts up in a table."""
        return self.op in _TEXT or self.tie in _TEXT


@dataclass(frozen=True)
class AggregateSpec:
    """One aggregate of a query: its function, the row and kind of its argument, the p of a quantile, the error of an
    estimate."""

    function: str
    row: int = -1
    kind: Kind = Kind.INT
    parameter: float | None = None
    by: int = TS
    """The row by which one of the values is chosen: that of the event time, or of a second argument."""
    float_by: bool = False

    @property
    def algebra(self) -> type[Commutative]:
        """What may be done with partial results of this aggregate.

        >>> AggregateSpec("MEDIAN").algebra is Invertible, AggregateSpec("MAX").algebra is Invertible
        (True, False)
        """
        return Invertible if FUNCTIONS[self.function].keeps_values else Commutative

    @property
    def holistic(self) -> bool:
        """Whether all values are kept, not a few components."""
        return issubclass(self.algebra, Invertible)

    @property
    def of_different(self) -> AggregateSpec | None:
        """What it is of the different values alone, if it is more than their number.

        >>> AggregateSpec("SUM_DISTINCT", 3).of_different
        AggregateSpec(function='SUM', row=3, kind=<Kind.INT: 'integer'>, parameter=None, by=0, float_by=False)
        """
        function = FUNCTIONS[self.function].of_different
        return None if function is None else replace(self, function=function)

    @property
    def words(self) -> int:
        """How many words a holistic answer has before it is lowered: a partial result of different values, or one."""
        return 1 if self.of_different is None else Layout.of([self.of_different]).width

    @property
    def combined_anywhere(self) -> bool:
        """Whether its partials are a few words that can be combined where no texts are known."""
        return not self.holistic and not any(one.compares_text for one in self.components)

    @property
    def components(self) -> tuple[Component, ...]:
        """The accumulators this aggregate is computed from (none for a holistic one)."""
        is_float = self.kind is Kind.FLOAT
        present = Component(Op.COUNT, self.row, is_float)
        least, greatest = _MIN.get(self.kind, Op.MIN_INT), _MAX.get(self.kind, Op.MAX_INT)
        total = Component(Op.SUM_FLOAT if is_float else Op.SUM_INT, self.row, is_float)
        match self.function:
            case "COUNT":
                return (present,)
            case "SUM" | "AVG":
                return (present, total)
            case "MIN":
                return (present, Component(least, self.row, is_float))
            case "MAX":
                return (present, Component(greatest, self.row, is_float))
            case "FIRST" | "MIN_BY":
                return (Component(Op.FIRST, self.row, is_float, self.by, self.float_by, least),)
            case "LAST" | "MAX_BY":
                return (Component(Op.LAST, self.row, is_float, self.by, self.float_by, greatest),)
            case "VAR" | "STDDEV":
                return (Component(Op.MOMENTS if is_float else Op.MOMENTS_INT, self.row, is_float),)
            case "APPROX_COUNT_DISTINCT":
                bits = registers.bits_for(self.parameter or registers.DEFAULT_ERROR)
                return (Component(Op.REGISTERS, self.row, is_float, bits=bits),)
            case _:
                return ()


@dataclass(frozen=True)
class Layout:
    """Where each component's state lies in a partial result."""

    components: tuple[Component, ...]

    @staticmethod
    def of(aggregates: Sequence[AggregateSpec]) -> Layout:
        """The components of all aggregates, each kept once."""
        return Layout(tuple(dict.fromkeys(c for a in aggregates for c in a.components)))

    def offset(self, component: Component) -> int:
        return sum(c.width for c in self.components[: self.components.index(component)])

    @property
    def width(self) -> int:
        return max(1, sum(c.width for c in self.components))


def lower(aggregate: AggregateSpec, layout: Layout, state: Words) -> Words:
    """The words of a distributive aggregate's results, from the states of the windows (shape (windows, width)).

    >>> count = AggregateSpec("COUNT")
    >>> lower(count, Layout.of([count]), np.array([[3], [1]])).tolist()
    [3, 1]
    """
    at = [layout.offset(c) for c in aggregate.components]
    floats = state.view(np.float64)
    if aggregate.function == "COUNT":
        # A view would keep its whole buffer alive for as long as the results are.
        return state[:, at[0]].copy()
    if aggregate.function == "APPROX_COUNT_DISTINCT":
        return registers.estimates(state[:, at[0] : at[0] + aggregate.components[0].width])
    if aggregate.function in ("VAR", "STDDEV"):
        if aggregate.kind is Kind.FLOAT:
            return _lower_moments(aggregate.function, floats[:, at[0]], floats[:, at[0] + 2])
        found = spread.variances(np.ascontiguousarray(state), at[0])
        return float_words(np.sqrt(found) if aggregate.function == "STDDEV" else found, state[:, at[0]] < 2)
    present = state[:, at[0]]
    if FUNCTIONS[aggregate.function].gives is Gives.ARGUMENT:
        null = NULL_FLOAT if aggregate.kind is Kind.FLOAT else NULL_WORD
        if FUNCTIONS[aggregate.function].chooses:
            # The value stands behind what it is chosen by.
            return np.where(present != NULL_WORD, state[:, at[0] + 1], null)
        return np.where(present > 0, state[:, at[1]], null)
    if aggregate.kind is Kind.FLOAT:
        total, correction = floats[:, at[1]], floats[:, at[1] + 1]
        with np.errstate(invalid="ignore"):
            corrected = total + correction
        total = np.where(np.isfinite(total), corrected, total)
    elif aggregate.function == "SUM":
        low, high = state[:, at[1]], state[:, at[1] + 1]
        if np.any(high != low >> 63) or np.any(low == NULL_WORD):
            raise DataError("integer overflow in SUM; sum a float instead, as in SUM(to_float(v))")
        return np.where(present > 0, low, NULL_WORD)
    elif aggregate.kind is Kind.DECIMAL:
        return _decimal_average(state[:, at[1]], state[:, at[1] + 1], present)
    else:
        low, high = state[:, at[1]], state[:, at[1] + 1]
        # Adding the halves of a small negative sum would round it away.
        total = np.where(high == low >> 63, low.astype(np.float64), high * 2.0**64 + low.astype(np.uint64))
    if aggregate.function == "AVG":
        total = total / np.maximum(present, 1)
    return float_words(total, present == 0)


def answered(aggregate: AggregateSpec, words: Words) -> Words:
    """The words of a holistic aggregate's results, from what compiled code wrote of each window."""
    different = aggregate.of_different
    return words[:, 0].copy() if different is None else lower(different, Layout.of([different]), words)


def _decimal_average(low: Words, high: Words, present: Words) -> Words:
    """Averages with four more digits behind the point, rounded half up as in Spark."""
    # Numbers of Python, one a window: a sum has up to 128 bits, and its digits are all needed.
    total = high.astype(object) * 2**64 + low.astype(np.uint64).astype(object)
    count = np.maximum(present, 1).astype(object)
    size = (2 * 10**AVERAGE_DIGITS * abs(total) + count) // (2 * count)
    if np.any(size >= 2**63):
        raise DataError("overflow in AVG of a decimal; average a float instead, as in AVG(to_float(v))")
    return np.where(present > 0, np.where(total < 0, -size, size), NULL_WORD).astype(np.int64)


def _lower_moments(function: str, n: Floats, squares: Floats) -> Words:
    """Of squares that are kept in steps the deviation may still be a float where the variance is not."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        step = np.where(squares < 0, 1 / spread.STEP, 1.0)
        variance = np.abs(squares) / (n - 1)
        values = np.sqrt(variance) * step if function == "STDDEV" else variance * step * step
    return float_words(values, n < 2)


def float_words(values: Floats, null: Flags) -> Words:
    """Floats as words: every NaN canonical, nulls marked."""
    clean = np.where(np.isnan(values), np.nan, values)
    return np.where(null, NULL_FLOAT, np.ascontiguousarray(clean).view(np.int64))
