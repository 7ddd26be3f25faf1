"""A set of queries on Spark, played in this process, and beside it each query alone.

Both go by `in_process.py`, so what is played is what the JVM does and nothing else. State lies in a folder that goes
with the set.

Invariant: a micro-batch counts only once it is done. One that is tried before finds the state as it was, and is
replaced by the next one.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from slackwater.observe.value import QueryProgress
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED
from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.format import UNCOUNTED
from slackwater.runtime.spark.exchange.packing import registered
from slackwater.runtime.spark.members import KeyGroups, Member, Terms, groups_of, member
from slackwater.runtime.spark.output_schema import METRICS, ROWS
from slackwater.runtime.spark.state import host
from slackwater.runtime.spark.state.cached import TaskState, replaced
from slackwater.runtime.spark.state.host import Hosted
from slackwater.runtime.spark.state.inbox import Inbox
from slackwater.runtime.spark.state.page_files import Writer
from slackwater.runtime.spark.state.root import Share, TaskLog
from tests.spark.in_process import TASKS, UNIT, lines_of_task, micro_batch, packed, said, told

KINDS = (ROWS, LATE, REJECTED)
COUNTS = ("in_time", "late", "filtered", "held", "results")
Tables = Mapping[str, pa.Table]


class Seen:
    """What one query has given so far."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
        self.reported: dict[int, QueryProgress] = {}
        """The last progress of every shard."""

    def note(self, kind: str, note: str, block: bytes | None) -> None:
        """Take a line that a shard has emitted."""
        if kind == METRICS:
            told = QueryProgress.of_json(json.loads(note))
            self.reported[told.shards[0].shard] = told
        elif kind in KINDS:
            assert block is not None
            table = pa.ipc.open_stream(block).read_all()
            # A shard numbers what it reads, and one of several queries reads more.
            kept = [name for name in table.column_names if kind == ROWS or name != "identity"]
            self.rows[kind].update(tuple(row.values()) for row in table.select(kept).to_pylist())

    @property
    def counts(self) -> dict[str, int]:
        """Added up over shards."""
        counts = {name: sum(getattr(one, name) for one in self.reported.values()) for name in COUNTS}
        return counts | {"rejected": sum(sum(one.rejected.values()) for one in self.reported.values())}

    @property
    def slack(self) -> set[int]:
        """What is in force in the shards."""
        return {one.observed.slack for one in self.reported.values()}

    def same_as(self, other: Seen) -> bool:
        """Whether two have given the same."""
        mine, theirs = ({kind: +one.rows[kind] for kind in KINDS} for one in (self, other))
        return mine == theirs and self.counts == other.counts and self.slack == other.slack


@dataclass
class _Log:
    """The state of a few tasks in a folder of its own, and the micro-batch that comes next."""

    cut: KeyGroups
    number: int = 0

    def __post_init__(self) -> None:
        self.name = secrets.token_hex(8)
        """Of what runs: another one is not to find its shards in a worker."""
        self._folder = TemporaryDirectory(prefix="slackwater-played-")
        self.folder = self._folder.name

    def opened(self, task: int) -> TaskLog:
        """The log of a task, as the next micro-batch finds it."""
        return TaskLog(self.folder, Share(task, self.cut.tasks), self.number, Writer("", self.name))

    @property
    def tasks(self) -> range:
        """All tasks."""
        return range(self.cut.tasks)


