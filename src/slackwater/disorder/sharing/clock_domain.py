"""A clock domain: the streams whose clocks move once for all queries that read them on the same terms.

What an arrival says about time depends on the streams that are read together and on options, never on filters: a tuple
that a filter drops moves its clock too. So queries that read the same streams with the same options see the same
verdicts of the clock guard, the same ends of epochs and the same clocks. They are worked out here, once, and told as a
`Timeline`. What differs from query to query is left out: slack, and the watermark that follows from it.

Invariant: clocks, verdicts and epochs are those that a query of these streams has by itself (`Pipeline`), because the
functions that move them are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate
from slackwater.core.time import LONGEST
from slackwater.core.wrong_clocks import PartitionClock
from slackwater.disorder.clock_guard import UNGUARDED, ClockGuard, Guarded
from slackwater.disorder.clocks import advance_clock, arrival_time_of, min_clock
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.cutting import Cutting, Epochs
from slackwater.disorder.release import state as st
from slackwater.disorder.release.epoch import end_epoch, epoch_is_full
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.stage_state import NAMESPACE


@dataclass(frozen=True)
class ClockTerms:
    """What queries must have in common to share clocks, beside the streams they read."""

    streams: int
    max_ahead: int
    max_behind: int = LONGEST
    idle_timeout: int | None = None
    idle_after: float | None = None
    partition_slots: tuple[int, ...] = ()
    """Per stream, the row that tells its parts apart, or NO_PARTITION; empty: no stream has parts."""


class Timeline(NamedTuple):
    """What some arrivals say of time. There is an entry a tuple, then an entry an epoch.

    The last entry of those of epochs is of what follows after the last end of an epoch; it may be nothing.
    """

    delay: Words
    behind: Words
    """How far a tuple was behind its stream's clock when the epoch began; UNTAUGHT where it teaches nothing."""
    needed: Words
    """How far it was behind the slowest clock then."""
    max_ts: Words
    """The largest clock after the tuple."""
    now: Words
    """When it arrived."""
    epoch: Words
    stop: Words
    """Behind the last tuple of the epoch."""
    slowest: Words
    """The smallest clock that counts, when the epoch has ended; BEFORE_ALL where some stream was never heard."""
    largest: Words
    """The largest clock then."""
    ended_at: Words
    """The moment."""
    clocks: Words
    """The clock of every stream then, a line an epoch."""

    @property
    def epochs(self) -> int:
        """How many have ended."""
        return len(self.stop) - 1


