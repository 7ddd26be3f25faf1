"""A set of queries on Spark, played in this process: each micro-batch is packed, shuffled by shard, and kept as state.

Only what the JVM does is played: reading, the shuffle, the state. A shard finds nothing of the last micro-batch but
what was written to its state, so every case is also one of a worker that has never seen the shard.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from slackwater.runtime.spark.query_set import host
from slackwater.runtime.spark.query_set.control import SetMessage
from slackwater.runtime.spark.query_set.host import HostedSet
from slackwater.runtime.spark.query_set.members import Member, columns_read, member
from slackwater.runtime.spark.query_set.packing import PACKED, readers_of, set_packer
from slackwater.runtime.spark.state.processor import ShardProcessor
from slackwater.runtime.spark.state.shard_task import Hosted, current
from slackwater.runtime.spark.state.spark_pages import SparkPages

from slackwater.observe.value import QueryProgress
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.spark.exchange.writer import packer
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.output_schema import METRICS, ROWS
from slackwater.runtime.spark.state.pages import PageStore
from slackwater.runtime.spark.state.shard import Block
from slackwater.sources.binding import bind_to_tables
from tests.spark.in_process import LABELS, Handle, lines_of

UNIT = "ms"
KINDS = (ROWS, LATE, REJECTED)
COUNTS = ("in_time", "late", "filtered", "held", "results")
_serializer: Any = CloudPickleSerializer
Tables = Mapping[str, pa.Table]


def planned(text: str, tables: Tables) -> PhysicalPlan:
    """A query over streams with the columns of these tables."""
    return plan(bind_to_tables(text, tables, "ts").query)


class Seen:
    """What one query has given so far."""

    def __init__(self) -> None:
        self.rows: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
        self.reported: dict[int, QueryProgress] = {}
        """The last progress of every shard."""

    def note(self, kind: str, note: str, block: bytes | None) -> None:
        """Take a row that the operator has emitted."""
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


def _split(table: pa.Table, names: Sequence[str]) -> list[pa.RecordBatch]:
    return table.select(list(dict.fromkeys(names))).combine_chunks().to_batches() if table.num_rows else []


class PlayedSet:
    """A set with so many shards; `members` may be replaced between two micro-batches, as by a restart."""

    def __init__(self, plans: Mapping[str, PhysicalPlan], shards: int) -> None:
        self.labels = LABELS[:shards]
        self.members = [
            member(name, number, one, self.labels, UNIT, False, False)
            for number, (name, one) in enumerate(plans.items(), 1)
        ]
        self.seen: dict[str, Seen] = defaultdict(Seen)
        self.handles = {label: Handle() for label in self.labels}
        self.packed_lines = 0

    def add(self, name: str, one: PhysicalPlan, generation: int) -> Member:
        """A query from the next micro-batch on."""
        self.members.append(member(name, generation, one, self.labels, UNIT, False, False))
        return self.members[-1]

    def restart(self) -> None:
        """Start again: no worker knows anything of what was before."""
        host._kept.clear()

    def batch(self, tables: Tables, *messages: SetMessage) -> None:
        """One micro-batch."""
        packed: list[pa.RecordBatch] = []
        for source, table in tables.items():
            pack = set_packer(readers_of(self.members, source), UNIT)
            packed += pack(_split(table, columns_read(self.members, source, "ts", table.column_names)))
        rows = pa.Table.from_batches(packed).to_pandas() if packed else pd.DataFrame(columns=_names(PACKED))
        self.packed_lines += len(rows)
        shipped = _serializer().dumps(ShardProcessor(HostedSet(tuple(self.members), registered())))
        said = pd.DataFrame([{**dict.fromkeys(_names(PACKED)), "part": 0, "header": one.as_json()} for one in messages])
        for label in sorted(self.labels):
            frames = [frame for _, frame in rows[rows["shard"] == label].groupby(["readers", "part"])]
            if messages:
                frames.append(said)
            if frames:
                self._emitted(_run(shipped, self.handles[label], label, frames))

    def _emitted(self, lines: Iterator[dict[str, Any]]) -> None:
        for line in lines:
            self.seen[line["query"]].note(line["kind"], line["note"], line["block"])


class PlayedAlone:
    """One query by itself, with the same shards."""

    def __init__(self, one: Member) -> None:
        self._member = one
        hosted = one.hosted
        self._shipped = _serializer().dumps(
            ShardProcessor(Hosted(hosted.plan, hosted.text_rows, hosted.fingerprint, registered(), shards=one.shards))
        )
        self._handles = {label: Handle() for label in one.shards}
        self.seen = Seen()

    def rest(self, tables: Tables) -> None:
        """One micro-batch that it takes no part in, but for its clocks."""
        rows = self._packed(tables)
        for label, handle in self._handles.items() if rows is not None else ():
            store = PageStore(SparkPages(handle))
            before = store.mark()
            shard = current(self._member.hosted, store, None, before, label=label)
            mine = rows[rows["shard"] == label]
            lines = mine[["stream", "part", "header"]].itertuples(index=False)
            shard.pass_by([Block(stream, part, json.loads(header), None) for stream, part, header in lines])
            for away in mine["rejected_rows"].dropna():
                self.seen.note(REJECTED, "", away)
            store.write(before, shard.snapshot_delta())

    def _packed(self, tables: Tables) -> pd.DataFrame | None:
        packed: list[pa.RecordBatch] = []
        for packing in self._member.packings:
            table = tables[packing.plan.stream.source]
            packed += packer(packing)(_split(table, packing.read_from(table.column_names)))
        return pa.Table.from_batches(packed).to_pandas() if packed else None

    def batch(self, tables: Tables) -> None:
        """One micro-batch; none where nothing arrives that it reads."""
        rows = self._packed(tables)
        if rows is None:
            return
        for label, handle in sorted(self._handles.items()):
            frames = [frame for _, frame in rows[rows["shard"] == label].groupby(["stream", "part"])]
            for line in _run(self._shipped, handle, label, frames):
                self.seen.note(line["kind"], line["note"], line["block"])


def _run(shipped: bytes, handle: Handle, label: int, frames: list[pd.DataFrame]) -> Iterator[dict[str, Any]]:
    processor = _serializer().loads(shipped)
    processor.init(handle)
    # The last one first: the shuffle promises no order.
    for frame in processor.handleInputRows((label,), reversed(frames), None):
        yield from lines_of(frame)
    processor.close()


def entries_of(handle: Handle) -> list[tuple[str, str]]:
    """The places of all entries that the state of one key has."""
    return [(one.namespace, one.key) for one in PageStore(SparkPages(handle)).everything()]


def _names(schema: str) -> list[str]:
    return [field.split()[0] for field in schema.split(", ")]
