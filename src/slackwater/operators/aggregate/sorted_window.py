"""One argument of a holistic aggregate: the multiset of its values inside the window, per group.

Invariant: `base + came - went` holds exactly the values of the panes inside the window; each of the three is sorted by
group and value, NaN last. What enters or leaves is merged into the two short runs, and these into the base once they
have grown to the root of its length. So a slide costs by what it moves, not by how many panes the window has.
"""

from __future__ import annotations

from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.jit import compiled, inner
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.operators.aggregate.algebra import AggregateSpec, float_words
from slackwater.operators.aggregate.state import FROM_GROUP

Values = npt.NDArray[Any]


class Sorted(NamedTuple):
    """Values by group and value."""

    group: Words
    value: Values


class SortedWindow:
    """The multiset of one argument's values inside the window."""

    def __init__(self, argument: int, kind: Kind) -> None:
        self._argument, self._kind = argument, kind
        self._nothing = Sorted(np.zeros(0, np.int64), np.zeros(0, np.float64 if kind is Kind.FLOAT else np.int64))
        self._base = self._came = self._went = self._nothing
        self._distinct_upto: Words | None = None

    def slide(self, came: Words, went: Words) -> None:
        """Take over what entered and what left since the last slide."""
        if len(came):
            self._came = Sorted(*merged(*self._came, *self._sorted(came), *self._nothing))
        if len(went):
            self._went = Sorted(*merged(*self._went, *self._sorted(went), *self._nothing))
        if len(self._came.group) + len(self._went.group) > isqrt(len(self._base.group)):
            self._base = Sorted(*merged(*self._base, *self._came, *self._went))
            self._came = self._went = self._nothing
            self._distinct_upto = None

    def _sorted(self, lines: Words) -> Sorted:
        group, word = lines[:, FROM_GROUP], lines[:, 1 + self._argument]
        is_float = self._kind is Kind.FLOAT
        present = word != (NULL_FLOAT if is_float else NULL_WORD)
        value: Values = np.ascontiguousarray(word[present])
        if is_float:
            value = value.view(np.float64) + 0.0
        group = group[present]
        order = np.lexsort((value, group))
        return Sorted(group[order], value[order])

    def lower(self, aggregate: AggregateSpec, groups: Words) -> Words:
        """The aggregate of each group, as words."""
        if aggregate.function == "COUNT_DISTINCT":
            if self._distinct_upto is None:
                self._distinct_upto = distinct_upto(*self._base)
            return distinct(*self._base, *self._came, *self._went, self._distinct_upto, groups)
        p = 0.5 if aggregate.parameter is None else aggregate.parameter
        values, count = quantiles(*self._base, *self._came, *self._went, groups, p)
        return float_words(values, count == 0)


@inner
def before(ga: int, va: float, gb: int, vb: float) -> bool:
    """Whether one value stands before another, NaN last in its group."""
    if ga != gb:
        return ga < gb
    return va < vb or (vb != vb and va == va)


@inner
def same(va: float, vb: float) -> bool:
    """Whether two values are one to a multiset."""
    return va == vb or (va != va and vb != vb)


@compiled
def merged(
    group: Words, value: Values, in_group: Words, in_value: Values, out_group: Words, out_value: Values
) -> tuple[Words, Values]:
    """(old + came) - went."""
    total = len(group) + len(in_group) - len(out_group)
    new_group, new_value = np.empty(total, np.int64), np.empty(total, value.dtype)
    a, b, gone, n = 0, 0, 0, 0
    while a < len(group) or b < len(in_group):
        old = b >= len(in_group) or (a < len(group) and not before(in_group[b], in_value[b], group[a], value[a]))
        g, v = (group[a], value[a]) if old else (in_group[b], in_value[b])
        a, b = (a + 1, b) if old else (a, b + 1)
        if gone < len(out_group) and out_group[gone] == g and same(out_value[gone], v):
            gone += 1
            continue
        new_group[n], new_value[n] = g, v
        n += 1
    return new_group, new_value


@inner
def first_of(group: Words, g: int) -> int:
    """Where a group begins, or would."""
    return first_where(in_or_behind, group, g, 0, 0, len(group))


@inner
def in_or_behind(group: Words, at: int, g: int, unused: int) -> bool:
    """Whether a value is of a group, or of one behind it."""
    return group[at] >= g


@inner
def upto(group: Words, value: Values, g: int, v: float) -> int:
    """How many values stand at or before one of a group."""
    return first_where(is_behind, group, value, (g, v), 0, len(group))


