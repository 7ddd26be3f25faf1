"""The search for the partners of a tuple that need not be the newest of its results.

In the join itself a tuple in time is at least as new as all in the windows. That does not hold for a late tuple that is
to be counted (`ledger_loops.py`), nor for one that is joined before its turn (`operators/in_order`): there any member
may be the newest, so the time left for partners is bounded at both ends, and shrinks with each one that is bound.

What is found goes to a `note`, a compiled function given by the caller: `note(sink, search, ts, multiplicity)` is told
that there are so many combinations of the slots bound in `search`, all with this timestamp.

Invariant: every combination is noted once, under the event time of its newest member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.collections.chain import OLDER
from slackwater.core.collections.records import NONE
from slackwater.core.jit import inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.operators.join.probe_steps import Refine, follow_cells, keep_equal, key_of
from slackwater.operators.join.probing import (
    CHECK_BEGIN,
    CHECK_END,
    COND_BEGIN,
    COND_END,
    INDEX,
    NEAR,
    NOT_BY_CELLS,
    SCAN,
    STREAM,
)
from slackwater.operators.join.search import Probes, Search, period
from slackwater.operators.join.store import (
    BEGIN,
    END,
    LINK,
    NEWEST,
    Windows,
    between_times,
    chain_of,
)

Note = Callable[[Any, Search, int, float], None]
OVERFLOW = -1.0
"""An integer of a condition does not fit into 64 bits."""


class Reach(NamedTuple):
    """The time bounds of a search, per depth: the newest member bound so far, and what no member may exceed."""

    newest: Words
    limit: Words
    since: Words
    """Per stream, the event time before which nothing is looked for."""
    until: Words
    """One number: the event time that no member may exceed."""
    compared: Words
    """One number: how many tuples near enough in time have been looked at, over all searches."""


def reach_of(streams: int) -> Reach:
    """Space for a search over so many streams."""
    newest, limit = np.zeros((2, streams + 1), np.int64)
    return Reach(newest, limit, np.full(streams, BEFORE_ALL), np.array([AFTER_ALL]), np.zeros(1, np.int64))


@inner
def combinations(
    note: Note, sink: Any, refine_listed: Refine, plan: Probes, w: Windows, root: int, ts: int, search: Search,
    reach: Reach,
) -> float:  # fmt: skip
    """All combinations of one tuple, depth first over the streams that are not leaves; how many, or OVERFLOW."""
    others = len(w.regions) - 1
    depths = plan.leaves[root]
    reach.newest[0], reach.limit[0] = ts, min(ts + plan.sizes[root], reach.until[0])
    if depths == 0:
        return leaves_of(note, sink, plan, w, root, 0, others, search, reach)
    total, d = 0.0, 0
    search.found[0], search.at[0] = between(refine_listed, plan, w, root, 0, search, reach), 0
    while d >= 0:
        if search.found[d] < 0:
            return OVERFLOW
        if search.at[d] == search.found[d]:
            d -= 1
            continue
        stream = plan.steps[root, d, STREAM]
        slot = search.candidates[d, search.at[d]]
        search.slots[stream] = slot
        search.at[d] += 1
        reach.newest[d + 1] = max(reach.newest[d], w.words[TS, slot])
        reach.limit[d + 1] = min(reach.limit[d], w.words[TS, slot] + plan.sizes[stream])
        if d == depths - 1:
            total += leaves_of(note, sink, plan, w, root, depths, others, search, reach)
        else:
            d += 1
            search.found[d], search.at[d] = between(refine_listed, plan, w, root, d, search, reach), 0
    return total


@inner
def between(refine_listed: Refine, plan: Probes, w: Windows, root: int, d: int, search: Search, reach: Reach) -> int:
    """The tuples that step d may bind, near enough to all that are bound, into candidates[d]; or OVERFLOW."""
    step = plan.steps[root, d]
    j, x = step[STREAM], step[INDEX]
    found = search.candidates[d]
    oldest, newest = reach.newest[d] - plan.sizes[j], reach.limit[d]
    if plan.paired:
        oldest, newest = period(plan, w, root, d, search.slots)
        newest = min(newest, reach.until[0])
    oldest = max(oldest, reach.since[j])
    if x == SCAN:
        n = 0
        for slot in range(w.regions[j, BEGIN], w.regions[j, END]):
            if oldest <= w.words[TS, slot] <= newest:
                found[n] = slot
                n += 1
    elif step[NEAR] != NOT_BY_CELLS:
        n = follow_cells(plan, w, step, BEFORE_ALL, oldest, newest, True, search.slots, found)
    else:
        n = chained(w, x, key_of(w, step, search.slots), oldest, newest, found)
    reach.compared[0] += n
    for c in range(step[CHECK_BEGIN], step[CHECK_END]):
        n = keep_equal(plan, w, c, search.slots, found, n)
    for c in range(step[COND_BEGIN], step[COND_END]):
        if n > 0:
            n = refine_listed(plan.conditions[c], j, w.words, w.floats, search.slots, found, n, found)
    return n


@inner
def chained(w: Windows, x: int, key: int, oldest: int, newest: int, found: Words) -> int:
    """The tuples of index x under a key within these event times, newest first."""
    b = chain_of(w, x, key)
    if b == NONE:
        return 0
    return between_times(w, w.indexes[x, LINK] + OLDER, w.buckets[x, b, NEWEST], oldest, newest, found, 0)


@inner
def leaves_of(
    note: Note, sink: Any, plan: Probes, w: Windows, root: int, begin: int, end: int, search: Search, reach: Reach
) -> float:
    """How many ways there are to bind the leaves, each noted under the event time of its newest member.

    Leaves know nothing of each other but time, and of that only one window per stream. Ways in which none is newer than
    what is bound are a product; any other way has a newest leaf, and for every choice of that one the older leaves are
    a product again.
    """
    newest = reach.newest[begin]
    older = 1.0
    for d in range(begin, end):
        step = plan.steps[root, d]
        key = key_of(w, step, search.slots)
        oldest = max(newest - plan.sizes[step[STREAM]], reach.since[step[STREAM]])
        found = search.candidates[d]
        search.found[d] = chained(w, step[INDEX], key, oldest, reach.limit[begin], found)
        if search.found[d] == 0:
            return 0.0
        k = 0
        while k < search.found[d] and w.words[TS, found[k]] > newest:
            k += 1
        older *= search.found[d] - k
    if older > 0:
        note(sink, search, newest, older)
    total = older
    for d in range(begin, end):
        for k in range(search.found[d]):
            ts = w.words[TS, search.candidates[d, k]]
            if ts <= newest:
                break
            multiplicity = 1.0
            for other in range(begin, end):
                if other != d and multiplicity > 0:
                    span = ts - plan.sizes[plan.steps[root, other, STREAM]]
                    # Of leaves with one event time, that of the last step counts as the newest.
                    multiplicity *= within(
                        w, search.candidates[other], search.found[other], span, ts if other < d else ts - 1
                    )
            if multiplicity > 0:
                note(sink, search, ts, multiplicity)
                total += multiplicity
    return total


@inner
def within(w: Windows, found: Words, n: int, oldest: int, newest: int) -> int:
    """How many of these tuples, which stand newest first, lie between two event times."""
    return first_at_most(w, found, n, oldest - 1) - first_at_most(w, found, n, newest)


@inner
def first_at_most(w: Windows, found: Words, n: int, ts: int) -> int:
    """The place of the first tuple that is not newer."""
    return first_where(is_at_most, w.words[TS], found, ts, 0, n)


@inner
def is_at_most(times: Words, k: int, found: Words, ts: int) -> bool:
    """Whether a tuple of those found is not newer."""
    return times[found[k]] <= ts
