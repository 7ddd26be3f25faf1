"""The values behind holistic aggregates: kept per partial while a pane lives, and as one sorted multiset per window.

Invariant: the sorted arrays of a `SortedWindow` hold exactly the values of the panes inside the window, ordered by
group and value. A pane's values are merged in when it enters and merged out when it leaves, so a slide costs one pass
over the window however many panes it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.compiled import compiled, inner
from slackwater.model.batch import Words
from slackwater.model.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.operators.algebra import AggregateSpec, float_words
from slackwater.operators.records import NONE
from slackwater.operators.sliding import CAME, FREE_VALUE, GROUP, VALUES, VALUES_KEPT, WENT

# A kept value: the next one of its partial (or the next free one), then one word per argument.
LINK, WORD = 0, 1
# A moved value: the group it entered or left with, then one word per argument. `moved` has two halves, came and went.
FROM_GROUP = 0


def value_tables(arguments: int, capacity: int) -> tuple[Words, Words]:
    """Room for this many kept values, and for as many to enter and to leave at once."""
    values = np.zeros((capacity, WORD + arguments), np.int64)
    values[:, LINK] = np.arange(1, capacity + 1)
    values[-1, LINK] = NONE
    return values, np.zeros((2 * capacity, 1 + arguments), np.int64)


@inner
def keep(values: Words, scalars: Words, partials: Words, e: int, words: Words, rows: Words, i: int) -> int:
    """Keep the values of tuple i with partial e; returns where."""
    v = scalars[FREE_VALUE]
    scalars[FREE_VALUE] = values[v, LINK]
    scalars[VALUES_KEPT] += 1
    for h in range(len(rows)):
        values[v, WORD + h] = words[rows[h], i]
    values[v, LINK] = partials[e, VALUES]
    partials[e, VALUES] = v
    return v


@inner
def note_one(values: Words, moved: Words, scalars: Words, g: int, v: int) -> None:
    """One value is inside the window from now on."""
    moved[scalars[CAME], FROM_GROUP] = g
    for h in range(1, moved.shape[1]):
        moved[scalars[CAME], h] = values[v, h]
    scalars[CAME] += 1


@inner
def note_entered(values: Words, moved: Words, scalars: Words, partials: Words, e: int) -> None:
    """All values of a partial are inside the window from now on."""
    v = partials[e, VALUES]
    while v != NONE:
        note_one(values, moved, scalars, partials[e, GROUP], v)
        v = values[v, LINK]


@inner
def note_left(values: Words, moved: Words, scalars: Words, partials: Words, e: int) -> None:
    """All values of a partial leave the window and are forgotten."""
    v = partials[e, VALUES]
    while v != NONE:
        at = len(moved) // 2 + scalars[WENT]
        moved[at, FROM_GROUP] = partials[e, GROUP]
        for h in range(1, moved.shape[1]):
            moved[at, h] = values[v, h]
        scalars[WENT] += 1
        v = values[v, LINK]
    discard(values, scalars, partials, e)


@inner
def discard(values: Words, scalars: Words, partials: Words, e: int) -> None:
    """Forget the values of a partial."""
    v = partials[e, VALUES]
    while v != NONE:
        following = values[v, LINK]
        values[v, LINK] = scalars[FREE_VALUE]
        scalars[FREE_VALUE] = v
        scalars[VALUES_KEPT] -= 1
        v = following
    partials[e, VALUES] = NONE


class SortedWindow:
    """The multiset of one argument's values inside the window, per group."""

    def __init__(self, argument: int, kind: Kind) -> None:
        self._argument, self._kind = argument, kind
        self._group = np.zeros(0, np.int64)
        self._value: npt.NDArray[Any] = np.zeros(0, np.float64 if kind is Kind.FLOAT else np.int64)

    def slide(self, came: Words, went: Words) -> None:
        """Take over what entered and what left since the last slide."""
        new, old = self._sorted(came), self._sorted(went)
        self._group, self._value = _merge(self._group, self._value, *new, *old)

    def _sorted(self, lines: Words) -> tuple[Words, npt.NDArray[Any]]:
        group, word = lines[:, FROM_GROUP], lines[:, 1 + self._argument]
        is_float = self._kind is Kind.FLOAT
        present = word != (NULL_FLOAT if is_float else NULL_WORD)
        value: npt.NDArray[Any] = np.ascontiguousarray(word[present])
        if is_float:
            value = value.view(np.float64) + 0.0
        group = group[present]
        order = np.lexsort((value, group))
        return group[order], value[order]

    def lower(self, aggregate: AggregateSpec, groups: Words) -> Words:
        """The aggregate of each group, as words."""
        begin = np.searchsorted(self._group, groups, "left")
        end = np.searchsorted(self._group, groups, "right")
        if aggregate.function == "COUNT_DISTINCT":
            return self._distinct(begin, end)
        p = 0.5 if aggregate.parameter is None else aggregate.parameter
        count = end - begin
        rank = p * np.maximum(count - 1, 0)
        below = np.floor(rank).astype(np.int64)
        share = rank - below
        if len(self._value) == 0:
            return np.full(len(groups), NULL_FLOAT)
        last = len(self._value) - 1
        low = self._value[np.minimum(begin + below, last)].astype(np.float64)
        high = self._value[np.minimum(begin + np.minimum(below + 1, np.maximum(count - 1, 0)), last)]
        with np.errstate(invalid="ignore"):
            between = low + (high.astype(np.float64) - low) * share
        return float_words(np.where(share == 0.0, low, between), count == 0)

    def _distinct(self, begin: Words, end: Words) -> Words:
        value, group = self._value, self._group
        new = np.ones(len(value) + 1, np.int64)
        if len(value) > 1:
            same = value[1:] == value[:-1]
            if self._kind is Kind.FLOAT:
                same |= np.isnan(value[1:]) & np.isnan(value[:-1])
            new[1:-1] = ~(same & (group[1:] == group[:-1]))
        upto = np.concatenate([[0], np.cumsum(new[: len(value)])])
        return np.asarray(upto[end] - upto[begin], np.int64)


@inner
def _before(ga: int, va: float, gb: int, vb: float) -> bool:
    if ga != gb:
        return ga < gb
    return va < vb or (vb != vb and va == va)


@compiled
def _merge(
    group: Words,
    value: npt.NDArray[Any],
    in_group: Words,
    in_value: npt.NDArray[Any],
    out_group: Words,
    out_value: npt.NDArray[Any],
) -> tuple[Words, npt.NDArray[Any]]:
    """(old + came) - went, all sorted by group and value, NaN last."""
    total = len(group) + len(in_group) - len(out_group)
    new_group, new_value = np.empty(total, np.int64), np.empty(total, value.dtype)
    a, b, gone, n = 0, 0, 0, 0
    while a < len(group) or b < len(in_group):
        old = b >= len(in_group) or (a < len(group) and not _before(in_group[b], in_value[b], group[a], value[a]))
        g, v = (group[a], value[a]) if old else (in_group[b], in_value[b])
        a, b = (a + 1, b) if old else (a, b + 1)
        if gone < len(out_group) and out_group[gone] == g:
            w = out_value[gone]
            if w == v or (w != w and v != v):
                gone += 1
                continue
        new_group[n], new_value[n] = g, v
        n += 1
    return new_group, new_value
