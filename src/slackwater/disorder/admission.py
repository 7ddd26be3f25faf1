"""Admission: what every arrival says about time, and which arrivals are too far ahead to be let in.

A tuple ahead of the crowd (see `crowd`) is let in and waits in order for its time, but moves no clock. One that is more
than `max_ahead` ahead of its stream's clock is set aside. It is let in when the crowd comes along (a real gap) or its
time comes nearer, and rejected as `ahead` when as many others have come since as a vote asks, and did not come along.
When the input ends it is rejected if most of those others did not.

Invariant: every tuple is let in or rejected, once; tuples let in keep the order of their arrival, but for those that
were set aside. In an epoch the verdicts do not depend on the order of arrivals. What is set aside is bounded: a tuple
stays there for a vote or two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slackwater.compiled import compiled, in_place, inner
from slackwater.disorder.crowd import (
    CLOCK,
    HEARD,
    MOST,
    Crowd,
    crowd,
    grown,
    hear_epoch,
    hear_histogram,
    hear_one,
    patience,
    tolerance_of,
)
from slackwater.disorder.event_times import (
    TUPLES,
    EventTimes,
    clear,
    event_times,
    first_shift,
    note,
    note_buckets,
    oldest_within,
)
from slackwater.disorder.state import NO_PART
from slackwater.kernel import (
    NOTHING,
    Change,
    changed,
    decode_batch,
    decode_json,
    decode_words,
    encode_batch,
    encode_json,
    encode_words,
)
from slackwater.model.batch import Batch, Flags, Words
from slackwater.model.time import AFTER_ALL, BEFORE_ALL

UNGUARDED = 2**60
"""A `max_ahead` from which on every tuple moves its clock."""
CLEARLY = 15
"""Of the epoch in which the input ends, so many times as many must be against a tuple ahead."""
RINGS = ("leads", "clocks", "run", "lately")
# Rows of the evidence: of the arrivals since a tuple was set aside, those that came along and those that did not;
# and whether they were counted in a later epoch than its own.
ALONG, AGAINST, LATER = range(3)


class Cutting(NamedTuple):
    """Where epochs end: after each tuple, after so many, when the largest clock has come so far, or with each call."""

    each: bool
    tuples: int
    span: int


@dataclass(frozen=True)
class Admitted:
    """What admission decided about the tuples it was shown: those let in, in order, and those turned away."""

    batch: Batch
    ahead: Batch
    ends: Flags | None = None
    """After which of the tuples let in an epoch ends; None: nobody has cut epochs here."""


class Members:
    """Streams and their parts, numbered; streams come first."""

    def __init__(self, streams: int, part_rows: tuple[int, ...] = ()) -> None:
        self.streams, self._part_rows = streams, part_rows
        self._numbers: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self.streams + len(self._numbers)

    def number(self, stream: int, name: int | None) -> int:
        """The number of a part, or of the stream where it has none."""
        return stream if name is None else self._numbers.setdefault((stream, name), len(self))

    def of(self, batch: Batch) -> Words:
        """The member that each tuple belongs to."""
        if not self._part_rows:
            return batch.stream
        member = batch.stream.copy()
        for stream, row in enumerate(self._part_rows):
            mine = np.flatnonzero(batch.stream == stream)
            if row != NO_PART and len(mine):
                names, place = np.unique(batch.words[row, mine], return_inverse=True)
                member[mine] = np.array([self.number(stream, name) for name in names.tolist()], np.int64)[place]
        return member

    @property
    def names(self) -> list[tuple[int, int]]:
        """Stream and name of every part, in the order of their numbers."""
        return list(self._numbers)

    def restore(self, names: list[tuple[int, int]]) -> None:
        """Take over what `names` gave."""
        self._numbers = {(s, name): self.streams + n for n, (s, name) in enumerate(names)}


class Admission:
    """The guard in front of a query's inputs.

    >>> guard = Admission(streams=1, max_ahead=10)
    >>> seen = guard.admit(Batch.of([(0, 1), (0, 1000), (0, 2), (0, 3)]), end=True)
    >>> seen.batch.ts.tolist(), seen.ahead.ts.tolist()
    ([1, 2, 3], [1000])
    """

    def __init__(
        self,
        streams: int,
        max_ahead: int,
        cutting: Cutting = Cutting(False, 0, 0),  # noqa: B008 (a constant)
        part_rows: tuple[int, ...] = (),
    ) -> None:
        self._max_ahead, self._tolerance = max_ahead, tolerance_of(max_ahead)
        self._cutting = cutting
        self._members = Members(streams, part_rows)
        self._crowd = crowd(streams)
        self._times = event_times(streams)
        self._cutter = crowd(streams if cutting.span else 0)
        self._begun = np.array([BEFORE_ALL])
        """The largest clock of the cutter when the epoch began."""
        self._waiting: Batch | None = None
        """Tuples set aside, and then those of an epoch that has not ended."""
        self._evidence = np.zeros((3, 0), np.int64)
        """Of the tuples set aside."""
        self._touched = False

    @property
    def clocks(self) -> Words:
        """The clock of every stream and every part."""
        return self._crowd.marks[:, CLOCK]

    @property
    def aside(self) -> int:
        """How many tuples wait here."""
        return 0 if self._waiting is None else len(self._waiting)

    def admit(self, batch: Batch, end: bool = False) -> Admitted:
        """Judge a batch; with `end` nothing is left waiting."""
        if self._max_ahead >= UNGUARDED:
            return Admitted(batch, batch.take(NOTHING))
        aside, seen = self._evidence.shape[1], self.aside
        shown = batch
        if self._waiting is not None:
            # An empty batch knows no arrival times and must not make those that wait forget theirs.
            shown = Batch.concat([self._waiting, batch]) if len(batch) else self._waiting
        self._touched = self._touched or self._waiting is not None
        member = self._members.of(shown)
        self._make_room()
        n = len(shown)
        # Only of those aside it is looked at, and written before.
        evidence = np.empty((3, n), np.int64)
        evidence[:, :aside] = self._evidence
        heard = NOTHING if shown.heard is None else shown.heard
        order, reading, ends, rejected, still, done, straight = judge(
            self._crowd, self._times, self._cutter, self._begun, self._cutting, shown.stream, shown.ts, member, heard,
            aside, seen, evidence, end, self._max_ahead, self._tolerance, first_shift(self._max_ahead),
        )  # fmt: skip
        kept = np.concatenate([still, np.arange(done, n)])
        self._waiting = shown.take(kept) if len(kept) else None
        self._evidence = evidence[:, still]
        self._touched = self._touched or self._waiting is not None
        let_in = shown if straight else shown.take(order)
        return Admitted(replace(let_in, reading=reading), shown.take(rejected), ends)

    def _make_room(self) -> None:
        if len(self._members) > len(self._crowd.marks):
            self._crowd = grown(self._crowd, len(self._members))
            self._times = event_times(len(self._members))

    def changes(self) -> list[Change]:
        state = {"members": self._members.names, "begun": int(self._begun[0])}
        rings = {f"{name}_{part}": array.reshape(-1) for name, one in (("crowd", self._crowd), ("cutter", self._cutter))
                 for part, array in zip(RINGS, (one.leads, one.clocks, one.run, one.lately), strict=True)}  # fmt: skip
        state |= {"marks": self._crowd.marks.tolist(), "cutter": self._cutter.marks.tolist()}
        entries = [changed("admission", "state", encode_json(state))]
        entries += [changed("admission", name, encode_words({"t": ring})) for name, ring in rings.items() if len(ring)]
        if self._touched:
            waiting = None
            if self._waiting is not None:
                evidence = np.zeros((3, len(self._waiting)), np.int64)
                evidence[:, : self._evidence.shape[1]] = self._evidence
                sided = np.arange(len(self._waiting)) < self._evidence.shape[1]
                waiting = encode_batch(
                    self._waiting, along=evidence[ALONG], against=evidence[AGAINST], later=evidence[LATER],
                    sided=sided.astype(np.int64),
                )  # fmt: skip
            entries.append(changed("admission", "waiting", waiting))
            self._touched = False
        return entries

    def restore(self, entries: list[Change]) -> None:
        rings: dict[str, Words] = {}
        for entry in entries:
            if entry.key == "waiting":
                self._waiting, self._evidence = None, np.zeros((3, 0), np.int64)
                if entry.value is not None:
                    self._waiting, extra = decode_batch(entry.value)
                    evidence = np.stack([extra[name] for name in ("along", "against", "later")])
                    self._evidence = evidence[:, extra["sided"] == 1]
            elif entry.key == "state" and entry.value is not None:
                state = decode_json(entry.value)
                self._members.restore([(s, name) for s, name in state["members"]])
                self._make_room()
                self._begun[0] = state["begun"]
                self._crowd.marks[:], self._cutter.marks[:] = state["marks"], state["cutter"] or self._cutter.marks
            elif entry.value is not None:
                rings[entry.key] = decode_words(entry.value)["t"]
        for name, ring in rings.items():
            of, part = name.split("_")
            one = self._crowd if of == "crowd" else self._cutter
            array = getattr(one, part)
            array[:] = ring.reshape(array.shape)


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


LET_IN, REJECTED, ASIDE = range(3)


@inner
def verdict_on(c: Crowd, t: int, m: int, evidence: Words, at: int, end: bool, max_ahead: int, tolerance: int) -> int:
    """What becomes of a tuple that is, or would be, set aside."""
    clock = c.marks[m, CLOCK]
    if clock == BEFORE_ALL:
        return LET_IN if end else ASIDE
    if t <= clock + max_ahead:
        return LET_IN
    if end:
        # Nothing is spoilt any more; but of the same epoch it is not known what came after it.
        along = evidence[ALONG, at]
        many = 0 if evidence[LATER, at] == 1 else 1 if along == 0 else CLEARLY * (1 + along)
        return REJECTED if evidence[AGAINST, at] > max(many, evidence[ALONG, at]) else LET_IN
    voted = evidence[LATER, at] == 1 and evidence[AGAINST, at] >= patience(c, m, tolerance)
    return REJECTED if voted else ASIDE


@compiled
def verdicts(
    c: Crowd, ts: Words, member: Words, before: int, evidence: Words, counts: Words, end: bool, max_ahead: int,
    tolerance: int,
) -> Words:  # fmt: skip
    """What becomes of each tuple after an epoch; the first `before` were aside already."""
    found = member.copy()
    for i in range(len(ts)):
        m = member[i]
        weigh(evidence, i, counts[0, m], counts[1, m], i < before)
        found[i] = verdict_on(c, ts[i], m, evidence, i, end, max_ahead, tolerance)
    return found


@inner
def weigh(evidence: Words, at: int, along: int, against: int, later: bool) -> None:
    """Count the arrivals of an epoch for and against a tuple aside; of its own epoch it is one itself."""
    evidence[ALONG, at] += along if later else max(0, along - 1)
    evidence[AGAINST, at] += against
    if later and along + against > 0:
        evidence[LATER, at] = 1


@in_place
def clear_line(times: EventTimes, line: int, shift: int) -> None:
    """`clear`, for callers that are not compiled."""
    clear(times, line, shift)


@inner
def end_of_epoch(
    cutting: Cutting, cutter: Crowd, begun: Words, stream: Words, ts: Words, heard: Words, begin: int, seen: int,
    end: bool, max_ahead: int, tolerance: int,
) -> int:  # fmt: skip
    """Where the epoch that begins here ends; -1 where it has not ended, beyond all tuples where the input ends in it.

    Tuples before `seen` were shown before.
    """
    n = len(ts)
    if cutting.each:
        return begin + 1
    if cutting.tuples > 0:
        return begin + cutting.tuples if end or begin + cutting.tuples <= n else -1
    if cutting.span == 0:
        return n
    for i in range(max(begin, seen), n):
        if cut_after(cutter, begun, cutting.span, stream[i], ts[i], heard[i] if len(heard) > 0 else BEFORE_ALL,
                     max_ahead, tolerance):  # fmt: skip
            return i + 1
    return n + 1 if end else -1


@inner
def cut_after(
    cutter: Crowd, begun: Words, span: int, s: int, t: int, moment: int, max_ahead: int, tolerance: int
) -> bool:
    """Whether an epoch ends after this tuple: the largest clock has come a span further since the epoch began."""
    hear_one(cutter, s, t, moment, max_ahead, tolerance)
    clock = cutter.marks[s, CLOCK]
    if begun[0] == BEFORE_ALL and clock != BEFORE_ALL:
        # The first epoch begins with the oldest of those that have agreed.
        begun[0] = clock
        for i in range(min(cutter.marks[s, HEARD], MOST)):
            if clock - max_ahead <= cutter.run[s, i] < begun[0]:
                begun[0] = cutter.run[s, i]
    if clock != BEFORE_ALL and clock - begun[0] >= span:
        begun[0] = clock
        return True
    return False


def epochs_by_span(stream: Words, ts: Words, heard: Words, streams: int, span: int, max_ahead: int) -> Words:
    """The number of the epoch of each arrival, where epochs end as the largest clock moves on."""
    return numbered_epochs(crowd(streams), stream, ts, heard, span, max_ahead, tolerance_of(max_ahead))


@compiled
def numbered_epochs(
    cutter: Crowd, stream: Words, ts: Words, heard: Words, span: int, max_ahead: int, tolerance: int
) -> Words:
    """`epochs_by_span`, for a cutter that has heard nothing."""
    begun = np.array([BEFORE_ALL])
    epoch = np.empty(len(ts), np.int64)
    current = 0
    for i in range(len(ts)):
        epoch[i] = current
        moment = heard[i] if len(heard) > 0 else BEFORE_ALL
        if cut_after(cutter, begun, span, stream[i], ts[i], moment, max_ahead, tolerance):
            current += 1
    return epoch


@compiled
def judge(
    c: Crowd, times: EventTimes, cutter: Crowd, begun: Words, cutting: Cutting, stream: Words, ts: Words, member: Words,
    heard: Words, n_aside: int, seen: int, evidence: Words, end: bool, max_ahead: int, tolerance: int, shift: int,
) -> tuple[Words, Words, Flags, Words, Words, int, bool]:  # fmt: skip
    """Judge epoch after epoch; returns (order, reading, ends, rejected, aside, consumed, whether nobody had to wait).

    Tuples aside come first, then those of an unfinished epoch, which the cutter has seen.
    """
    n, members = len(ts), len(c.marks)
    order, reading, rejected, aside = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    ends = np.zeros(0 if cutting.each else n, np.bool_)
    for a in range(n_aside):
        aside[a] = a
    counts, last_at = np.zeros((2, members), np.int64), np.full(members, -1, np.int64)
    n_order, n_rejected, begin = 0, 0, n_aside
    straight = n_aside == 0
    while begin < n:
        stop = end_of_epoch(cutting, cutter, begun, stream, ts, heard, begin, seen, end, max_ahead, tolerance)
        if stop < 0:
            break
        # What the end of the input cuts off is no epoch.
        whole = stop <= n
        stop = min(stop, n)
        first = n_order
        if cutting.each:
            # As it mostly is: nobody waits, and nobody need.
            stop = pass_through(
                c, ts, member, heard, begin, n_aside == 0, order, reading, n_order, max_ahead, tolerance
            )
            n_order += stop - begin
            begin = stop
            if begin == n:
                break
            stop = begin + 1
            first = n_order
        else:
            hear_all(c, times, ts, member, heard, begin, stop, max_ahead, tolerance, shift)
        for i in range(begin, stop):
            m = member[i]
            clock = c.marks[m, CLOCK]
            counts[0 if clock != BEFORE_ALL and ts[i] > clock + max_ahead else 1, m] += 1
        kept = 0
        for a in range(n_aside):
            i = aside[a]
            m = member[i]
            weigh(evidence, i, counts[0, m], counts[1, m], True)
            verdict = verdict_on(c, ts[i], m, evidence, i, False, max_ahead, tolerance)
            if verdict == LET_IN:
                # Its own time, not the clock's: those let in together are in time or late as if none had waited.
                order[n_order], reading[n_order] = i, ts[i] if ts[i] <= c.marks[m, CLOCK] else BEFORE_ALL
                n_order += 1
            elif verdict == REJECTED:
                rejected[n_rejected] = i
                n_rejected += 1
            else:
                aside[kept] = i
                kept += 1
        n_aside = kept
        for i in range(begin, stop):
            m = member[i]
            clock = c.marks[m, CLOCK]
            if clock == BEFORE_ALL or ts[i] > clock + max_ahead:
                for row in range(3):
                    evidence[row, i] = 0
                weigh(evidence, i, counts[0, m], counts[1, m] if not cutting.each else 0, False)
                aside[n_aside] = i
                n_aside += 1
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
        for a in range(n_aside):
            i = aside[a]
            if verdict_on(c, ts[i], member[i], evidence, i, True, max_ahead, tolerance) == REJECTED:
                rejected[n_rejected] = i
                n_rejected += 1
            else:
                order[n_order], reading[n_order] = i, BEFORE_ALL
                n_order += 1
        n_aside = 0
    if len(ends) > n_order:
        ends = ends[:n_order]
    return (
        order[:n_order],
        reading[:n_order],
        ends,
        rejected[:n_rejected],
        aside[:n_aside].copy(),
        begin,
        straight and begin == n,
    )


@in_place
def pass_through(
    c: Crowd, ts: Words, member: Words, heard: Words, begin: int, nobody_waits: bool, order: Words, reading: Words,
    n_order: int, max_ahead: int, tolerance: int,
) -> int:  # fmt: skip
    """Tuple release: hear tuples, and let them in up to the first that is more than `max_ahead` ahead.

    Where somebody waits, only that one tuple is heard. A loop of its own, because the other one has too much in it to
    be fast.
    """
    for i in range(begin, len(ts)):
        m, t = member[i], ts[i]
        hear_one(c, m, t, heard[i] if len(heard) > 0 else BEFORE_ALL, max_ahead, tolerance)
        if not nobody_waits or c.marks[m, CLOCK] == BEFORE_ALL or t - max_ahead > c.marks[m, CLOCK]:
            return i
        order[n_order], reading[n_order] = i, c.marks[m, CLOCK]
        n_order += 1
    return len(ts)


@inner
def hear_all(
    c: Crowd, times: EventTimes, ts: Words, member: Words, heard: Words, begin: int, stop: int, max_ahead: int,
    tolerance: int, shift: int,
) -> None:  # fmt: skip
    """An epoch's arrivals: a histogram of each member, and a vote."""
    for m in range(len(c.marks)):
        times.used[m, TUPLES] = -1
    for i in range(begin, stop):
        m = member[i]
        if times.used[m, TUPLES] < 0:
            clear(times, m, shift)
        note(times, m, 1, ts[i], AFTER_ALL, 0)
    moment = heard[stop - 1] if len(heard) > 0 else BEFORE_ALL
    for m in range(len(c.marks)):
        if times.used[m, TUPLES] > 0:
            hear_epoch(c, m, times, moment, max_ahead, tolerance)
