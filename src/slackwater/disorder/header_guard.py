"""The vote about clocks in a shard, which hears of the whole stream by headers and has some of its tuples itself.

Invariant: clocks and votes come from headers alone, so they are the same in every shard, and those of an epoch that
`admission` has seen whole.
"""

from __future__ import annotations

import numpy as np

from slackwater.compiled import in_place
from slackwater.disorder.crowd import CLOCK, RINGS, crowd, grown, hear_histogram, tolerance_of
from slackwater.disorder.event_times import EventTimes, clear, event_times, first_shift, note_buckets, oldest_within
from slackwater.disorder.members import Members
from slackwater.disorder.verdicts import ASIDE, LET_IN, REJECTED, verdicts
from slackwater.kernel import (
    Change,
    changed,
    decode_batch,
    decode_json,
    decode_words,
    encode_batch,
    encode_json,
    encode_words,
)
from slackwater.model.batch import Batch, Words
from slackwater.model.time import BEFORE_ALL


class HeaderGuard:
    """The same vote for a shard, which hears of the whole stream by headers and has some of its tuples itself.

    Invariant: clocks and votes come from headers alone, so they are the same in every shard.
    """

    def __init__(self, streams: int, max_ahead: int, max_behind: int, part_rows: tuple[int, ...] = ()) -> None:
        self._max_ahead, self._max_behind, self._tolerance = max_ahead, max_behind, tolerance_of(max_ahead)
        self._members = Members(streams, part_rows)
        self._crowd = crowd(streams)
        self._aside: Batch | None = None
        self._evidence = np.zeros((3, 0), np.int64)
        self._touched = False
        self._told: dict[int, list[tuple[int, Words]]] = {}

    @property
    def aside(self) -> Batch | None:
        """The tuples that wait for their verdict."""
        return self._aside

    def hear(self, stream: int, name: int | None, shift: int, buckets: Words) -> None:
        """A header tells what has come of a part of a stream in this epoch."""
        if buckets.shape[1]:
            self._told.setdefault(self._members.number(stream, name), []).append((shift, buckets))

    def oldest(self, stream: int, clock: int) -> int:
        """The oldest event time told in this epoch that is not further behind than `max_behind`; or BEFORE_ALL."""
        found = [
            oldest_within(buckets, clock - self._max_behind)
            for number in self._of(stream)
            for _, buckets in self._told.get(number, [])
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
        moment = BEFORE_ALL if now is None else now
        self._counts = np.zeros((2, len(self._members)), np.int64)
        for m in sorted(self._told):
            clear_line(times, m, first_shift(self._max_ahead))
            for shift, buckets in self._told[m]:
                note_buckets(times, m, buckets, shift)
            hear_histogram(self._crowd, m, times, moment, self._max_ahead, self._tolerance)
        for m, all_told in self._told.items():
            clock = self._crowd.marks[m, CLOCK]
            for _, buckets in all_told:
                beyond = clock != BEFORE_ALL and buckets[1] > clock + self._max_ahead
                self._counts[:, m] += int(buckets[0, beyond].sum()), int(buckets[0, ~beyond].sum())
        found = []
        parts: list[tuple[int, int | None]] = [(s, None) for s in range(self._members.streams)]
        for m, (stream, name) in enumerate([*parts, *self._members.names]):
            if m in self._told and self._crowd.marks[m, CLOCK] != BEFORE_ALL:
                found.append((stream, name, int(self._crowd.marks[m, CLOCK])))
        self._told = {}
        return found

    def judge(self, batch: Batch | None, end: bool) -> tuple[Batch | None, Batch | None]:
        """After `clocks`: which of the shard's own tuples, new ones and those aside, are let in, and which rejected."""
        before = 0 if self._aside is None else len(self._aside)
        parts = [one for one in (self._aside, batch) if one is not None and len(one)]
        if not parts:
            return None, None
        shown = Batch.concat(parts)
        evidence = np.zeros((3, len(shown)), np.int64)
        evidence[:, :before] = self._evidence
        member = self._members.of(shown)
        verdict = verdicts(
            self._crowd, shown.ts, member, before, evidence, self._counts, end, self._max_ahead, self._tolerance
        )
        let_in, out, still = (np.flatnonzero(verdict == kind) for kind in (LET_IN, REJECTED, ASIDE))
        self._touched = self._touched or before > 0 or len(still) > 0
        self._aside, self._evidence = (shown.take(still) if len(still) else None), evidence[:, still]
        whole = len(let_in) == len(shown)
        return shown if whole else shown.take(let_in), None if whole else shown.take(out)

    def changes(self) -> list[Change]:
        state = {"members": self._members.names, "marks": self._crowd.marks.tolist()}
        entries = [changed("guard", "state", encode_json(state))]
        rings = {name: getattr(self._crowd, name).reshape(-1) for name in RINGS}
        entries += [changed("guard", f"ring_{name}", encode_words({"t": ring})) for name, ring in rings.items()]
        if self._touched:
            aside = None
            if self._aside is not None:
                along, against, later = self._evidence
                aside = encode_batch(self._aside, along=along, against=against, later=later)
            entries.append(changed("guard", "aside", aside))
            self._touched = False
        return entries

    def restore(self, entries: list[Change]) -> None:
        rings: dict[str, Words] = {}
        for entry in entries:
            if entry.key == "aside":
                self._aside, self._evidence = None, np.zeros((3, 0), np.int64)
                if entry.value is not None:
                    self._aside, extra = decode_batch(entry.value)
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
