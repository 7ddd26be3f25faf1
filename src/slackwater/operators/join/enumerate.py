"""The join itself: every tuple in time probes the other windows; every tuple then enters its own.

Invariant: a result is made when its last member in processing order arrives in time; so results come in timestamp
order, each once. A late tuple makes none, but enters its window while it can still be joined.

References: 003 Alg. 2; 004 Alg. 4.6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from slackwater.compiled import allocating, compiled, inner
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
from slackwater.operators.join.store import (
    BEGIN,
    COUNT,
    END,
    LINK,
    NEWEST,
    OF_STREAM,
    OLDER,
    UNUSED,
    find_bucket,
    link_in,
    trim,
)
from slackwater.operators.records import NONE

Floats = npt.NDArray[np.float64]
Refine = Callable[..., int]

FINE = 0
OVERFLOW = 1
TOO_MANY = 2
"""One tuple's number of results does not fit into 64 bits."""


@compiled
def join_run(
    refine: Refine,
    refine_listed: Refine,
    steps: Words,
    leaves: Words,
    checks: Words,
    conditions: Words,
    windows: Words,
    counted: bool,
    run_stream: Words,
    run_words: Words,
    run_cutoff: Words,
    begin: int,
    enough: int,
    words: Words,
    floats: Floats,
    regions: Words,
    links: Words,
    buckets: Words,
    indexes: Words,
    out: Words,
    counts: Words,
) -> tuple[int, int, Words, int]:
    """Process a run from `begin` on, until its end or until `enough` results wait to be taken.

    Returns (tuples processed, results written, the result array, status); `counts[i]` is tuple i's number of results.
    """
    m = len(regions)
    candidates = np.empty((max(1, m - 1), words.shape[1]), np.int64)
    slots = np.zeros(8, np.int64)
    n_candidates, at = np.zeros(8, np.int64), np.zeros(8, np.int64)
    n_out = 0
    for i in range(begin, run_words.shape[1]):
        s, ts = run_stream[i], run_words[TS, i]
        counts[i] = 0
        if ts < run_cutoff[i] - windows[s]:
            continue
        slot = regions[s, END]
        for r in range(words.shape[0]):
            words[r, slot] = run_words[r, i]
        if ts >= run_cutoff[i]:
            slots[s] = slot
            depths = leaves[s] if counted else m - 1
            total = 0
            d = 0
            if depths == 0:
                total = (
                    factors(steps, 0, m - 1, s, ts, windows, words, links, buckets, indexes, slots) if counted else 1
                )
                if not counted:
                    out, n_out = write(out, n_out, slots, s, candidates, 0, -1)
            else:
                n_candidates[0] = reach(
                    refine, refine_listed, steps, s, 0, checks, conditions, windows, ts,
                    words, floats, regions, links, buckets, indexes, slots, candidates,
                )  # fmt: skip
                at[0] = 0
            while depths > 0 and d >= 0:
                if n_candidates[d] < 0:
                    return i, n_out, out, OVERFLOW
                if d == depths - 1 and not counted:
                    total += n_candidates[d]
                    out, n_out = write(out, n_out, slots, steps[s, d, STREAM], candidates, d, n_candidates[d])
                    d -= 1
                    continue
                if at[d] == n_candidates[d]:
                    d -= 1
                    continue
                slots[steps[s, d, STREAM]] = candidates[d, at[d]]
                at[d] += 1
                if d == depths - 1:
                    more = factors(steps, depths, m - 1, s, ts, windows, words, links, buckets, indexes, slots)
                    total = -1 if more < 0 or total + more < 0 else total + more
                    if total < 0:
                        return i, n_out, out, TOO_MANY
                else:
                    d += 1
                    n_candidates[d] = reach(
                        refine, refine_listed, steps, s, d, checks, conditions, windows, ts,
                        words, floats, regions, links, buckets, indexes, slots, candidates,
                    )  # fmt: skip
                    at[d] = 0
            if total < 0:
                return i, n_out, out, TOO_MANY
            counts[i] = total
        regions[s, END] += 1
        for x in range(len(indexes)):
            if indexes[x, OF_STREAM] == s:
                link_in(words, links, buckets, indexes, x, slot)
        if n_out >= enough:
            return i + 1, n_out, out, FINE
    return run_words.shape[1], n_out, out, FINE