class ClockDomain:
    """One clock guard and one set of clocks."""

    def __init__(self, terms: ClockTerms, epochs: Epochs, rows: int) -> None:
        self.terms, self.rows = terms, rows
        cutting = Cutting(epochs.each_tuple, epochs.tuples, epochs.span)
        self.guard = ClockGuard(terms.streams, terms.max_ahead, cutting, terms.partition_slots, terms.max_behind)
        spec = ReleaseSpec(
            terms.streams, rows, "epoch", False, epochs.tuples, epochs.span, terms.idle_timeout, terms.idle_after,
            terms.partition_slots, terms.max_behind,
        )  # fmt: skip
        # Without slack its watermark is how far the slowest clock has ever been.
        self.release = Release(spec, FixedSlack(0))
        self._waiting: list[Batch] = []

    @staticmethod
    def shares(epochs: Epochs, max_ahead: int) -> bool:
        """Whether clocks can be told once: epochs must have ended where they are told of."""
        return not epochs.each_tuple and (max_ahead < UNGUARDED or (epochs.tuples == 0 and epochs.span == 0))

    @property
    def clock(self) -> st.Clockwork:
        """The clocks as they stand."""
        return self.release.state.clock

    @property
    def unjudged(self) -> int:
        """Tuples that are not yet admitted."""
        return self.guard.pending + sum(map(len, self._waiting))

    @property
    def partition_clocks(self) -> tuple[PartitionClock, ...]:
        return self.release.partition_clocks

    def absorb(self, batch: Batch) -> None:
        """Take in tuples, in arrival order."""
        if len(batch):
            self._waiting.append(batch)

    def admit(self, end: bool = False) -> Guarded:
        """Judge what has come since the last call; with `end` nothing is left unjudged."""
        batch = Batch.concat(self._waiting) if self._waiting else Batch.of([], self.rows)
        self._waiting = []
        return self.guard.admit(batch, end)

    def tell(self, guarded: Guarded) -> Timeline:
        """Move the clocks by tuples that were admitted, and by what the guard knows of them."""
        batch, ends = guarded.batch, guarded.ends
        if guarded.clocks is not None:
            self.release.set_clocks(guarded.clocks)
        new = st.arrivals(batch, self.release.partitions_of(batch), True, ends)
        n, told = len(batch), self.release.is_told
        epochs = (1 if n or told else 0) if ends is None else int(np.count_nonzero(ends))
        line = timeline(n, epochs, new, self.terms.streams)
        if n or not told:
            tell_time(new, self.release.policy(), self.clock, line)
        else:
            tell_silent_epoch(int(self.clock.scalars[st.NOW]), self.release.policy(), self.clock, line)
        self.release.forget_clocks()
        return line

    def on_processing_time(self, now: int) -> Timeline:
        """End an epoch in which nothing arrived."""
        new = st.arrivals(Batch.of([], self.rows), np.zeros(0, np.int64), True)
        line = timeline(0, 1, new, self.terms.streams)
        tell_silent_epoch(now, self.release.policy(), self.clock, line)
        return line

    def relay(self, rows: int, change: Callable[[Batch], Words]) -> None:
        """From now on tuples have these rows; what waits is changed."""
        self.rows = rows
        self._waiting = [replace(batch, words=change(batch)) for batch in self._waiting]
        self.guard.relay(change)
        self.release.spec = replace(self.release.spec, rows=rows)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        return [*self.guard.snapshot_delta(), *self.release.snapshot_delta()]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        self.guard.restore([entry for entry in entries if entry.namespace != NAMESPACE])
        self.release.restore([entry for entry in entries if entry.namespace == NAMESPACE])


def timeline(tuples: int, epochs: int, new: st.Arrivals, streams: int) -> Timeline:
    """Space for what so many tuples and epochs tell."""
    line, ends = np.empty((4, tuples), np.int64), np.empty((4, epochs + 1), np.int64)
    return Timeline(
        line[0], new.behind, new.needed, line[1], line[2], line[3], ends[0], ends[1], ends[2], ends[3],
        np.empty((epochs + 1, streams), np.int64),
    )  # fmt: skip


@in_place
def tell_time(new: st.Arrivals, policy: st.Policy, clock: st.Clockwork, line: Timeline) -> None:
    """Clocks and epochs of `release_sorted`, written down instead of acted upon."""
    n, e = new.words.shape[1], 0
    for i in range(n):
        now = arrival_time_of(clock, new, i)
        line.delay[i] = advance_clock(clock, new, i, now, False)
        line.max_ts[i], line.now[i], line.epoch[i] = clock.scalars[st.MAX_TS], now, e
        if epoch_is_full(clock, policy, new, i):
            end_epoch(clock, now, policy)
            line.stop[e] = i + 1
            line.slowest[e] = min_clock(clock.clocks, clock.idle)
            line.largest[e], line.ended_at[e] = clock.scalars[st.MAX_TS], clock.scalars[st.NOW]
            for s in range(len(clock.clocks)):
                line.clocks[e, s] = clock.clocks[s]
            e += 1
    line.stop[e], line.slowest[e] = n, min_clock(clock.clocks, clock.idle)
    line.largest[e], line.ended_at[e] = clock.scalars[st.MAX_TS], clock.scalars[st.NOW]
    for s in range(len(clock.clocks)):
        line.clocks[e, s] = clock.clocks[s]


@in_place
def tell_silent_epoch(now: int, policy: st.Policy, clock: st.Clockwork, line: Timeline) -> None:
    """An epoch in which nothing arrived ends at the moment `now`."""
    clock.scalars[st.NOW] = now
    end_epoch(clock, now, policy)
    for e in range(2):
        line.stop[e], line.slowest[e] = 0, min_clock(clock.clocks, clock.idle)
        line.largest[e], line.ended_at[e] = clock.scalars[st.MAX_TS], clock.scalars[st.NOW]
        for s in range(len(clock.clocks)):
            line.clocks[e, s] = clock.clocks[s]
