"""The curve of any window join: the engine finds all true results, and of each the least slack is found.

Tuples go through the engine's own kernel in event-time order, so nothing is late there, and every result names its
members. This is the oracle of `equi_join`, and what is left where streams are linked by more than one key: by any
condition, by windows between pairs, by nothing at all.

Invariant: exact; results are looked at as they come and never kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.advice.history import History
from slackwater.advice.least import least_slacks
from slackwater.advice.tally import HOURS, Tally
from slackwater.core.batch import ROW, Batch, Words
from slackwater.core.quality import NoWait
from slackwater.core.time import HOUR
from slackwater.disorder.clock_guard import UNGUARDED
from slackwater.disorder.cutting import Epochs
from slackwater.plan.physical import IDENTITY, PhysicalPlan
from slackwater.runtime.driver import Driver, with_results
from slackwater.runtime.kernels import kernel_for
from slackwater.sources.codebook import Codebook

AT_ONCE = 2048
"""Tuples that go into the kernel at once; their results are held together."""


@dataclass(frozen=True)
class EnumeratedJoin:
    """A join whose results are all made."""

    history: History
    plan: PhysicalPlan
    codebook: Codebook

    def count(self, tally: Tally, dropped: Tally | None = None, dropped_below: Words | None = None) -> None:
        """Count all results, and those that slacks lose; where rows are dropped, by the slack below which each is."""
        history = self.history
        for members in self.results():
            times = history.ts[members]
            newest = times.max(axis=0)
            hour = newest // HOUR % HOURS
            tally.true_by_hour[:] += np.bincount(hour, minlength=HOURS)
            by_newest = members[times.argmax(axis=0), np.arange(len(newest))]
            np.add.at(tally.made, by_newest, 1)
            last = np.argmax(history.rank[members], axis=0)
            which = np.arange(len(newest))
            released = members[last, which]
            # Whoever holds the newest time and is released with the last one is in time if the watermark is just there.
            tied = times == newest
            if not history.each:
                tied &= history.event[members] == history.event[released]
            else:
                tied &= members == released
            least = least_slacks(history.clocks, history.event[released], newest, tied.any(axis=0))
            tally.note(least, last, hour)
            if dropped is not None and dropped_below is not None:
                below = dropped_below[members]
                dropped.true_by_hour[:] += np.bincount(hour, minlength=HOURS)
                dropped.note(below.max(axis=0), np.argmax(below, axis=0), hour)

    def results(self) -> Iterator[Words]:
        """The members of all true results, shape (streams, results), as places in the history."""
        batch, plan = self.history.batch, replace(self.plan, quality=NoWait())
        mine = np.flatnonzero(batch.passes)
        order = mine[np.lexsort((mine, batch.ts[mine]))]
        words = np.ascontiguousarray(batch.words[:, order])
        words[ROW] = order
        sorted_ = Batch(batch.stream[order], words, np.ones(len(order), np.bool_))
        kernel = kernel_for(plan, Epochs(tuples=AT_ONCE), self.codebook, max_ahead=UNGUARDED)
        columns = [plan.emitted.index((stream, IDENTITY)) for stream in range(self.history.streams)]
        batches = (sorted_.take(slice(at, at + AT_ONCE)) for at in range(0, len(order), AT_ONCE))
        for emission in with_results(Driver(kernel).run(batches)):
            yield np.stack([emission.columns[column] for column in columns])
