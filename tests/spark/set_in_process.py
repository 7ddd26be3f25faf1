"""A set of queries on Spark, played in this process: each micro-batch is packed, exchanged, and kept as state.

Invariant: what `in_process.py` promises; and a micro-batch that is thrown away, as one is that was cut off, leaves
nothing but files that the next attempt replaces.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import pyarrow as pa

from slackwater.observe.value import QueryProgress
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.spark.control import PAUSE, RESUME, Message
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.members import KeyGroups, Member, member
from slackwater.runtime.spark.output_schema import METRICS, ROWS
from slackwater.runtime.spark.state import host
from slackwater.runtime.spark.state.host import Hosted
from slackwater.runtime.spark.state.layouts import WHOLE, Share
from slackwater.runtime.spark.state.page_files import PageFiles, Writer
from slackwater.runtime.spark.state.pages import PageStore
from slackwater.runtime.spark.store import store_at
from tests.spark.in_process import TASKS, UNIT, heartbeat, micro_batch, packed, said

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
        """Take a line that was emitted."""
        if kind == METRICS:
            told = QueryProgress.of_json(json.loads(note))
            self.reported[told.shards[0].shard] = told
        elif kind in KINDS:
            assert block is not None
            self.rows[kind].update(tuple(row.values()) for row in pa.ipc.open_stream(block).read_all().to_pylist())

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


class Played:
    """Queries with their shards; `members` may be replaced between two micro-batches, as by a restart."""

    def __init__(self, members: Iterable[Member], cut: KeyGroups, apart: bool) -> None:
        self.members, self.cut = list(members), cut
        self._apart, self._number = apart, 0
        self._home = tempfile.TemporaryDirectory()
        self._folder = self._home.name
        self.seen: dict[str, Seen] = defaultdict(Seen)
        self.packed_lines = 0

    def batch(self, tables: Tables, *messages: Message, now: int | None = None, discarded: bool = False) -> None:
        """One micro-batch; one that is discarded was cut off before anybody heard of it, and runs again."""
        read = {packing.plan.stream.source for one in self.members for packing in one.packings}
        lines = packed(self.members, {name: table for name, table in tables.items() if name in read}, self._apart)
        self.packed_lines += sum(line.num_rows for line in lines)
        lines += [said(one) for one in messages]
        if now is not None:
            lines.append(heartbeat(now))
        seen = deepcopy(self.seen)
        hosted = Hosted(tuple(self.members), self._apart, registered(), name=self._folder)
        for line in micro_batch(hosted, self.cut, lines, self._folder, self._number):
            seen[line["query"]].note(line["kind"], line["note"], line["block"])
        if not discarded:
            self.seen, self._number = seen, self._number + 1

    def _files(self, task: int) -> PageFiles:
        store = store_at(self._folder, Share(task, self.cut.tasks).folder)
        return PageFiles(store, self._number, Writer(host.run_of_task(), self._folder))

    def entries(self) -> list[tuple[str, str, str]]:
        """Of all that is kept: the shard, the query, and the name."""
        found = []
        for task in range(self.cut.tasks):
            files = self._files(task)
            for one in PageStore(files, largest=WHOLE).everything():
                label, key, namespace = one.namespace.split("/", 2)
                found.append((label, key, namespace))
        return found


class PlayedSet(Played):
    """A set of queries with so many shards."""

    def __init__(self, plans: Mapping[str, PhysicalPlan], shards: int) -> None:
        cut = KeyGroups(shards, min(shards, TASKS))
        members = (member(name, number, one, cut, UNIT) for number, (name, one) in enumerate(plans.items(), 1))
        super().__init__(members, cut, apart=True)

    def add(self, name: str, one: PhysicalPlan, generation: int) -> Member:
        """A query from the next micro-batch on."""
        self.members.append(member(name, generation, one, self.cut, UNIT))
        return self.members[-1]

    def restart(self) -> None:
        """Start again: no worker knows anything of what was before."""
        host.CACHED.forget_all()


class PlayedAlone(Played):
    """One query of a set by itself, with the same shards."""

    def __init__(self, one: Member, of: Played) -> None:
        super().__init__([one], of.cut, apart=False)
        self._key, self._rests = one.key, False
        self._about = {"query": one.name, "generation": one.generation}

    @property
    def alone(self) -> Seen:
        """What it has given so far."""
        return self.seen[self._key]

    def rest(self, tables: Tables) -> None:
        """One micro-batch that it takes no part in, but for its clocks."""
        self.batch(tables, *(() if self._rests else (Message(PAUSE, 1, **self._about),)))
        self._rests = True

    def goes_on(self, tables: Tables) -> None:
        """One micro-batch that it takes part in."""
        self.batch(tables, *((Message(RESUME, 2, **self._about),) if self._rests else ()))
        self._rests = False
