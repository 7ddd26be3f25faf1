"""What clocks read when each tuple arrived, once for every slack there could be; and the least slack from which on a
watermark has not yet reached a time, which is the one thing that all advice is made of.

Clocks do not depend on slack, and a watermark is what clocks leave after it is taken off. So the watermark that a tuple
met under slack K follows from the clocks as they were when it was released: at the beginning of its epoch, or, tuple by
tuple, when its stream's clock moved on after it (a slack buffer is looked at when its clock moves, and not before). In
epochs it is `slow - K`, by the slowest clock as the epoch began. Tuple by tuple it is the largest event time that all
slack buffers have released: of every stream the largest one at or before `clock - K`, among tuples that had come when
its clock last moved; and of these the smallest. Both only fall as K grows.

Invariant: the clock guard, the clocks and the cutting of epochs are those of the engine; tuples that are rejected, or
pending for good, are in no history. Every passing tuple has an *event*, by which the watermark it met is known, and
events are numbered in the order in which they happen. `least_slack` of an event and a time is exactly the smallest
K >= 0 for which the watermark of that event is before the time; with `passed`, not after it.

References: 004 Alg. 3.1 (T-sync), Eq. 3.1 (when a slack buffer releases a tuple).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.clock_guard import ClockGuard
from slackwater.disorder.clocks import advance_clock, arrival_time_of, mark_idle, min_clock
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.cutting import Cutting, Epochs
from slackwater.disorder.release import state as st
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.replay import Replay


class Clocks(NamedTuple):
    """What compiled code knows of clocks. Streams are the columns of `clock` and `heard`.

    Tuple by tuple, line e of `clock` has the clocks just before arrival e, and of `heard` the latest arrival before e
    that moved each of them; the last line is the end of the input. In epochs line e has the slowest clock as epoch e
    began, in one column.
    """

    each: bool
    clock: Words
    """AFTER_ALL: a stream that is idle, and not waited for."""
    heard: Words
    ts: Words
    """Event times of the passing tuples, stream after stream, each in order; empty in epochs."""
    arrival: Words
    """When those arrived."""
    begins: Words
    """Where each stream begins among them, and where the last one ends."""


@inner
def first_at(clocks: Clocks, k: int, time: int) -> int:
    """Where the tuples of stream k that are not older than a time begin."""
    low, high = clocks.begins[k], clocks.begins[k + 1]
    while low < high:
        middle = (low + high) >> 1
        if clocks.ts[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def least_slack(clocks: Clocks, event: int, time: int, passed: bool, first: Words, at: int) -> int:
    """The least slack with which the watermark of an event is before a time; with `passed`, not after it.

    Tuple by tuple `first[k, at]` says where the tuples of stream k that are not older than the time begin.
    """
    e = min(event, clocks.clock.shape[0] - 1)
    if not clocks.each:
        slow = clocks.clock[e, 0]
        if slow == BEFORE_ALL:
            return 0
        return max(0, slow - time + (0 if passed else 1))
    least = AFTER_ALL
    for k in range(clocks.clock.shape[1]):
        clock, heard = clocks.clock[e, k], clocks.heard[e, k]
        if clock == AFTER_ALL:
            continue
        j, end = first[k, at], clocks.begins[k + 1]
        while j < end and clocks.ts[j] <= clock and ((passed and clocks.ts[j] == time) or clocks.arrival[j] > heard):
            j += 1
        if j == end or clocks.ts[j] > clock:
            return 0
        least = min(least, clock - clocks.ts[j] + 1)
    return 0 if least == AFTER_ALL else least


@compiled
def least_slacks(clocks: Clocks, events: Words, times: Words, passed: Flags) -> Words:
    """`least_slack` of many events and times."""
    found = np.empty(len(events), np.int64)
    first = np.zeros((max(1, len(clocks.begins) - 1), 1), np.int64)
    for i in range(len(events)):
        for k in range(len(clocks.begins) - 1):
            first[k, 0] = first_at(clocks, k, times[i])
        found[i] = least_slack(clocks, events[i], times[i], passed[i], first, 0)
    return found


@dataclass(frozen=True)
class ArrivalHistory:
    """Arrivals that were admitted, in order, and what clocks read then."""

    batch: Batch
    event: Words
    """Per arrival: the event that releases it."""
    clocks: Clocks
    slow: Words
    """After every arrival (tuple by tuple) or epoch: the slowest clock."""
    largest: Words
    """The same: the largest clock."""
    last: Words
    """The last arrival before each of these readings was taken."""
    rejected: int
    """Tuples that the clock guard has rejected."""
    streams: int

    @property
    def each(self) -> bool:
        """Whether tuples are released one by one, and not in epochs."""
        return self.clocks.each

    @property
    def stream(self) -> Words:
        return self.batch.stream

    @property
    def ts(self) -> Words:
        return self.batch.ts

    @property
    def passes(self) -> Flags:
        return self.batch.passes

    @cached_property
    def rank(self) -> Words:
        """In which order tuples are released: by events, in one epoch by arrival."""
        if self.each:
            return self.event
        return np.arange(len(self.batch))

    def in_order(self, stream: int) -> Words:
        """The passing tuples of a stream in event-time order, by their numbers among the arrivals."""
        clocks = self.clocks
        if clocks.each:
            return clocks.arrival[clocks.begins[stream] : clocks.begins[stream + 1]]
        mine = np.flatnonzero(self.passes & (self.stream == stream))
        return mine[np.argsort(self.ts[mine], kind="stable")]

    @cached_property
    def reached(self) -> Words:
        """Per arrival: how far the slowest clock had come when the tuple was released."""
        clock = self.clocks.clock
        slowest = reduce(np.minimum, clock.T)
        return slowest[np.minimum(self.event, len(slowest) - 1)]

    @cached_property
    def most(self) -> int:
        """A slack with which nothing is lost."""
        late = self.passes & (self.reached > BEFORE_ALL)
        behind = (self.reached - self.ts)[late]
        return max(0, int(behind.max())) + 1 if len(behind) else 1


def guarded(plan: PhysicalPlan, arrivals: Replay, epochs: Epochs) -> tuple[Batch, Flags | None, int]:
    """The arrivals that the clock guard admits, after which of them epochs end, and how many it rejects."""
    size = max(1, len(arrivals))
    batch = next(arrivals.batches(size), None) or Batch.of([], plan.operator.rows)
    cutting = Cutting(epochs.each_tuple, epochs.tuples, epochs.span)
    guard = ClockGuard(plan.operator.streams, plan.options.max_ahead, cutting, plan.partition_slots)
    found = guard.admit(batch, end=True)
    return found.batch, found.ends, len(found.ahead)


def history_of(plan: PhysicalPlan, arrivals: Replay, epochs: Epochs) -> ArrivalHistory:
    """Read the clocks of recorded streams."""
    batch, ends, rejected = guarded(plan, arrivals, epochs)
    spec = replace(plan.release, discipline="tuple" if epochs.each_tuple else "epoch", external_sync=False)
    return read_clocks(batch, ends, spec, rejected)


def read_clocks(batch: Batch, ends: Flags | None, spec: ReleaseSpec, rejected: int = 0) -> ArrivalHistory:
    """The history of arrivals that were admitted; `ends` says after which of them epochs end."""
    n, m = len(batch), spec.streams
    release = Release(spec, FixedSlack(0))
    each = spec.discipline == "tuple"
    new = st.arrivals(batch, release.partitions_of(batch), False, None if each else ends)
    clock, policy = release.state.clock, release.policy()
    event = np.empty(n, np.int64)
    if each:
        table, heard = np.empty((n + 1, m), np.int64), np.empty((n + 1, m), np.int64)
        slow, largest = np.empty(n, np.int64), np.empty(n, np.int64)
        follow_each(new, policy, clock, table, heard, event, slow, largest)
        last = np.arange(n)
    else:
        assert new.ends is not None
        cut = np.concatenate([[0], np.cumsum(new.ends, dtype=np.int64)])
        event[:] = cut[:-1]
        count = int(event[-1]) + 1 if n else 0
        table, heard = np.full((count + 1, 1), BEFORE_ALL, np.int64), np.empty((0, 0), np.int64)
        largest, last = np.empty(count, np.int64), np.empty(count, np.int64)
        follow_epochs(new, policy, clock, event, table, largest, last)
        slow = table[1:, 0]
    return ArrivalHistory(batch, event, _known(each, table, heard, batch, m), slow, largest, last, rejected, m)


def _known(each: bool, table: Words, heard: Words, batch: Batch, streams: int) -> Clocks:
    if not each:
        nothing = np.empty(0, np.int64)
        return Clocks(each, table, heard, nothing, nothing, nothing)
    ordered = []
    for stream in range(streams):
        mine = np.flatnonzero(batch.passes & (batch.stream == stream))
        ordered.append(mine[np.argsort(batch.ts[mine], kind="stable")])
    begins = np.cumsum([0, *map(len, ordered)])
    arrival = np.concatenate(ordered)
    return Clocks(each, table, heard, batch.ts[arrival], arrival, begins)


@in_place
def follow_each(
    new: st.Arrivals, policy: st.Policy, clock: st.Clockwork, table: Words, heard: Words, event: Words, slow: Words,
    largest: Words,
) -> None:  # fmt: skip
    """Tuple by tuple: clocks before every arrival, and which event releases each tuple."""
    n, m = new.words.shape[1], len(clock.clocks)
    for k in range(m):
        heard[0, k] = -1
    for i in range(n):
        s = new.stream[i]
        for k in range(m):
            table[i, k] = AFTER_ALL if clock.idle[k] == 1 else clock.clocks[k]
            heard[i + 1, k] = heard[i, k]
        before = clock.clocks[s]
        now = arrival_time_of(clock, new, i)
        advance_clock(clock, new, i, now, True)
        mark_idle(clock, now, policy)
        if clock.clocks[s] > before:
            heard[i + 1, s] = i
        slow[i], largest[i] = min_clock(clock.clocks, clock.idle), clock.scalars[st.MAX_TS]
    for k in range(m):
        table[n, k] = AFTER_ALL if clock.idle[k] == 1 else clock.clocks[k]
    # What no further tuple of its stream releases leaves at the end, stream by stream.
    for k in range(m):
        clock.before[k] = n + k
    for i in range(n - 1, -1, -1):
        s = new.stream[i]
        moves = heard[i + 1, s] == i
        event[i] = i if moves else clock.before[s]
        if moves:
            clock.before[s] = i


@in_place
def follow_epochs(
    new: st.Arrivals, policy: st.Policy, clock: st.Clockwork, event: Words, table: Words, largest: Words, last: Words
) -> None:
    """Epoch by epoch: the slowest clock when each began, and the largest when it ended."""
    n = new.words.shape[1]
    reached = BEFORE_ALL
    for i in range(n):
        now = arrival_time_of(clock, new, i)
        advance_clock(clock, new, i, now, False)
        if i == n - 1 or event[i + 1] != event[i]:
            mark_idle(clock, now, policy)
            reached = max(reached, min_clock(clock.clocks, clock.idle))
            table[event[i] + 1, 0] = reached
            largest[event[i]], last[event[i]] = clock.scalars[st.MAX_TS], i
