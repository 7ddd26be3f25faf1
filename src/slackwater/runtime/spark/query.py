"""From a bound query and DataFrames to a DataFrame: pack, shuffle by shard, keep state, unpack.

Invariant: what comes out is an ordinary streaming DataFrame; late tuples and metrics leave with it, tagged, in the same
micro-batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.model.errors import UsageError
from slackwater.model.quality import Recall
from slackwater.plan.partitioning import shard_keys_of
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.runtime.aside import SCHEMA as SIDE_OUTPUT_SCHEMA
from slackwater.runtime.spark.control import ControlLog
from slackwater.runtime.spark.emitted import EMITTED, LATE, METRICS, REJECTED, ROWS, unpacked
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.hosting import Hosted
from slackwater.runtime.spark.packing import END, PACKED, SOURCE_ROW, Packing, packer
from slackwater.runtime.spark.processor import ShardProcessor
from slackwater.runtime.spark.progress.reading import OBSERVED
from slackwater.runtime.spark.structure import structure
from slackwater.runtime.spark.types import guarded, selected
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import RowMaker, SecondCounts
from slackwater.sources.codebook import Codebook


def emitted(
    spark: SparkSession,
    plan: PhysicalPlan,
    frames: Mapping[str, DataFrame],
    shards: int,
    time_unit: str,
    live: bool = False,
    control: ControlLog | None = None,
) -> DataFrame:
    """Everything a query emits, as tagged rows, with its metrics observed.

    A live query with an idle timeout reads the clock on the wall, and Spark runs micro-batches for ever to let it; in a
    recorded one streams are silent by event time, as in the local runtime. Batch input is complete: it is flushed.
    """
    streaming = is_streaming(frames)
    routes = shard_keys_of(plan)
    used = shards if routes is not None else 1
    labels = shard_labels(spark, used)
    beats = live and streaming and plan.options.idle_timeout is not None
    kept = structure(plan, labels, time_unit, beats)
    if control is not None:
        control.begin(kept, shards)
    packings = [
        Packing(
            one,
            () if routes is None else routes[i],
            labels,
            time_unit,
            plan.options.max_ahead,
            plan.options.granularity if isinstance(plan.quality, Recall) and not plan.nodes else None,
            complete=not streaming,
        )
        for i, one in enumerate(plan.inputs)
    ]
    packed = [
        _needed(frames[packing.plan.stream.source], packing.plan).mapInArrow(packer(packing), PACKED)
        for packing in packings
    ]
    if control is not None:
        packed.append(control.stream(labels))
    together = reduce(lambda one, other: one.unionByName(other), packed)
    texts = tuple(packing.text_rows for packing in packings)
    processor = ShardProcessor(Hosted(plan, texts, kept, registered()), beats)
    mode = "ProcessingTime" if beats else "None"
    out = together.groupBy("shard").transformWithStateInPandas(processor, EMITTED, "Append", mode)
    metrics = fn.collect_list(fn.when(fn.col("kind") == METRICS, fn.col("note"))).alias("shards")
    aliases = fn.max(fn.lit(json.dumps([one.stream.alias for one in plan.inputs]))).alias("streams")
    return out.observe(OBSERVED, metrics, aliases)


def results(out: DataFrame, plan: PhysicalPlan) -> DataFrame:
    """The rows of the SELECT list."""
    schema = from_arrow_schema(result_schema(plan))
    return out.where(fn.col("kind") == ROWS).select("block").mapInArrow(unpacked, schema)


def is_streaming(frames: Mapping[str, DataFrame]) -> bool:
    """Whether the inputs are streams; all of them must be, or none."""
    kinds = {name: frame.isStreaming for name, frame in frames.items()}
    if len(set(kinds.values())) > 1:
        batch, stream = (next(name for name, streams in kinds.items() if streams is which) for which in (False, True))
        raise UsageError(
            f"{stream} is a stream and {batch} is a batch DataFrame; read both with spark.readStream, or both with"
            " spark.read"
        )
    return all(kinds.values())


def side_output(out: DataFrame) -> DataFrame:
    """Late and rejected tuples as rows."""
    return _aside_rows(out, LATE, REJECTED)


def _aside_rows(out: DataFrame, *kinds: str) -> DataFrame:
    blocks = out.where(fn.col("kind").isin(*kinds)).select("block")
    return blocks.mapInArrow(unpacked, from_arrow_schema(SIDE_OUTPUT_SCHEMA))


def late(out: DataFrame) -> DataFrame:
    """Late tuples as rows: which stream, how late, the watermark they met, and the tuple as JSON."""
    return _aside_rows(out, LATE).select(
        "stream", "ts", fn.col("delay").alias("delay_ms"), fn.col("watermark").alias("watermark"), "row"
    )  # fmt: skip


def rejected(out: DataFrame) -> DataFrame:
    """Rejected tuples as rows: which stream, why, and the tuple as JSON."""
    return _aside_rows(out, REJECTED).select("stream", "reason", "ts", "row")


def result_schema(plan: PhysicalPlan) -> pa.Schema:
    """The Arrow schema of the results."""
    if plan.count_only:
        return SecondCounts().table().schema
    return plain_text([RowMaker(plan, Codebook()).empty()])[0].schema


def _needed(frame: DataFrame, one: InputPlan) -> DataFrame:
    names = [one.stream.schema.time, *(name for name, _, _ in one.columns)]
    names += [name for name in (END, SOURCE_ROW) if name in frame.columns]
    return guarded(selected(frame, names))


def shard_labels(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """Numbers that Spark's hash sends to as many different partitions as there are shards (and partitions)."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    wanted = min(shards, partitions)
    where = spark.range(64 * partitions).select(fn.expr(f"pmod(hash(cast(id as int)), {partitions})")).collect()
    labels: dict[int, int] = {}
    for label, (partition,) in enumerate(where):
        labels.setdefault(partition, label)
        if len(labels) == wanted:
            break
    found = list(labels.values())
    if len(found) < wanted:
        raise UsageError(f"no labels spread {shards} shards over {partitions} partitions; ask for fewer shards")
    spare = [label for label in range(len(where)) if label not in found]
    return tuple(found + spare[: shards - len(found)])


def fingerprint(plan: PhysicalPlan, labels: tuple[int, ...]) -> str:
    """What a recorded run must agree with to be taken up again: everything that its results depend on."""
    inputs = [(one.stream, one.columns, one.computed, one.rows) for one in plan.inputs]
    text = repr((plan.operator, inputs, plan.outputs, plan.quality, plan.options, plan.query.out, labels))
    return hashlib.sha256(text.encode()).hexdigest()
