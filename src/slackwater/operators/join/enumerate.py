"""The join itself: every tuple in time probes the other windows; every tuple then enters its own.

The search for a tuple's results goes depth first through the streams that are enumerated. A step is taken as soon as
the streams it asks about are bound, and not each time the search comes by; where a step finds nothing, whatever else
could still be bound is not tried.

Invariant: a result is made when its last member in processing order arrives in time; so results come in timestamp
order, each once. A late tuple makes none, but enters its window while it can still be joined.

References: 003 Alg. 2; 004 Alg. 4.6.
"""

from __future__ import annotations

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_at, refine_listed_at
from slackwater.model.batch import TS, Words
from slackwater.operators.join.probing import STREAM
from slackwater.operators.join.reaching import Refine, factor, reach
from slackwater.operators.join.search import Arriving, Probes, Search
from slackwater.operators.join.store import Windows, insert, place
from slackwater.operators.join.tally import DONE, LIMIT, Tally, sampled, tally_step

FINE = 0
OVERFLOW = -1
"""An integer of a condition does not fit into 64 bits."""
TOO_MANY = -2
"""One tuple's number of results does not fit into 64 bits."""
NO_ROOM = -3
"""One tuple's results do not fit behind those that wait to be taken."""
PAUSE = -4
"""So much has been done that the order of probes is due to be chosen anew."""
LARGEST = 2**63 - 1
"""Stands for every product that does not fit into 64 bits."""


@in_place
def join_run(
    conditions: tuple[int, int],
    plan: Probes,
    new: Arriving,
    begin: int,
    w: Windows,
    search: Search,
    tally: Tally,
    out: Words,
    counts: Words,
) -> tuple[int, int, int]:
    """Process a run from `begin` on, until its end, a pause, or a tuple whose results have no room in `out` any more.

    Returns (tuples processed, results written, status); `counts[i]` is tuple i's number of results.
    """
    refine, refine_listed = refine_at(conditions[0]), refine_listed_at(conditions[1])
    n_out = 0
    for i in range(begin, new.words.shape[1]):
        counting = tally.on and sampled(i)
        if counting and tally.work[DONE] >= tally.work[LIMIT]:
            return i, n_out, PAUSE
        s, ts = new.stream[i], new.words[TS, i]
        counts[i] = 0
        if ts < new.cutoff[i] - plan.sizes[s]:
            continue
        search.slots[s] = place(w, s, new.words, i)
        if ts >= new.cutoff[i]:
            made = probe(refine, refine_listed, plan, w, s, ts, search, tally, counting, out, n_out)
            if made < 0:
                return i, n_out, made
            counts[i] = made
            if not plan.counted:
                n_out += made
        insert(w, s)
    return new.words.shape[1], n_out, FINE


@inner
def probe(
    refine: Refine, refine_listed: Refine, plan: Probes, w: Windows, root: int, ts: int, search: Search, tally: Tally,
    counting: bool, out: Words, n_out: int,
) -> int:  # fmt: skip
    """All results of a tuple of stream `root`, depth first; returns how many, or why it stopped."""
    others = len(w.regions) - 1
    depths = plan.leaves[root] if plan.counted else others
    total, bound, known = 0, 0, 1
    while True:
        ways = take_ready(refine, refine_listed, plan, w, root, bound, known, ts, search, tally, counting)
        if ways < 0:
            return OVERFLOW
        if ways > 0 and bound < depths:
            if bound == depths - 1 and plan.unasked[root]:
                more = times(ways, search.found[bound])
                if not plan.counted:
                    more = write(out, n_out + total, search, plan.steps[root, bound, STREAM], bound)
                if more < 0 or more == LARGEST or total + more < 0:
                    return NO_ROOM if more < 0 else TOO_MANY
                total += more
            else:
                search.ways[bound], search.at[bound] = ways, 0
                bound += 1
        elif ways > 0:
            if others == 0:
                return write(out, n_out, search, root, -1)
            if ways == LARGEST or total + ways < 0:
                return TOO_MANY
            total += ways
        # On to the next tuple of the deepest stream that has one.
        while bound > 0 and search.at[bound - 1] == search.found[bound - 1]:
            bound -= 1
        if bound == 0:
            return total
        d = bound - 1
        search.slots[plan.steps[root, d, STREAM]] = search.candidates[d, search.at[d]]
        search.at[d] += 1
        known = search.ways[d]


@inner
def take_ready(
    refine: Refine, refine_listed: Refine, plan: Probes, w: Windows, root: int, bound: int, known: int, ts: int,
    search: Search, tally: Tally, counting: bool,
) -> int:  # fmt: skip
    """Take the steps that the stream bound last has made ready; returns 0 where one of them finds nothing.

    Else the product of `known` and all factors among them; OVERFLOW where a condition cannot be asked.
    """
    ways = known
    for k in range(plan.due[root, bound], plan.due[root, bound + 1]):
        d = plan.agenda[root, k]
        if plan.counted and d >= plan.leaves[root]:
            n = factor(plan, w, root, d, ts, search.slots)
            tally_step(tally, counting, root, d, 0, n)
            ways = times(ways, n)
        else:
            n = search.found[d] = reach(refine, refine_listed, plan, w, root, d, ts, search, tally, counting)
        if n <= 0:
            return n
    return ways


@inner
def times(ways: int, n: int) -> int:
    """A product, or LARGEST."""
    return LARGEST if n > 0 and ways > LARGEST // n else ways * n


@inner
def write(out: Words, n_out: int, search: Search, last: int, d: int) -> int:
    """One result per candidate of the last step; with d = -1, the bound slots alone. Returns how many, or NO_ROOM."""
    count = 1 if d < 0 else search.found[d]
    if n_out + count > out.shape[1]:
        return NO_ROOM
    for s in range(out.shape[0]):
        if s == last and d >= 0:
            for k in range(count):
                out[s, n_out + k] = search.candidates[d, k]
        else:
            for k in range(count):
                out[s, n_out + k] = search.slots[s]
    return count
