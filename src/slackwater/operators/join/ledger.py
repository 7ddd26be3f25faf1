"""The ledger of a join: what every late tuple cost, counted exactly by probing what was processed before it.

A result is lost when its last member, in processing order, comes late: all the others have been processed, and a late
tuple makes no results of its own. So the price of a late tuple is the number of its combinations with the tuples
processed before it, late ones included; every lost result is counted once, under its own timestamp.

Where several operators make the results, as in a tree of joins, a result may be lost in other ways too. There every
tuple is priced, whether late or not: each true result is counted once, at whichever of its members comes last, and is
lost unless it has been made.

Invariant: results made + results lost = true results, of all results whose members lie within the retention.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Floats, Words
from slackwater.model.schema import NULL_WORD
from slackwater.operators.join.probing import (
    ANY_KEY,
    CHECK_BEGIN,
    CHECK_END,
    COND_BEGIN,
    COND_END,
    FROM_ROW,
    FROM_STREAM,
    INDEX,
    SCAN,
    STREAM,
)
from slackwater.operators.join.reaching import Refine
from slackwater.operators.join.search import Arriving, Probes, Search, period
from slackwater.operators.join.store import (
    BEGIN,
    END,
    LINK,
    NEWEST,
    OLDER,
    UNUSED,
    Windows,
    between_times,
    find_bucket,
    insert,
    place,
)

FINE, OVERFLOW = 0, -1
NEVER = -(2**62)
"""The number of a place in a ring of stretches in which none stands yet."""


class Periods(NamedTuple):
    """Results by the stretch of event time they belong to: a ring of stretches of equal width."""

    number: Words
    """Which stretch stands in each place of the ring."""
    made: Floats
    lost: Floats
    width: int


class Reach(NamedTuple):
    """The time bounds of a search, per depth: the newest member bound so far, and what no member may exceed."""

    newest: Words
    limit: Words


@in_place
def settle(
    condition: int, plan: Probes, new: Arriving, price: Floats, w: Windows, search: Search, reach: Reach,
    periods: Periods, retention: int, price_all: bool,
) -> tuple[int, int]:  # fmt: skip
    """Price the late tuples of a run, or all, and note all; returns (tuples too late to be priced, status)."""
    refine_listed = refine_listed_at(condition)
    unknown = 0
    for i in range(new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        price[i] = 0.0
        if ts < new.cutoff[i] - plan.sizes[s] - retention:
            unknown += 1
            continue
        search.slots[s] = place(w, s, new.words, i)
        if price_all or ts < new.cutoff[i]:
            price[i] = lost_with(refine_listed, plan, w, s, ts, search, reach, periods)
            if price[i] < 0:
                return unknown, OVERFLOW
        insert(w, s)
    return unknown, FINE


@inner
def lost_with(
    refine_listed: Refine, plan: Probes, w: Windows, root: int, ts: int, search: Search, reach: Reach, periods: Periods
) -> float:
    """The combinations of one late tuple, depth first over the streams that are not leaves."""
    others = len(w.regions) - 1
    depths = plan.leaves[root]
    reach.newest[0], reach.limit[0] = ts, ts + plan.sizes[root]
    if depths == 0:
        return leaves_of(plan, w, root, 0, others, search, reach, periods)
    total, d = 0.0, 0
    search.found[0], search.at[0] = between(refine_listed, plan, w, root, 0, search, reach), 0
    while d >= 0:
        if search.found[d] < 0:
            return -1.0
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
            total += leaves_of(plan, w, root, depths, others, search, reach, periods)
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
    if x == SCAN:
        n = 0
        for slot in range(w.regions[j, BEGIN], w.regions[j, END]):
            if oldest <= w.words[TS, slot] <= newest:
                found[n] = slot
                n += 1
    else:
        n = chained(w, x, w.words[step[FROM_ROW], search.slots[step[FROM_STREAM]]], oldest, newest, found)
    for c in range(step[CHECK_BEGIN], step[CHECK_END]):
        kept = 0
        wanted = w.words[plan.checks[c, 2], search.slots[plan.checks[c, 1]]]
        for k in range(n):
            if w.words[plan.checks[c, 0], found[k]] == wanted and wanted != NULL_WORD:
                found[kept] = found[k]
                kept += 1
        n = kept
    for c in range(step[COND_BEGIN], step[COND_END]):
        if n > 0:
            n = refine_listed(plan.conditions[c], j, w.words, w.floats, search.slots, found, n, found)
    return n


@inner
def chained(w: Windows, x: int, key: int, oldest: int, newest: int, found: Words) -> int:
    """The tuples of index x under a key within these event times, newest first."""
    if key == NULL_WORD:
        return 0
    b = find_bucket(w, x, key)
    if w.buckets[x, b, NEWEST] == UNUSED:
        return 0
    return between_times(w, w.indexes[x, LINK] + OLDER, w.buckets[x, b, NEWEST], oldest, newest, found)


@inner
def leaves_of(
    plan: Probes, w: Windows, root: int, begin: int, end: int, search: Search, reach: Reach, periods: Periods
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
        key = 0
        if step[FROM_ROW] != ANY_KEY:
            key = w.words[step[FROM_ROW], search.slots[step[FROM_STREAM]]]
        oldest = newest - plan.sizes[step[STREAM]]
        found = search.candidates[d]
        search.found[d] = chained(w, step[INDEX], key, oldest, reach.limit[begin], found)
        if search.found[d] == 0:
            return 0.0
        k = 0
        while k < search.found[d] and w.words[TS, found[k]] > newest:
            k += 1
        older *= search.found[d] - k
    if older > 0:
        note(periods, newest, older)
    total = older
    for d in range(begin, end):
        for k in range(search.found[d]):
            ts = w.words[TS, search.candidates[d, k]]
            if ts <= newest:
                break
            ways = 1.0
            for other in range(begin, end):
                if other != d and ways > 0:
                    span = ts - plan.sizes[plan.steps[root, other, STREAM]]
                    # Of leaves with one event time, that of the last step counts as the newest.
                    ways *= within(w, search.candidates[other], search.found[other], span, ts if other < d else ts - 1)
            if ways > 0:
                note(periods, ts, ways)
                total += ways
    return total


@inner
def within(w: Windows, found: Words, n: int, oldest: int, newest: int) -> int:
    """How many of these tuples, which stand newest first, lie between two event times."""
    return first_at_most(w, found, n, oldest - 1) - first_at_most(w, found, n, newest)


@inner
def first_at_most(w: Windows, found: Words, n: int, ts: int) -> int:
    """The place of the first tuple that is not newer."""
    lo, hi = 0, n
    while lo < hi:
        middle = (lo + hi) >> 1
        if w.words[TS, found[middle]] > ts:
            lo = middle + 1
        else:
            hi = middle
    return lo


@inner
def note(periods: Periods, ts: int, ways: float) -> None:
    """Write lost results down; a stretch so old that another has taken its place is not known any more."""
    at = turn_to(periods, ts)
    if at >= 0:
        periods.lost[at] += ways


@inner
def turn_to(periods: Periods, ts: int) -> int:
    """The place of the stretch that an event time belongs to, emptied if an older one stood there; -1 if too old."""
    number = ts // periods.width
    at = number % len(periods.number)
    if periods.number[at] < number:
        periods.number[at], periods.made[at], periods.lost[at] = number, 0.0, 0.0
    return at if periods.number[at] == number else -1


@in_place
def note_made(periods: Periods, ts: Words, weight: Words, priced: bool) -> None:
    """Write results down that were made; `weight` is empty where each line is one. `priced`: they count as lost too."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            ways = weight[i] if len(weight) > 0 else 1
            periods.made[at] += ways
            if priced:
                periods.lost[at] -= ways
