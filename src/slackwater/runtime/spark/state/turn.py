"""One micro-batch of queries in one shard: of one alone, or of a group that is hosted together.

Invariant: a query takes part in a micro-batch that brings rows, a message or a moment for it, and in no other. Each
query of a group hears what is said to it as it would alone, and of one that fails nothing is emitted or written of the
micro-batch it failed in. What it emits leaves when the next one has its turn, but for those that read panes together,
whose turns are mixed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slackwater.core.errors import FAILURES, reason_of
from slackwater.core.quality import clause
from slackwater.core.state import Emission, StateUpdate
from slackwater.runtime.driver import with_results
from slackwater.runtime.spark.exchange.packing import FoldersRead
from slackwater.runtime.spark.exchange.writer import aggregate_of
from slackwater.runtime.spark.members import Group, Member
from slackwater.runtime.spark.output_schema import ROWS, Emitted
from slackwater.runtime.spark.state.cached import Place, Status, TaskState, aimed
from slackwater.runtime.spark.state.inbox import Delivery, MakesProgress, Reporting, combined, rejected_rows
from slackwater.runtime.spark.state.record import QueryRecord
from slackwater.runtime.spark.state.reports import ReportOf, Reports
from slackwater.runtime.spark.state.shard import Shard
from slackwater.runtime.spark.state.shared_shard import SharedShard
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables


class Turn(ABC):
    """One query, or several that are hosted together under a key."""

    def __init__(
        self,
        key: str,
        members: Sequence[Member],
        label: int,
        state: TaskState,
        deliveries: Mapping[str, Delivery],
        now: int | None,
    ) -> None:
        self._key, self._label, self._state, self._now = key, label, state, now
        self.keys = [one.key for one in members]
        every = dict.fromkeys((key, *self.keys))
        self._deliveries = {one: deliveries[one] for one in every if one in deliveries}
        self.takes_part = bool(self._deliveries) or now is not None
        """Whether the micro-batch brings anything for one of them."""
        self.changes: list[tuple[str, StateUpdate]] = []
        """What is to be written, once all is emitted, each entry with whose it is."""
        self.reporting: list[Reporting] = []
        """Those that have something to report."""
        self.place: Place[Any] | None = None
        """As it is after the micro-batch; None where a worker that goes on must read what it has missed."""
        if not self.takes_part and not any(state.missed_by((label, one)) for one in every):
            self.place = state.places.get((label, key))

    @abstractmethod
    def emitted(self, reports: Reports) -> Iterator[Emitted]:
        """What they emit, once they have heard what all shards report, with what they report themselves."""

    def _delivered(self, key: str) -> Delivery:
        return self._deliveries.get(key, Delivery())

    def _move_on(self, statuses: Iterable[Status]) -> None:
        """Time does not go back, whatever a clock says."""
        if self._now is not None:
            self._now = max([self._now, *(one.now for one in statuses if one.now is not None)])

    def _note(self, member: Member, after: Status, named: bool, record: QueryRecord, made: MakesProgress) -> None:
        self.reporting.append(Reporting(member, self._label, self._delivered(member.key), after, named, record, made))


class QueryTurn(Turn):
    """One query that has its shard for itself."""

    def __init__(
        self,
        member: Member,
        label: int,
        state: TaskState,
        deliveries: Mapping[str, Delivery],
        now: int | None,
        apart: bool,
        read: FoldersRead | None,
    ) -> None:
        """`apart`: it fails by itself, if it fails; `read` has the folders that are read for it."""
        super().__init__(member.key, [member], label, state, deliveries, now)
        self._member, self._delivery, self._apart, self._read = member, self._delivered(member.key), apart, read

    def emitted(self, reports: Reports) -> Iterator[Emitted]:
        """What it emits, once it has heard what all shards report, with what it reports itself."""
        member = self._member
        before = self._state.status((self._label, self._key))
        self._move_on([before])
        after, target, end = combined(before, self._delivery, clause(member.plan.quality))
        after = replace(after, now=self._now)
        shard = self._shard(target)
        shard.hear(reports.heard(self._key, shard.learning_key) if shard.shares else ())
        if after.failure is None and not after.paused:
            if self._apart:
                try:
                    # Nothing is handed on before it is known that nothing fails.
                    yield from list(self._epoch(shard, end))
                    self.changes = self._reported(shard, reports)
                except FAILURES as error:
                    # As it was before the micro-batch, by what is written.
                    self._state.places.pop((self._label, self._key), None)
                    shard, after = self._shard(target), replace(after, failure=reason_of(error))
            else:
                yield from self._epoch(shard, end)
                self.changes = self._reported(shard, reports)
        elif target is not None or (after.paused and after.failure is None):
            # Who rests keeps its clocks right, so that it knows the time when it goes on.
            if after.failure is None:
                yield from rejected_rows(self._key, self._delivery)
                shard.pass_by(self._delivery.blocks, self._now)
            self.changes = self._reported(shard, reports)
        yield from shard.closing(self._key)
        if after != before:
            self.changes.append((self._key, after.as_update()))
        self.place = Place(shard, {self._key: after})
        self._note(member, after, self._apart, shard.record, shard.progress)
        self._note_watermark(shard)

    def _reported(self, shard: Shard, reports: Reports) -> list[tuple[str, StateUpdate]]:
        """What is to be written once it is noted what the shard reports; a report changes what it knows."""
        reports.note(ReportOf(self._label, self._key, shard.learning_key), shard.report())
        return [(self._key, one) for one in shard.snapshot_delta()]

    def _shard(self, target: str | None) -> Shard:
        return self._state.shard(self._member, self._label, target, self._read)

    def _epoch(self, shard: Shard, end: bool) -> Iterator[Emitted]:
        yield from rejected_rows(self._key, self._delivery)
        if pieces := self._delivery.pieces:
            emissions = shard.remember(self._delivery.blocks, pieces, self._now)
        elif self._delivery.blocks or self._now is None or end:
            emissions = shard.epoch(self._delivery.blocks, self._now, end)
        else:
            emissions = shard.on_processing_time(self._now)
        yield from shard.given(self._key, emissions)
        for kind, table in shard.record.tables():
            yield Emitted(self._key, kind, rows=table)

    def _note_watermark(self, shard: Shard) -> None:
        """Leave word for who reads the next files."""
        read = self._read
        if read is None or self._label != self._member.shards[0] or aggregate_of(self._member.plan) is None:
            return
        cuts = [one.header["cuts"] for one in self._delivery.blocks if one.header["cuts"] is not None]
        if cuts:
            # With another target it may want tuples.
            read.note(self._key, max(cuts) + 1, None if aggregate_of(shard.plan) is None else shard.kernel.watermark)


class GroupTurn(Turn):
    """Queries that are hosted together, in one micro-batch of one shard."""

    def __init__(
        self, group: Group, label: int, state: TaskState, deliveries: Mapping[str, Delivery], now: int | None
    ) -> None:
        super().__init__(group.key, group.members, label, state, deliveries, now)
        self._group = group

    def emitted(self, reports: Reports) -> Iterator[Emitted]:
        before = self._state.group(self._group, self._label)
        shard, statuses = before.shard, dict(before.statuses)
        self._move_on(statuses.values())
        end = False
        for member in self._group.members:
            status = statuses.get(member.key, Status())
            statuses[member.key], ends = self._hear(shard, member, status)
            end = end or ends
            shard.hear(member.key, reports)
        yield from self._epoch(shard, statuses, end)
        failed = {key for key, one in statuses.items() if one.failure is not None}
        for member in self._group.members:
            shard.report(member.key, self._label, reports)
        self.changes += ((key, entry) for key, entry in shard.snapshot_delta() if key not in failed)
        for member in self._group.members:
            after = statuses[member.key]
            if after != before.statuses.get(member.key, Status()):
                self.changes.append((member.key, after.as_update()))
            if self._now is not None or {member.key, self._group.key} & self._deliveries.keys():
                self._note(member, after, True, shard.records[member.key], partial(shard.progress, member.key))
        self.place = Place(shard, statuses)

    def _hear(self, shard: SharedShard, member: Member, before: Status) -> tuple[Status, bool]:
        """Pass a query its messages; returns its status then, and whether the input has ended."""
        after, target, end = combined(before, self._delivered(member.key), clause(member.plan.quality))
        if after.failure is not None and before.failure is None:
            shard.fail(member.key, after.failure)
        elif after.failure is None:
            if target is not None:
                targets = shard.records[member.key].targets.asked(target)
                entries = self._state.all.get((self._label, self._group.key), [])
                shard.aim(member.key, aimed(member.plan, targets), targets, entries)
            if after.paused != before.paused:
                (shard.pause if after.paused else shard.resume)(member.key)
        return replace(after, now=self._now), end

    def _epoch(self, shard: SharedShard, statuses: dict[str, Status], end: bool) -> Iterator[Emitted]:
        blocks = self._delivered(self._group.key).blocks
        if blocks or self._now is None or end:
            emissions = shard.epoch(blocks, self._now, end)
        else:
            assert self._now is not None
            emissions = shard.on_processing_time(self._now)
        waiting: dict[str, list[Emission]] = {}
        last: str | None = None
        for key, emission in with_results_by_query(emissions):
            if last is not None and key != last and not shard.reads_panes(last):
                yield from self._results(shard, last, waiting.pop(last, []))
            waiting.setdefault(key, []).append(emission)
            last = key
        for key, mine in waiting.items():
            yield from self._results(shard, key, mine)
        for member in self._group.members:
            key, status = member.key, statuses[member.key]
            reason = shard.failure_of(key)
            if reason is not None and status.failure is None:
                statuses[key] = replace(status, failure=reason)
                shard.records[key].undo()
            elif status.failure is None:
                yield from rejected_rows(key, self._delivered(key))
                for kind, table in shard.records[key].tables():
                    yield Emitted(key, kind, rows=table)

    def _results(self, shard: SharedShard, key: str, emissions: list[Emission]) -> list[Emitted]:
        """The results of a query as rows; none of one that has failed."""
        if shard.failure_of(key) is not None:
            return []
        record = shard.records[key]
        try:
            tables = list(result_tables(record.plan, shard.codebook, iter(emissions)))
        except FAILURES as error:
            shard.fail(key, reason_of(error))
            return []
        return [Emitted(key, ROWS, rows=plain_text([one])[0]) for one in tables if one.num_rows]


def with_results_by_query(emissions: Iterator[tuple[str, Emission]]) -> Iterator[tuple[str, Emission]]:
    """Those that hold results; the others hold late tuples alone."""
    for key, emission in emissions:
        if next(with_results((emission,)), None) is not None:
            yield key, emission
