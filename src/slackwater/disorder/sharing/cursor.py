"""A cursor: the release of a query that has no buffer of its own, but a place in the ordered log of its clock domain.

It chooses the slack, moves the watermark, tells late tuples from those in time, and puts its own tuples into a run, as
epoch release does (`release/epoch.py`): late ones where they arrived, the others when the watermark reaches them. An
operator that needs no order is given its tuples as they come, and nothing of it is in the log.

Invariant: runs, slack and watermarks are those of a `Release` that is fed the same tuples, marked by the query's
filters. The work is proportional to the tuples that the query wants, and to those of the log that its cursor passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.clocks import follow_largest_delay
from slackwater.disorder.controllers import DelayObservations, SlackController
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples, late_first
from slackwater.disorder.release import state as st
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.stage_state import StageState
from slackwater.disorder.sharing.clock_domain import ClockDomain, Timeline
from slackwater.disorder.sharing.log import OrderedLog, Selection
from slackwater.disorder.sharing.run_order import New, Segment, View, fetch, gathered, order_run


@dataclass(frozen=True)
class Wanted:
    """The tuples of a batch that a selection flags, for all queries that have it."""

    batch: Batch
    at: Words
    """Their places, in the order of arrival."""

    @cached_property
    def by_ts(self) -> Words:
        """The same, sorted by event time, and by arrival where that is equal."""
        return self.at[np.argsort(self.batch.ts[self.at], kind="stable")]

    @cached_property
    def sorted_ts(self) -> Words:
        """Their event times, sorted."""
        return self.batch.ts[self.by_ts]


class CursorRelease(Release):
    """The disorder stage of one query of a domain."""

    def __init__(
        self,
        spec: ReleaseSpec,
        controller: SlackController,
        domain: ClockDomain,
        log: OrderedLog,
        selection: Selection,
        view: View,
    ) -> None:
        super().__init__(spec, controller)
        self.state = StageState(
            spec.streams, spec.rows, spec.heaps, True, controller.slack, spec.max_behind, capacity=0
        )  # fmt: skip
        self.domain, self.log, self.selection, self.view = domain, log, selection, view
        self._held = 0

    @property
    def waits(self) -> bool:
        """Whether its tuples are held until the watermark reaches them."""
        return self.spec.sorted

    @property
    def held(self) -> int:
        return self._held

    @property
    def cursor(self) -> int:
        """The watermark; what it wants and lies behind has been given to it."""
        return self.state.watermark

    def begin_here(self) -> None:
        """A query that is added begins with the clocks as they stand, and what came before is nothing to it."""
        self.follow_clocks()
        slowest = int(self.domain.clock.scalars[st.WATERMARK])
        if slowest != BEFORE_ALL:
            self._clock.scalars[st.WATERMARK] = slowest - self.controller.slack

    def follow_clocks(self) -> None:
        """Take over the clocks as they stand, after a time in which nobody told of them."""
        theirs = self.domain.clock
        for at in (st.MAX_TS, st.NOW, st.EPOCH_CLOCK, st.EPOCHS):
            self._clock.scalars[at] = theirs.scalars[at]
        self._clock.clocks[:], self._clock.before[:] = self._own(theirs.clocks), self._own(theirs.before)

    def _own(self, of_domain: Words) -> Words:
        """What the streams of the domain have, in the order of the query's own."""
        own = np.empty_like(of_domain)
        own[self.view.stream] = of_domain
        return own

    def _follow_domain(self) -> None:
        """What is the same for all queries of the domain, and is only shown here."""
        theirs = self.domain.clock
        self.state.clock = self._clock._replace(
            idle=self._own(theirs.idle), timeouts=self._own(theirs.timeouts), gaps=self._own(theirs.gaps),
            last_arrival=self._own(theirs.last_arrival), partitions=self._own_partitions(theirs.partitions),
            slowest=np.zeros((len(theirs.clocks), 0), np.int64),
        )  # fmt: skip
        names = self.domain.release.partition_numbers
        self.partition_numbers = {(int(self.view.stream[s]), name): n for (s, name), n in names.items()}

    def _own_partitions(self, of_domain: Words) -> Words:
        own = of_domain.copy()
        own[st.PARTITION_STREAM] = self.view.stream[of_domain[st.PARTITION_STREAM]]
        return own

    def runs(self, batch: Batch, line: Timeline, wanted: Wanted, end: bool = False) -> Iterator[OrderedBatch]:
        """What may be processed now of what was admitted to the domain; with `end`, everything."""
        reached = self.watermark
        walk = self._begin(line, wanted)
        for passed in self._walked(batch, line, wanted, walk):
            if not self.waits:
                yield self._as_they_came(batch, line, wanted.at[passed.first : passed.stop], walk.watermark, passed)
                continue
            run = self._in_order(batch, line, wanted, walk, passed)
            if self._tells(run, reached):
                yield run
            reached = run.watermark
        if end:
            yield self._everything(batch, line, wanted, walk)

    def unordered_segments(
        self, batch: Batch, line: Timeline, wanted: Wanted, whole: bool, end: bool = False
    ) -> Iterator[UnorderedSegment]:
        """As `runs`, for whoever takes tuples as they come out of the batch itself. A run then has late tuples alone,
        but for `whole` ones."""
        walk = self._begin(line, wanted)
        for passed in self._walked(batch, line, wanted, walk):
            at = wanted.at[passed.first : passed.stop]
            late = at if whole else at[walk.late[passed.first : passed.stop]]
            run = self._as_they_came(batch, line, late, walk.watermark, passed)
            yield UnorderedSegment(run, walk.watermark, at, len(at) - len(late), passed)
        if end:
            passed = Passed(len(wanted.at), len(wanted.at), line.epochs, line.epochs, self.cursor, len(batch), (0, 0))
            run = self._everything(batch, line, wanted, walk)
            yield UnorderedSegment(run, walk.watermark, wanted.at[:0], 0, passed)

    def _begin(self, line: Timeline, wanted: Wanted) -> Walk:
        self._follow_domain()
        watermark = np.empty(line.epochs + 2, np.int64)
        watermark[0] = self._clock.scalars[st.WATERMARK]
        self._held += len(wanted.at) if self.waits else 0
        return Walk(watermark, np.empty(len(wanted.at), np.bool_), np.array([0, 0, watermark[0]]))

    def _walked(self, batch: Batch, line: Timeline, wanted: Wanted, walk: Walk) -> Iterator[Passed]:
        """Segments of arrivals, each up to an adaptation of the controller."""
        at, learns = wanted.at, self.controller.learns and not self.taught
        position, moved = 0, len(batch) > 0 or line.epochs > 0
        while moved:
            first, from_epoch, cursor = walk.marks.tolist()
            closed = int(self._clock.scalars[st.EPOCH_CLOCK]), int(self._clock.scalars[st.NOW])
            position = follow_time(line, batch.ts, at, self.policy(), self._clock, self.view.stream, walk)
            stop, to_epoch, _ = walk.marks.tolist()
            if learns:
                self.controller.learn(self._arrived(batch, line, at[first:stop]))
            yield Passed(first, stop, from_epoch, to_epoch, cursor, position, closed)
            # Only now the controller knows what became of these tuples.
            self._consult_controller()
            moved = position < len(batch)

    def silent_run(self, line: Timeline) -> OrderedBatch:
        """What an epoch emits in which nothing arrived."""
        self._follow_domain()
        nothing = Wanted(Batch.of([], self.domain.rows), np.zeros(0, np.int64))
        cursor = int(self._clock.scalars[st.WATERMARK])
        walk = Walk(np.full(3, cursor), np.empty(0, np.bool_), np.array([0, 0, cursor]))
        follow_time(line, nothing.batch.ts, nothing.at, self.policy(), self._clock, self.view.stream, walk)
        if not self.waits:
            return self.nothing()
        return self._in_order(nothing.batch, line, nothing, walk, Passed(0, 0, 0, 1, cursor, 0, (0, 0)))

    def _arrived(self, batch: Batch, line: Timeline, at: Words) -> DelayObservations:
        at = at[line.behind[at] != st.UNTAUGHT]
        return DelayObservations(
            self.view.stream[batch.stream[at]], gathered(batch.words, batch.stream, at, self.view.rows),
            line.behind[at], line.needed[at],
        )  # fmt: skip

    def _as_they_came(self, batch: Batch, line: Timeline, at: Words, watermark: Words, passed: Passed) -> OrderedBatch:
        """As `release_unsorted`: marked with the watermark they met, and with when that was reached."""
        scalars, of = self._clock.scalars, line.epoch[at]
        at_once = self.spec.at_once
        clock, emit_time = (line.largest[of], line.ended_at[of]) if at_once else passed.reached_before(line, of)
        words = gathered(batch.words, batch.stream, at, self.view.rows)
        tuples = OrderedTuples(
            words, self.view.stream[batch.stream[at]], watermark[of], clock, emit_time, line.delay[at]
        )
        if at_once:
            tuples = late_first(tuples, of)
        return OrderedBatch(tuples, int(scalars[st.WATERMARK]), int(scalars[st.MAX_TS]), int(scalars[st.NOW]))

    def _in_order(
        self, batch: Batch, line: Timeline, wanted: Wanted, walk: Walk, passed: Passed, ended: bool = False
    ) -> OrderedBatch:
        """As `release_sorted`, for a segment of epochs and what follows the last of them."""
        first, stop, from_epoch, to_epoch, cursor, position, _ = passed
        held, bound = self.log.held, int(walk.watermark[to_epoch])
        lowest = int(np.searchsorted(held.ts, cursor, "right"))
        highest = int(np.searchsorted(held.ts, bound, "right"))
        low, high = np.searchsorted(wanted.sorted_ts, [cursor, bound], "right")
        new = New(batch.stream, batch.words, wanted.at[first:stop], walk.late[first:stop], wanted.by_ts[low:high])
        segment = Segment(lowest, highest, *self.selection, from_epoch, to_epoch, position)
        out = st.output_buffer(highest - lowest + int(high - low) + stop - first, self.spec.rows)
        referred = np.empty((2, highest - lowest), np.int64)
        n, count = order_run(held, new, segment, line, walk.watermark, self.view, not ended, out, referred)
        if count:
            for s, (pool, columns) in enumerate(zip(self.log.pools, self.log.columns, strict=True)):
                fetch(pool.words, columns, s, self.view.rows, held, referred, count, out.words)
        self._held -= n
        return self.state.run(out, n, ended=ended)

    def _everything(self, batch: Batch, line: Timeline, wanted: Wanted, walk: Walk) -> OrderedBatch:
        """The input has ended: what the cursor has not reached, as one more epoch."""
        self.state.ended = True
        if not self.waits:
            return self.state.run(st.output_buffer(0, self.spec.rows), 0, ended=True)
        epochs, cursor = line.epochs, int(self._clock.scalars[st.WATERMARK])
        walk.watermark[epochs], walk.watermark[epochs + 1] = cursor, AFTER_ALL
        tail = int(np.searchsorted(wanted.at, line.stop[epochs - 1] if epochs else 0))
        rest = Passed(tail, len(wanted.at), epochs, epochs + 1, cursor, len(batch), (0, 0))
        return self._in_order(batch, line, wanted, walk, rest, ended=True)

    def snapshot_delta(self) -> list[StateUpdate]:
        own = {"slack": self.controller.slack, "part_names": list(self.partition_numbers), "held": self._held}
        return self.state.snapshot_delta(own)

    def restore(self, entries: list[StateUpdate]) -> None:
        reported = self.state.restore(entries)
        if reported:
            self.controller.slack = reported["slack"]
            self.partition_numbers = {(s, name): number for number, (s, name) in enumerate(reported["part_names"])}
            self._held = reported["held"]


