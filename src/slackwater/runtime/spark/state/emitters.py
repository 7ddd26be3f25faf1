"""What shards emit, as the lines that a task hands to Spark.

Invariant: every line of results is handed over once. A DataFrame that is asked for results alone gets their rows as
they are, so they cross to Spark in one step; where several outputs leave together, each line has a block of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.exchange.packing import PASSED, SCHEMA
from slackwater.runtime.spark.output_schema import METRICS, ROWS

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
