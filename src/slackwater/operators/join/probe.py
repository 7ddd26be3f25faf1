"""The join itself: every tuple in time probes the other windows; every tuple then enters its own.

The search for a tuple's results goes depth first through the streams that are enumerated. A step is taken as soon as
the streams it asks about are bound, and not each time the search comes by; where a step finds nothing, whatever else
could still be bound is not tried.

Invariant: a result is made when its last member in processing order arrives in time; so results come in timestamp
order, each once. A late tuple makes none, but enters its window while it can still be joined.

References: 003 Alg. 2; 004 Alg. 4.6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.expressions.compile import refine_at, refine_listed_at
from slackwater.operators.join.loop import (
    BUFFER_FULL,
    ENTERS,
    OVERFLOW,
    PASSES_BY,
    PAUSED,
    PROBES,
    TOO_MANY,
    nothing_after,
    place_probe_insert,
)
from slackwater.operators.join.probe_stats import DONE, LIMIT, ProbeStats, count_step, sampled
from slackwater.operators.join.probe_steps import Refine, factor, reach
from slackwater.operators.join.probing import STREAM
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import Windows, insert, place

LARGEST = 2**63 - 1
"""Stands for every product that does not fit into 64 bits."""


class Joining(NamedTuple):
    """What the loop of a join works on; that of another join may have more, and share the functions below."""

    refine: Refine
    refine_listed: Refine
    plan: Probes
    w: Windows
    search: Search
    probe_stats: ProbeStats
    out: Words
    counts: Words
    """How many results each tuple has."""


@in_place
def join_run(
    conditions: tuple[int, int],
    plan: Probes,
    new: OrderedTuples,
    begin: int,
    w: Windows,
    search: Search,
    probe_stats: ProbeStats,
    out: Words,
    counts: Words,
) -> tuple[int, int, int]:
    """Process a run from `begin` on, until its end, a pause, or a tuple whose results have no room in `out` any more.

    Returns (tuples processed, results written, status); `counts[i]` is tuple i's number of results.
    """
    refine, refine_listed = refine_at(conditions[0]), refine_listed_at(conditions[1])
    job = Joining(refine, refine_listed, plan, w, search, probe_stats, out, counts)
    search.written[0] = 0
    done, status = place_probe_insert(place, insert, admit, probe_and_count, nothing_after, job, new, begin)
    return done, search.written[0], status


@inner
def is_pause_due(job: Any, i: int) -> bool:
    """Whether enough has been counted to choose the order of probes anew."""
    return job.probe_stats.on and sampled(i) and job.probe_stats.work[DONE] >= job.probe_stats.work[LIMIT]


@inner
def admit(job: Any, new: OrderedTuples, i: int) -> int:
    """A tuple in time probes; a late one enters while it can still be joined."""
    if is_pause_due(job, i):
        return PAUSED
    job.counts[i] = 0
    ts = new.words[TS, i]
    if ts >= new.watermark_at_arrival[i]:
        return PROBES
    return PASSES_BY if ts < new.watermark_at_arrival[i] - job.plan.sizes[new.stream[i]] else ENTERS


@inner
def probe_and_count(job: Any, new: OrderedTuples, i: int) -> int:
    """Write the results of tuple i behind those of the others, and how many there are."""
    counting = job.probe_stats.on and sampled(i)
    made = probe(
        job.refine, job.refine_listed, job.plan, job.w, new.stream[i], new.words[TS, i], job.search, job.probe_stats,
        counting, job.out, job.search.written[0],
    )  # fmt: skip
    if made >= 0:
        job.counts[i] = made
        if not job.plan.count_only:
            job.search.written[0] += made
    return made


@inner
def probe(
    refine: Refine, refine_listed: Refine, plan: Probes, w: Windows, root: int, ts: int, search: Search,
    probe_stats: ProbeStats,
    counting: bool, out: Words, n_out: int,
) -> int:  # fmt: skip
    """All results of a tuple of stream `root`, depth first; returns how many, or why it stopped."""
    others = len(w.regions) - 1
    depths = plan.leaves[root] if plan.count_only else others
    total, bound, known = 0, 0, 1
    while True:
        multiplicity = take_ready(refine, refine_listed, plan, w, root, bound, known, ts, search, probe_stats, counting)
        if multiplicity < 0:
            return OVERFLOW
        if multiplicity > 0 and bound < depths:
            if bound == depths - 1 and plan.unasked[root]:
                more = times(multiplicity, search.found[bound])
                if not plan.count_only:
                    more = write(out, n_out + total, search, plan.steps[root, bound, STREAM], bound)
                if more < 0 or more == LARGEST or total + more < 0:
                    return BUFFER_FULL if more < 0 else TOO_MANY
                total += more
            else:
                search.multiplicity[bound], search.at[bound] = multiplicity, 0
                bound += 1
        elif multiplicity > 0:
            if others == 0:
                return write(out, n_out, search, root, -1)
            if multiplicity == LARGEST or total + multiplicity < 0:
                return TOO_MANY
            total += multiplicity
        # On to the next tuple of the deepest stream that has one.
        while bound > 0 and search.at[bound - 1] == search.found[bound - 1]:
            bound -= 1
        if bound == 0:
            return total
        d = bound - 1
        search.slots[plan.steps[root, d, STREAM]] = search.candidates[d, search.at[d]]
        search.at[d] += 1
        known = search.multiplicity[d]


@inner
def take_ready(
    refine: Refine, refine_listed: Refine, plan: Probes, w: Windows, root: int, bound: int, known: int, ts: int,
    search: Search, probe_stats: ProbeStats, counting: bool,
) -> int:  # fmt: skip
    """Take the steps that the stream bound last has made ready; returns 0 where one of them finds nothing.

    Else the product of `known` and all factors among them; OVERFLOW where a condition cannot be asked.
    """
    multiplicity = known
    for k in range(plan.due[root, bound], plan.due[root, bound + 1]):
        d = plan.agenda[root, k]
        if plan.count_only and d >= plan.leaves[root]:
            n = factor(plan, w, root, d, ts, search.slots)
            count_step(probe_stats, counting, root, d, 0, n)
            multiplicity = times(multiplicity, n)
        else:
            n = search.found[d] = reach(refine, refine_listed, plan, w, root, d, ts, search, probe_stats, counting)
        if n <= 0:
            return n
    return multiplicity


@inner
def times(multiplicity: int, n: int) -> int:
    """A product, or LARGEST."""
    return LARGEST if n > 0 and multiplicity > LARGEST // n else multiplicity * n


@inner
def write(out: Words, n_out: int, search: Search, last: int, d: int) -> int:
    """One result per candidate of the last step; with d = -1, the bound slots alone. The number, or BUFFER_FULL."""
    count = 1 if d < 0 else search.found[d]
    if n_out + count > out.shape[1]:
        return BUFFER_FULL
    for s in range(out.shape[0]):
        if s == last and d >= 0:
            for k in range(count):
                out[s, n_out + k] = search.candidates[d, k]
        else:
            for k in range(count):
                out[s, n_out + k] = search.slots[s]
    return count
