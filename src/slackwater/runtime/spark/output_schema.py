"""What the stages of shards emit: tagged lines, most of which hold a block of rows; as a task hands them to Spark, and
as they are read again.

Invariant: the kind of a line says what it holds; results, late rows and rejected rows are picked by it, each with one
schema that is known before anything runs. Every line of results is handed over once. A DataFrame that is asked for
results alone gets their rows as they are, so they cross to Spark in one step; where several outputs leave together,
each line has a block of rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED
from slackwater.runtime.side_outputs.collectors import SCHEMA as SIDE_OUTPUT_SCHEMA
from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.exchange.packing import PASSED, SCHEMA
from slackwater.runtime.spark.types import arrow_schema
from slackwater.runtime.spark.versions import map_in_arrow
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import RowMaker, SecondCounts
from slackwater.sources.codebook import Codebook

ROWS = "rows"
"""Results; these and side outputs hold a block of rows."""
METRICS, LATENCY = "metrics", "latency"
"""Kinds that hold a note."""
COLUMNS = {
    LATE: {"stream": "stream", "ts": "ts", "delay": "delay_ms", "watermark": "watermark", "row": "row"},
    REJECTED: {"stream": "stream", "reason": "reason", "ts": "ts", "row": "row"},
}
"""What is given of side outputs, and under which names."""


def unpacker() -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow that gives the rows of emitted blocks."""

    # Inside of another function it travels by value, so that a worker imports nothing of ours to run it.
    def unpacked(frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for frame in frames:
            for block in frame.column("block").to_pylist():
                yield from pa.ipc.open_stream(block)

    return unpacked


def results(out: DataFrame, plan: PhysicalPlan) -> DataFrame:
    """The rows of the SELECT list."""
    schema = from_arrow_schema(result_schema(plan))
    return map_in_arrow(out.where(fn.col("kind") == ROWS).select("block"), unpacker(), schema)


def late(out: DataFrame) -> DataFrame:
    """Late tuples as rows: which stream, how late, the watermark they met, and the tuple as JSON."""
    return _side_output(out, LATE)


def rejected(out: DataFrame) -> DataFrame:
    """Rejected tuples as rows: which stream, why, and the tuple as JSON."""
    return _side_output(out, REJECTED)


def _side_output(out: DataFrame, kind: str) -> DataFrame:
    blocks = out.where(fn.col("kind") == kind).select("block")
    rows = map_in_arrow(blocks, unpacker(), from_arrow_schema(SIDE_OUTPUT_SCHEMA))
    return rows.select(*(fn.col(name).alias(given) for name, given in COLUMNS[kind].items()))


def result_schema(plan: PhysicalPlan) -> pa.Schema:
    """The Arrow schema of the results."""
    if plan.count_only:
        return SecondCounts().table().schema
    return plain_text([RowMaker(plan, Codebook()).empty()])[0].schema


def written_schema(plan: PhysicalPlan, kind: str) -> pa.Schema:
    """The columns of an output as Spark has them: results, late rows or rejected ones."""
    if kind == ROWS:
        given = result_schema(plan)
    else:
        given = pa.schema([(name, SIDE_OUTPUT_SCHEMA.field(emitted).type) for emitted, name in COLUMNS[kind].items()])
    return arrow_schema(from_arrow_schema(given))


EMITTED = "query string, kind string, note string, block binary"
TAGGED = pa.schema([("query", pa.string()), ("kind", pa.string()), ("note", pa.string()), ("block", pa.binary())])
"""A line with the key of its query, and what kind it is of."""
NOTE = "_slackwater_note"
"""The column of result rows in which a line without a result tells something."""
SAID = "said"
"""The kind of a control message that is handed on."""
MOST_WAITING = 1 << 22
"""Bytes of blocks that are gathered before they leave."""


class Emitted(NamedTuple):
    """Something that one query emits: rows of a kind, or a note."""

    query: str
    kind: str
    note: str = ""
    rows: pa.Table | None = None
    block: bytes | None = None
    """The rows as they travel, where they come from another stage."""
    line: tuple[Any, ...] | None = None
    """A line of the packed stream of the stage above."""


class Emitter(Protocol):
    """How what is emitted is handed on."""

    @property
    def forwards(self) -> bool:
        """Whether control messages are for another stage as well."""

    def batches(self, emitted: Iterable[Emitted], task: int) -> Iterator[pa.RecordBatch]:
        """Record batches of what is emitted in a task, a few large ones in place of many small ones."""


@dataclass(frozen=True)
class TaggedLines:
    """All kinds, as lines with blocks."""

    forwards: bool = False

    def batches(self, emitted: Iterable[Emitted], task: int) -> Iterator[pa.RecordBatch]:
        return in_batches(((one.query, one.kind, one.note, block_of(one)) for one in emitted), TAGGED)


@dataclass(frozen=True)
class StageLines:
    """Everything as lines of the packed stream of a stage above; what is not for it passes through it."""

    forwards: bool = True

    def batches(self, emitted: Iterable[Emitted], task: int) -> Iterator[pa.RecordBatch]:
        return in_batches((_line(one, task) for one in emitted), SCHEMA)


def _line(one: Emitted, task: int) -> tuple[Any, ...]:
    if one.line is not None:
        return one.line
    if one.kind == SAID:
        return (task, None, 0, one.note, None, None, None)
    header = json.dumps((one.query, one.kind, one.note))
    return (task, PASSED, 0, header, block_of(one), None, None)


def said(message: Message) -> Emitted:
    """A control message for a stage above."""
    return Emitted("", SAID, message.as_json())


def block_of(one: Emitted) -> bytes | None:
    """The rows of what is emitted as they travel."""
    return one.block if one.rows is None else as_bytes(one.rows)


def in_batches(lines: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Lines as record batches: each is a message to the JVM."""
    waiting: list[tuple[Any, ...]] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += sum(len(one) for one in line if isinstance(one, bytes))
        if size >= MOST_WAITING:
            yield _batch(waiting, schema)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting, schema)


def _batch(waiting: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*waiting, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class ResultRows:
    """The rows of results under their own names, and what shards report in a column behind them."""

    schema: pa.Schema
    forwards: bool = False

    def batches(self, emitted: Iterable[Emitted], task: int) -> Iterator[pa.RecordBatch]:
        schema = self.schema.append(pa.field(NOTE, pa.string()))
        for one in emitted:
            if one.kind == ROWS and one.rows is not None:
                rows = one.rows.cast(self.schema)
                yield from rows.append_column(NOTE, pa.nulls(rows.num_rows, pa.string())).to_batches()
            elif one.kind == METRICS:
                nothing = [pa.nulls(1, field.type) for field in self.schema]
                yield pa.RecordBatch.from_arrays([*nothing, pa.array([one.note])], schema=schema)