@inner
def is_behind(group: Words, at: int, value: Values, of: tuple[int, float]) -> bool:
    """Whether the value at a place stands behind one of a group."""
    return before(of[0], of[1], group[at], value[at])


@compiled
def quantiles(
    base_group: Words, base: Values, in_group: Words, came: Values, out_group: Words, went: Values,
    groups: Words, p: float,
) -> tuple[Floats, Words]:  # fmt: skip
    """The interpolated quantile of each group, and of how many values it is."""
    quantile, count = np.zeros(len(groups)), np.zeros(len(groups), np.int64)
    for n in range(len(groups)):
        g = groups[n]
        begin = first_of(base_group, g) + first_of(in_group, g) - first_of(out_group, g)
        end = first_of(base_group, g + 1) + first_of(in_group, g + 1) - first_of(out_group, g + 1)
        count[n] = end - begin
        if count[n] == 0:
            continue
        rank = p * (count[n] - 1)
        below = int(np.floor(rank))
        share = rank - below
        low = float(at_rank(base_group, base, in_group, came, out_group, went, g, begin + below))
        quantile[n] = low
        if share > 0.0:
            high = float(at_rank(base_group, base, in_group, came, out_group, went, g, begin + below + 1))
            quantile[n] = low + (high - low) * share
    return quantile, count


@inner
def at_rank(
    base_group: Words, base: Values, in_group: Words, came: Values, out_group: Words, went: Values, g: int, rank: int
) -> float:
    """The value of group g with so many before it in all: the first, of base and came, that more are up to."""
    i = first_beyond(base_group, base, base_group, base, in_group, came, out_group, went, g, rank)
    j = first_beyond(in_group, came, base_group, base, in_group, came, out_group, went, g, rank)
    if i == len(base_group) or base_group[i] != g:
        return came[j]
    if j == len(in_group) or in_group[j] != g or before(g, base[i], g, came[j]):
        return base[i]
    return came[j]


@inner
def first_beyond(
    of_group: Words, of: Values,
    base_group: Words, base: Values, in_group: Words, came: Values, out_group: Words, went: Values, g: int, rank: int,
) -> int:  # fmt: skip
    """The first place of a run in group g whose value has more than `rank` values of the window up to it."""
    low, high = first_of(of_group, g), first_of(of_group, g + 1)
    while low < high:
        middle = (low + high) >> 1
        v = of[middle]
        if upto(base_group, base, g, v) + upto(in_group, came, g, v) - upto(out_group, went, g, v) > rank:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def distinct_upto(group: Words, value: Values) -> Words:
    """How many distinct (group, value) there are before each place."""
    seen = np.zeros(len(group) + 1, np.int64)
    for i in range(len(group)):
        new = i == 0 or group[i] != group[i - 1] or not same(value[i], value[i - 1])
        seen[i + 1] = seen[i] + (1 if new else 0)
    return seen


@compiled
def distinct(
    base_group: Words, base: Values, in_group: Words, came: Values, out_group: Words, went: Values,
    in_base: Words, groups: Words,
) -> Words:  # fmt: skip
    """How many distinct values each group has: those of the base, less those used up, and those only in `came`."""
    count = np.zeros(len(groups), np.int64)
    for n in range(len(groups)):
        g = groups[n]
        count[n] = in_base[first_of(base_group, g + 1)] - in_base[first_of(base_group, g)]
        i, last_in = first_of(in_group, g), first_of(in_group, g + 1)
        j, last_out = first_of(out_group, g), first_of(out_group, g + 1)
        while i < last_in or j < last_out:
            v = came[i] if j == last_out or (i < last_in and not before(g, went[j], g, came[i])) else went[j]
            was = times(base_group, base, g, v)
            now = was
            while i < last_in and same(came[i], v):
                i, now = i + 1, now + 1
            while j < last_out and same(went[j], v):
                j, now = j + 1, now - 1
            count[n] += (1 if now > 0 else 0) - (1 if was > 0 else 0)
    return count


@inner
def times(group: Words, value: Values, g: int, v: float) -> int:
    """How often a value stands in a group."""
    return upto(group, value, g, v) - first_where(not_before, group, value, (g, v), 0, len(group))


@inner
def not_before(group: Words, at: int, value: Values, of: tuple[int, float]) -> bool:
    """Whether the value at a place does not stand before one of a group."""
    return not before(group[at], value[at], of[0], of[1])
