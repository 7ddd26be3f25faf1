"""Queries that read one pane store, moved on together.

Each query walks over a batch in segments, up to the next adaptation of its controller, and then asks its controller,
who may have to know what was emitted until then. So all of them go up to where the first segment ends, and the query
that it belongs to emits and adapts; then up to where the next one ends.

Invariant: every query closes its windows when it would alone: before its first tuple of an epoch, those that its
watermark had passed when the epoch began; and behind its segment, those that it has passed by then. Nobody waits for
anybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.errors import FAILURES
from slackwater.core.state import Emission
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_guard import Guarded
from slackwater.disorder.sharing.clock_domain import Timeline
from slackwater.disorder.sharing.cursor import CursorRelease, Passed, UnorderedSegment, Wanted
from slackwater.operators.aggregate.shared.fragments import AT_END, BY_EPOCH
from slackwater.operators.aggregate.shared.store import ClosedLines, Delivered, PaneReader, PaneStore
from slackwater.operators.query_set.member import FAILED, RUNNING, Member

Fail = Callable[[Member, BaseException], None]
Emitted = Iterator[tuple[str, Emission]]


@dataclass(eq=False)
class _Walker:
    """A query on its way over a batch."""

    member: Member
    cursor: CursorRelease
    reader: PaneReader
    segments: Iterator[UnorderedSegment]
    now: UnorderedSegment | None = None
    failure: BaseException | None = None

    def go_on(self) -> None:
        """Its next segment, if there is one."""
        self.now = next(self.segments, None)
        if self.now is not None:
            self.member.query.look()


class PaneGroup:
    """The readers of one store."""

    def __init__(self, store: PaneStore) -> None:
        self.store = store
        self.members: list[Member] = []

    def join(self, member: Member) -> None:
        """A query that has come, with its reader."""
        self.members.append(member)
        self.store.join(_reader(member))

    def leave(self, member: Member) -> None:
        """A query that goes."""
        self.members.remove(member)
        self.store.leave(_reader(member))

    def exchange(self, member: Member, reader: PaneReader) -> None:
        """A query that was built anew goes on with another reader, where it was."""
        before = _reader(member)
        reader.next = before.next
        self.store.join(reader)
        self.store.leave(before)
        member.reader = reader

    def advance(
        self,
        guarded: Guarded,
        line: Timeline,
        wanted: Callable[[Member], Wanted],
        first_flag: int,
        fail: Fail,
        end: bool,
    ) -> Emitted:
        """Move all queries over a batch; what leaves comes with the name of its query."""
        batch, walkers = guarded.batch, []
        for member in self._running():
            chosen, cursor = wanted(member), _cursor(member)
            arrived = None if batch.arrival_time is None else batch.arrival_time[chosen.at]
            member.query.count_judged(len(guarded.ahead), len(batch) - len(chosen.at), arrived)
            segments = cursor.unordered_segments(batch, line, chosen, member.query.hears_every_tuple, end)
            walkers.append(_Walker(member, cursor, _reader(member), segments))
        yield from self._walk(batch, line, walkers, first_flag, fail)

    def on_processing_time(self, line: Timeline, rows: int, first_flag: int, fail: Fail) -> Emitted:
        """End an epoch in which nothing arrived."""
        walkers, nothing = [], np.zeros(0, np.int64)
        for member in self._running():
            cursor = _cursor(member)
            silent = UnorderedSegment(
                cursor.silent_run(line), nothing, nothing, 0, Passed(0, 0, 0, 1, cursor.cursor, 0, (0, 0))
            )
            walkers.append(_Walker(member, cursor, _reader(member), iter([silent])))
        yield from self._walk(Batch.of([], rows), line, walkers, first_flag, fail)

    def _running(self) -> list[Member]:
        return [member for member in self.members if member.status == RUNNING]

    def _walk(self, batch: Batch, line: Timeline, walkers: list[_Walker], first_flag: int, fail: Fail) -> Emitted:
        self.store.begin(batch.words, first_flag)
        for one in walkers:
            one.member.query.begin_runs()
            one.go_on()
        while position := [one.now.passed.position for one in walkers if one.now is not None]:
            yield from self._up_to(min(position), line, walkers)
            for one in walkers:
                if one.failure is not None:
                    fail(one.member, one.failure)
            walkers = [one for one in walkers if one.member.status != FAILED]
        self.store.end_batch()

    def _up_to(self, position: int, line: Timeline, walkers: list[_Walker]) -> Emitted:
        """All queries up to a place in the batch, where the segment of some of them ends."""
        readers = self.store.readers
        watermark = np.full((len(readers), line.epochs + 2), BEFORE_ALL)
        ends, reached = np.zeros((2, len(readers)), np.int64)
        place = {id(reader): r for r, reader in enumerate(readers)}
        by_place: dict[int, _Walker] = {}
        for one in walkers:
            if one.now is None:
                continue
            r = place[id(one.reader)]
            by_place[r] = one
            watermark[r, : len(one.now.watermark)] = one.now.watermark
            ends[r], reached[r] = one.now.passed.position == position, one.now.run.watermark
        for closed in self.store.advance(position, line.epoch, watermark, ends, reached):
            for r, lines in enumerate(closed):
                if lines is not None and by_place[r].failure is None:
                    yield from _guarded(by_place[r], _results(by_place[r], line, lines))
        for r, one in by_place.items():
            if ends[r] and one.failure is None:
                yield from _guarded(one, _finished(one))


def _results(walker: _Walker, line: Timeline, closed: ClosedLines) -> Iterator[Emission]:
    """Emit closed windows, with when that was."""
    now, query = walker.now, walker.member.query
    assert now is not None, "it is on its way"
    epoch, passed = np.ascontiguousarray(closed.lines[:, BY_EPOCH]), now.passed
    at_end = epoch == AT_END
    clock, moment = passed.reached_before(line, np.where(at_end, passed.from_epoch, epoch))
    clock[at_end], moment[at_end] = now.run.max_ts, now.run.now
    by = np.where(at_end, len(now.run), _first_of(line, now, epoch)) if now.left_out == 0 else np.zeros_like(epoch)
    walker.reader.delivered.append(Delivered(closed, by, clock, moment))
    return query.emit_results(now.run)


def _first_of(line: Timeline, now: UnorderedSegment, epoch: Words) -> Words:
    """The place in the run of the first tuple of an epoch."""
    found: Words = np.searchsorted(line.epoch[now.at], epoch)
    return found


def _finished(walker: _Walker) -> Iterator[Emission]:
    """The segment of a query has ended: late tuples, meters, and what its controller makes of it."""
    assert walker.now is not None, "it is on its way"
    yield from walker.member.query.finish_run(walker.now.run, walker.now.left_out)
    walker.go_on()


def _guarded(walker: _Walker, emissions: Iterator[Emission]) -> Emitted:
    """What a query emits, until it fails."""
    try:
        for emission in emissions:
            yield walker.member.name, emission
    except FAILURES as error:
        walker.failure = error


def _reader(member: Member) -> PaneReader:
    assert member.reader is not None, "it reads panes"
    return member.reader


def _cursor(member: Member) -> CursorRelease:
    assert member.cursor is not None, "who reads panes has a place in the log"
    return member.cursor