class PlayedSet:
    """A set with so many shards; `members` may be replaced between two micro-batches, as by a restart. Silence of
    streams is timed where the set is `live`. Without `shares` every query is hosted alone."""

    def __init__(self, plans: Mapping[str, PhysicalPlan], shards: int, live: bool = False, shares: bool = True) -> None:
        self.cut, self._live, self._shares = KeyGroups(shards, min(shards, TASKS)), live, shares
        self._stated = list(plans.values())
        self.members: list[Member] = []
        for number, (name, one) in enumerate(plans.items(), 1):
            self.add(name, one, number)
        self.seen: dict[str, Seen] = defaultdict(Seen)
        self.packed_lines = 0
        self._log = _Log(self.cut)

    def add(self, name: str, one: PhysicalPlan, generation: int) -> Member:
        """A query from the next micro-batch on."""
        others = [*self._stated, *(before.plan for before in self.members)]
        shared = self._shares and Terms().shared(one, others)
        self.members.append(member(name, generation, one, self.cut, UNIT, live=self._live, shared=shared))
        return self.members[-1]

    def run_with(self, tasks: int) -> None:
        """Start again with another number of tasks."""
        self.restart()
        self.cut = replace(self.cut, tasks=tasks)
        self.members = [
            replace(one, packings=tuple(replace(packing, tasks=tasks) for packing in one.packings))
            for one in self.members
        ]

    def restart(self) -> None:
        """Start again: no worker knows anything of what was before."""
        host.CACHED.forget_all()

    def batch(self, tables: Tables, *messages: Message, now: int | None = None) -> None:
        """One micro-batch; `now` is the moment that it tells, in microseconds."""
        lines = packed(self.members, tables, apart=True)
        self.packed_lines += sum(map(len, lines))
        lines += (said(one, self.cut.tasks) for one in messages)
        lines = told(lines, now, self.cut.tasks)
        groups = groups_of(self.members)
        hosted = Hosted(tuple(self.members), True, registered(), groups=groups, name=self._log.name)
        for line in micro_batch(hosted, self.cut, lines, self._log.folder, self._log.number):
            self.seen[line["query"]].note(line["kind"], line["note"], line["block"])
        self._log.number += 1

    def try_batch(self, tables: Tables, *messages: Message) -> None:
        """An attempt at a micro-batch that has written its state and is cut off then: nothing of it is seen, and the
        micro-batch runs again. The worker that made it may live on."""
        before = deepcopy(self.seen)
        self.batch(tables, *messages)
        self.seen = before
        self._log.number -= 1

    def keys_with_state(self) -> set[str]:
        """The keys of the queries that have entries in the state of some shard."""
        logs = [self._log.opened(task).pages for task in self._log.tasks]
        return {one.namespace.split("/")[1] for log in logs for one in log.everything()}


class PlayedAlone:
    """One query by itself, with the same shards."""

    def __init__(self, one: Member, cut: KeyGroups) -> None:
        self._member, self._cut = replace(one, shares=""), cut
        self.seen = Seen()
        self._log = _Log(cut)

    def batch(self, tables: Tables, now: int | None = None) -> None:
        """One micro-batch; the query sees nothing of it where nothing arrives that it reads."""
        self._run(told(self._packed(tables), now, self._cut.tasks))

    def _run(self, lines: list[pa.RecordBatch]) -> None:
        hosted = Hosted((self._member,), False, registered(), name=self._log.name)
        for line in micro_batch(hosted, self._cut, lines, self._log.folder, self._log.number):
            self.seen.note(line["kind"], line["note"], line["block"])
        self._log.number += 1

    def drop(self, tables: Tables) -> None:
        """One micro-batch of which a filter drops everything, and nobody counts that."""
        lines = [
            pa.RecordBatch.from_pylist([_dropped(one) for one in batch.to_pylist()], batch.schema)
            for batch in self._packed(tables)
        ]
        seen, self.seen = self.seen, Seen()
        self._run(lines)
        self.seen = seen

    def rest(self, tables: Tables) -> None:
        """One micro-batch that it takes no part in, but for its clocks."""
        lines, tasks, key = self._packed(tables), self._cut.tasks, self._member.key
        for task in self._log.tasks:
            inbox = Inbox([self._member], [lines_of_task(batch, task, tasks) for batch in lines])
            labels = self._cut.labels[task::tasks]
            state = TaskState(self._log.opened(task), frozenset(labels), None)
            changes = []
            for label in labels:
                delivery = inbox.of(label).get(key)
                if delivery is not None:
                    shard = state.shard(self._member, label, None, None)
                    shard.pass_by(delivery.blocks)
                    changes += [replaced((label, key), one, one.value) for one in shard.snapshot_delta()]
                    for block in delivery.blocks:
                        if block.rejected_rows is not None:
                            self.seen.note(REJECTED, "", block.rejected_rows)
            state.write(changes, {key})
        self._log.number += 1

    def _packed(self, tables: Tables) -> list[pa.RecordBatch]:
        sources = {one.plan.stream.source for one in self._member.packings}
        return packed([self._member], {name: table for name, table in tables.items() if name in sources})


def _dropped(line: dict[str, Any]) -> dict[str, Any]:
    """A line without tuples, that moves clocks."""
    if line["header"] is None:
        return line | {"block": None, "partials": None}
    header = json.loads(line["header"]) | UNCOUNTED
    header["reported"] = [
        [name, [shift, [[count, latest, None] for count, latest, _ in buckets]]]
        for name, (shift, buckets) in header["reported"]
    ]
    header["counts"] = ["" for _ in header["counts"]]
    return line | {"block": None, "partials": None, "rejected_rows": None, "header": json.dumps(header)}


def alone_of(played: PlayedSet, members: Sequence[Member] | None = None) -> dict[str, PlayedAlone]:
    """Each of these queries of a set, or of all, by itself."""
    return {one.key: PlayedAlone(one, played.cut) for one in (played.members if members is None else members)}
