"""Spark's part of queries, played in this process: packed, exchanged, kept as state, emitted.

What runs in Spark's Python workers runs here as it is: the packer, the stage that hosts shards with their state in
files, what it emits, and the run that reads that. Only what the JVM does is played: reading files, the exchange, and
which task it is.

Invariant: a shard finds nothing of the last micro-batch but what was written to its state, so every case is also one
of a worker that has never seen the shard; but where a test asks for `one_worker`, it goes on with the shards it has,
and in a recorded run for a few micro-batches, for reading state anew is most of the work there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.serializers import CloudPickleSerializer

from slackwater.core.errors import UsageError
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.recorded import Tick
from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.files import Folder
from slackwater.runtime.spark.exchange.packing import (
    NOW,
    SCHEMA,
    FoldersRead,
    Packer,
    Reads,
    packer_of,
    packing_rows,
    registered,
)
from slackwater.runtime.spark.exchange.writer import aggregate_of
from slackwater.runtime.spark.members import KeyGroups, Member, columns_read, groups_of, member
from slackwater.runtime.spark.output_schema import ROWS, TAGGED
from slackwater.runtime.spark.packed_source import known_before
from slackwater.runtime.spark.replay.run import EpochLog, SparkRun, write_epoch
from slackwater.runtime.spark.replay.streams import cut_by, write_streams
from slackwater.runtime.spark.state import host
from slackwater.runtime.spark.state.cached import CachedShards
from slackwater.runtime.spark.state.fragments import stages_of
from slackwater.runtime.spark.state.host import Hosted, run_shards
from slackwater.runtime.spark.state.inbox import Inbox
from slackwater.runtime.spark.state.root import ABOVE, Share
from slackwater.runtime.spark.state.shard import Block
from slackwater.runtime.spark.store import At, inside
from slackwater.sinks.folder import folder_name
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import Replay
from tests.spark.streams import pieces

UNIT = "ms"
NAME = "of shards"
"""Of a query that is played: the labels of its shards do not begin with the first."""
TASKS = 2
MICRO_BATCHES = 4
"""So many a worker of a recorded run lives for; the first one for a single one, so that any run has two."""
_serializer: Any = CloudPickleSerializer


def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a worker keeps its shards from one micro-batch to the next."""
    monkeypatch.setattr(host, "run_of_task", lambda: "query/run")
    monkeypatch.setattr(host, "CACHED", CachedShards())


def planned(text: str, tables: Mapping[str, pa.Table], time: str = "ts") -> PhysicalPlan:
    """A query over streams with the columns of these tables."""
    return plan(bind_to_tables(text, tables, time).query)


def cut_for(shards: int) -> KeyGroups:
    """A cut in which a query with so many shards leaves a label to others, and shards share tasks."""
    return KeyGroups(shards + 1, TASKS)


def played_member(physical: PhysicalPlan, shards: int, time_unit: str = UNIT, **more: Any) -> Member:
    """A query with so many shards of `cut_for`."""
    return member(NAME, 0, physical, cut_for(shards), time_unit, groups=shards, **more)


def hosted_alone(one: Member, **more: Any) -> Hosted:
    """A query as it is shipped where it runs alone; workers know it by its key."""
    return Hosted((one,), False, registered(), name=one.key, **more)


def packer_for(members: Sequence[Member], source: str, apart: bool = False, by_files: bool = False) -> Packer:
    """How these queries read a source."""
    (unit,) = {packing.time_unit for one in members for packing in one.packings}
    together = (one.packing(source) for one in groups_of(members))
    alone = [(one.key, one.packings) for one in members if not one.shares]
    return packer_of(alone, source, unit, apart, by_files, together)


def packed(members: Sequence[Member], tables: Mapping[str, pa.Table], apart: bool = False) -> list[pa.RecordBatch]:
    """Lines of what arrives in one micro-batch; each source is one partition."""
    lines: list[pa.RecordBatch] = []
    for source, table in tables.items():
        if table.num_rows:
            time = next((one.plan.inputs[0].stream.schema.time for one in members), "ts")
            own = table.select(columns_read(members, source, time, table.column_names))
            lines += packing_rows(packer_for(members, source, apart))(own.combine_chunks().to_batches())
    return lines


def said(message: Message, tasks: int = TASKS) -> pa.RecordBatch:
    """The lines of a control message."""
    return _to_every_task(tasks, readers=None, part=0, header=message.as_json())


def told(lines: Sequence[pa.RecordBatch], now: int | None, tasks: int = TASKS) -> list[pa.RecordBatch]:
    """Lines of a micro-batch that began at a moment, in microseconds, with a heartbeat among them."""
    if now is None:
        return list(lines)
    beat = _to_every_task(tasks, readers=NOW, part=0, header=None)
    return [one.append_column(NOW, pa.array([now] * one.num_rows, pa.int64())) for one in (*lines, beat)]


def _to_every_task(tasks: int, **fields: Any) -> pa.RecordBatch:
    nothing = dict.fromkeys(SCHEMA.names)
    return pa.RecordBatch.from_pylist([nothing | fields | {"shard": task} for task in range(tasks)], SCHEMA)


def micro_batch(
    hosted: Hosted, cut: KeyGroups, lines: Sequence[pa.RecordBatch], folder: At | None, number: int
) -> Iterator[dict[str, Any]]:
    """The lines that shards emit in one micro-batch, task by task; in two stages where a query has fragments."""
    lower, upper = stages_of(hosted)
    emitted = stage(lower, cut, lines, folder, number)
    if upper is not None:
        above = None if folder is None else inside(folder, ABOVE)
        emitted = stage(upper, cut, list(emitted), above, number)
    for batch in emitted:
        yield from batch.to_pylist()