class Passed(NamedTuple):
    """A segment of arrivals that a query has passed."""

    first: int
    """Of the tuples it wants, the first, and"""
    stop: int
    """the one behind the last."""
    from_epoch: int
    to_epoch: int
    cursor: int
    """The watermark before."""
    position: int
    """The place behind the last arrival."""
    closed: tuple[int, int]
    """The largest clock when the last epoch before had ended, and the moment."""

    def reached_before(self, line: Timeline, epoch: Words) -> tuple[Words, Words]:
        """When the watermark was reached that tuples of some epochs have met: the largest clock, and the moment."""
        largest, ended_at = np.append(line.largest, self.closed[0]), np.append(line.ended_at, self.closed[1])
        # Of the first epoch of a segment it was reached before.
        before = np.where(epoch == self.from_epoch, len(line.largest), epoch - 1)
        return largest[before], ended_at[before]


class UnorderedSegment(NamedTuple):
    """A segment of a query whose operator takes tuples as they come."""

    run: OrderedBatch
    """Its tuples, or only the late ones among them."""
    watermark: Words
    """Where the watermark stood before each epoch of the batch, as far as the segment goes."""
    at: Words
    """The places of its tuples in the batch."""
    left_out: int
    """How many of them are not in the run; they are all in time."""
    passed: Passed


