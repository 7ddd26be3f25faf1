"""What each micro-batch of a recorded run has emitted, one file a micro-batch.

Invariant: a file is whole or absent, and a micro-batch that runs again writes the same file again; so the files of a
run that was stopped and taken up again are those of a run that never stopped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.observe.value import QueryProgress
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.output_schema import LATENCY, METRICS, ROWS
from slackwater.runtime.spark.store import LocalStore, sealed, unsealed

SECONDS = b"seconds"
BY = ("_ts", "window_end", "second")
"""What results are in the order of: the first of these columns that they have, from the right."""


@dataclass(frozen=True)
class EpochLog:
    """The results of one micro-batch by time, rows that made none, and what the shards said of themselves."""

    results: pa.Table | None
    side_output: list[pa.Table]
    shards: list[QueryProgress]
    latency: list[dict[str, Any]]
    seconds: float


def write(folder: Path, number: int, lines: pa.Table, seconds: float) -> None:
    """Keep the lines of one micro-batch, and how long it took."""
    file = _file(folder, number)
    lines = lines.replace_schema_metadata({SECONDS: str(seconds).encode()})
    LocalStore(str(folder)).write(file.name, sealed(as_bytes(lines)))


def kept(folder: Path) -> int:
    """How many micro-batches, from the first on, have their file."""
    number = 0
    while _file(folder, number).exists():
        number += 1
    return number


def read(folder: Path, number: int) -> EpochLog:
    """What a micro-batch emitted."""
    file = _file(folder, number)
    lines = pa.ipc.open_stream(unsealed(file.read_bytes(), file)).read_all()
    return sorted_out(lines, float(lines.schema.metadata[SECONDS]))


def sorted_out(lines: pa.Table, seconds: float) -> EpochLog:
    """The lines of a micro-batch that took so long, by what they are."""
    by_kind: dict[str, list[Any]] = {kind: [] for kind in (ROWS, LATE, REJECTED, METRICS, LATENCY)}
    for kind, note, block in zip(*(lines.column(name) for name in ("kind", "note", "block")), strict=True):
        reported = block.as_buffer() if kind.as_py() in (ROWS, LATE, REJECTED) else json.loads(note.as_py())
        by_kind[kind.as_py()].append(reported)
    tables = {
        kind: [pa.ipc.open_stream(block).read_all() for block in by_kind[kind]] for kind in (ROWS, LATE, REJECTED)
    }
    results = by_time(tables[ROWS]) if tables[ROWS] else None
    shards = [QueryProgress.of_json(one) for one in by_kind[METRICS]]
    return EpochLog(results, tables[LATE] + tables[REJECTED], shards, by_kind[LATENCY], seconds)


def by_time(tables: list[pa.Table]) -> pa.Table:
    """The rows of all tables by their time."""
    together = pa.concat_tables(tables)
    by = next(name for name in reversed(together.column_names) if name in BY)
    times = together.column(by).cast(pa.int64()).to_numpy()
    if (times[1:] >= times[:-1]).all():
        return together
    return together.take(pa.array(np.argsort(times, kind="stable")))


def _file(folder: Path, number: int) -> Path:
    return folder / f"epoch-{number:08d}.arrow"
