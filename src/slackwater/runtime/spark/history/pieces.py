"""The pieces of a history: written once below the checkpoint, and read one a micro-batch.

    checkpoint/slackwater-history/
      cut.json                                where it was cut, and where it ends
      0/slackwater_piece=7/part-....parquet   a stream's rows of one piece
      none/                                   what the streams are in place of, until the history has been read

Each piece is announced by a control message, so it is read in one micro-batch, exactly once, whatever is killed. While
pieces are read the streams do not begin: sources that have nothing stand in their places, so that Spark's own logs fit
when the streams follow on the same checkpoint.

Invariant: the cut is written when all pieces are there, and is never made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from slackwater.core.batch import Words
from slackwater.core.errors import UsageError
from slackwater.core.nested import column_at, leaves
from slackwater.core.schema import kind_of
from slackwater.core.time import AFTER_ALL
from slackwater.runtime.history import Cut, History, cut_of
from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.files import gathered, read_file
from slackwater.runtime.spark.exchange.packing import PACKED, SCHEMA, Packer, register_here
from slackwater.runtime.spark.history.overlap import PIECE, Overlap, files_of
from slackwater.runtime.spark.store import At, damaged, inside, signed, store_at, verified
from slackwater.runtime.spark.types import arrow_schema, guarded, guarded_name, selected, unguarded
from slackwater.runtime.spark.versions import in_partition_of, map_in_arrow
from slackwater.runtime.spark.workers import settle
from slackwater.sources.encode import GOOD, encode_time

FOLDER, CUT, NONE = "slackwater-history", "cut.json", "none"
MOMENT = "slackwater_moment"
PRECISION = 0.05
"""Of a piece, by how much it may be larger or smaller than asked for."""
ROWS_OF_TASK = 1_000_000


@dataclass(frozen=True)
class Kept:
    """A history as a checkpoint has it."""

    folder: At
    cut: Cut
    columns: Mapping[str, list[str]]
    """Those of each stream that are there."""
    slack: int
    id: str | None

    def of(self, source: str) -> At:
        """The pieces of a stream."""
        return inside(self.folder, str(list(self.columns).index(source)))

    def check(self, source: str, names: Iterable[str]) -> None:
        """Refuse to read what is not there."""
        missing = [name for name in names if name not in self.columns[source]]
        if missing:
            raise UsageError(
                f"the history of stream {source} has no column '{missing[0]}' in this checkpoint; wait until it"
                " has been read before the query reads more, or use a new checkpoint folder"
            )

    def overlap(self, source: str, time: str, unit: str, schema: pa.Schema) -> Overlap | None:
        """How rows of a stream are known that are in its history."""
        before = self.cut.before[source]
        if before is None:
            return None
        if self.id is None:
            return Overlap(time, unit, before)
        kept = pa.field(guarded_name(self.id), leaves(schema)[self.id].type)
        return Overlap(time, unit, before, self.id, kept, self.of(source), self.cut.edges)

    def nothing(self, spark: SparkSession) -> DataFrame:
        """A stream of no lines, one source of Spark for each call."""
        store_at(self.folder).write(f"{NONE}/_nothing", b"")
        return spark.readStream.schema("value string").text(f"{self.folder}/{NONE}")

    def remove(self) -> None:
        """The pieces have been read; ids are asked for later."""
        if self.id is None:
            store = store_at(self.folder)
            store.remove(*(one.name for one in store.listed(deep=True) if one.name.endswith(".parquet")))


def kept_in(folder: At) -> Kept:
    """The history of a checkpoint."""
    store = store_at(folder)
    content = store.read(CUT)
    if content is None:
        raise damaged(store.path(CUT), "it is not there")
    told = verified(content, store.path(CUT))
    cut = Cut(tuple(told["cut"]["edges"]), told["cut"]["ends"], told["cut"]["before"])
    return Kept(folder, cut, told["columns"], told["slack"], told["id"])


def write_pieces(
    folder: At, told: History, streams: Mapping[str, DataFrame], reads: Mapping[str, list[str]], time: str, unit: str,
    parts: int, slack: int,
) -> Kept:  # fmt: skip
    """Cut a history: these columns of each stream, with the types that they have there."""
    past = told.of(list(streams))
    columns = {name: list(dict.fromkeys([*reads[name], *([told.id] if told.id else [])])) for name in past}
    frames = {
        name: _timed(_fitted(name, frame, streams[name], columns[name], time), time, unit, told.until)
        for name, frame in past.items()
        if frame is not None
    }
    newest, edges = _edges(frames, told.rows)
    cut = cut_of(told, {name: newest.get(name) for name in past}, edges)
    kept = Kept(folder, cut, columns, slack, told.id)
    for name, frame in frames.items():
        placed = map_in_arrow(frame, _placing(cut.edges), _with(frame, PIECE, IntegerType()))
        spread = placed.repartition(max(1, min(cut.pieces, 4 * parts)), PIECE, fn.pmod(fn.hash(MOMENT), fn.lit(parts)))
        # A start that died may have left some, cut otherwise.
        writer = spread.drop(MOMENT).write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.partitionBy(PIECE).parquet(str(kept.of(name)))
    fields = {"cut": asdict(cut), "columns": columns, "slack": slack, "id": told.id}
    store_at(folder).write(CUT, signed(fields).encode(), durable=True)
    return kept


def _fitted(name: str, frame: Any, stream: DataFrame, columns: list[str], time: str) -> DataFrame:
    """The columns of a history in the types of its stream."""
    if not hasattr(frame, "sparkSession") or frame.isStreaming:
        raise UsageError(f"history of stream {name}: give a batch DataFrame, as spark.read.parquet('folder') makes one")
    wanted, there = leaves(arrow_schema(stream.schema)), leaves(arrow_schema(frame.schema))
    for column in columns:
        lacks = "stream" if column not in wanted else "history" if column not in there else None
        if lacks is not None:
            of = f"stream {name}" if lacks == "stream" else f"the history of stream {name}"
            raise UsageError(
                f"{of} has no column '{column}'; it has {', '.join(wanted if lacks == 'stream' else there)}"
            )
        own, other = wanted[column].type, there[column].type
        if kind_of(own) is None or kind_of(own) is not kind_of(other):
            raise UsageError(
                f"history of stream {name}: column '{column}' is {other}, and {own} in the stream; cast it"
            )
        if column == time and own != other:
            raise UsageError(f"history of stream {name}: times are {other}, and {own} in the stream; cast them")
    types = selected(stream, columns).schema
    found = selected(frame, columns)
    return guarded(found.select(*(fn.col(f"`{one}`").cast(types[one].dataType).alias(one) for one in columns)))


def _timed(frame: DataFrame, time: str, unit: str, until: int | None) -> DataFrame:
    """Rows with their event times as words; those that have none are rejected when they are read, as those of a stream
    are. What is not before `until` is left to the stream."""

    def timing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            times, reasons = encode_time(column_at(unguarded(table), time), unit)
            good = reasons == GOOD
            table = table.append_column(MOMENT, pa.array(times, mask=~good))
            yield from table.filter(pa.array(~good | (times < (AFTER_ALL if until is None else until)))).to_batches()

    return map_in_arrow(frame, timing, _with(frame, MOMENT, LongType()))


def _with(frame: DataFrame, name: str, kind: DataType) -> StructType:
    return StructType([*frame.schema.fields, StructField(name, kind)])


def _edges(frames: Mapping[str, DataFrame], rows: int) -> tuple[dict[str, int | None], list[int]]:
    """The newest event time of each stream, and where all of them are cut."""
    newest: dict[str, int | None] = {}
    count, oldest = 0, AFTER_ALL
    for name, frame in frames.items():
        ((first, last, n),) = frame.agg(fn.min(MOMENT), fn.max(MOMENT), fn.count(MOMENT)).collect()
        newest[name], count = last, count + n
        oldest = min(oldest, oldest if first is None else first)
    pieces = -(-count // rows)
    if pieces < 2:
        return newest, []
    times = None
    for frame in frames.values():
        mine = frame.select(MOMENT)
        times = mine if times is None else times.unionByName(mine)
    assert times is not None
    found = times.approxQuantile(MOMENT, [k / pieces for k in range(1, pieces)], PRECISION / pieces)
    return newest, sorted({int(edge) for edge in found if edge > oldest})


def _placing(edges: tuple[int, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Adds the piece of every row; rows without an event time are in the first."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            times: Words = batch.column(MOMENT).fill_null(-AFTER_ALL).to_numpy()
            yield batch.append_column(PIECE, pa.array(np.searchsorted(edges, times, "right"), pa.int32()))

    return place


@dataclass(frozen=True)
class PieceReads:
    """How the pieces of one stream are read for all who read it."""

    folder: At
    schema: pa.Schema
    packer: Packer

    def packed(self, piece: int, slot: int, parts: int) -> Iterator[pa.RecordBatch]:
        """Lines of the k-th of n parts of a piece."""
        register_here(self.packer.functions)
        files = files_of(self.folder, piece)[slot::parts]
        tables = gathered(read_file(file, "parquet", self.schema, self.folder) for file in files)
        for number, table in enumerate(tables):
            yield self.packer.packed(unguarded(table), (piece * parts + slot) * ROWS_OF_TASK + number)


def reads_of(kept: Kept, source: str, frame: DataFrame, names: list[str], packer: Packer) -> PieceReads | None:
    """How the history of a stream is read; None where there is none."""
    if kept.cut.ends[source] is None:
        return None
    kept.check(source, names)
    schema = arrow_schema(guarded(selected(frame, names)).schema)
    return PieceReads(kept.of(source), schema, replace(packer, tapped=None))


def pieces_read(said: DataFrame, reads: Iterable[PieceReads], tasks: int) -> DataFrame:
    """Control messages as lines for every task, and with them the lines of the pieces that they announce; so many tasks
    read these."""
    every = tuple(reads)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for row in chain.from_iterable(batch.to_pylist() for batch in batches):
            line = dict.fromkeys(SCHEMA.names) | {"shard": row["task"], "part": 0, "header": row["value"]}
            yield pa.RecordBatch.from_pylist([line], SCHEMA)
            message = Message.of_json(row["value"])
            if message.piece is not None:
                for one in every:
                    yield from one.packed(message.piece, row["task"], tasks)

    # Spark takes a stream that is read twice for two.
    lines = said.select("value", fn.explode(fn.array(*(fn.lit(k) for k in range(tasks)))).alias("task"))
    return map_in_arrow(in_partition_of(lines, tasks, fn.col("task")), read, PACKED)


def sources_of(frame: DataFrame) -> int:
    """How many sources of Spark a streaming DataFrame reads."""
    try:
        found = frame._jdf.queryExecution().analyzed().collectLeaves()
    except AttributeError:
        raise UsageError("history needs a session of this process, not Spark Connect") from None
    return sum(bool(found.apply(at).isStreaming()) for at in range(found.size()))