class Walk(NamedTuple):
    """How far a query has come in a batch, and what it has found."""

    watermark: Words
    """Where it stood before each epoch of the batch, and after the last."""
    late: Flags
    """Of the tuples it wants, in the order of arrival."""
    marks: Words
    """The next of these tuples, the next epoch, and the watermark there."""


@in_place
def follow_time(
    line: Timeline, ts: Words, at: Words, policy: st.Policy, clock: st.Clockwork, own: Words, walk: Walk
) -> int:
    """Choose slack and watermark of every epoch, up to the controller's next adaptation; returns the place behind the
    last arrival that was looked at."""
    epochs, scalars, n = len(line.stop) - 1, clock.scalars, len(line.epoch)
    a, e = walk.marks[0], walk.marks[1]
    while e <= epochs:
        watermark = scalars[st.WATERMARK]
        stop = line.stop[e]
        while a < len(at) and at[a] < stop:
            i = at[a]
            scalars[st.LARGEST_DELAY] = max(scalars[st.LARGEST_DELAY], line.behind[i])
            walk.late[a] = ts[i] < watermark
            a += 1
        for s in range(len(own)):
            clock.clocks[own[s]] = line.clocks[e, s]
        if e == epochs:
            scalars[st.MAX_TS], scalars[st.NOW] = line.largest[e], line.ended_at[e]
            break
        if stop > 0:
            scalars[st.MAX_TS] = line.max_ts[stop - 1]
        if policy.follow:
            follow_largest_delay(clock)
        scalars[st.MAX_TS], scalars[st.NOW] = line.largest[e], line.ended_at[e]
        scalars[st.EPOCH_CLOCK] = line.largest[e]
        scalars[st.EPOCHS] += 1
        if line.slowest[e] != BEFORE_ALL:
            scalars[st.WATERMARK] = max(watermark, line.slowest[e] - scalars[st.SLACK])
        for s in range(len(own)):
            clock.before[own[s]] = line.clocks[e, s]
        e += 1
        walk.watermark[e] = scalars[st.WATERMARK]
        if (line.largest[e - 1] >= policy.pause_at or scalars[st.SLACK_CHANGES] == st.SLACK_LOG) and stop < n:
            walk.marks[0], walk.marks[1], walk.marks[2] = a, e, scalars[st.WATERMARK]
            return stop
    walk.marks[0], walk.marks[1], walk.marks[2] = a, e, scalars[st.WATERMARK]
    return n
