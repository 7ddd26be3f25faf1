"""The shards of queries in one task: what each query makes of a micro-batch, and what is written of it.

Every query has a `Shard` of its own, which is given the lines that name it as their reader and nothing else. So
results, late rows and counts of a query are those of the query alone, over the same micro-batches.

Invariant: a query takes part in a micro-batch that brings rows, a message or a moment for it, and in no other. State
has the entries of each query under its key, and is written once a micro-batch for all of them. Of several queries one
that fails emits nothing of the micro-batch it failed in, and its state stays as it was before; the others go on. One
that is alone fails with its streaming query. Entries of queries that are no more are dropped.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from slackwater.core.errors import FAILURES, UsageError, reason_of
from slackwater.core.quality import clause
from slackwater.core.state import StateUpdate
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.report import LatencyUse
from slackwater.observe.value import QueryProgress
from slackwater.runtime.side_outputs.rows import LATE
from slackwater.runtime.spark.exchange.packing import TAPPED, FoldersRead
from slackwater.runtime.spark.exchange.partials import aggregate_of
from slackwater.runtime.spark.folders import WRITTEN, Folder, TaskFiles
from slackwater.runtime.spark.functions import Shipped, register_here
from slackwater.runtime.spark.groups import Group
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.output_schema import LATENCY, METRICS
from slackwater.runtime.spark.state.cached import (
    CACHED,
    Cached,
    GroupPlace,
    Key,
    Place,
    Status,
    TaskState,
    replaced,
)
from slackwater.runtime.spark.state.checkpoint import difference
from slackwater.runtime.spark.state.delivered import combined, examples_of, rejected_rows
from slackwater.runtime.spark.state.emitters import Emitted, Emitter, TaggedLines
from slackwater.runtime.spark.state.group_turn import GroupTurn, TurnInGroup
from slackwater.runtime.spark.state.inbox import Delivery, Inbox
from slackwater.runtime.spark.state.layouts import TaskLog
from slackwater.runtime.spark.state.page_files import MissingStateError
from slackwater.runtime.spark.state.reports import ReportOf, Reports
from slackwater.runtime.spark.state.root import run_of_task, task_number
from slackwater.runtime.spark.state.shard import KEPT, Shard
from slackwater.runtime.targets import FAMILIES

Output = tuple[str, str]
"""The key of a query, and a kind of rows."""


@dataclass(frozen=True)
class Hosted:
    """Queries as they are shipped to workers."""

    members: tuple[Member, ...]
    apart: bool
    """Whether a query that fails fails by itself; else the streaming query fails."""
    functions: tuple[Shipped, ...] = ()
    folders: Mapping[Output, Folder] = field(default_factory=dict)
    """Outputs that shards write themselves."""
    emits_all: bool = True
    """Whether the rows of those are handed on as well."""
    reports_latency: bool = False
    """Whether shards say how long results have waited, for a report of the whole run."""
    folders_read: FoldersRead | None = None
    """What they read themselves."""
    groups: tuple[Group, ...] = ()
    """Those of its queries that are hosted together."""
    emitter: Emitter = field(default_factory=TaggedLines)
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells them from others that run in the same streaming query."""


