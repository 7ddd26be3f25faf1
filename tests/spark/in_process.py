"""Spark's part of a recorded run, played in this process: packed, shuffled by shard, kept as state, emitted.

What runs in Spark's Python workers runs here as it is: the packer, the stage that hosts shards with their state in
files, what it emits, and the run that reads that. Only what the JVM does is played: reading files, the shuffle.

Invariant: a shard finds nothing of the last micro-batch but what was written to its state, so every case is also one
of a worker that has never seen the shard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.serializers import CloudPickleSerializer

from slackwater.core.errors import UsageError
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.recorded import Tick
from slackwater.runtime.spark.exchange.files import Folder, FoldersRead, Reads
from slackwater.runtime.spark.exchange.partials import aggregate_of
from slackwater.runtime.spark.exchange.writer import END, SOURCE_ROW, Packing, packer
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.output_schema import ROWS
from slackwater.runtime.spark.query import packings_of
from slackwater.runtime.spark.replay import epoch_log
from slackwater.runtime.spark.replay.run import SparkRun
from slackwater.runtime.spark.replay.streams import cut_by, write_streams
from slackwater.runtime.spark.state.checkpoint import structure
from slackwater.runtime.spark.state.last_watermark import known_before
from slackwater.runtime.spark.state.shard_task import Hosted
from slackwater.runtime.spark.state.stage import run_shards
from slackwater.runtime.spark.store import At
from slackwater.sinks.folder import folder_name
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import Replay
from tests.spark.streams import pieces

LABELS = (3, 0, 7, 1)
"""Of shards: as on Spark, they neither count up nor begin with the first."""
EMITTED = pa.schema([("kind", pa.string()), ("note", pa.string()), ("block", pa.binary())])
_serializer: Any = CloudPickleSerializer


@dataclass
class Map:
    """A map state of Spark, in a dictionary."""

    entries: dict[Any, Any] = field(default_factory=dict)

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.entries.get(key)

    def containsKey(self, key: Any) -> bool:  # noqa: N802
        return key in self.entries

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.entries[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.entries[key]

    def iterator(self) -> Iterator[Any]:
        return iter(sorted(self.entries.items(), reverse=True))


@dataclass
class Value:
    """A value state of Spark, in a field."""

    value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Handle:
    """The handle that Spark gives to a stateful operator, with the state of one key."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}

    def getMapState(self, name: str, key: str, value: str) -> Map:  # noqa: N802
        return self._states.setdefault(name, Map())

    def getValueState(self, name: str, value: str) -> Value:  # noqa: N802
        return self._states.setdefault(name, Value())


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
        run = ShardsRun(
            None,  # type: ignore[arg-type]
            plan, replay, {}, cut.arrivals, self.folder, shards=self.shards, time_unit=time_unit,
        )  # fmt: skip
        run.reads_files = self.reads_files
        yield run


class ShardsRun(SparkRun):
    """A run whose micro-batches are played here."""

    reads_files = False

    def _epochs(self, tick: Tick) -> Iterator[epoch_log.EpochLog]:
        labels = LABELS[: self.shards]
        packings = packings_of(self.plan, labels, self._time_unit)
        texts = tuple(packing.text_rows for packing in packings)
        kept = structure(self.plan, labels, self._time_unit, False)
        state = str(self._folder / "state")
        Path(state).mkdir(exist_ok=True)
        reads = tuple(map(self._reads, packings)) if self.reads_files else ()
        again = FoldersRead(reads, state) if reads and aggregate_of(self.plan) is not None else None
        hosted = Hosted(self.plan, texts, kept, registered(), shards=labels, folders_read=again, tells_latency=True)
        shipped = _serializer().dumps(hosted)
        for number in range(len(self._arrivals)):
            begun = time.perf_counter()
            lines = pa.Table.from_batches(self._played(_serializer().loads(shipped), packings, reads, number), EMITTED)
            epoch_log.write(self._folder / "epochs", number, lines, time.perf_counter() - begun)
            yield self._noted(number)
            tick()

    def _played(
        self, hosted: Hosted, packings: Sequence[Packing], reads: Sequence[Reads], number: int
    ) -> Iterator[pa.RecordBatch]:
        """What shards emit in a micro-batch."""
        state = str(self._folder / "state")
        if reads:
            packed = [line for one in reads for line in self._packed_by_files(one, number, state)]
        else:
            packed = [line for packing in packings for line in self._packed(packing, number)]
        # The last partition first: the shuffle promises no order.
        yield from run_shards(hosted, hosted.shards, packed[::-1], state, number)

    def _source(self, packing: Packing) -> Path:
        return self._folder / "streams" / folder_name(packing.plan.stream.source)

    def _reads(self, packing: Packing) -> Reads:
        schema = pq.read_schema(self._source(packing) / "epoch-00000000.parquet")
        return Reads(Folder(str(self._source(packing)), "parquet", schema, None), (packing,), registered())

    def _packed_by_files(self, reads: Reads, number: int, state: str) -> Iterator[pa.RecordBatch]:
        file = f"{reads.folder.path}/epoch-{number:08d}.parquet"
        for part in range(2):
            yield from reads.packed((file,), part, 2, 1000 * part, known_before(state, number))

    def _packed(self, packing: Packing, number: int) -> Iterator[pa.RecordBatch]:
        table = pq.read_table(self._source(packing) / f"epoch-{number:08d}.parquet")
        return packer(packing)(table.select(_read_by(packing.plan, table)).to_batches())


def play(query: str, folder: At, micro_batches: int) -> list[str]:
    """The rows of a query over one stream, in micro-batches that are each run by a worker which knows nothing."""
    tables = [piece.slice(0, 200) for piece in pieces(0, micro_batches)]
    physical = plan(bind_to_tables(query, {"s": tables[0]}, "ts").query)
    shards = tuple(range(physical.partitioning.shards(2)))
    (packing,) = packings_of(physical, shards, "ms")
    hosted = Hosted(physical, (packing.text_rows,), "the query", (), shards=shards)
    rows: list[str] = []
    for number, table in enumerate(tables):
        lines = packer(packing)(table.select(packing.read_from(table.column_names)).to_batches())
        for batch in run_shards(hosted, shards, list(lines), folder, number):
            for line in batch.to_pylist():
                if line["kind"] == ROWS:
                    rows += map(str, pa.ipc.open_stream(line["block"]).read_all().to_pylist())
    return sorted(rows)


def lines_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a short frame, sooner than `to_dict` gives them."""
    columns = [frame[name].tolist() for name in frame.columns]
    return [dict(zip(frame.columns, line, strict=True)) for line in zip(*columns, strict=True)]


def _read_by(one: InputPlan, table: pa.Table) -> list[str]:
    names = [one.stream.schema.time, *(name for name, _, _ in one.columns), END, SOURCE_ROW]
    return list(dict.fromkeys(names))
