"""Recorded streams as streams of files: one file an epoch and source, one micro-batch an epoch.

Invariant: micro-batch e reads file e of every source, so epochs are cut on Spark as they are cut locally (a row that is
read under two names comes to both in one micro-batch); the last file of every source says that the input has ended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.core.batch import TS, Words
from slackwater.core.nested import column_at
from slackwater.core.schema import NULL_WORD, Kind, kind_of
from slackwater.core.state import NOTHING
from slackwater.disorder.cutting import epochs_by_span
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.exchange.writer import END, SOURCE_ROW
from slackwater.runtime.spark.packed_source import NAME
from slackwater.sinks.folder import folder_name
from slackwater.sources.encode import GOOD, NULL_TIME, UTC, encode_time
from slackwater.sources.replay import Replay

BEYOND = 2**62
"""A moment that every encoder finds out of range."""
PLAIN = {Kind.FLOAT: pa.float64(), Kind.BOOL: pa.bool_(), Kind.TEXT: pa.string()}


@dataclass(frozen=True)
class Cut:
    """In which epoch each row of each source comes."""

    rows: Mapping[str, Words]
    """Rows of a source in the order in which they are written."""
    epoch: Mapping[str, Words]
    """The epoch of each of them, never falling."""
    arrivals: tuple[int, ...]
    """How many arrivals have come by the end of each epoch."""

    @property
    def epochs(self) -> int:
        return len(self.arrivals)


def cut_by(plan: PhysicalPlan, arrivals: Replay, epochs: Epochs) -> Cut:
    """Cut recorded streams; rows that can move no clock come along with the row before them."""
    epoch = epoch_of_arrivals(arrivals, epochs, plan.options.max_ahead)
    # There is always a micro-batch, because the mark of the end must come with one.
    count = int(epoch.max(initial=0)) + 1
    rows: dict[str, Words] = {}
    cut: dict[str, Words] = {}
    for position, one in enumerate(plan.inputs):
        source = one.stream.source
        if source in rows:
            continue
        mine = arrivals.stream == position
        row, when = arrivals.row[mine], epoch[mine]
        rows[source], cut[source] = _with_unreadable(row, when, arrivals.tables[position].num_rows)
    return Cut(rows, cut, tuple(np.searchsorted(epoch, np.arange(count), "right").tolist()))


def _with_unreadable(row: Words, epoch: Words, count: int) -> tuple[Words, Words]:
    if len(row) == count:
        return row, epoch
    others = np.setdiff1d(np.arange(count), row)
    by_row = np.argsort(row)
    before = np.searchsorted(row[by_row], others) - 1
    when = np.where(before < 0, 0, epoch[by_row[np.maximum(before, 0)]] if len(row) else 0)
    rows, epochs = np.concatenate([row, others]), np.concatenate([epoch, when])
    order = np.argsort(epochs, kind="stable")
    return rows[order], epochs[order]


def epoch_of_arrivals(arrivals: Replay, epochs: Epochs, max_ahead: int) -> Words:
    """The number of the epoch that each arrival belongs to."""
    n = len(arrivals)
    if epochs.each_tuple or epochs.tuples:
        return np.arange(n) // max(1, epochs.tuples)
    ts = np.empty(n, np.int64)
    for position, one in enumerate(arrivals.inputs):
        mine = arrivals.stream == position
        ts[mine] = one.words[TS, arrivals.row[mine]]
    streams = len(arrivals.inputs)
    arrival_time = NOTHING if arrivals.arrival_time is None else arrivals.arrival_time
    return epochs_by_span(arrivals.stream, ts, arrival_time, streams, epochs.span, max_ahead)


def write_streams(plan: PhysicalPlan, sources: Mapping[str, pa.Table], cut: Cut, folder: Path) -> None:
    """One file an epoch and source, with the columns that the query reads."""
    for source, rows in cut.rows.items():
        mine = folder / folder_name(source)
        mine.mkdir(parents=True)
        table = _marked(plan, source, sources[source])
        nulls = [pa.nulls(1, field.type) for field in table.schema]
        end = pa.table(nulls, schema=table.schema).set_column(table.num_columns - 1, END, pa.array([True]))
        edges = np.searchsorted(cut.epoch[source], np.arange(cut.epochs + 1))
        for e in range(cut.epochs):
            part = table.take(pa.array(rows[edges[e] : edges[e + 1]]))
            file = mine / f"epoch-{e:08d}.parquet"
            pq.write_table(pa.concat_tables([part, end]) if e + 1 == cut.epochs else part, file)
            # File streams go by modification time; files written in a row may share it.
            os.utime(file, (1_000_000 + e, 1_000_000 + e))


def read_streams(
    spark: SparkSession, plan: PhysicalPlan, sources: Mapping[str, pa.Table], folder: Path
) -> dict[str, DataFrame]:
    """The files of every source as a stream that gives one epoch a micro-batch."""
    frames = {}
    for source in dict.fromkeys(one.stream.source for one in plan.inputs):
        schema = from_arrow_schema(_marked(plan, source, sources[source].slice(0, 0)).schema)
        # Our own source: an epoch is its offset, so a run that is killed is cut as one that is left alone.
        reader = spark.readStream.format(NAME).schema(schema).option("maxFilesPerTrigger", 1)
        frames[source] = reader.load(str(folder / folder_name(source)))
    return frames


def _marked(plan: PhysicalPlan, source: str, table: pa.Table) -> pa.Table:
    """The columns that are read of a source, each row with its identity and the mark of the end."""
    readers = [one for one in plan.inputs if one.stream.source == source]
    names = [name for one in readers for name in (one.stream.schema.time, *(name for name, _, _ in one.columns))]
    read = {name: portable(column_at(table, name)) for name in dict.fromkeys(names)}
    n = table.num_rows
    return pa.table(read | {SOURCE_ROW: pa.array(np.arange(n)), END: pa.array(np.zeros(n, np.bool_))})


def portable(column: pa.ChunkedArray) -> pa.Array:
    """A column in the type that Spark reads back for its kind; what cannot be a value still is none.

    >>> portable(pa.chunked_array([pa.array([1, 2**64 - 1], pa.uint64())])).to_pylist()
    [1, -9223372036854775808]
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = kind_of(array.type)
    if kind is Kind.TIME:
        words, reasons = encode_time(array, "us")
        moments = np.where((reasons == GOOD) | (reasons == NULL_TIME), words, BEYOND)
        return pa.array(moments, mask=reasons == NULL_TIME).cast(UTC)
    if pa.types.is_uint64(array.type):
        null = array.is_null().to_numpy(zero_copy_only=False)
        bits = array.fill_null(0).to_numpy(zero_copy_only=False)
        return pa.array(np.where(bits > 2**63 - 1, NULL_WORD, bits.astype(np.int64)), mask=null)
    if pa.types.is_decimal(array.type):
        return array.cast(pa.decimal128(min(38, array.type.precision), array.type.scale))
    return array.cast(pa.int64() if kind is None or kind is Kind.INT else PLAIN[kind])
