"""What the stateful operator emits: tagged rows, most of which hold a block of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

EMITTED = "kind string, note string, block binary"
ROWS, LATE, REJECTED = "rows", "late", "rejected"
"""Kinds that hold a block of rows."""
METRICS, LATENCY = "metrics", "latency"
"""Kinds that hold a note."""


def unpacked(frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of emitted blocks; for mapInArrow."""
    for frame in frames:
        for block in frame.column("block").to_pylist():
            yield from pa.ipc.open_stream(block)
