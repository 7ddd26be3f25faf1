"""The clock guard: what every arrival says about time, and which arrivals are too far ahead to be admitted.

A tuple ahead of the vote (see `clock_vote`) is admitted and waits in order for its time, but moves no clock. One that
is more than `max_ahead` ahead of its stream's clock is kept pending. It is admitted when the others come along (a real
gap) or its time comes nearer, and rejected as `ahead` when as many others have come since as a vote asks, and did not
come along. When the input ends it is rejected if most of those others did not.

The vote is held over the tuples themselves, or over headers: a shard has some of the tuples of an epoch, and knows of
all of them by headers. These come first then (`note`, `move`), and the tuples say nothing about time.

Invariant: every tuple is admitted or rejected, once; tuples admitted keep the order of their arrival, but for those
that were kept pending. In an epoch the verdicts do not depend on the order of arrivals. Clocks and votes by headers are
the same in every shard, and those of an epoch that was seen whole. What is kept pending is bounded: a tuple stays there
for a vote or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.state import NOTHING, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import BEFORE_ALL, LONGEST
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.clock_vote import CLOCK, advance_by_histogram, clock_vote, grown, restored, tolerance_of
from slackwater.disorder.cutting import Cutting
from slackwater.disorder.event_times import EventTimes, clear, event_times, first_shift, note_buckets, oldest_within
from slackwater.disorder.guard_state import Members, Waiting, restore_rings, save_rings
from slackwater.disorder.verdicts import ADMITTED, PENDING, REJECTED, judge, verdicts

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
    """The guard in front of a query's inputs; `max_behind` is for headers alone.

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
        max_behind: int = LONGEST,
    ) -> None:
        self._max_ahead, self._max_behind, self._tolerance = max_ahead, max_behind, tolerance_of(max_ahead)
        self._cutting = cutting
        self._members = Members(streams, partition_slots)
        self._vote = clock_vote(streams)
        self._times = event_times(streams)
        self._cutter = clock_vote(streams if cutting.span else 0)
        self._begun = np.array([BEFORE_ALL])
        """The largest clock of the cutter when the epoch began."""
        self._waiting = Waiting(NAMESPACE)
        """Pending tuples, and then those of an epoch that has not ended."""
        self._reported: dict[int, list[tuple[int, Words]]] = {}
        """By member, the histograms that headers have told of."""
        self._counts: Words = np.zeros((2, streams), np.int64)
        """By member, how many of those were too far ahead, and how many were not."""
        self._told: ClockReadings | None = None
        """The clocks that headers have agreed on, for the next batch."""

    @property
    def clocks(self) -> Words:
        """The clock of every stream and every part."""
        return self._vote.marks[:, CLOCK]

    @property
    def waiting(self) -> Batch | None:
        """The tuples that wait here."""
        return self._waiting.batch

    @property
    def pending(self) -> int:
        """How many tuples wait here."""
        return len(self._waiting)

    def admit(self, batch: Batch, end: bool = False) -> Guarded:
        """Judge a batch; with `end` nothing is left waiting."""
        if self._told is not None:
            told, self._told = self._told, None
            return self._admit_by_headers(batch, told, end)
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

    # By headers.

    def note(self, stream: int, name: int | None, shift: int, buckets: Words) -> None:
        """Note from a header what has come of a partition of a stream in this epoch."""
        if buckets.shape[1]:
            self._reported.setdefault(self._members.number(stream, name), []).append((shift, buckets))

    def oldest(self, stream: int, clock: int) -> int:
        """The oldest event time noted in this epoch that is not further behind than `max_behind`; or BEFORE_ALL."""
        found = [
            oldest_within(buckets, clock - self._max_behind)
            for number in self._of(stream)
            for _, buckets in self._reported.get(number, [])
        ]
        return min((one for one in found if one != BEFORE_ALL), default=BEFORE_ALL)

    def _of(self, stream: int) -> list[int]:
        names = self._members.names
        return [stream] + [self._members.streams + n for n, (s, _) in enumerate(names) if s == stream]

    def move(self, now: int | None, every: bool = False) -> ClockReadings:
        """End the epoch of the headers, at the moment `now` where moments count: clocks move with what was noted. With
        `every`, those too that have moved before. The next batch is judged by these."""
        self._reserve()
        self._counts = np.zeros((2, len(self._members)), np.int64)
        for m in sorted(self._reported):
            clear_line(self._times, m, first_shift(self._max_ahead))
            for shift, buckets in self._reported[m]:
                note_buckets(self._times, m, buckets, shift)
            arrived_at = BEFORE_ALL if now is None else now
            advance_by_histogram(self._vote, m, self._times, arrived_at, self._max_ahead, self._tolerance)
        for m, all_reported in self._reported.items():
            clock = self._vote.marks[m, CLOCK]
            for _, buckets in all_reported:
                beyond = clock != BEFORE_ALL and buckets[1] > clock + self._max_ahead
                self._counts[:, m] += int(buckets[0, beyond].sum()), int(buckets[0, ~beyond].sum())
        noted, self._reported = set(self._reported), {}
        self._told = ClockReadings.of([one for m, one in self._marked() if m in noted or every], now)
        return self._told

    def _marked(self) -> Iterator[tuple[int, tuple[int, int | None, int]]]:
        partitions: list[tuple[int, int | None]] = [(s, None) for s in range(self._members.streams)]
        for m, (stream, name) in enumerate([*partitions, *self._members.names]):
            if m < len(self._vote.marks) and self._vote.marks[m, CLOCK] != BEFORE_ALL:
                yield m, (stream, name, int(self._vote.marks[m, CLOCK]))

    def reaches(self, stream: int, ts: int) -> bool:
        """After `move`: whether a tuple of a stream without partitions is admitted at once."""
        clock = int(self._vote.marks[stream, CLOCK])
        return clock != BEFORE_ALL and ts <= clock + self._max_ahead

    def _admit_by_headers(self, batch: Batch, told: ClockReadings, end: bool) -> Guarded:
        """Judge tuples of an epoch whose clocks are known."""
        before = len(self._waiting)
        batches = [one for one in (self._waiting.batch, batch) if one is not None and len(one)]
        if not batches:
            return Guarded(batch, batch, None, told)
        shown = Batch.concat(batches)
        evidence = np.zeros((3, len(shown)), np.int64)
        evidence[:, :before] = self._waiting.evidence
        member = self._members.of(shown)
        verdict = verdicts(
            self._vote, shown.ts, member, before, evidence, self._counts, end, self._max_ahead, self._tolerance
        )
        admit, out, still = (np.flatnonzero(verdict == kind) for kind in (ADMITTED, REJECTED, PENDING))
        self._waiting.replace(shown.take(still) if len(still) else None, evidence[:, still])
        whole = len(admit) == len(shown)
        return Guarded(told.heard(shown if whole else shown.take(admit)), shown.take(out), None, told)

    # State.

    def relay(self, change: Callable[[Batch], Words]) -> None:
        """From now on tuples have other rows; what waits is changed."""
        self._waiting.relay(change)

    def _reserve(self) -> None:
        if len(self._members) > len(self._vote.marks):
            self._vote = grown(self._vote, len(self._members))
            self._times = event_times(len(self._members))

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        state = {"members": self._members.names, "begun": int(self._begun[0])}
        state |= {"marks": self._vote.marks.tolist(), "cutter": self._cutter.marks.tolist()}
        return [
            state_update(NAMESPACE, "state", encode_json(state)),
            *save_rings(NAMESPACE, crowd=self._vote, cutter=self._cutter),
            *self._waiting.snapshot_delta(),
        ]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
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


@in_place
def clear_line(times: EventTimes, line: int, shift: int) -> None:
    """`clear`, for callers that are not compiled."""
    clear(times, line, shift)
