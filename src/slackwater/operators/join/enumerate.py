"""The join itself: every tuple in time probes the other windows; every tuple then enters its own.

Invariant: a result is made when its last member in processing order arrives in time; so results come in timestamp
order, each once. A late tuple makes none, but enters its window while it can still be joined.

References: 003 Alg. 2; 004 Alg. 4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_at, refine_listed_at
from slackwater.expressions.lower import MAX_STREAMS
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
    ProbePlan,
)
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


class Probes(NamedTuple):
    """The arrays of a `ProbePlan`, the windows' sizes, and whether results are only counted.

    Where `paired`, streams i and j are also bound to each other: `ts_i - ts_j <= most[i, j]`.
    """

    steps: Words
    leaves: Words
    checks: Words
    conditions: Words
    sizes: Words
    counted: bool
    most: Words
    paired: bool


def probes_of(plan: ProbePlan, windows: Words, most: Words | None, counted: bool) -> Probes:
    """A plan as the loops read it; `most` has the bounds between pairs, where the windows do not say it all."""
    paired = most is not None
    bounds = np.zeros((1, 1), np.int64) if most is None else most
    return Probes(plan.steps, plan.leaves, plan.checks, plan.conditions, windows, counted, bounds, paired)


class Arriving(NamedTuple):
    """A run as the join reads it."""

    stream: Words
    words: Words
    cutoff: Words


class Search(NamedTuple):
    """Where the search for one tuple's partners stands: per step, its candidates and the next one to try."""

    candidates: Words
    found: Words
    at: Words
    slots: Words
    """The tuple bound for each stream."""


def search_space(streams: int, slots: int) -> Search:
    """Room for a search in windows that have so many slots in all."""
    found, at, bound = np.zeros((3, MAX_STREAMS), np.int64)
    return Search(np.empty((max(1, streams - 1), slots), np.int64), found, at, bound)


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
def period(plan: Probes, w: Windows, root: int, d: int, slots: Words) -> tuple[int, int]:
    """The oldest and the newest event time that fit to all tuples bound before step d; each bound one shrinks it.

    References: 002 §3.1.
    """
    j = plan.steps[root, d, STREAM]
    ts = w.words[TS, slots[root]]
    oldest, newest = ts - plan.most[root, j], ts + plan.most[j, root]
    for e in range(d):
        b = plan.steps[root, e, STREAM]
        ts = w.words[TS, slots[b]]
        oldest, newest = max(oldest, ts - plan.most[b, j]), min(newest, ts + plan.most[j, b])
    return oldest, newest


@inner
def not_newer(w: Windows, found: Words, n: int, newest: int) -> int:
    """Keep the candidates up to an event time; returns how many there are."""
    if n <= 0:
        return n
    kept = 0
    for k in range(n):
        if w.words[TS, found[k]] <= newest:
            found[kept] = found[k]
            kept += 1
    return kept


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
