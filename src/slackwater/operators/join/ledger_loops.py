"""The ledger of a join: what every late tuple cost, counted exactly by probing what was processed before it.

A result is lost when its last member, in processing order, comes late: all the others have been processed, and a late
tuple makes no results of its own. So what a late tuple has lost is the number of its combinations with the tuples
processed before it, late ones included; every lost result is counted once, under its own timestamp.

Where several operators make the results, as in a tree of joins, a result may be lost in other ways too. There every
tuple is counted, whether late or not: each true result is counted once, at whichever of its members comes last, and is
lost unless it has been made.

A tuple that comes so late that some of what it could have been joined with is forgotten is estimated by the synopsis
(`quality.ledger.estimates`).

Invariant: results made + results lost = true results, of all tuples that are counted in full; of the others, what is
found is a part of what they cost.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.expressions.compile import refine_listed_at
from slackwater.operators.join.loop import ENTERS, FINISHED, OVERFLOW, PASSES_BY, PROBES, place_probe_insert
from slackwater.operators.join.probe_steps import Refine
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import Windows, insert, place
from slackwater.operators.join.unordered_probe import Reach, combinations
from slackwater.quality.ledger.estimates import Estimating, note_loss
from slackwater.quality.ledger.periods import Periods, note_lost
from slackwater.quality.ledger.retention import note_lateness


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
    condition: int, plan: Probes, new: OrderedTuples, far: Flags, lost_results: Floats, w: Windows, search: Search,
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
    return place_probe_insert(place, insert, admit, find_lost, estimate_and_learn, job, new, 0)[1]


@inner
def admit(job: LossCounting, new: OrderedTuples, i: int) -> int:
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
def find_lost(job: LossCounting, new: OrderedTuples, i: int) -> int:
    """Count the combinations of tuple i with those processed before it."""
    s, sizes = new.stream[i], job.plan.sizes
    # What is there by chance is not looked at: it is counted by the synopsis.
    for j in range(len(sizes)):
        job.reach.since[j] = job.known[0] - sizes[j]
    # What is newer than the watermark is not lost: where tuples come before their turn, it is made all the same.
    job.reach.until[0] = AFTER_ALL if job.count_all_results else new.watermark_at_arrival[i]
    job.lost_results[i] = combinations(
        note, job.periods, job.refine_listed, job.plan, job.w, s, new.words[TS, i], job.search, job.reach
    )
    return OVERFLOW if job.lost_results[i] < 0 else FINISHED


@inner
def estimate_and_learn(job: LossCounting, new: OrderedTuples, i: int, fate: int) -> None:
    """What could not be counted in full is estimated; what could teaches what estimates are worth."""
    s, watermark_at_arrival = new.stream[i], new.watermark_at_arrival[i]
    is_counted = job.count_all_results or new.words[TS, i] < watermark_at_arrival
    note_loss(
        job.rough, job.periods, s, new.words, i, watermark_at_arrival, job.lost_results[i], job.known[0],
        job.plan.sizes[s], fate == PASSES_BY, is_counted, job.far[i],
    )  # fmt: skip


@inner
def note(periods: Periods, search: Search, ts: int, multiplicity: float) -> None:
    """Lost results, whatever they are made of."""
    note_lost(periods, ts, multiplicity)
