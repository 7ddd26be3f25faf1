"""Joining tuples before their turn: every tuple that enters is combined with all that have entered before it.

Let the watermark stand at τ when a tuple enters. Its results are those that Sync-Filter makes of it or of a tuple whose
turn is still to come: all of them where it is in time; where it is late, those newer than τ, for only a tuple newer
than τ has its turn still to come. A tuple that has its turn later makes nothing then.

Invariant: every result that Sync-Filter makes is made once, by the member that enters last; and no other.

References: 000 §5, steps 3 to 5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.jit import in_place, inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.disorder.release.eager import ENTERS as ENTERS_EARLY
from slackwater.disorder.release.eager import LEAVES
from slackwater.expressions.compile import refine_listed_at
from slackwater.operators.join.loop import (
    BUFFER_FULL,
    ENTERS,
    FINISHED,
    OVERFLOW,
    PASSES_BY,
    PROBES,
    place_probe_insert,
)
from slackwater.operators.join.probe_steps import Refine
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import BEGIN, END, Windows, insert, place
from slackwater.operators.join.unordered_probe import Reach, combinations

# Places in `Lines.state`.
N, LEAST, FULL, AHEAD = range(4)


class Lines(NamedTuple):
    """Where combinations are written: timestamp, how many they stand for, the event that made them, their slots.

    `state`: how many lines there are, the least timestamp that is wanted, whether there was no room for one, and how
    many tuples have entered whose turn is still to come.
    """

    ts: Words
    multiplicity: Floats
    by: Words
    slots: Words
    state: Words


def lines(capacity: int, streams: int, ahead: int) -> Lines:
    """Space for so many; without `streams`, slots are not written."""
    return Lines(
        np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity, np.int64),
        np.empty((streams, capacity), np.int64),
        np.array([0, 0, 0, ahead]),
    )  # fmt: skip


class Combining(NamedTuple):
    """What the loops work on that combine a tuple with all that came before it."""

    refine_listed: Refine
    plan: Probes
    w: Windows
    search: Search
    reach: Reach
    found: Lines
    kind: Words
    """What each event is: a tuple that enters, that leaves with its turn, or both at once. Empty where all enter."""
    compared: Words
    """How many tuples each event was compared with; empty where nobody asks."""


@in_place
def join_events(
    condition: int, plan: Probes, new: OrderedTuples, kind: Words, begin: int, w: Windows, search: Search, reach: Reach,
    found: Lines, compared: Words,
) -> tuple[int, int]:  # fmt: skip
    """Process events from `begin` on, until their end or until one's results have no room any more.

    Returns (events processed, status); `compared[i]` is how many tuples event i was compared with.
    """
    job = Combining(refine_listed_at(condition), plan, w, search, reach, found, kind, compared)
    return place_probe_insert(place, insert, admit, combine_and_compare, count_ahead, job, new, begin)


@inner
def admit(job: Combining, new: OrderedTuples, i: int) -> int:
    """A tuple enters while it can be joined; a late one probes where others that have entered wait for their turn."""
    ts, watermark_at_arrival, state = new.words[TS, i], new.watermark_at_arrival[i], job.found.state
    job.compared[i] = 0
    if job.kind[i] == LEAVES:
        state[AHEAD] -= 1
        return PASSES_BY
    if ts < watermark_at_arrival - job.plan.sizes[new.stream[i]]:
        return PASSES_BY
    drop_expired(job.w, job.plan, watermark_at_arrival)
    return PROBES if ts >= watermark_at_arrival or state[AHEAD] > 0 else ENTERS


@inner
def combine_and_compare(job: Combining, new: OrderedTuples, i: int) -> int:
    """Write the combinations down that are wanted, and how many tuples were looked at."""
    looked_at = job.reach.compared[0]
    late = new.words[TS, i] < new.watermark_at_arrival[i]
    job.found.state[LEAST] = new.watermark_at_arrival[i] + 1 if late else new.watermark_at_arrival[i]
    status = combine(job, new, i)
    job.compared[i] = job.reach.compared[0] - looked_at
    return status


@inner
def combine(job: Combining, new: OrderedTuples, i: int) -> int:
    """Write the combinations of tuple i down, all of them or none."""
    found, s = job.found, new.stream[i]
    before = found.state[N]
    made = combinations(
        note_line, found, job.refine_listed, job.plan, job.w, s, new.words[TS, i], job.search, job.reach
    )
    if made < 0:
        return OVERFLOW
    if found.state[FULL] == 1:
        found.state[FULL], found.state[N] = 0, before
        return BUFFER_FULL
    for k in range(before, found.state[N]):
        found.by[k] = i
    return FINISHED


@inner
def count_ahead(job: Combining, new: OrderedTuples, i: int, fate: int) -> None:
    """A tuple that has entered before its turn has it still to come."""
    if fate != PASSES_BY and job.kind[i] == ENTERS_EARLY:
        job.found.state[AHEAD] += 1


@inner
def note_line(found: Lines, search: Search, ts: int, multiplicity: float) -> None:
    """Write combinations down that are wanted."""
    n = found.state[N]
    if ts < found.state[LEAST]:
        return
    if n == len(found.ts):
        found.state[FULL] = 1
        return
    found.ts[n], found.multiplicity[n] = ts, multiplicity
    for s in range(found.slots.shape[0]):
        found.slots[s, n] = search.slots[s]
    found.state[N] = n + 1


@inner
def drop_expired(w: Windows, plan: Probes, watermark: int) -> None:
    """What the watermark has left behind need not be scanned any more; the progress of one tuple does not tell."""
    for s in range(len(w.regions)):
        begin = w.regions[s, BEGIN]
        while begin < w.regions[s, END] and w.words[TS, begin] < watermark - plan.sizes[s]:
            begin += 1
        w.regions[s, BEGIN] = begin
