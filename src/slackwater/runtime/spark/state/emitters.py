"""What shards emit, as the lines that a task hands to Spark.

Invariant: every line of results is handed over once. A DataFrame that is asked for results alone gets their rows as
they are, so they cross to Spark in one step; where several outputs leave together, each line has a block of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.output_schema import METRICS, ROWS

EMITTED = "query string, kind string, note string, block binary"
TAGGED = pa.schema([("query", pa.string()), ("kind", pa.string()), ("note", pa.string()), ("block", pa.binary())])
"""A line with the key of its query, and what kind it is of."""
NOTE = "_slackwater_note"
"""The column of result rows in which a line without a result tells something."""
MOST_WAITING = 1 << 22
"""Bytes of blocks that are gathered before they leave."""


class Emitted(NamedTuple):
    """Something that one query emits: rows of a kind, or a note."""

    query: str
    kind: str
    note: str = ""
    rows: pa.Table | None = None


class Emitter(Protocol):
    """How what is emitted is handed on."""

    def batches(self, emitted: Iterable[Emitted]) -> Iterator[pa.RecordBatch]:
        """Record batches of what is emitted, a few large ones in place of many small ones."""


@dataclass(frozen=True)
class TaggedLines:
    """All kinds, as lines with blocks."""

    def batches(self, emitted: Iterable[Emitted]) -> Iterator[pa.RecordBatch]:
        waiting: list[tuple[str, str, str, bytes | None]] = []
        size = 0
        for one in emitted:
            block = None if one.rows is None else as_bytes(one.rows)
            waiting.append((one.query, one.kind, one.note, block))
            size += len(block or b"")
            # Each batch is a message to the JVM.
            if size >= MOST_WAITING:
                yield _lines(waiting)
                waiting, size = [], 0
        if waiting:
            yield _lines(waiting)


def _lines(waiting: list[tuple[str, str, str, bytes | None]]) -> pa.RecordBatch:
    columns = zip(*waiting, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, TAGGED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=TAGGED)


@dataclass(frozen=True)
class ResultRows:
    """The rows of results under their own names, and what shards report in a column behind them."""

    schema: pa.Schema

    def batches(self, emitted: Iterable[Emitted]) -> Iterator[pa.RecordBatch]:
        schema = self.schema.append(pa.field(NOTE, pa.string()))
        for one in emitted:
            if one.kind == ROWS and one.rows is not None:
                rows = one.rows.cast(self.schema)
                yield from rows.append_column(NOTE, pa.nulls(rows.num_rows, pa.string())).to_batches()
            elif one.kind == METRICS:
                nothing = [pa.nulls(1, field.type) for field in self.schema]
                yield pa.RecordBatch.from_arrays([*nothing, pa.array([one.note])], schema=schema)
