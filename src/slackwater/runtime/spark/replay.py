"""Replaying recorded streams through Structured Streaming: one file an epoch and source, one micro-batch an epoch.

Invariant: micro-batch e reads file e of every source, so epochs are cut on Spark as they are cut locally; the last
file holds only the mark that the input has ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from slackwater.compiled import compiled
from slackwater.model.batch import TS, Words
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.packing import END, SOURCE_ROW
from slackwater.runtime.spark.processor import METRICS, ROWS
from slackwater.runtime.spark.query import emitted
from slackwater.sources.replay import Replay


@dataclass
class SparkRun:
    """What came out of a replay."""

    results: list[pa.Table] = field(default_factory=list)
    aside: list[pa.Table] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """One entry a shard and micro-batch."""

    def last_metrics(self) -> list[dict[str, Any]]:
        """The latest entry of every shard."""
        latest = {entry["shard"]: entry for entry in self.metrics}
        return list(latest.values())


def run_replay(
    spark: SparkSession,
    plan: PhysicalPlan,
    arrivals: Replay,
    sources: Mapping[str, pa.Table],
    epochs: Epochs,
    shards: int,
    time_unit: str,
    folder: Path,
) -> SparkRun:
    """Run a plan over recorded streams, in micro-batches that are cut by the rule of `epochs`."""
    cut = epoch_of_arrivals(arrivals, epochs)
    frames = {}
    for position, one in enumerate(plan.inputs):
        source = one.stream.source
        if source not in frames:
            mine = arrivals.stream == position
            frames[source] = _recorded(
                spark, sources[source], arrivals.row[mine], cut[mine], int(cut.max(initial=-1)) + 1, folder / source
            )
    ran = SparkRun()
    out = emitted(spark, plan, frames, shards, time_unit)
    query = (
        out.writeStream.foreachBatch(lambda frame, _: _take(ran, frame))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return ran


def _take(ran: SparkRun, frame: DataFrame) -> None:
    results: list[pa.Table] = []
    for kind, note, block in frame.collect():
        if kind == METRICS:
            ran.metrics.append(json.loads(note))
            continue
        table = pa.ipc.open_stream(bytes(block)).read_all()
        (results if kind == ROWS else ran.aside).append(table)
    if results:
        # Each shard gives its results in order; together they are merged by time, epoch by epoch.
        by = next(name for name in ("_ts", "window_end", "second") if name in results[0].column_names)
        merged = pa.concat_tables(results)
        order = np.argsort(merged.column(by).cast(pa.int64()).to_numpy(), kind="stable")
        ran.results.append(merged.take(pa.array(order)))


def epoch_of_arrivals(arrivals: Replay, epochs: Epochs) -> Words:
    """The number of the epoch that each arrival belongs to."""
    n = len(arrivals)
    if epochs.each_tuple or epochs.tuples:
        return np.arange(n) // max(1, epochs.tuples)
    ts = np.empty(n, np.int64)
    for position, one in enumerate(arrivals.inputs):
        mine = arrivals.stream == position
        ts[mine] = one.words[TS, arrivals.row[mine]]
    return cut_by_span(ts, epochs.span)


@compiled
def cut_by_span(ts: Words, span: int) -> Words:
    """A new epoch begins after the tuple that has moved the largest event time by the span."""
    epoch = np.empty(len(ts), np.int64)
    current, begun, largest = 0, 0, 0
    for i in range(len(ts)):
        if i == 0:
            begun = largest = ts[0]
        epoch[i] = current
        largest = max(largest, ts[i])
        if largest - begun >= span:
            current += 1
            begun = largest
    return epoch


def _recorded(spark: SparkSession, table: pa.Table, row: Words, epoch: Words, epochs: int, folder: Path) -> DataFrame:
    """A file stream that gives one epoch a micro-batch, in order."""
    folder.mkdir(parents=True)
    marked = table.append_column(SOURCE_ROW, pa.array(np.arange(table.num_rows)))
    marked = marked.append_column(END, pa.array(np.zeros(table.num_rows, np.bool_)))
    edges = np.searchsorted(epoch, np.arange(epochs + 1))
    nulls = [pa.nulls(1, field.type) for field in marked.schema]
    end = pa.table(nulls, schema=marked.schema).set_column(marked.num_columns - 1, END, pa.array([True]))
    for e in range(epochs + 1):
        part = end if e == epochs else marked.take(pa.array(row[edges[e] : edges[e + 1]]))
        file = folder / f"epoch-{e:08d}.parquet"
        pq.write_table(part, file)
        # File streams go by modification time; files written in a row may share it.
        os.utime(file, (1_000_000 + e, 1_000_000 + e))
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
