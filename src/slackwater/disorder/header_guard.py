"""The vote about clocks in a shard, which hears of the whole stream by headers and has some of its tuples itself.

Invariant: clocks and votes come from headers alone, so they are the same in every shard, and those of an epoch that
`clock_guard` has seen whole.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.jit import in_place
from slackwater.core.state import (
    StateUpdate,
    decode_batch,
    decode_json,
    decode_words,
    encode_batch,
    encode_json,
    encode_words,
    state_update,
)
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_guard import ADMITTED, PENDING, REJECTED, Members, verdicts
from slackwater.disorder.crowd import CLOCK, RINGS, advance_by_histogram, crowd, grown, tolerance_of
from slackwater.disorder.event_times import EventTimes, clear, event_times, first_shift, note_buckets, oldest_within


class HeaderGuard:
    """The same vote for a shard, which hears of the whole stream by headers and has some of its tuples itself.

    Invariant: clocks and votes come from headers alone, so they are the same in every shard.
    """

    def __init__(self, streams: int, max_ahead: int, max_behind: int, partition_slots: tuple[int, ...] = ()) -> None:
        self._max_ahead, self._max_behind, self._tolerance = max_ahead, max_behind, tolerance_of(max_ahead)
        self._members = Members(streams, partition_slots)
        self._crowd = crowd(streams)
        self._pending: Batch | None = None
        self._evidence = np.zeros((3, 0), np.int64)
        self._touched = False
        self._reported: dict[int, list[tuple[int, Words]]] = {}

    @property
    def pending(self) -> Batch | None:
        """The tuples that wait for their verdict."""
        return self._pending

    def note(self, stream: int, name: int | None, shift: int, buckets: Words) -> None:
        """A header tells what has come of a part of a stream in this epoch."""
        if buckets.shape[1]:
            self._reported.setdefault(self._members.number(stream, name), []).append((shift, buckets))

    def oldest(self, stream: int, clock: int) -> int:
        """The oldest event time told in this epoch that is not further behind than `max_behind`; or BEFORE_ALL."""
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
        """End the epoch: (stream, part, clock) of all that were told of and have a clock."""
        if len(self._members) > len(self._crowd.marks):
            self._crowd = grown(self._crowd, len(self._members))
        times = event_times(len(self._members))
        arrived_at = BEFORE_ALL if now is None else now
        self._counts = np.zeros((2, len(self._members)), np.int64)
        for m in sorted(self._reported):
            clear_line(times, m, first_shift(self._max_ahead))
            for shift, buckets in self._reported[m]:
                note_buckets(times, m, buckets, shift)
            advance_by_histogram(self._crowd, m, times, arrived_at, self._max_ahead, self._tolerance)
        for m, all_reported in self._reported.items():
            clock = self._crowd.marks[m, CLOCK]
            for _, buckets in all_reported:
                beyond = clock != BEFORE_ALL and buckets[1] > clock + self._max_ahead
                self._counts[:, m] += int(buckets[0, beyond].sum()), int(buckets[0, ~beyond].sum())
        found = []
        partitions: list[tuple[int, int | None]] = [(s, None) for s in range(self._members.streams)]
        for m, (stream, name) in enumerate([*partitions, *self._members.names]):
            if m in self._reported and self._crowd.marks[m, CLOCK] != BEFORE_ALL:
                found.append((stream, name, int(self._crowd.marks[m, CLOCK])))
        self._reported = {}
        return found

    def judge(self, batch: Batch | None, end: bool) -> tuple[Batch | None, Batch | None]:
        """After `clocks`: which of the shard's own tuples, new ones and those pending, are admitted, and which
        rejected."""
        before = 0 if self._pending is None else len(self._pending)
        partitions = [one for one in (self._pending, batch) if one is not None and len(one)]
        if not partitions:
            return None, None
        shown = Batch.concat(partitions)
        evidence = np.zeros((3, len(shown)), np.int64)
        evidence[:, :before] = self._evidence
        member = self._members.of(shown)
        verdict = verdicts(
            self._crowd, shown.ts, member, before, evidence, self._counts, end, self._max_ahead, self._tolerance
        )
        admit, out, still = (np.flatnonzero(verdict == kind) for kind in (ADMITTED, REJECTED, PENDING))
        self._touched = self._touched or before > 0 or len(still) > 0
        self._pending, self._evidence = (shown.take(still) if len(still) else None), evidence[:, still]
        whole = len(admit) == len(shown)
        return shown if whole else shown.take(admit), None if whole else shown.take(out)

    def snapshot_delta(self) -> list[StateUpdate]:
        state = {"members": self._members.names, "marks": self._crowd.marks.tolist()}
        entries = [state_update("guard", "state", encode_json(state))]
        rings = {name: getattr(self._crowd, name).reshape(-1) for name in RINGS}
        entries += [state_update("guard", f"ring_{name}", encode_words({"t": ring})) for name, ring in rings.items()]
        if self._touched:
            pending = None
            if self._pending is not None:
                along, against, later = self._evidence
                pending = encode_batch(self._pending, along=along, against=against, later=later)
            entries.append(state_update("guard", "pending", pending))
            self._touched = False
        return entries

    def restore(self, entries: list[StateUpdate]) -> None:
        rings: dict[str, Words] = {}
        for entry in entries:
            if entry.key == "pending":
                self._pending, self._evidence = None, np.zeros((3, 0), np.int64)
                if entry.value is not None:
                    self._pending, extra = decode_batch(entry.value)
                    self._evidence = np.stack([extra[name] for name in ("along", "against", "later")])
            elif entry.value is not None and entry.key == "state":
                state = decode_json(entry.value)
                self._members.restore([(s, name) for s, name in state["members"]])
                self._crowd = grown(self._crowd, len(self._members))
                self._crowd.marks[:] = state["marks"]
            elif entry.value is not None:
                rings[entry.key.removeprefix("ring_")] = decode_words(entry.value)["t"]
        for name, ring in rings.items():
            array = getattr(self._crowd, name)
            array[:] = ring.reshape(array.shape)


@in_place
def clear_line(times: EventTimes, line: int, shift: int) -> None:
    """`clear`, for callers that are not compiled."""
    clear(times, line, shift)