@inner
def reach(
    refine: Refine,
    refine_listed: Refine,
    steps: Words,
    root: int,
    d: int,
    checks: Words,
    conditions: Words,
    windows: Words,
    ts: int,
    words: Words,
    floats: Floats,
    regions: Words,
    links: Words,
    buckets: Words,
    indexes: Words,
    slots: Words,
    candidates: Words,
) -> int:
    """The tuples that step d may bind, into candidates[d]; returns how many, or -1 on overflow in a condition."""
    step = steps[root, d]
    j, x = step[STREAM], step[INDEX]
    horizon = ts - windows[j]
    found = candidates[d]
    first, last = step[COND_BEGIN], step[COND_END]
    n = 0
    if x == SCAN:
        lo = regions[j, BEGIN]
        while lo < regions[j, END] and words[TS, lo] < horizon:
            lo += 1
        regions[j, BEGIN] = lo
        if first < last:
            n = refine(conditions[first], j, words, floats, slots, lo, regions[j, END], horizon, found)
            first += 1
        else:
            for slot in range(lo, regions[j, END]):
                if words[TS, slot] >= horizon:
                    found[n] = slot
                    n += 1
    else:
        n = follow_chain(
            words, links, buckets, indexes, x, words[step[FROM_ROW], slots[step[FROM_STREAM]]], horizon, found
        )
    for c in range(step[CHECK_BEGIN], step[CHECK_END]):
        kept = 0
        wanted = words[checks[c, 2], slots[checks[c, 1]]]
        for k in range(n):
            if words[checks[c, 0], found[k]] == wanted and wanted != NULL_WORD:
                found[kept] = found[k]
                kept += 1
        n = kept
    while first < last and n > 0:
        n = refine_listed(conditions[first], j, words, floats, slots, found, n, found)
        first += 1
    return n


@inner
def follow_chain(
    words: Words, links: Words, buckets: Words, indexes: Words, x: int, key: int, horizon: int, found: Words
) -> int:
    """All tuples of index x under a key that have not expired."""
    if key == NULL_WORD:
        return 0
    b = find_bucket(buckets, x, key)
    if buckets[x, b, NEWEST] == UNUSED:
        return 0
    trim(words, links, buckets, x, indexes[x, LINK], b, horizon)
    link = indexes[x, LINK] + OLDER
    at = buckets[x, b, NEWEST]
    n = 0
    while at != NONE:
        found[n] = at
        n += 1
        at = links[at, link]
    return n


@inner
def factors(
    steps: Words,
    begin: int,
    end: int,
    root: int,
    ts: int,
    windows: Words,
    words: Words,
    links: Words,
    buckets: Words,
    indexes: Words,
    slots: Words,
) -> int:
    """The product of the leaves' counts; -1 where it does not fit."""
    product = 1
    for d in range(begin, end):
        step = steps[root, d]
        key = 0
        if step[FROM_ROW] != ANY_KEY:
            key = words[step[FROM_ROW], slots[step[FROM_STREAM]]]
        if key == NULL_WORD:
            return 0
        x = step[INDEX]
        b = find_bucket(buckets, x, key)
        if buckets[x, b, NEWEST] == UNUSED:
            return 0
        trim(words, links, buckets, x, indexes[x, LINK], b, ts - windows[step[STREAM]])
        count = buckets[x, b, COUNT]
        if count == 0:
            return 0
        if product > (2**63 - 1) // count:
            return -1
        product *= count
    return product


@allocating
def write(out: Words, n_out: int, slots: Words, last: int, candidates: Words, d: int, n: int) -> tuple[Words, int]:
    """One result per candidate of the last step; with n = -1, the bound slots alone."""
    count = 1 if n < 0 else n
    if n_out + count > out.shape[1]:
        larger = np.empty((out.shape[0], 2 * (n_out + count)), np.int64)
        for s in range(out.shape[0]):
            for k in range(n_out):
                larger[s, k] = out[s, k]
        out = larger
    for s in range(out.shape[0]):
        if s == last and n >= 0:
            for k in range(n):
                out[s, n_out + k] = candidates[d, k]
        else:
            for k in range(count):
                out[s, n_out + k] = slots[s]
    return out, n_out + count
