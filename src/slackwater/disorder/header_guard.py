"""The vote about clocks in a shard, which knows the whole stream by headers and has some of its tuples itself.

Invariant: clocks and votes come from headers alone, so they are the same in every shard, and those of an epoch that
`clock_guard` has seen whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.jit import in_place
from slackwater.core.state import NOTHING, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_guard import ADMITTED, PENDING, REJECTED, Guarded, verdicts
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.clock_vote import CLOCK, advance_by_histogram, clock_vote, grown, restored, tolerance_of
from slackwater.disorder.event_times import EventTimes, clear, event_times, first_shift, note_buckets, oldest_within
from slackwater.disorder.guard_state import Members, Waiting, restore_rings, save_rings

NAMESPACE = "guard"


class HeaderGuard:
    """The same vote for a shard, which knows the whole stream by headers and has some of its tuples itself.

    Invariant: clocks and votes come from headers alone, so they are the same in every shard.
    """

    def __init__(self, streams: int, max_ahead: int, max_behind: int, partition_slots: tuple[int, ...] = ()) -> None:
        self._max_ahead, self._max_behind, self._tolerance = max_ahead, max_behind, tolerance_of(max_ahead)
        self._members = Members(streams, partition_slots)
        self._vote = clock_vote(streams)
        self._waiting = Waiting(NAMESPACE)
        self._reported: dict[int, list[tuple[int, Words]]] = {}
        self._moved: ClockReadings | None = None
        """The clocks that the headers of this epoch agree on."""

    @property
    def pending(self) -> int:
        """How many tuples wait for their verdict."""
        return len(self._waiting)

    @property
    def waiting(self) -> Batch | None:
        """The tuples that do."""
        return self._waiting.batch

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

    def clocks(self, now: int | None) -> list[tuple[int, int | None, int]]:
        """End the epoch: (stream, partition, clock) of all that were noted and have a clock."""
        if len(self._members) > len(self._vote.marks):
            self._vote = grown(self._vote, len(self._members))
        times = event_times(len(self._members))
        arrived_at = BEFORE_ALL if now is None else now
        self._counts = np.zeros((2, len(self._members)), np.int64)
        for m in sorted(self._reported):
            clear_line(times, m, first_shift(self._max_ahead))
            for shift, buckets in self._reported[m]:
                note_buckets(times, m, buckets, shift)
            advance_by_histogram(self._vote, m, times, arrived_at, self._max_ahead, self._tolerance)
        for m, all_reported in self._reported.items():
            clock = self._vote.marks[m, CLOCK]
            for _, buckets in all_reported:
                beyond = clock != BEFORE_ALL and buckets[1] > clock + self._max_ahead
                self._counts[:, m] += int(buckets[0, beyond].sum()), int(buckets[0, ~beyond].sum())
        noted, self._reported = set(self._reported), {}
        return [one for m, one in self._marked() if m in noted]

    def known_clocks(self) -> list[tuple[int, int | None, int]]:
        """(stream, partition, clock) of all that have a clock."""
        return [one for _, one in self._marked()]

    def _marked(self) -> Iterator[tuple[int, tuple[int, int | None, int]]]:
        partitions: list[tuple[int, int | None]] = [(s, None) for s in range(self._members.streams)]
        for m, (stream, name) in enumerate([*partitions, *self._members.names]):
            if m < len(self._vote.marks) and self._vote.marks[m, CLOCK] != BEFORE_ALL:
                yield m, (stream, name, int(self._vote.marks[m, CLOCK]))

    def reaches(self, stream: int, ts: int) -> bool:
        """After `clocks`: whether a tuple of a stream without partitions is admitted at once."""
        clock = int(self._vote.marks[stream, CLOCK])
        return clock != BEFORE_ALL and ts <= clock + self._max_ahead

    def move(self, now: int | None, every: bool = False) -> None:
        """End the epoch, at the moment `now` where moments count: clocks move with its tuples. With `every`, those too
        that have moved before."""
        moved = self.clocks(now)
        self._moved = ClockReadings.of(self.known_clocks() if every else moved, now)

    def admit(self, batch: Batch, end: bool = False) -> Guarded:
        """After `move`: judge the shard's own tuples, which say nothing about time themselves."""
        assert self._moved is not None, "headers come first"
        nothing = batch.take(NOTHING)
        admit, ahead = self.judge(batch, end)
        if admit is None:
            admit = nothing
        else:
            admit = replace(admit, reading=np.full(len(admit), BEFORE_ALL))
            if self._moved.at != BEFORE_ALL:
                admit = replace(admit, arrival_time=np.full(len(admit), self._moved.at))
        return Guarded(admit, nothing if ahead is None else ahead, None, self._moved)

    def judge(self, batch: Batch | None, end: bool) -> tuple[Batch | None, Batch | None]:
        """After `clocks`: which of the shard's own tuples, new ones and those pending, are admitted, and which
        rejected."""
        before = len(self._waiting)
        batches = [one for one in (self._waiting.batch, batch) if one is not None and len(one)]
        if not batches:
            return None, None
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
        return shown if whole else shown.take(admit), None if whole else shown.take(out)

    def relay(self, change: Callable[[Batch], Words]) -> None:
        """From now on tuples have other rows; what waits is changed."""
        self._waiting.relay(change)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        state = {"members": self._members.names, "marks": self._vote.marks.tolist()}
        return [
            state_update(NAMESPACE, "state", encode_json(state)),
            *save_rings(NAMESPACE, crowd=self._vote),
            *self._waiting.snapshot_delta(),
        ]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        for entry in entries:
            if entry.value is not None and entry.key == "state":
                state = decode_json(entry.value)
                self._members.restore([(s, name) for s, name in state["members"]])
                self._vote = grown(self._vote, len(self._members))
                self._vote.marks[:] = state["marks"]
                restored(self._vote)
        self._waiting.restore(entries)
        restore_rings(entries, crowd=self._vote)


@in_place
def clear_line(times: EventTimes, line: int, shift: int) -> None:
    """`clear`, for callers that are not compiled."""
    clear(times, line, shift)
