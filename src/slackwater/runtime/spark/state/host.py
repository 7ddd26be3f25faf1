"""The stage that hosts shards, plain tasks over Arrow with state in files: what each query makes of a micro-batch in
one task, and what is written of it.

Every query has a `Shard` of its own, which is given the lines that name it as their reader and nothing else. So
results, late rows and counts of a query are those of the query alone, over the same micro-batches.

Invariant: a task runs all of its shards in every micro-batch, also one that brings nothing for them, so every task has
a file for every micro-batch. For Spark the stage has no state: which micro-batch it is in, it is told with the task,
and exactly once is what `page_files.py` makes of it. State has the entries of each query under its key, and is written
once a micro-batch for all of them. Of several queries one that fails emits nothing of the micro-batch it failed in, and
its state stays as it was before; the others go on. One that is alone fails with its streaming query. Entries of queries
that are no more are dropped.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.core.state import StateUpdate
from slackwater.observe.imbalance import ShardLoad
from slackwater.runtime.spark.exchange.packing import TAPPED, FoldersRead, Shipped, register_here
from slackwater.runtime.spark.folders import WRITTEN, Folder, TaskFiles
from slackwater.runtime.spark.members import Group, Member
from slackwater.runtime.spark.output_schema import LATENCY, METRICS, Emitted, Emitter, TaggedLines, said
from slackwater.runtime.spark.state.cached import (
    CACHED,
    Cached,
    Key,
    Place,
    TaskState,
    replaced,
)
from slackwater.runtime.spark.state.checkpoint import difference
from slackwater.runtime.spark.state.inbox import Delivery, Inbox, Reporting
from slackwater.runtime.spark.state.page_files import MissingStateError, Writer
from slackwater.runtime.spark.state.record import KEPT
from slackwater.runtime.spark.state.reports import Reports
from slackwater.runtime.spark.state.root import (
    ONE_TASK,
    Share,
    StateRoot,
    TaskLog,
)
from slackwater.runtime.spark.state.turn import GroupTurn, QueryTurn, Turn
from slackwater.runtime.spark.store import At
from slackwater.runtime.spark.versions import in_partition_of, map_in_arrow
from slackwater.runtime.spark.workers import micro_batch, run_of_task, settle, task_number
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


MOST_UNPACKED = 4
_serializer: Any = CloudPickleSerializer
_unpacked: dict[str, Hosted] = {}
"""The queries that this worker ran last, by their digest: what is shipped is the same in every micro-batch."""


def staged(
    packed: DataFrame, hosted: Hosted, labels: Sequence[int], tasks: int, root: StateRoot | None, emits: Any
) -> DataFrame:
    """What shards emit of a packed stream, where `tasks` of them run at the same time; without a root there is one
    micro-batch only."""
    if root is not None:
        root.make()
    together = exchanged(packed, tasks)
    return map_in_arrow(together, hosting(hosted, tuple(labels), tasks, root), emits)


def exchanged(packed: DataFrame, tasks: int) -> DataFrame:
    """The lines of every shard in the partition of its task."""
    return in_partition_of(packed, tasks, fn.pmod(fn.col("shard"), fn.lit(tasks)).cast("int"))


def hosting(
    hosted: Hosted, labels: tuple[int, ...], tasks: int, root: StateRoot | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that mapInArrow runs over the partitions of a packed stream."""
    shipped: bytes = _serializer().dumps(hosted)
    digest = hashlib.sha256(shipped).hexdigest()

    def host(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        assert context is not None
        share = Share(context.partitionId(), tasks)
        mine = labels[share.task :: tasks]
        folder = None if root is None else root.of_task()
        yield from run_shards(unpacked(digest, shipped), mine, batches, folder, micro_batch() if folder else 0, share)

    return host


def unpacked(digest: str, shipped: bytes) -> Hosted:
    """The queries, unpacked once in a worker."""
    if digest not in _unpacked:
        if len(_unpacked) >= MOST_UNPACKED:
            _unpacked.clear()
        _unpacked[digest] = _serializer().loads(shipped)
    return _unpacked[digest]


def run_shards(
    hosted: Hosted,
    labels: Sequence[int],
    batches: Iterable[pa.RecordBatch],
    folder: At | None,
    number: int,
    share: Share = ONE_TASK,
) -> Iterator[pa.RecordBatch]:
    """One micro-batch of these shards, all of one task."""
    inbox = Inbox((*hosted.members, *hosted.groups), batches)
    host = Host(hosted, inbox, TaskFiles(number, share))
    log = TaskLog(folder, share, number, Writer(run_of_task(), hosted.name))
    passed = chain(inbox.passed, map(said, inbox.messages) if hosted.emitter.forwards else ())
    yield from hosted.emitter.batches(chain(passed, host.run(labels, log), host.written()), share.task)
