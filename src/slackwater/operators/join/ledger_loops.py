"""The ledger of a join: what every late tuple cost, counted exactly by probing what was processed before it.

A result is lost when its last member, in processing order, comes late: all the others have been processed, and a late
tuple makes no results of its own. So what a late tuple has lost is the number of its combinations with the tuples
processed before it, late ones included; every lost result is counted once, under its own timestamp.

Where several operators make the results, as in a tree of joins, a result may be lost in other ways too. There every
tuple is counted, whether late or not: each true result is counted once, at whichever of its members comes last, and is
lost unless it has been made.

A tuple that comes so late that some of what it could have been joined with is forgotten is counted by the synopsis of
all tuples: at most so much, and probably so much up to a factor. The factor is learned from tuples that are counted
both ways.

Invariant: results made + results lost = true results, of all tuples that are counted in full; of the others, what is
found is a part of what they cost, and `sums[MOST]` bounds the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.collections import ring
from slackwater.core.collections.ring import NEVER
from slackwater.core.jit import in_place, inner
from slackwater.core.time import AFTER_ALL
from slackwater.expressions.compile import refine_listed_at
from slackwater.operators.join.loop import ENTERS, FINISHED, OVERFLOW, PASSES_BY, PROBES, place_probe_insert
from slackwater.operators.join.probe_steps import Refine
from slackwater.operators.join.retention import note_lateness
from slackwater.operators.join.search import Arriving, Probes, Search
from slackwater.operators.join.store import Windows, insert, place
from slackwater.operators.join.synopsis import Synopsis, bound, note_tuple
from slackwater.operators.join.unordered_probe import Reach, combinations

EACH = 16
"""Of so many tuples one is counted by the synopsis, to learn what its estimates are worth."""
AT_FIRST = 512
"""So many late tuples are all looked at for it."""
FORGET = 8192
"""When so many have been looked at, half of what they taught is forgotten."""
# What is summed up over tuples that were not counted in full: the most that they cost beyond what was found, and what
# the synopsis expects of it. Then of tuples beyond the most slack allowed: the results found, and those expected.
MOST, EXPECTED, FAR_LOST, FAR_EXPECTED = range(4)
# What the factor is learned from. Of tuples whose losses are known: how many, their losses, what the synopsis expects.
# Of tuples that made results: how many were looked at, what it expects of them, how many there were.
COUNTED, LOST_RESULTS, OF_COUNTED, LOOKED_AT, OF_LOOKED_AT, MAKING = range(6)


class Periods(NamedTuple):
    """Results by the bucket of event time they belong to: a ring of buckets of equal width."""

    number: Words
    """Which bucket stands in each place of the ring."""
    made: Floats
    lost: Floats
    expected: Floats
    """What the synopsis expects of tuples that were not counted in full."""
    most: Floats
    """The most that these can have cost, under the bucket of the tuple: its results may be later by its window."""
    final: Words
    """The bucket before which the first period ends whose verdict is not final; how many buckets a period has; the
    bucket before which the first period of all ends."""
    beyond: Floats
    """What was noted for periods whose verdict is final: how often, how many results, how many expected; each once for
    every such period."""
    width: int


def ring_of(buckets: int, width: int) -> Periods:
    """An empty ring."""
    made, lost, expected, most = np.zeros((4, buckets))
    return Periods(ring.ring(buckets), made, lost, expected, most, np.array([NEVER, 1, NEVER]), np.zeros(3), width)


class Estimating(NamedTuple):
    """What is needed to count what a tuple has lost without its partners."""

    synopsis: Synopsis
    unknown: Words
    """Per stream, the tuples that were not counted in full."""
    sums: Floats
    factor: Floats
    lateness: Words
    begun: int
    """Results before this event time are not in the ledger."""


class LossCounting(NamedTuple):
    """What the loop of the ledger works on."""

    refine_listed: Refine
    plan: Probes
    w: Windows
    search: Search
    reach: Reach
    periods: Periods
    rough: Estimating
    lost_results: Floats
    """What each tuple of the run costs."""
    far: Flags
    known: Words
    """One number: from when on everything is known."""
    retention: int
    count_all_results: bool


@in_place
def settle(
    condition: int, plan: Probes, new: Arriving, far: Flags, lost_results: Floats, w: Windows, search: Search,
    reach: Reach,
    periods: Periods, rough: Estimating, known: Words, retention: int, count_all_results: bool,
) -> int:  # fmt: skip
    """Count the results that the late tuples of a run have lost, or all tuples, and note all; `known` moves on. Returns
    the status.

    `far`: which of them no slack that is allowed would have kept in time; what these cost is summed up by itself.

    Within the run nothing is forgotten where `retention` is negative.
    """
    refine_listed = refine_listed_at(condition)
    job = LossCounting(
        refine_listed, plan, w, search, reach, periods, rough, lost_results, far, known, retention, count_all_results
    )
    return place_probe_insert(place, insert, admit, find_lost, note_lost, job, new, 0)[1]


@inner
def admit(job: LossCounting, new: Arriving, i: int) -> int:
    """A tuple enters that is not older than what is known; it probes if it is to be counted."""
    ts, watermark_at_arrival = new.words[TS, i], new.watermark_at_arrival[i]
    job.lost_results[i] = 0.0
    if job.retention >= 0:
        job.known[0] = max(job.known[0], watermark_at_arrival - job.retention)
    if ts < watermark_at_arrival:
        note_lateness(job.rough.lateness, watermark_at_arrival - ts)
    if ts < job.known[0] - job.plan.sizes[new.stream[i]]:
        return PASSES_BY
    return PROBES if job.count_all_results or ts < watermark_at_arrival else ENTERS


@inner
def find_lost(job: LossCounting, new: Arriving, i: int) -> int:
    """Count the combinations of tuple i with those processed before it."""
    s, sizes = new.stream[i], job.plan.sizes
    # What is there by chance is not looked at: it is counted by the synopsis.
    for j in range(len(sizes)):
        job.reach.since[j] = job.known[0] - sizes[j]
    job.lost_results[i] = combinations(
        note, job.periods, job.refine_listed, job.plan, job.w, s, new.words[TS, i], job.search, job.reach
    )
    return OVERFLOW if job.lost_results[i] < 0 else FINISHED


@inner
def note_lost(job: LossCounting, new: Arriving, i: int, fate: int) -> None:
    """Estimate what could not be counted in full, learn from what could, and note the tuple in the synopsis."""
    s, ts, rough, known = new.stream[i], new.words[TS, i], job.rough, job.known[0]
    factor = rough.factor
    is_late, expected = ts < new.watermark_at_arrival[i], 0.0
    is_counted = job.count_all_results or is_late
    if is_counted and ts < known:
        if ts >= rough.begun - job.plan.sizes[s]:
            since = AFTER_ALL if fate == PASSES_BY else known
            expected = estimate(rough, job.periods, s, new.words, i, job.lost_results[i], since, job.plan.sizes[s])
    elif is_counted:
        factor[COUNTED] += 1
        if factor[COUNTED] < AT_FIRST or factor[COUNTED] % EACH == 0:
            learn(rough, s, new.words, i, job.lost_results[i])
    else:
        factor[MAKING] += 1
        if factor[MAKING] % EACH == 0:
            factor[LOOKED_AT] += 1
            factor[OF_LOOKED_AT] += bound(rough.synopsis, s, new.words, i, AFTER_ALL)[2]
    if is_late and job.far[i]:
        rough.sums[FAR_LOST] += job.lost_results[i]
        rough.sums[FAR_EXPECTED] += expected
    note_tuple(rough.synopsis, s, new.words, i)


@inner
def estimate(
    rough: Estimating, periods: Periods, s: int, words: Words, i: int, found: float, known: int, window: int
) -> float:
    """Estimate the results of a tuple by the synopsis, beside what was found of its partners: all from `known` on, less
    their windows.

    Returns what the synopsis expects of the rest.
    """
    every, older, expected, newer = bound(rough.synopsis, s, words, i, known)
    rough.factor[COUNTED] += 1
    rough.factor[LOST_RESULTS] += found
    rough.factor[OF_COUNTED] += newer
    most = older if known < AFTER_ALL else every
    most = min(most, every - found)
    if most <= 0:
        return 0.0
    rough.unknown[s] += 1
    rough.sums[MOST] += most
    rough.sums[EXPECTED] += expected
    at = turn_to(periods, words[TS, i])
    if at >= 0:
        periods.most[at] += most
    periods.beyond[0] += spoiled(periods, words[TS, i], 1 + window // periods.width)
    # Partners that are older leave a result at the tuple's own time, newer ones at theirs.
    ts = words[TS, i] + window // 4
    at = turn_to(periods, ts)
    if at >= 0:
        periods.expected[at] += expected
    periods.beyond[2] += expected * spoiled(periods, ts, 0)
    return expected


@inner
def learn(rough: Estimating, s: int, words: Words, i: int, lost_results: float) -> None:
    """A tuple has been counted exactly: what does the synopsis say?"""
    factor = rough.factor
    factor[LOST_RESULTS] += lost_results
    factor[OF_COUNTED] += bound(rough.synopsis, s, words, i, AFTER_ALL)[2]


@inner
def note(periods: Periods, search: Search, ts: int, multiplicity: float) -> None:
    """Write lost results down; a bucket so old that another has taken its place is not known any more."""
    at = turn_to(periods, ts)
    if at >= 0:
        periods.lost[at] += multiplicity
    final = spoiled(periods, ts, 0)
    periods.beyond[0] += final
    periods.beyond[1] += final * multiplicity


@inner
def spoiled(periods: Periods, ts: int, reach: int) -> int:
    """How many periods with a final verdict have a bucket from this event time on, up to so many buckets later."""
    following = ts // periods.width + 1
    ends = min(periods.final[0], following + periods.final[1] + reach)
    return max(0, ends - max(following, periods.final[2]))


@inner
def turn_to(periods: Periods, ts: int) -> int:
    """The place of the bucket that an event time belongs to, emptied if an older one stood there; -1 if too old."""
    return ring.turn_to(empty, periods.number, periods, ts // periods.width)


@inner
def empty(periods: Periods, at: int) -> None:
    """Another bucket begins at this place."""
    periods.made[at], periods.lost[at], periods.expected[at], periods.most[at] = 0.0, 0.0, 0.0, 0.0


@in_place
def note_true(periods: Periods, ts: Words) -> None:
    """Write true results down; each is lost until it turns out to have been made."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            periods.lost[at] += 1.0


@in_place
def note_made(periods: Periods, ts: Words, multiplicities: Words, counted_exactly: bool) -> None:
    """Write results down that were made; `multiplicities` is empty where each line is one. `counted_exactly`: they
    count as lost too."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            multiplicity = multiplicities[i] if len(multiplicities) > 0 else 1
            periods.made[at] += multiplicity
            if counted_exactly:
                periods.lost[at] -= multiplicity
