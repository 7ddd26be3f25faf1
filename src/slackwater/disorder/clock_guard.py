"""The clock guard: what every arrival says about time, and which arrivals are too far ahead to be admitted.

A tuple ahead of the vote (see `clock_vote`) is admitted and waits in order for its time, but moves no clock. One that
is more than `max_ahead` ahead of its stream's clock is kept pending. It is admitted when the others come along (a real
gap) or its time comes nearer, and rejected as `ahead` when as many others have come since as a vote asks, and did not
come along. When the input ends it is rejected if most of those others did not.

Invariant: every tuple is admitted or rejected, once; tuples admitted keep the order of their arrival, but for those
that were kept pending. In an epoch the verdicts do not depend on the order of arrivals. What is kept pending is
bounded: a tuple stays there for a vote or two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.state import NOTHING, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.clock_vote import (
    CLOCK,
    ClockVote,
    advance_by_epoch,
    advance_by_tuple,
    clock_vote,
    grown,
    patience,
    restored,
    tolerance_of,
)
from slackwater.disorder.cutting import Cutting, end_of_epoch
from slackwater.disorder.event_times import SHIFT, TUPLES, EventTimes, clear, event_times, first_shift, note
from slackwater.disorder.guard_state import AGAINST, ALONG, LATER, Members, Waiting, restore_rings, save_rings

CLEARLY = 15
"""Of the epoch in which the input ends, so many times as many must be against a tuple ahead."""
ADMITTED, REJECTED, PENDING = range(3)
NAMESPACE = "clock_guard"
UNGUARDED = 2**60
"""A `max_ahead` from which on every tuple moves its clock."""


@dataclass(frozen=True)
class Guarded:
    """The tuples admitted, in order, and those rejected."""

    batch: Batch
    ahead: Batch
    ends: Flags | None = None
    """After which of the tuples admitted an epoch ends; None: nobody has cut epochs here."""
    clocks: ClockReadings | None = None
    """What the clocks are when the epoch ends, where that is known from elsewhere; tuples then say nothing of it."""


class ClockGuard:
    """The guard in front of a query's inputs.

    >>> guard = ClockGuard(streams=1, max_ahead=10)
    >>> seen = guard.admit(Batch.of([(0, 1), (0, 1000), (0, 2), (0, 3)]), end=True)
    >>> seen.batch.ts.tolist(), seen.ahead.ts.tolist()
    ([1, 2, 3], [1000])
    """

    def __init__(
        self,
        streams: int,
        max_ahead: int,
        cutting: Cutting = Cutting(False, 0, 0),  # noqa: B008 (a constant)
        partition_slots: tuple[int, ...] = (),
    ) -> None:
        self._max_ahead, self._tolerance = max_ahead, tolerance_of(max_ahead)
        self._cutting = cutting
        self._members = Members(streams, partition_slots)
        self._vote = clock_vote(streams)
        self._times = event_times(streams)
        self._cutter = clock_vote(streams if cutting.span else 0)
        self._begun = np.array([BEFORE_ALL])
        """The largest clock of the cutter when the epoch began."""
        self._waiting = Waiting(NAMESPACE)
        """Pending tuples, and then those of an epoch that has not ended."""

    @property
    def clocks(self) -> Words:
        """The clock of every stream and every part."""
        return self._vote.marks[:, CLOCK]

    @property
    def pending(self) -> int:
        """How many tuples wait here."""
        return len(self._waiting)

    def admit(self, batch: Batch, end: bool = False) -> Guarded:
        """Judge a batch; with `end` nothing is left waiting."""
        if self._max_ahead >= UNGUARDED:
            return Guarded(batch, batch.take(NOTHING))
        pending, seen = self._waiting.evidence.shape[1], self.pending
        shown = batch
        if self._waiting.batch is not None:
            # An empty batch knows no arrival times and must not make those that wait forget theirs.
            shown = Batch.concat([self._waiting.batch, batch]) if len(batch) else self._waiting.batch
        member = self._members.of(shown)
        self._reserve()
        n = len(shown)
        # Only of those pending it is looked at, and written before.
        evidence = np.empty((3, n), np.int64)
        evidence[:, :pending] = self._waiting.evidence
        arrival_time = NOTHING if shown.arrival_time is None else shown.arrival_time
        order, reading, ends, rejected, still, done, straight = judge(
            self._vote, self._times, self._cutter, self._begun, self._cutting, shown.stream, shown.ts, member,
            arrival_time,
            pending, seen, evidence, end, self._max_ahead, self._tolerance, first_shift(self._max_ahead),
        )  # fmt: skip
        # As it mostly is: the first of them are admitted, in order, and the rest wait for the end of their epoch.
        kept = np.concatenate([still, np.arange(done, n)]) if len(still) else slice(done, n)
        self._waiting.replace(shown.take(kept) if len(still) or done < n else None, evidence[:, still])
        admit = shown if straight and done == n else shown.take(slice(done) if straight else order)
        return Guarded(replace(admit, reading=reading), shown.take(rejected), ends)

    def relay(self, change: Callable[[Batch], Words]) -> None:
        """From now on tuples have other rows; what waits is changed."""
        self._waiting.relay(change)

    def _reserve(self) -> None:
        if len(self._members) > len(self._vote.marks):
            self._vote = grown(self._vote, len(self._members))
            self._times = event_times(len(self._members))

    def snapshot_delta(self) -> list[StateUpdate]:
        state = {"members": self._members.names, "begun": int(self._begun[0])}
        state |= {"marks": self._vote.marks.tolist(), "cutter": self._cutter.marks.tolist()}
        return [
            state_update(NAMESPACE, "state", encode_json(state)),
            *save_rings(NAMESPACE, crowd=self._vote, cutter=self._cutter),
            *self._waiting.snapshot_delta(),
        ]

    def restore(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.key == "state" and entry.value is not None:
                state = decode_json(entry.value)
                self._members.restore([(s, name) for s, name in state["members"]])
                self._reserve()
                self._begun[0] = state["begun"]
                self._vote.marks[:], self._cutter.marks[:] = state["marks"], state["cutter"] or self._cutter.marks
                restored(self._vote)
                restored(self._cutter)
        self._waiting.restore(entries)
        restore_rings(entries, crowd=self._vote, cutter=self._cutter)


@compiled
def judge(
    c: ClockVote, times: EventTimes, cutter: ClockVote, begun: Words, cutting: Cutting, stream: Words, ts: Words,
    member: Words, arrival_time: Words, n_pending: int, seen: int, evidence: Words, end: bool, max_ahead: int,
    tolerance: int, shift: int,
) -> tuple[Words, Words, Flags, Words, Words, int, bool]:  # fmt: skip
    """Judge epoch after epoch; returns (order, reading, ends, rejected, pending, consumed, whether nobody had to
    wait).

    Pending tuples come first, then those of an unfinished epoch, which the cutter has seen.
    """
    n, members = len(ts), len(c.marks)
    order, reading, rejected, pending = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    ends = np.zeros(0 if cutting.each else n, np.bool_)
    for a in range(n_pending):
        pending[a] = a
    counts, last_at = np.zeros((2, members), np.int64), np.full(members, -1, np.int64)
    n_order, n_rejected, begin = 0, 0, n_pending
    straight = n_pending == 0
    while begin < n:
        stop = end_of_epoch(cutting, cutter, begun, stream, ts, arrival_time, begin, seen, end, max_ahead, tolerance)
        if stop < 0:
            break
        # What the end of the input cuts off is no epoch.
        whole = stop <= n
        stop = min(stop, n)
        first = n_order
        if cutting.each:
            # As it mostly is: nobody waits, and nobody need.
            stop = pass_through(
                c, ts, member, arrival_time, begin, n_pending == 0, order, reading, n_order, max_ahead, tolerance
            )
            n_order += stop - begin
            begin = stop
            if begin == n:
                break
            stop = begin + 1
            first = n_order
        else:
            advance_by_arrivals(c, times, ts, member, arrival_time, begin, stop, max_ahead, tolerance, shift)
            if n_pending == 0 and admit_all(c, ts, member, begin, stop, order, reading, n_order, last_at, max_ahead):
                n_order += stop - begin
                if whole:
                    ends[n_order - 1] = True
                begin = stop
                continue
        for i in range(begin, stop):
            m = member[i]
            clock = c.marks[m, CLOCK]
            counts[0 if clock != BEFORE_ALL and ts[i] > clock + max_ahead else 1, m] += 1
        kept = 0
        for a in range(n_pending):
            i = pending[a]
            m = member[i]
            weigh(evidence, i, counts[0, m], counts[1, m], True)
            verdict = verdict_on(c, ts[i], m, evidence, i, False, max_ahead, tolerance)
            if verdict == ADMITTED:
                # Its own time, not the clock's: those admitted together are in time or late as if none had waited.
                order[n_order], reading[n_order] = i, ts[i] if ts[i] <= c.marks[m, CLOCK] else BEFORE_ALL
                n_order += 1
            elif verdict == REJECTED:
                rejected[n_rejected] = i
                n_rejected += 1
            else:
                pending[kept] = i
                kept += 1
        n_pending = kept
        for i in range(begin, stop):
            m = member[i]
            clock = c.marks[m, CLOCK]
            if clock == BEFORE_ALL or ts[i] > clock + max_ahead:
                for row in range(3):
                    evidence[row, i] = 0
                weigh(evidence, i, counts[0, m], counts[1, m] if not cutting.each else 0, False)
                pending[n_pending] = i
                n_pending += 1
                straight = False
                continue
            reading[n_order] = ts[i] if ts[i] <= clock else BEFORE_ALL
            last_at[m] = n_order
            order[n_order] = i
            n_order += 1
        for i in range(begin, stop):
            m = member[i]
            counts[0, m], counts[1, m] = 0, 0
            if last_at[m] >= 0:
                reading[last_at[m]] = c.marks[m, CLOCK]
                last_at[m] = -1
        if n_order > first and not cutting.each and whole:
            ends[n_order - 1] = True
        begin = stop
    if end:
        for a in range(n_pending):
            i = pending[a]
            if verdict_on(c, ts[i], member[i], evidence, i, True, max_ahead, tolerance) == REJECTED:
                rejected[n_rejected] = i
                n_rejected += 1
            else:
                order[n_order], reading[n_order] = i, BEFORE_ALL
                n_order += 1
        n_pending = 0
    if len(ends) > n_order:
        ends = ends[:n_order]
    return (
        order[:n_order],
        reading[:n_order],
        ends,
        rejected[:n_rejected],
        pending[:n_pending].copy(),
        begin,
        straight,
    )


@in_place
def pass_through(
    c: ClockVote, ts: Words, member: Words, arrival_time: Words, begin: int, nobody_waits: bool, order: Words,
    reading: Words,
    n_order: int, max_ahead: int, tolerance: int,
) -> int:  # fmt: skip
    """Tuple release: admit tuples up to the first that is more than `max_ahead` ahead.

    While a tuple is pending, only one is admitted a call. A loop of its own, because the other one has too much in it
    to be fast.
    """
    for i in range(begin, len(ts)):
        m, t = member[i], ts[i]
        advance_by_tuple(c, m, t, arrival_time[i] if len(arrival_time) > 0 else BEFORE_ALL, max_ahead, tolerance)
        if not nobody_waits or c.marks[m, CLOCK] == BEFORE_ALL or t - max_ahead > c.marks[m, CLOCK]:
            return i
        order[n_order], reading[n_order] = i, c.marks[m, CLOCK]
        n_order += 1
    return len(ts)


@in_place
def advance_by_arrivals(
    c: ClockVote, times: EventTimes, ts: Words, member: Words, arrival_time: Words, begin: int, stop: int,
    max_ahead: int, tolerance: int, shift: int,
) -> None:  # fmt: skip
    """An epoch's arrivals: a histogram of each member, and a vote."""
    for m in range(len(c.marks)):
        times.used[m, TUPLES] = -1
    # Arrivals are nearly in order, so those of one bucket mostly come one after the other, and are noted at once.
    last, bucket, count, latest = -1, 0, 0, BEFORE_ALL
    for i in range(begin, stop):
        m, t = member[i], ts[i]
        if m != last or t >> times.used[m, SHIFT] != bucket:
            if count > 0:
                note(times, last, count, latest, AFTER_ALL, 0)
            if times.used[m, TUPLES] < 0:
                clear(times, m, shift)
            last, bucket, count, latest = m, t >> times.used[m, SHIFT], 0, t
        count += 1
        latest = max(latest, t)
    if count > 0:
        note(times, last, count, latest, AFTER_ALL, 0)
    arrived_at = arrival_time[stop - 1] if len(arrival_time) > 0 else BEFORE_ALL
    for m in range(len(c.marks)):
        if times.used[m, TUPLES] > 0:
            advance_by_epoch(c, m, times, arrived_at, max_ahead, tolerance)


