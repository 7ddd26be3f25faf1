"""Warming up: what the first micro-batch of a session would wait for is done while the program goes on.

A first micro-batch starts workers of Python, which import numba, pyarrow and this package, and load machine code from
disk; the JVM loads classes and compiles plans. Small jobs do all that in threads of their own: one that needs nothing
but a context brings up the workers, another one of the same shape as a query follows as soon as there is a session.

Invariant: it changes nothing that anybody can see, and whatever goes wrong in it is nobody's concern.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from slackwater.runtime.spark.versions import (
    HAS_DATA_SOURCES,
    DataSource,
    DataSourceReader,
    InputPartition,
    map_in_arrow,
)

QUERIES = (
    "SELECT k, SUM(v) AS total FROM a [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k WITH DELAY 1 SECOND",
    "SELECT a.k, a.v AS av, b.v AS bv FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k WITH DELAY 1 SECOND",
)
FOR_DATAFRAMES = {"SPARK_SIMPLIFIED_TRACEBACK": "1"}


def start_workers(context: SparkContext) -> threading.Thread:
    """Begin to bring up the workers of a context."""
    tasks = context.defaultParallelism
    loading = context.parallelize(range(tasks), tasks).mapPartitions(_loaded)
    # Spark tells workers apart by their environment, and those of DataFrames have one variable more.
    before = dict(context.environment)
    context.environment |= FOR_DATAFRAMES
    with suppress(Exception):
        _ = loading._jrdd
    context.environment = before
    thread = threading.Thread(target=_run, args=(loading.collect,), name="slackwater workers", daemon=True)
    thread.start()
    return thread


def _loaded(numbers: Iterable[int]) -> Iterable[int]:
    load_kernels()
    return numbers


def warm_up(spark: SparkSession, tasks: int) -> threading.Thread:
    """Begin to warm up a session."""
    thread = threading.Thread(target=_run, args=(lambda: _plan(spark, tasks),), name="slackwater warm-up", daemon=True)
    thread.start()
    return thread


def _run(job: Callable[[], object]) -> None:
    # A program may be at its end before this is.
    with suppress(Exception):
        job()


def _plan(spark: SparkSession, tasks: int) -> None:
    from slackwater.runtime.spark.state.host import exchanged

    rows = spark.range(1).select(fn.col("id").cast("int").alias("shard"))
    if HAS_DATA_SOURCES:
        # Spark has one more process of Python for each step of planning a source of ours.
        spark.dataSource.register(Numbers)
        rows = spark.read.format(Numbers.name()).load()
    rows = map_in_arrow(rows, as_they_are, "shard int")
    map_in_arrow(exchanged(rows, tasks), as_they_are, "shard int").collect()


class Numbers(DataSource):
    """A source like ours that has next to nothing to read."""

    @classmethod
    def name(cls) -> str:
        return "slackwater_numbers"

    def schema(self) -> str:
        return "shard int"

    def reader(self, schema: StructType) -> DataSourceReader:
        return OneNumber()


class OneNumber(DataSourceReader):
    """Reads one number."""

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (0,)


def as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage that does nothing."""
    yield from batches


def load_kernels() -> None:
    """Run small queries in this process, as shards run them."""
    import numpy as np

    from slackwater.operators.aggregate.pane_partials import partials_of
    from slackwater.plan.planner import plan
    from slackwater.runtime.spark.exchange.format import read_block
    from slackwater.runtime.spark.exchange.packing import packer_of
    from slackwater.runtime.spark.members import ALONE, KeyGroups, member
    from slackwater.runtime.spark.state.inbox import Inbox
    from slackwater.runtime.spark.state.shard import Shard
    from slackwater.sinks.rows import result_tables
    from slackwater.sources.binding import bind_to_tables

    ts = 1_700_000_000_000 + 10 * np.arange(400)
    table = pa.table({"ts": ts, "k": np.arange(400) % 7, "v": np.ones(400)})
    for query in QUERIES:
        streams = {name: table for name in "ab" if f"{name} [" in query}
        physical = plan(bind_to_tables(query, streams, "ts").query)
        one = member(ALONE, 0, physical, KeyGroups(2, 1), "ms")
        shard = Shard(physical, one.text_rows, "")
        packers = (packer_of([(one.key, one.packings)], name, "ms", apart=False, by_files=False) for name in streams)
        blocks = Inbox([one], [packer.packed(table, 0) for packer in packers]).of(0)[one.key].blocks
        aggregate = physical.operator.pane_partials
        if aggregate is not None:
            partials = partials_of(aggregate, read_block(blocks[0].block or b"", (), shard.codebook)[0])
            assert partials is not None
            shard.kernel.take_partials(partials, table.num_rows)
        for _ in result_tables(physical, shard.codebook, shard.epoch(blocks)):
            pass
        list(shard.snapshot_delta())
