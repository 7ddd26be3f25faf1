"""What the stateful operator emits: tagged rows, most of which hold a block of rows.

Invariant: the kind of a row says what it holds; results, late rows and rejected rows are picked by it, each with one
schema that is known before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.side_outputs.rows import SCHEMA as SIDE_OUTPUT_SCHEMA
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
