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

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Flags, Floats, Words
from slackwater.model.time import AFTER_ALL
from slackwater.operators.join.retention import note_lateness
from slackwater.operators.join.search import Arriving, Probes, Search
from slackwater.operators.join.store import Windows, insert, place
from slackwater.operators.join.synopsis import Synopsis, bound, note_tuple
from slackwater.operators.join.unordered_probe import Reach, combinations

FINISHED, OVERFLOW = 0, -1
NEVER = -(2**62)
"""The number of a place in a ring of buckets in which none stands yet."""
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
    return Periods(
        np.full(buckets, NEVER, np.int64), made, lost, expected, most, np.array([NEVER, 1, NEVER]), np.zeros(3), width
    )


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


@in_place
def settle(
    condition: int, plan: Probes, new: Arriving, far: Flags, lost_results: Floats, w: Windows, search: Search,
    reach: Reach,
    periods: Periods, rough: Estimating, known: int, retention: int, count_all_results: bool,
) -> tuple[int, int]:  # fmt: skip
    """Price the late tuples of a run, or all, and note all; returns (from when on everything is known, status).

    `far`: which of them no slack that is allowed would have kept in time; what these cost is summed up by itself.

    Within the run nothing is forgotten where `retention` is negative.
    """
    refine_listed = refine_listed_at(condition)
    factor = rough.factor
    for i in range(new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        lost_results[i] = expected = 0.0
        if retention >= 0:
            known = max(known, new.watermark_at_arrival[i] - retention)
        is_late = ts < new.watermark_at_arrival[i]
        if is_late:
            note_lateness(rough.lateness, new.watermark_at_arrival[i] - ts)
        is_kept, is_counted = ts >= known - plan.sizes[s], count_all_results or is_late
        if is_kept:
            search.slots[s] = place(w, s, new.words, i)
            if is_counted:
                # What is there by chance is not looked at: it is counted by the synopsis.
                for j in range(len(plan.sizes)):
                    reach.since[j] = known - plan.sizes[j]
                lost_results[i] = combinations(note, periods, refine_listed, plan, w, s, ts, search, reach)
                if lost_results[i] < 0:
                    return known, OVERFLOW
        if is_counted and ts < known:
            if ts >= rough.begun - plan.sizes[s]:
                since = known if is_kept else AFTER_ALL
                expected = estimate(rough, periods, s, new.words, i, lost_results[i], since, plan.sizes[s])
        elif is_counted:
            factor[COUNTED] += 1
            if factor[COUNTED] < AT_FIRST or factor[COUNTED] % EACH == 0:
                learn(rough, s, new.words, i, lost_results[i])
        else:
            factor[MAKING] += 1
            if factor[MAKING] % EACH == 0:
                factor[LOOKED_AT] += 1
                factor[OF_LOOKED_AT] += bound(rough.synopsis, s, new.words, i, AFTER_ALL)[2]
        if is_late and far[i]:
            rough.sums[FAR_LOST] += lost_results[i]
            rough.sums[FAR_EXPECTED] += expected
        note_tuple(rough.synopsis, s, new.words, i)
        if is_kept:
            insert(w, s)
    return known, FINISHED


@inner
def estimate(
    rough: Estimating, periods: Periods, s: int, words: Words, i: int, found: float, known: int, window: int
) -> float:
    """Price a tuple by the synopsis, beside what was found of its partners: all from `known` on, less their windows.

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
    number = ts // periods.width
    at = number % len(periods.number)
    if periods.number[at] < number:
        periods.number[at], periods.made[at], periods.lost[at] = number, 0.0, 0.0
        periods.expected[at], periods.most[at] = 0.0, 0.0
    return at if periods.number[at] == number else -1


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
