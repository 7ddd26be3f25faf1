"""Warming up: what the first micro-batch of a session would wait for is done while the program goes on.

A first micro-batch starts workers of Python, which import numba, pyarrow and this package, and load machine code from
disk; the JVM loads classes and compiles plans. A small job of the same shape does all that in a thread of its own as
soon as there is a session.

Invariant: it changes nothing that anybody can see, and whatever goes wrong in it is nobody's concern.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

QUERIES = (
    "SELECT k, SUM(v) AS total FROM a [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k WITH DELAY 1 SECOND",
    "SELECT a.k, a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k WITH DELAY 1 SECOND",
)


def warm_up(spark: SparkSession, tasks: int) -> threading.Thread:
    """Begin to warm up a session."""
    thread = threading.Thread(target=_run, args=(spark, tasks), name="slackwater warm-up", daemon=True)
    thread.start()
    return thread


def _run(spark: SparkSession, tasks: int) -> None:
    # A program may be at its end before this is.
    with suppress(Exception):
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(as_they_are, "id long")
        rows.repartitionById(tasks, fn.col("id").cast("int")).mapInArrow(with_kernels, "id long").collect()


def as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage that does nothing."""
    yield from batches


def with_kernels(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage that loads machine code of the most common queries."""
    for batch in batches:
        load_kernels()
        yield batch


def load_kernels() -> None:
    """Run small queries in this process, as shards run them."""
    import numpy as np

    from slackwater.plan.planner import plan
    from slackwater.runtime.spark.exchange.writer import packed
    from slackwater.runtime.spark.query import packings_of
    from slackwater.runtime.spark.state.shard import Block, Shard
    from slackwater.runtime.spark.state.shard_task import told
    from slackwater.sinks.rows import result_tables
    from slackwater.sources.binding import bind_to_tables

    ts = 1_700_000_000_000 + 10 * np.arange(400)
    table = pa.table({"ts": ts, "k": np.arange(400) % 7, "v": np.ones(400)})
    for query in QUERIES:
        streams = {name: table for name in "ab" if f"{name} [" in query}
        physical = plan(bind_to_tables(query, streams, "ts").query)
        packings = packings_of(physical, (0, 1), "ms")
        shard = Shard(physical, tuple(one.text_rows for one in packings), "")
        lines = [line for one in packings for line in packed(one, table, 0).to_pylist() if line["shard"] == 0]
        blocks = [Block(line["stream"], 0, told(line["header"]), line["block"]) for line in lines]
        for _ in result_tables(physical, shard.codebook, shard.epoch(blocks)):
            pass
        list(shard.snapshot_delta())
