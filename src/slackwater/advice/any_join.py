"""The curve of any window join: the engine finds all true results, and of each the least slack is found.

Tuples go through the engine's own kernel in event-time order, so nothing is late there, and every result names its
members. This is the oracle of `equi_join`, and what is left where streams are linked by more than one key: by any
condition, by windows between pairs, by nothing at all.

Invariant: exact; results are counted as they come and never retained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.advice.arrivals import ArrivalHistory
from slackwater.advice.least import Clocks, first_at, least_slack
from slackwater.advice.tally import HOURS, Tally, points_below
from slackwater.core.batch import ROW, Batch, Words
from slackwater.core.jit import in_place
from slackwater.core.quality import NoWait
from slackwater.core.time import HOUR
from slackwater.disorder.cutting import Epochs
from slackwater.plan.physical import IDENTITY, PhysicalPlan
from slackwater.runtime.driver import Driver, with_results
from slackwater.runtime.kernels import query_for
from slackwater.sources.codebook import Codebook

AT_ONCE = 2048
"""Tuples that go into the kernel at once; their results are held together."""


@dataclass(frozen=True)
class EnumeratedJoin:
    """A join whose results are all made."""

    history: ArrivalHistory
    plan: PhysicalPlan
    codebook: Codebook

    def count(self, tally: Tally, dropped: Tally | None = None, below: Words | None = None) -> None:
        """Count all results, and those that slacks lose; where rows are dropped, by the slack below which each is."""
        history = self.history
        first = np.zeros((max(1, history.streams), 1), np.int64)
        for members in self.results():
            count_results(
                history.clocks, members, history.ts, history.rank, history.event, history.reached, tally.grid,
                tally.by_stream, tally.by_hour, tally.true_by_hour, tally.made, first,
            )  # fmt: skip
            if dropped is not None and below is not None:
                of_members = below[members]
                hour = history.ts[members].max(axis=0) // HOUR % HOURS
                dropped.note(of_members.max(axis=0), np.argmax(of_members, axis=0), hour)
        if dropped is not None:
            dropped.true_by_hour[:] = tally.true_by_hour

    def results(self) -> Iterator[Words]:
        """The members of all true results, shape (streams, results), by their numbers in the history."""
        batch, plan = self.history.batch, replace(self.plan, quality=NoWait())
        mine = np.flatnonzero(batch.passes)
        order = mine[np.lexsort((mine, batch.ts[mine]))]
        words = np.ascontiguousarray(batch.words[:, order])
        words[ROW] = order
        sorted_ = Batch(batch.stream[order], words, np.ones(len(order), np.bool_))
        kernel = query_for(plan, Epochs(tuples=AT_ONCE), self.codebook)
        columns = [plan.emitted.index((stream, IDENTITY)) for stream in range(self.history.streams)]
        batches = (sorted_.take(slice(at, at + AT_ONCE)) for at in range(0, len(order), AT_ONCE))
        for emission in with_results(Driver(kernel).run(batches)):
            yield np.stack([emission.columns[column] for column in columns])


@in_place
def count_results(
    clocks: Clocks, members: Words, ts: Words, rank: Words, event: Words, reached: Words, grid: Words,
    by_stream: Words, by_hour: Words, true_by_hour: Words, made: Words, first: Words,
) -> None:  # fmt: skip
    """Count results, given their members, by the least slack of each."""
    m = members.shape[0]
    for i in range(members.shape[1]):
        newest, last = 0, 0
        for s in range(1, m):
            newest = s if ts[members[s, i]] >= ts[members[newest, i]] else newest
            last = s if rank[members[s, i]] > rank[members[last, i]] else last
        released, t = members[last, i], ts[members[newest, i]]
        hour = t // HOUR % HOURS
        true_by_hour[hour] += 1
        made[members[newest, i]] += 1
        if reached[released] < t:
            continue
        # A member with the newest time that is released with the last one is in time if the watermark is just there.
        passed = ts[released] == t
        for s in range(m if not clocks.each else 0):
            passed = passed or (ts[members[s, i]] == t and event[members[s, i]] == event[released])
        for k in range(len(clocks.begins) - 1):
            first[k, 0] = first_at(clocks, k, t)
        least = least_slack(clocks, event[released], t, passed, first, 0)
        if least > 0:
            at = points_below(grid, least)
            by_stream[last, at] += 1
            by_hour[hour, at] += 1
