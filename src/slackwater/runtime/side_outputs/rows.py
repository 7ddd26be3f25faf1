"""Side outputs as rows: late tuples and rejected ones, in one table.

Invariant: a row says which stream it came from and why it stands here; `row` is the tuple as JSON, as far as the query
reads it (a row rejected for its time: all of it).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Batch, Words
from slackwater.core.state import Late
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import AHEAD, GOOD, REASONS, UTC, Reasons, decode_column, encode_time

LATE, REJECTED = "late", "rejected"
"""The kinds of side outputs; the reason of a late row is that it is late."""
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("reason", pa.string()),
        ("ts", UTC),
        ("delay", pa.float64()),
        ("watermark", UTC),
        ("identity", pa.int64()),
        ("row", pa.string()),
    ]
)


def side_output_table(
    streams: Sequence[str],
    reasons: Sequence[str],
    *,
    rows: Sequence[str],
    ts: Words | None = None,
    delay: Words | None = None,
    watermark: Words | None = None,
    identity: Words | None = None,
) -> pa.Table:
    """Rows that belong to a side output; what is not known of them is null."""
    n = len(streams)
    known = {
        "stream": pa.array(streams, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "ts": None if ts is None else pa.array(ts).cast(UTC),
        "delay": None if delay is None else pa.array(delay / 1000.0),
        "watermark": None if watermark is None else pa.array(watermark).cast(UTC),
        "identity": None if identity is None else pa.array(identity),
        "row": pa.array(rows, pa.string()),
    }
    arrays = [pa.nulls(n, field.type) if known[field.name] is None else known[field.name] for field in SCHEMA]
    return pa.table(arrays, schema=SCHEMA)


def late_table(plan: PhysicalPlan, late: Late, codebook: Codebook) -> pa.Table:
    """Late tuples with their delay in milliseconds and the watermark they met."""
    aliases = [plan.inputs[s].stream.alias for s in late.stream.tolist()]
    rows = _rows(plan, late.stream, late.words, codebook)
    return side_output_table(
        aliases, [LATE] * len(aliases), rows=rows,
        ts=late.ts, delay=late.delay, watermark=late.watermark, identity=late.row,
    )  # fmt: skip


def rejected_table(plan: PhysicalPlan, batch: Batch, codebook: Codebook, reason: str = REASONS[AHEAD]) -> pa.Table:
    """Tuples that were taken in and are rejected: ahead of all evidence, unless another reason is given."""
    aliases = [plan.inputs[s].stream.alias for s in batch.stream.tolist()]
    rows = _rows(plan, batch.stream, batch.words, codebook)
    return side_output_table(aliases, [reason] * len(aliases), rows=rows, ts=batch.words[TS], identity=batch.words[ROW])


def rejected_input_table(
    alias: str, table: pa.Table, reasons: Reasons, told: pa.ChunkedArray | None = None
) -> pa.Table:
    """The rows of a table that can move no clock, with their reason; `told` has, where it is not null, what is told of
    a row in place of its columns."""
    bad = np.flatnonzero(reasons != GOOD)
    taken = table.take(pa.array(bad))
    columns = {name: _written(taken.column(name)) for name in taken.column_names}
    rows = [
        json.dumps(dict(zip(columns, row, strict=True)), default=str) for row in zip(*columns.values(), strict=True)
    ]
    if told is not None:
        texts = told.take(pa.array(bad)).to_pylist()
        rows = [row if text is None else text for row, text in zip(rows, texts, strict=True)]
    return side_output_table([alias] * len(bad), [REASONS[code] for code in reasons[bad].tolist()], rows=rows)


def example_of(block: bytes) -> str:
    """The first row of an encoded table of late or rejected rows."""
    return str(pa.ipc.open_stream(block).read_next_batch().column("row")[0])


def _written(column: pa.ChunkedArray) -> list[Any]:
    """A column as JSON can hold it: a time that no calendar has is written as the number it is.

    >>> _written(pa.chunked_array([pa.array([0, 2**62], pa.timestamp("us"))]))
    ['1970-01-01 00:00:00', 4611686018427387904]
    """
    if not pa.types.is_timestamp(column.type):
        return _reported(column)
    raw = column.cast(pa.int64()).to_pylist()
    moments, why = encode_time(column, "us")
    known = iter(_reported(pa.chunked_array([pa.array(moments[why == GOOD]).cast(UTC)])))
    reported = [next(known) if code == GOOD else None for code in why.tolist()]
    return [str(one.replace(tzinfo=None)) if isinstance(one, datetime) else raw[i] for i, one in enumerate(reported)]


def _reported(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; of a moment that no calendar has, the number it is."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        values = [_moment(one) for one in column]
    return values


def _moment(one: pa.TimestampScalar) -> Any:
    try:
        return one.as_py()
    except OverflowError:
        return one.value


def _rows(plan: PhysicalPlan, stream: Words, words: Words, codebook: Codebook) -> list[str]:
    rows = [""] * len(stream)
    for position, one in enumerate(plan.inputs):
        mine = np.flatnonzero(stream == position)
        table = _decoded(one, words[:, mine], codebook)
        columns = [_reported(column) for column in table.columns]
        for place, row in zip(mine.tolist(), zip(*columns, strict=True), strict=True):
            rows[place] = json.dumps(dict(zip(table.column_names, row, strict=True)), default=str)
    return rows


def _decoded(one: InputPlan, words: Words, codebook: Codebook) -> pa.Table:
    schema = one.stream.schema
    columns = {
        name: decode_column(words[row], kind, schema[name].arrow, codebook)
        for name, kind, row in one.columns
        if row < one.rows
    }
    return pa.table({schema.time: pa.array(words[TS]).cast(UTC)} | columns)
