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
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.core.state import StateUpdate
from slackwater.observe.imbalance import ShardLoad
from slackwater.runtime.spark.exchange.packing import TAPPED, FoldersRead
from slackwater.runtime.spark.folders import WRITTEN, Folder, TaskFiles
from slackwater.runtime.spark.functions import Shipped, register_here
from slackwater.runtime.spark.groups import Group
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.output_schema import LATENCY, METRICS
from slackwater.runtime.spark.state.cached import (
    CACHED,
    Cached,
    Key,
    Place,
    TaskState,
    replaced,
)
from slackwater.runtime.spark.state.checkpoint import difference
from slackwater.runtime.spark.state.delivered import Reporting
from slackwater.runtime.spark.state.emitters import Emitted, Emitter, TaggedLines
from slackwater.runtime.spark.state.group_turn import GroupTurn
from slackwater.runtime.spark.state.inbox import Delivery, Inbox
from slackwater.runtime.spark.state.layouts import TaskLog
from slackwater.runtime.spark.state.page_files import MissingStateError
from slackwater.runtime.spark.state.record import KEPT
from slackwater.runtime.spark.state.reports import Reports
from slackwater.runtime.spark.state.root import run_of_task, task_number
from slackwater.runtime.spark.state.turn import QueryTurn, Turn
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

    @property
    def alone(self) -> tuple[Member, ...]:
        """Those that are not."""
        return tuple(one for one in self.members if not one.shares)


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
        places: dict[Key, Place[Any]] = {}
        turns: list[Reporting] = []
        for source, block in self._inbox.tapped:
            yield Emitted("", TAPPED, source, block=block.to_pybytes())
        alone_and_together: Sequence[Member | Group] = (*self._hosted.alone, *self._hosted.groups)
        for label in labels:
            deliveries = self._inbox.of(label)
            for one in alone_and_together:
                if label not in one.shards:
                    continue
                now = self._now(one, deliveries)
                turn: Turn
                if isinstance(one, Group):
                    turn = GroupTurn(one, label, state, deliveries, now)
                else:
                    turn = QueryTurn(one, label, state, deliveries, now, self._hosted.apart, self._hosted.folders_read)
                if turn.takes_part:
                    yield from self._handed_on(turn.emitted(reports))
                    changes += (replaced((label, key), entry, entry.value) for key, entry in turn.changes)
                    turns += turn.reporting
                else:
                    for key in turn.keys:
                        reports.pass_on(label, key)
                if turn.place is not None:
                    places[label, one.key] = turn.place
        reports.write()
        mark, account = state.write(
            changes, {one.key for one in self._hosted.members} | {one.key for one in self._hosted.groups}
        )
        CACHED.keep(run, who, task, Cached(mark, places, account))
        traffic = log.pages.traffic()
        for reporting in turns:
            if self._hosted.reports_latency:
                yield Emitted(reporting.key, LATENCY, json.dumps(reporting.record.latency.reported()))
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