class Host:
    """All shards of one task, in one micro-batch."""

    def __init__(self, hosted: Hosted, inbox: Inbox, files: TaskFiles) -> None:
        register_here(hosted.functions)
        self._hosted, self._inbox, self._files = hosted, inbox, files

    def run(self, labels: Sequence[int], log: TaskLog) -> Iterator[Emitted]:
        """What the queries emit in these shards; their state is written before the last of it."""
        run, who, task = run_of_task(), self._hosted.name, task_number() or 0
        try:
            state = TaskState(log, frozenset(labels), CACHED.take(run, who, task))
        except MissingStateError as missing:
            raise self._refusal(log) or missing from None
        learning = list(filter(chooses_together, self._hosted.members))
        reports = Reports(log, bool(learning), any(one.fragment is not None for one in learning))
        changes: list[StateUpdate] = []
        places: dict[Key, Place] = {}
        groups: dict[Key, GroupPlace] = {}
        turns: list[Turn | TurnInGroup] = []
        for source, block in self._inbox.tapped:
            yield Emitted("", TAPPED, source, pa.ipc.open_stream(block).read_all())
        for label in labels:
            deliveries = self._inbox.of(label)
            for member in self._hosted.members:
                key = (label, member.key)
                if label not in member.shards or member.shares:
                    continue
                turn = Turn(
                    self._hosted, member, label, state, deliveries.get(member.key), self._now(member, deliveries)
                )
                if not turn.takes_part:
                    # What somebody else has written of it is read when it does.
                    if key in state.places and not state.missed_by(key):
                        places[key] = state.places[key]
                    reports.pass_on(*key)
                    continue
                yield from self._handed_on(turn.emitted(reports))
                changes += (replaced(key, one, one.value) for one in turn.changes)
                places[key] = turn.place
                turns.append(turn)
            for group in self._hosted.groups:
                if label not in group.shards:
                    continue
                together = GroupTurn(group, label, state, deliveries, self._now(group, deliveries))
                if together.takes_part:
                    yield from self._handed_on(together.emitted(reports))
                    changes += (replaced((label, whose), one, one.value) for whose, one in together.changes)
                    turns += together.turns
                else:
                    for one in group.members:
                        reports.pass_on(label, one.key)
                if together.place is not None:
                    groups[label, group.key] = together.place
        reports.write()
        mark, account = state.write(
            changes, {one.key for one in self._hosted.members} | {one.key for one in self._hosted.groups}
        )
        CACHED.keep(run, who, task, Cached(mark, places, groups, account))
        traffic = log.pages.traffic()
        for reporting in turns:
            if self._hosted.reports_latency:
                yield Emitted(reporting.key, LATENCY, json.dumps(reporting.latency.reported()))
            load = ShardLoad(reporting.label, task_number())
            if reporting is turns[0] and len(self._hosted.members) == 1:
                # A page has what all shards of a task write.
                load = replace(load, state_read=traffic["state_read"], state_written=traffic["state_written"])
            yield Emitted(reporting.key, METRICS, json.dumps(reporting.progress(load).as_json()))

    def _refusal(self, log: TaskLog) -> UsageError | None:
        """Why the state that is there is not that of these queries; None where there is none."""
        structures = {one.key: one.structure for one in self._hosted.members}
        for one in log.beside():
            _, key, namespace = one.namespace.split("/", 2)
            if (namespace, one.key) == KEPT and one.value is not None and key in structures:
                refusal = difference(one.value.decode(), structures[key])
                if refusal is not None:
                    return UsageError(refusal)
        return None

    def _now(self, who: Member | Group, deliveries: Mapping[str, Delivery]) -> int | None:
        """The time that queries are given; None where moments do not count for them, or other tasks may not know of
        this one: all shards of a query have the same clocks."""
        keys = {who.key} | ({one.key for one in who.members} if isinstance(who, Group) else set())
        return self._inbox.now if who.timed and (self._inbox.is_heartbeat or keys & deliveries.keys()) else None

    def _handed_on(self, emitted: Iterable[Emitted]) -> Iterator[Emitted]:
        """What is emitted, but for rows that are written to folders here."""
        for one in emitted:
            folder = self._hosted.folders.get((one.query, one.kind))
            if folder is not None and one.rows is not None:
                self._files.add((one.query, one.kind), folder, one.rows)
            if folder is None or self._hosted.emits_all:
                yield one

    def written(self) -> Iterator[Emitted]:
        """What tells of the files that the task has written."""
        for (query, kind), name in self._files.close():
            yield Emitted(query, WRITTEN, f"{kind}/{name}")


def chooses_together(member: Member) -> bool:
    """Whether the shards of a query may have a slack in common that they learn."""
    return (len(member.shards) > 1 or member.fragment is not None) and type(member.plan.quality) in FAMILIES


