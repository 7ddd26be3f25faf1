"""One iteration of a W-join: a new tuple goes through the buffers of the other streams, one inside the other.

The period of the tuples bound so far is [TSmax - w, TSmin + w]; it shrinks with every tuple bound, and only what lies
inside is asked for the join predicate. Where buffers hold nothing that is out of the window, no period is asked for.
With windows that differ, w is that of the stream looked at, or the period is that of one stream beside it; and a whole
combination is asked for the windows of all its pairs.

Invariant: every result has the new tuple in it, so none is made twice.

References: 002 §3.1 and Fig. 2, Fig. 5 (the loop over t_k); §3.2 (Mode 2, without window tests); §5.1
(refinement), §5.2.1 (one stream controls the period).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import inner
from slackwater.core.schema import NULL_WORD
from slackwater.expressions.lower import MAX_STREAMS
from slackwater.operators.join.loop import BUFFER_FULL, OVERFLOW
from slackwater.published.wjoin.approaches import ALL
from slackwater.published.wjoin.buffers import (
    PREDICATE,
    REFINEMENT,
    REMOVAL,
    WINDOW,
    Buffers,
    bucket_of,
    remove,
)
from slackwater.published.wjoin.steps import (
    BESIDE,
    CHECK_BEGIN,
    CHECK_END,
    COND_BEGIN,
    COND_END,
    EARLIER,
    LATER,
    STREAM,
    Steps,
)

Refine = Callable[..., int]
NO_ROW = -1
FAILED = -9
"""An integer of a condition does not fit into 64 bits."""


class Search(NamedTuple):
    """Where an iteration stands: per level, the next tuple to look at and the bounds of the tuples bound so far."""

    at: Words
    oldest: Words
    newest: Words
    slots: Words
    """The tuple bound for each stream."""
    one: Words
    """Space for the one candidate that a condition is asked about."""
    written: Words
    """One number: how many results of a run have been written."""


def search_space() -> Search:
    """Space for one iteration."""
    at, oldest, newest, slots = np.zeros((4, MAX_STREAMS), np.int64)
    return Search(at, oldest, newest, slots, np.zeros(1, np.int64), np.zeros(1, np.int64))


@inner
def iterate(
    refine: Refine, plan: Steps, b: Buffers, way: int, root: int, ts: int, windowed: bool, removes: bool,
    search: Search, out: Words, n_out: int,
) -> int:  # fmt: skip
    """All results, in one way, of the tuple of stream `root` placed last; returns how many, or why it stopped.

    `windowed`: test whether a tuple is inside the period. `removes`: remove tuples out of reach on the way.
    """
    total, d, last = 0, 0, len(b.latest) - 2
    search.oldest[0] = search.newest[0] = ts
    begin(plan, b, way, root, 0, ts, search)
    while d >= 0:
        k = next_joining(refine, plan, b, way, root, d, windowed, removes, search)
        if k == FAILED:
            return OVERFLOW
        if k == NONE:
            d -= 1
        elif d < last:
            search.oldest[d + 1] = min(search.oldest[d], b.words[TS, k])
            search.newest[d + 1] = max(search.newest[d], b.words[TS, k])
            d += 1
            begin(plan, b, way, root, d, ts, search)
        elif keeps_windows(plan, b, way, search):
            if not plan.count_only:
                if n_out + total == out.shape[1]:
                    return BUFFER_FULL
                for s in range(len(b.latest)):
                    out[s, n_out + total] = search.slots[s]
            total += 1
    return total


@inner
def begin(plan: Steps, b: Buffers, way: int, root: int, d: int, ts: int, search: Search) -> None:
    """Stand at the first tuple of the buffer of step d, or of its bucket with the key of the new tuple."""
    j = plan.steps[way, root, d, STREAM]
    bucket = bucket_of(b, root, search.slots[root])
    b.probed[j, bucket] = max(b.probed[j, bucket], ts)
    search.at[d] = b.oldest[j, bucket]


@inner
def next_joining(
    refine: Refine, plan: Steps, b: Buffers, way: int, root: int, d: int, windowed: bool, removes: bool,
    search: Search,
) -> int:  # fmt: skip
    """Bind the next tuple of step d that joins those bound so far; NONE when there is no other, FAILED on overflow."""
    step = plan.steps[way, root, d]
    j, reach = step[STREAM], b.reach[step[STREAM]]
    earliest, latest = period(step, b, d, search)
    # The first equality is asked here: it decides on most tuples, and what it compares with stays the same.
    row, wanted = first_equality(plan, step, b, search)
    met, removed, inside = 0, 0, 0
    k, found = search.at[d], NONE
    while k != NONE and found == NONE:
        ts, following = b.words[TS, k], b.newer[k]
        met += 1
        if removes and ts < reach:
            removed += 1
            remove(b, j, bucket_of(b, j, k), k)
        elif not windowed or (earliest <= ts and ts <= latest):
            inside += 1
            if row == NO_ROW or b.words[row, k] == wanted:
                joins = check_predicate(refine, plan, step, b, k, search)
                if joins < 0:
                    return FAILED
                if joins:
                    found = k
        k = following
    search.at[d], search.slots[j] = k, found
    b.work[REMOVAL] += met if removes else 0
    b.work[WINDOW] += met - removed if windowed else 0
    b.work[PREDICATE] += inside
    return found


@inner
def period(step: Words, b: Buffers, d: int, search: Search) -> tuple[int, int]:
    """Where tuples of step d lie: by the time of all that are bound, or of the one that is beside them."""
    if step[BESIDE] == ALL:
        return search.newest[d] - step[EARLIER], search.oldest[d] + step[LATER]
    ts = b.words[TS, search.slots[step[BESIDE]]]
    return ts - step[EARLIER], ts + step[LATER]


@inner
def first_equality(plan: Steps, step: Words, b: Buffers, search: Search) -> tuple[int, int]:
    """The row of a tuple of a step that must have a value, and the value; or NO_ROW."""
    if step[CHECK_BEGIN] == step[CHECK_END]:
        return NO_ROW, 0
    check = plan.checks[step[CHECK_BEGIN]]
    return check[0], b.words[check[2], search.slots[check[1]]]


@inner
def check_predicate(refine: Refine, plan: Steps, step: Words, b: Buffers, k: int, search: Search) -> int:
    """1 if a tuple joins those bound so far, 0 if not, or OVERFLOW."""
    for c in range(step[CHECK_BEGIN], step[CHECK_END]):
        mine = b.words[plan.checks[c, 0], k]
        if mine == NULL_WORD or mine != b.words[plan.checks[c, 2], search.slots[plan.checks[c, 1]]]:
            return 0
    for c in range(step[COND_BEGIN], step[COND_END]):
        search.one[0] = k
        n = refine(plan.conditions[c], step[STREAM], b.words, b.floats, search.slots, search.one, 1, search.one)
        if n != 1:
            return n
    return 1


@inner
def keeps_windows(plan: Steps, b: Buffers, way: int, search: Search) -> bool:
    """The refinement: whether the tuples bound keep the windows of an alternative; in a union, of none before."""
    for alternative in range(way if plan.union else plan.most.shape[0]):
        if keeps_all_pairs(plan.most[alternative], b, search):
            return not plan.union
    return plan.union or plan.most.shape[0] == 0


@inner
def keeps_all_pairs(most: Words, b: Buffers, search: Search) -> bool:
    """Whether every two of the tuples bound are near enough; the report's count is that of all pairs."""
    streams = len(most)
    b.work[REFINEMENT] += streams * (streams - 1) // 2
    for i in range(streams):
        for j in range(streams):
            if b.words[TS, search.slots[i]] - b.words[TS, search.slots[j]] > most[i, j]:
                return False
    return True
