"""Tuples that made no result, as rows: late ones and rejected ones, in one table.

Invariant: a row says which stream it came from and why it stands here; `row` is the tuple as JSON, as far as the query
reads it (a row turned away for its time: all of it).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.kernel import Late
from slackwater.model.batch import ROW, TS, Batch, Words
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import AHEAD, REASONS, UTC, decode_column

LATE = "late"
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("reason", pa.string()),
        ("ts", UTC),
        ("delay", pa.float64()),
        ("frontier", UTC),
        ("identity", pa.int64()),
        ("row", pa.string()),
    ]
)


def aside_table(
    streams: Sequence[str],
    reasons: Sequence[str],
    *,
    rows: Sequence[str],
    ts: Words | None = None,
    delay: Words | None = None,
    frontier: Words | None = None,
    identity: Words | None = None,
) -> pa.Table:
    """Rows that stand aside; what is not known of them is null."""
    n = len(streams)
    known = {
        "stream": pa.array(streams, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "ts": None if ts is None else pa.array(ts).cast(UTC),
        "delay": None if delay is None else pa.array(delay / 1000.0),
        "frontier": None if frontier is None else pa.array(frontier).cast(UTC),
        "identity": None if identity is None else pa.array(identity),
        "row": pa.array(rows, pa.string()),
    }
    arrays = [pa.nulls(n, field.type) if known[field.name] is None else known[field.name] for field in SCHEMA]
    return pa.table(arrays, schema=SCHEMA)


def late_table(plan: PhysicalPlan, late: Late, codebook: Codebook) -> pa.Table:
    """Late tuples with their delay in milliseconds and the frontier they met."""
    aliases = [plan.inputs[s].stream.alias for s in late.stream.tolist()]
    rows = _rows(plan, late.stream, late.words, codebook)
    return aside_table(
        aliases, [LATE] * len(aliases), rows=rows,
        ts=late.ts, delay=late.delay, frontier=late.frontier, identity=late.row,
    )  # fmt: skip


def ahead_table(plan: PhysicalPlan, batch: Batch, codebook: Codebook) -> pa.Table:
    """Tuples ahead of all evidence."""
    aliases = [plan.inputs[s].stream.alias for s in batch.stream.tolist()]
    rows = _rows(plan, batch.stream, batch.words, codebook)
    return aside_table(
        aliases, [REASONS[AHEAD]] * len(aliases), rows=rows, ts=batch.words[TS], identity=batch.words[ROW]
    )


def _rows(plan: PhysicalPlan, stream: Words, words: Words, codebook: Codebook) -> list[str]:
    rows = [""] * len(stream)
    for position, one in enumerate(plan.inputs):
        mine = np.flatnonzero(stream == position)
        for place, row in zip(mine.tolist(), _decoded(one, words[:, mine], codebook).to_pylist(), strict=True):
            rows[place] = json.dumps(row, default=str)
    return rows


def _decoded(one: InputPlan, words: Words, codebook: Codebook) -> pa.Table:
    schema = one.stream.schema
    columns = {
        name: decode_column(words[row], kind, schema[name].arrow, codebook)
        for name, kind, row in one.columns
        if row < one.rows
    }
    return pa.table({schema.time: pa.array(words[TS]).cast(UTC)} | columns)