class Turn:
    """One query in one micro-batch of one shard."""

    def __init__(
        self,
        hosted: Hosted,
        member: Member,
        label: int,
        state: TaskState,
        delivery: Delivery | None,
        now: int | None,
    ) -> None:
        self._hosted, self._member, self.label, self._state = hosted, member, label, state
        self._delivery = delivery or Delivery()
        self._before = Status()
        self.key = member.key
        self.takes_part = delivery is not None or now is not None
        """Whether the micro-batch brings anything for it."""
        if self.takes_part:
            self._before = state.status((label, self.key))
            if now is not None:
                # Time does not go back, whatever a clock says.
                now = max(now, self._before.now or now)
        self._now = now
        self.changes: list[StateUpdate] = []
        """What is to be written, once all is emitted."""
        self.place: Place
        """As it is after the micro-batch."""

    def emitted(self, reports: Reports) -> Iterator[Emitted]:
        """What it emits, once it has heard what all shards report, with what it reports itself."""
        member = self._member
        after, target, end = combined(self._before, self._delivery, clause(member.plan.quality))
        after = replace(after, now=self._now)
        shard = self._shard(target)
        shard.hear(reports.heard(self.key, shard.learning_key) if shard.shares else ())
        if after.failure is None and not after.paused:
            if self._hosted.apart:
                try:
                    # Nothing is handed on before it is known that nothing fails.
                    yield from list(self._epoch(shard, end))
                    self.changes = self._reported(shard, reports)
                except FAILURES as error:
                    # As it was before the micro-batch, by what is written.
                    self._state.places.pop((self.label, self.key), None)
                    shard, after = self._shard(target), replace(after, failure=reason_of(error))
            else:
                yield from self._epoch(shard, end)
                self.changes = self._reported(shard, reports)
        elif target is not None or (after.paused and after.failure is None):
            # Who rests keeps its clocks right, so that it knows the time when it goes on.
            if after.failure is None:
                yield from rejected_rows(self.key, self._delivery)
                shard.pass_by(self._delivery.blocks, self._now)
            self.changes = self._reported(shard, reports)
        yield from shard.closing(self.key)
        if after != self._before:
            self.changes.append(after.as_update())
        self.place = Place(shard, after)
        self._note_watermark(shard)

    def _reported(self, shard: Shard, reports: Reports) -> list[StateUpdate]:
        """What is to be written once it is noted what the shard reports; a report changes what it knows."""
        reports.note(ReportOf(self.label, self.key, shard.learning_key), shard.report())
        return list(shard.snapshot_delta())

    @property
    def latency(self) -> LatencyUse:
        """How long results of this micro-batch have waited."""
        return self.place.shard.latency

    def _shard(self, target: str | None) -> Shard:
        return self._state.shard(self._member, self.label, target, self._hosted.folders_read)

    def _epoch(self, shard: Shard, end: bool) -> Iterator[Emitted]:
        yield from rejected_rows(self.key, self._delivery)
        if self._delivery.blocks or self._now is None or end:
            emissions = shard.epoch(self._delivery.blocks, self._now, end)
        else:
            emissions = shard.on_processing_time(self._now)
        yield from shard.given(self.key, emissions)
        for kind, table in shard.side_output.take_tables():
            if kind == LATE:
                shard.note_late(table)
            yield Emitted(self.key, kind, rows=table)

    def _note_watermark(self, shard: Shard) -> None:
        """Leave word for who reads the next files."""
        read = self._hosted.folders_read
        if read is None or self.label != self._member.shards[0] or aggregate_of(self._member.plan) is None:
            return
        cuts = [one.header["cuts"] for one in self._delivery.blocks if one.header["cuts"] is not None]
        if cuts:
            # With another target it may want tuples.
            read.note(self.key, max(cuts) + 1, None if aggregate_of(shard.plan) is None else shard.kernel.watermark)

    def progress(self, load: ShardLoad) -> QueryProgress:
        """How it does after the micro-batch."""
        examples = examples_of(self._delivery, self._member)
        status = self.place.status
        return replace(
            self.place.shard.progress(load, examples),
            query=self.key if self._hosted.apart else "",
            paused=status.paused,
            failure=status.failure,
        )
