"""The join itself: every tuple in time probes the other windows; every tuple then enters its own.

Invariant: a result is made when its last member in processing order arrives in time; so results come in timestamp
order, each once. A late tuple makes none, but enters its window while it can still be joined.

References: 003 Alg. 2; 004 Alg. 4.6.
"""

from __future__ import annotations

from collections.abc import Callable

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_at, refine_listed_at
from slackwater.model.batch import TS, Words
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
from slackwater.operators.join.search import Arriving, Probes, Search, not_newer, period
from slackwater.operators.join.store import (
    BEGIN,
    COUNT,
    END,
    LINK,
    NEWEST,
    OLDER,
    UNUSED,
    Windows,
    between_times,
    count_since,
    find_bucket,
    insert,
    place,
    trim,
)
from slackwater.operators.records import NONE

Refine = Callable[..., int]

FINE = 0
OVERFLOW = -1
"""An integer of a condition does not fit into 64 bits."""
TOO_MANY = -2
"""One tuple's number of results does not fit into 64 bits."""
NO_ROOM = -3
"""One tuple's results do not fit behind those that wait to be taken."""


@in_place
def join_run(
    conditions: tuple[int, int],
    plan: Probes,
    new: Arriving,
    begin: int,
    w: Windows,
    search: Search,
    out: Words,
    counts: Words,
) -> tuple[int, int, int]:
    """Process a run from `begin` on, until its end or until a tuple's results have no room in `out` any more.

    Returns (tuples processed, results written, status); `counts[i]` is tuple i's number of results.
    """
    refine, refine_listed = refine_at(conditions[0]), refine_listed_at(conditions[1])
    n_out = 0
    for i in range(begin, new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        counts[i] = 0
        if ts < new.cutoff[i] - plan.sizes[s]:
            continue
        search.slots[s] = place(w, s, new.words, i)
        if ts >= new.cutoff[i]:
            made = probe(refine, refine_listed, plan, w, s, ts, search, out, n_out)
            if made < 0:
                return i, n_out, made
            counts[i] = made
            if not plan.counted:
                n_out += made
        insert(w, s)
    return new.words.shape[1], n_out, FINE


@inner
def probe(
    refine: Refine,
    refine_listed: Refine,
    plan: Probes,
    w: Windows,
    root: int,
    ts: int,
    search: Search,
    out: Words,
    n_out: int,
) -> int:
    """All results of a tuple of stream `root`, depth first; returns how many, or why it stopped."""
    others = len(w.regions) - 1
    depths = plan.leaves[root] if plan.counted else others
    if depths == 0:
        if plan.counted:
            return factors(plan, w, root, 0, others, ts, search.slots)
        return write(out, n_out, search, root, 0, -1)
    total, d = 0, 0
    search.found[0], search.at[0] = reach(refine, refine_listed, plan, w, root, 0, ts, search), 0
    while d >= 0:
        stream, last = plan.steps[root, d, STREAM], d == depths - 1
        if search.found[d] < 0:
            return OVERFLOW
        if last and not plan.counted:
            more = write(out, n_out + total, search, stream, d, search.found[d])
            if more < 0:
                return NO_ROOM
            total += more
            d -= 1
        elif search.at[d] == search.found[d]:
            d -= 1
        else:
            search.slots[stream] = search.candidates[d, search.at[d]]
            search.at[d] += 1
            if last:
                more = factors(plan, w, root, depths, others, ts, search.slots)
                if more < 0 or total + more < 0:
                    return TOO_MANY
                total += more
            else:
                d += 1
                search.found[d], search.at[d] = reach(refine, refine_listed, plan, w, root, d, ts, search), 0
    return total


@inner
def reach(
    refine: Refine, refine_listed: Refine, plan: Probes, w: Windows, root: int, d: int, ts: int, search: Search
) -> int:
    """The tuples that step d may bind, into candidates[d]; returns how many, or OVERFLOW."""
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
        if first < last:
            n = refine(plan.conditions[first], j, w.words, w.floats, slots, lo, w.regions[j, END], oldest, found)
            first += 1
        else:
            for slot in range(lo, w.regions[j, END]):
                if w.words[TS, slot] >= oldest:
                    found[n] = slot
                    n += 1
        if plan.paired:
            n = not_newer(w, found, n, newest)
    else:
        n = follow_chain(plan, w, x, w.words[step[FROM_ROW], slots[step[FROM_STREAM]]], horizon, oldest, newest, found)
    for c in range(step[CHECK_BEGIN], step[CHECK_END]):
        kept = 0
        wanted = w.words[plan.checks[c, 2], slots[plan.checks[c, 1]]]
        for k in range(n):
            if w.words[plan.checks[c, 0], found[k]] == wanted and wanted != NULL_WORD:
                found[kept] = found[k]
                kept += 1
        n = kept
    while first < last and n > 0:
        n = refine_listed(plan.conditions[first], j, w.words, w.floats, slots, found, n, found)
        first += 1
    return n


@inner
def follow_chain(
    plan: Probes, w: Windows, x: int, key: int, horizon: int, oldest: int, newest: int, found: Words
) -> int:
    """All tuples of index x under a key that have not expired; where streams are paired, those of the period."""
    if key == NULL_WORD:
        return 0
    b = find_bucket(w, x, key)
    if w.buckets[x, b, NEWEST] == UNUSED:
        return 0
    trim(w, x, b, horizon)
    link = w.indexes[x, LINK] + OLDER
    at = w.buckets[x, b, NEWEST]
    n = 0
    if plan.paired:
        return between_times(w, link, at, oldest, newest, found)
    while at != NONE:
        found[n] = at
        n += 1
        at = w.links[at, link]
    return n


@inner
def factors(plan: Probes, w: Windows, root: int, begin: int, end: int, ts: int, slots: Words) -> int:
    """The product of the leaves' counts; TOO_MANY where it does not fit."""
    product = 1
    for d in range(begin, end):
        step = plan.steps[root, d]
        key = 0
        if step[FROM_ROW] != ANY_KEY:
            key = w.words[step[FROM_ROW], slots[step[FROM_STREAM]]]
        if key == NULL_WORD:
            return 0
        x = step[INDEX]
        b = find_bucket(w, x, key)
        if w.buckets[x, b, NEWEST] == UNUSED:
            return 0
        trim(w, x, b, ts - plan.sizes[step[STREAM]])
        count = w.buckets[x, b, COUNT]
        if plan.paired:
            count = count_since(w, x, b, ts - plan.most[root, step[STREAM]])
        if count == 0:
            return 0
        if product > (2**63 - 1) // count:
            return TOO_MANY
        product *= count
    return product


@inner
def write(out: Words, n_out: int, search: Search, last: int, d: int, n: int) -> int:
    """One result per candidate of the last step; with n = -1, the bound slots alone. Returns how many, or NO_ROOM."""
    count = 1 if n < 0 else n
    if n_out + count > out.shape[1]:
        return NO_ROOM
    for s in range(out.shape[0]):
        if s == last and n >= 0:
            for k in range(n):
                out[s, n_out + k] = search.candidates[d, k]
        else:
            for k in range(count):
                out[s, n_out + k] = search.slots[s]
    return count
