"""A group of queries in one micro-batch of one shard.

Invariant: each query hears what is said to it as it would alone, and of one that fails nothing is emitted or written of
the micro-batch it failed in. What a query emits leaves when the next one has its turn, but for those that read panes
together, whose turns are mixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from slackwater.core.errors import FAILURES, reason_of
from slackwater.core.quality import clause
from slackwater.core.state import Emission
from slackwater.runtime.driver import with_results
from slackwater.runtime.spark.groups import Group
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.output_schema import ROWS
from slackwater.runtime.spark.state.cached import Place, Status, TaskState, aimed
from slackwater.runtime.spark.state.delivered import combined, rejected_rows
from slackwater.runtime.spark.state.emitters import Emitted
from slackwater.runtime.spark.state.inbox import Delivery
from slackwater.runtime.spark.state.reports import Reports
from slackwater.runtime.spark.state.shared_shard import SharedShard
from slackwater.runtime.spark.state.turn import Turn
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables


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