def stage(
    hosted: Hosted, cut: KeyGroups, lines: Sequence[pa.RecordBatch], folder: At | None, number: int
) -> Iterator[pa.RecordBatch]:
    """What one stage emits in one micro-batch, task by task."""
    shipped = _serializer().dumps(hosted)
    # The last one first: the exchange promises no order.
    for task in reversed(range(cut.tasks)):
        mine = [lines_of_task(batch, task, cut.tasks) for batch in reversed(lines)]
        labels = cut.labels[task :: cut.tasks]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host, "task_number", lambda task=task: task)
            yield from run_shards(_serializer().loads(shipped), labels, mine, folder, number, Share(task, cut.tasks))


def lines_of_task(lines: pa.RecordBatch, task: int, tasks: int) -> pa.RecordBatch:
    """Those that the exchange brings to a task."""
    return lines.filter(pa.array([label % tasks == task for label in lines.column("shard").to_pylist()], pa.bool_()))


@dataclass(frozen=True)
class InProcess:
    """Recorded runs with so many shards; a `Runtime` of commands."""

    epochs: Epochs
    shards: int
    folder: Path
    reads_files: bool = False
    """Whether tasks read files themselves, as those of the packed source do."""

    @contextmanager
    def begin(
        self, plan: PhysicalPlan, replay: Replay, sources: Mapping[str, pa.Table], time_unit: str
    ) -> Iterator[ShardsRun]:
        if replay.arrival_time is not None:
            raise UsageError("--arrival-time is not offered on Spark; leave it out, or take --runtime local")
        cut = cut_by(plan, replay, self.epochs)
        self.folder.mkdir()
        write_streams(plan, sources, cut, self.folder / "streams")
        run = ShardsRun(plan, replay, cut.arrivals, self.folder, self.shards)
        run.reads_files, run.time_unit = self.reads_files, time_unit
        yield run


class ShardsRun(SparkRun):
    """A run whose micro-batches are played here."""

    reads_files = False
    time_unit: str
    _worker: CachedShards

    def _epochs(self, tick: Tick) -> Iterator[EpochLog]:
        state = self._folder / "state"
        state.mkdir(exist_ok=True)
        one = played_member(self.plan, self.shards, self.time_unit)
        reads = tuple(self._reads(one)) if self.reads_files else ()
        again = FoldersRead(reads, str(state)) if reads and aggregate_of(self.plan) is not None else None
        hosted = hosted_alone(one, reports_latency=True, folders_read=again)
        for number in range(len(self._arrivals)):
            begun = time.perf_counter()
            emitted = pa.Table.from_pylist(list(self._played(hosted, reads, number)), TAGGED)
            write_epoch(self._folder / "epochs", number, emitted, time.perf_counter() - begun)
            yield self._noted(number)
            tick()

    def _played(self, hosted: Hosted, reads: Sequence[Reads], number: int) -> Iterator[dict[str, Any]]:
        """What shards emit in a micro-batch."""
        state = str(self._folder / "state")
        if reads:
            lines = [line for one in reads for line in self._packed_by_files(one, number, state)]
        else:
            sources = {one.stream.source for one in self.plan.inputs}
            tables = {one: pq.read_table(self._source(one) / f"epoch-{number:08d}.parquet") for one in sorted(sources)}
            lines = packed(hosted.members, tables)
        with pytest.MonkeyPatch.context() as patch:
            one_worker(patch)
            if number == 0 or number % MICRO_BATCHES == 1:
                self._worker = host.CACHED
            patch.setattr(host, "CACHED", self._worker)
            yield from micro_batch(hosted, cut_for(self.shards), lines, state, number)

    def _source(self, source: str) -> Path:
        return self._folder / "streams" / folder_name(source)

    def _reads(self, one: Member) -> Iterable[Reads]:
        for source in sorted({packing.plan.stream.source for packing in one.packings}):
            schema = pq.read_schema(self._source(source) / "epoch-00000000.parquet")
            columns = columns_read([one], source, one.plan.inputs[0].stream.schema.time, schema.names)
            folder = Folder(str(self._source(source)), "parquet", schema, None)
            yield Reads(source, folder, packer_for([one], source, by_files=True), tuple(columns))

    def _packed_by_files(self, reads: Reads, number: int, state: str) -> Iterator[pa.RecordBatch]:
        file = f"{reads.folder.path}/epoch-{number:08d}.parquet"
        before = known_before(state, number, reads.keys)
        for part in range(2):
            yield from reads.packed((file,), part, 2, 1000 * part, before)


def play(query: str, folder: At, micro_batches: int) -> list[str]:
    """The rows of a query over one stream, in micro-batches that are each run by a worker which knows nothing."""
    tables = [piece.slice(0, 200) for piece in pieces(0, micro_batches)]
    one = played_member(planned(query, {"s": tables[0]}), 2)
    hosted = hosted_alone(one)
    rows: list[str] = []
    for number, table in enumerate(tables):
        for line in micro_batch(hosted, cut_for(2), packed([one], {"s": table}), folder, number):
            if line["kind"] == ROWS:
                rows += map(str, pa.ipc.open_stream(line["block"]).read_all().to_pylist())
    return sorted(rows)


def blocks_of(one: Member, tables: Mapping[str, pa.Table], label: int | None = None) -> list[Block]:
    """What a shard of a query is given of what arrives in one micro-batch; the first shard, where none is named."""
    mine, tasks = one.shards[0] if label is None else label, one.packings[0].tasks
    lines = [lines_of_task(batch, mine % tasks, tasks) for batch in packed([one], tables)]
    return Inbox([one], lines).of(mine)[one.key].blocks
