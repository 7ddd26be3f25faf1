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

from slackwater.compiled import in_place, inner
from slackwater.disorder.eager import ENTERS, LEAVES
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Floats, Words
from slackwater.operators.join.probe import BUFFER_FULL, FINISHED, OVERFLOW
from slackwater.operators.join.search import Arriving, Probes, Search
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


def lines(output_buffer: int, streams: int, ahead: int) -> Lines:
    """Space for so many; without `streams`, slots are not written."""
    return Lines(
        np.empty(output_buffer, np.int64), np.empty(output_buffer), np.empty(output_buffer, np.int64),
        np.empty((streams, output_buffer), np.int64),
        np.array([0, 0, 0, ahead]),
    )  # fmt: skip


@in_place
def join_events(
    condition: int, plan: Probes, new: Arriving, kind: Words, begin: int, w: Windows, search: Search, reach: Reach,
    found: Lines, compared: Words,
) -> tuple[int, int]:  # fmt: skip
    """Process events from `begin` on, until their end or until one's results have no room any more.

    Returns (events processed, status); `compared[i]` is how many tuples event i was compared with.
    """
    refine_listed = refine_listed_at(condition)
    state = found.state
    for i in range(begin, new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        compared[i] = 0
        late = ts < new.watermark_at_arrival[i]
        if kind[i] == LEAVES:
            state[AHEAD] -= 1
        elif ts >= new.watermark_at_arrival[i] - plan.sizes[s]:
            drop_expired(w, plan, new.watermark_at_arrival[i])
            search.slots[s] = place(w, s, new.words, i)
            if not late or state[AHEAD] > 0:
                before, looked_at = state[N], reach.compared[0]
                state[LEAST] = new.watermark_at_arrival[i] + 1 if late else new.watermark_at_arrival[i]
                made = combinations(note_line, found, refine_listed, plan, w, s, ts, search, reach)
                if made < 0:
                    return i, OVERFLOW
                if state[FULL] == 1:
                    state[FULL], state[N] = 0, before
                    return i, BUFFER_FULL
                for k in range(before, state[N]):
                    found.by[k] = i
                compared[i] = reach.compared[0] - looked_at
            insert(w, s)
            if kind[i] == ENTERS:
                state[AHEAD] += 1
    return new.words.shape[1], FINISHED


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
