"""How a step of the join finds its tuples: along hash chains or by scanning a window, and as a mere number.

Invariant: what is found lies inside the windows, satisfies every equality with the tuples bound so far, and every
condition that the step decides. What has expired is cut off on the way.

References: 003 Alg. 2 line 7.
"""

from __future__ import annotations

from collections.abc import Callable

from slackwater.core.batch import TS, Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.collections.chain import OLDER
from slackwater.core.collections.records import NONE
from slackwater.core.jit import inner
from slackwater.core.schema import NULL_WORD
from slackwater.operators.join.cells import ANY_KEY, cells_around, key_in
from slackwater.operators.join.probe_stats import ProbeStats, count_step, count_test
from slackwater.operators.join.probing import (
    CHECK_BEGIN,
    CHECK_END,
    COND_BEGIN,
    COND_END,
    FROM_ROW,
    FROM_STREAM,
    INDEX,
    NEAR,
    NOT_BY_CELLS,
    SCAN,
    STREAM,
)
from slackwater.operators.join.search import Probes, Search, not_newer, period
from slackwater.operators.join.store import (
    BEGIN,
    COUNT,
    END,
    LINK,
    NEWEST,
    UNUSED,
    Windows,
    between_times,
    chain_of,
    count_since,
    evict_expired,
    find_bucket,
)

Refine = Callable[..., int]


@inner
def reach(
    refine: Refine, refine_listed: Refine, plan: Probes, w: Windows, root: int, d: int, ts: int, search: Search,
    probe_stats: ProbeStats, counting: bool,
) -> int:  # fmt: skip
    """The tuples that step d may bind, into candidates[d]; returns how many, or -1 where a condition overflows."""
    step = plan.steps[root, d]
    j, x = step[STREAM], step[INDEX]
    horizon = ts - plan.sizes[j]
    slots, found = search.slots, search.candidates[d]
    first, last = step[COND_BEGIN], step[COND_END]
    oldest, newest = horizon, ts
    if plan.paired:
        oldest, newest = period(plan, w, root, d, slots)
    n = 0
    if x == SCAN:
        lo = w.regions[j, BEGIN]
        while lo < w.regions[j, END] and w.words[TS, lo] < horizon:
            lo += 1
        w.regions[j, BEGIN] = lo
        if plan.sorted:
            lo = first_since(w, j, oldest)
        met = w.regions[j, END] - lo
        if first < last:
            n = refine(plan.conditions[first], j, w.words, w.floats, slots, lo, w.regions[j, END], oldest, found)
            count_test(counting, probe_stats.conditions, first, met, n)
            first += 1
        else:
            for slot in range(lo, w.regions[j, END]):
                if w.words[TS, slot] >= oldest:
                    found[n] = slot
                    n += 1
        if plan.paired:
            n = not_newer(w, found, n, newest)
    elif step[NEAR] != NOT_BY_CELLS:
        n = follow_cells(plan, w, step, horizon, oldest, newest, plan.paired, slots, found)
        met = n
    else:
        key = w.words[step[FROM_ROW], slots[step[FROM_STREAM]]]
        n = follow_chain(w, x, key, horizon, oldest, newest, plan.paired, found, 0)
        met = n
    for c in range(step[CHECK_BEGIN], step[CHECK_END]):
        kept = keep_equal(plan, w, c, slots, found, n)
        count_test(counting, probe_stats.checks, c, n, kept)
        n = kept
    # Who has looked into some cells alone has asked all others, too: none of them would have passed.
    before = w.regions[j, END] - w.regions[j, BEGIN] if step[NEAR] != NOT_BY_CELLS else n
    while first < last and n > 0:
        n = refine_listed(plan.conditions[first], j, w.words, w.floats, slots, found, n, found)
        count_test(counting, probe_stats.conditions, first, before, n)
        before = n
        first += 1
    count_step(probe_stats, counting, root, d, met, n)
    return n


@inner
def keep_equal(plan: Probes, w: Windows, c: int, slots: Words, found: Words, n: int) -> int:
    """Of the tuples found, keep those that check c says are equal to what is bound; returns how many."""
    wanted = w.words[plan.checks[c, 2], slots[plan.checks[c, 1]]]
    kept = 0
    for k in range(n):
        if w.words[plan.checks[c, 0], found[k]] == wanted and wanted != NULL_WORD:
            found[kept] = found[k]
            kept += 1
    return kept


@inner
def first_since(w: Windows, s: int, oldest: int) -> int:
    """The first tuple of a sorted window that is not older."""
    return first_where(is_since, w.words[TS], oldest, 0, w.regions[s, BEGIN], w.regions[s, END])


@inner
def is_since(times: Words, slot: int, oldest: int, unused: int) -> bool:
    """Whether a tuple is not older."""
    return times[slot] >= oldest


@inner
def follow_chain(
    w: Windows, x: int, key: int, horizon: int, oldest: int, newest: int, in_period: bool, found: Words, n: int
) -> int:
    """All tuples of index x under a key that have not expired, or only those of the period, behind n that are found
    already; returns how many there are then."""
    if key == NULL_WORD:
        return n
    b = find_bucket(w, x, key)
    if w.buckets[x, b, NEWEST] == UNUSED:
        return n
    evict_expired(w, x, b, horizon)
    link = w.indexes[x, LINK] + OLDER
    at = w.buckets[x, b, NEWEST]
    if in_period:
        return between_times(w, link, at, oldest, newest, found, n)
    while at != NONE:
        found[n] = at
        n += 1
        at = w.links[at, link]
    return n


@inner
def follow_cells(
    plan: Probes, w: Windows, step: Words, horizon: int, oldest: int, newest: int, in_period: bool, slots: Words,
    found: Words,
) -> int:  # fmt: skip
    """As `follow_chain`, of all cells in which there may be tuples near the one that is bound."""
    x, at, slot = step[INDEX], step[NEAR], slots[step[FROM_STREAM]]
    first, last = cells_around(
        w.words, w.floats, w.cells[x, 0], w.widths[x, 0], plan.near[at, 0], plan.near_floats[at, 0], slot
    )
    from_, to = cells_around(
        w.words, w.floats, w.cells[x, 1], w.widths[x, 1], plan.near[at, 1], plan.near_floats[at, 1], slot
    )
    n = 0
    for i in range(first, last + 1):
        for j in range(from_, to + 1):
            n = follow_chain(w, x, key_in(i, j, 0), horizon, oldest, newest, in_period, found, n)
    return n


@inner
def key_of(w: Windows, step: Words, slots: Words) -> int:
    """The key under which a step looks."""
    return 0 if step[FROM_ROW] == ANY_KEY else w.words[step[FROM_ROW], slots[step[FROM_STREAM]]]


@inner
def factor(plan: Probes, w: Windows, root: int, d: int, ts: int, slots: Words) -> int:
    """How many tuples the leaf of step d has for the tuples bound so far."""
    step = plan.steps[root, d]
    x = step[INDEX]
    b = chain_of(w, x, key_of(w, step, slots))
    if b == NONE:
        return 0
    evict_expired(w, x, b, ts - plan.sizes[step[STREAM]])
    if plan.paired:
        return count_since(w, x, b, ts - plan.most[root, step[STREAM]])
    return w.buckets[x, b, COUNT]