@in_place
def admit_all(
    c: ClockVote, ts: Words, member: Words, begin: int, stop: int, order: Words, reading: Words, n_order: int,
    last_at: Words, max_ahead: int,
) -> bool:  # fmt: skip
    """Admit the arrivals of an epoch in their order; False, and nothing is done, where one of them is too far ahead."""
    for i in range(begin, stop):
        clock = c.marks[member[i], CLOCK]
        if clock == BEFORE_ALL or ts[i] > clock + max_ahead:
            last_at[:] = -1
            return False
        at = n_order + i - begin
        order[at], reading[at] = i, ts[i] if ts[i] <= clock else BEFORE_ALL
        last_at[member[i]] = at
    for m in range(len(last_at)):
        if last_at[m] >= 0:
            reading[last_at[m]] = c.marks[m, CLOCK]
            last_at[m] = -1
    return True


@inner
def verdict_on(
    c: ClockVote, t: int, m: int, evidence: Words, at: int, end: bool, max_ahead: int, tolerance: int
) -> int:
    """What becomes of a tuple that is, or would be, kept pending."""
    clock = c.marks[m, CLOCK]
    if clock == BEFORE_ALL:
        return ADMITTED if end else PENDING
    if t <= clock + max_ahead:
        return ADMITTED
    if end:
        # Nothing is spoilt any more; but of the same epoch it is not known what came after it.
        along = evidence[ALONG, at]
        many = 0 if evidence[LATER, at] == 1 else 1 if along == 0 else CLEARLY * (1 + along)
        return REJECTED if evidence[AGAINST, at] > max(many, evidence[ALONG, at]) else ADMITTED
    voted = evidence[LATER, at] == 1 and evidence[AGAINST, at] >= patience(c, m, tolerance)
    return REJECTED if voted else PENDING


@compiled
def verdicts(
    c: ClockVote, ts: Words, member: Words, before: int, evidence: Words, counts: Words, end: bool, max_ahead: int,
    tolerance: int,
) -> Words:  # fmt: skip
    """What becomes of each tuple after an epoch; the first `before` were pending already."""
    found = member.copy()
    for i in range(len(ts)):
        m = member[i]
        weigh(evidence, i, counts[0, m], counts[1, m], i < before)
        found[i] = verdict_on(c, ts[i], m, evidence, i, end, max_ahead, tolerance)
    return found


@inner
def weigh(evidence: Words, at: int, along: int, against: int, later: bool) -> None:
    """Count the arrivals of an epoch for and against a pending tuple; of its own epoch it is one itself."""
    evidence[ALONG, at] += along if later else max(0, along - 1)
    evidence[AGAINST, at] += against
    if later and along + against > 0:
        evidence[LATER, at] = 1
