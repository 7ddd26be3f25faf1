"""From a bound query and DataFrames to a DataFrame: pack, shuffle by shard, keep state, unpack.

Invariant: what comes out is an ordinary streaming DataFrame; late tuples and metrics leave with it, tagged, in the same
micro-batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.model.errors import UsageError
from slackwater.model.quality import Recall
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.routes import routes_of
from slackwater.runtime.aside import SCHEMA as ASIDE_SCHEMA
from slackwater.runtime.spark.emitted import ASIDE, EMITTED, METRICS, ROWS, unpacked
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.hosting import Hosted
from slackwater.runtime.spark.packing import END, PACKED, SOURCE_ROW, Packing, packer
from slackwater.runtime.spark.processor import ShardProcessor
from slackwater.runtime.spark.session import must_have_rocksdb
from slackwater.runtime.spark.types import guarded, selected
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import RowMaker, SecondCounts
from slackwater.sources.codebook import Codebook

OBSERVED = "slackwater"


def emitted(
    spark: SparkSession,
    plan: PhysicalPlan,
    frames: Mapping[str, DataFrame],
    shards: int,
    time_unit: str,
    live: bool = False,
) -> DataFrame:
    """Everything a query lets out, as tagged rows, with its metrics observed.

    A live query with an idle timeout reads the clock on the wall, and Spark runs micro-batches for ever to let it; in a
    recorded one streams are silent by event time, as in the local runtime.
    """
    must_have_rocksdb(spark)
    routes = routes_of(plan)
    used = shards if routes is not None else 1
    labels = shard_labels(spark, used)
    packings = [
        Packing(
            one,
            () if routes is None else routes[i],
            labels,
            time_unit,
            plan.options.max_ahead,
            plan.options.granularity if isinstance(plan.quality, Recall) else None,
        )
        for i, one in enumerate(plan.inputs)
    ]
    packed = [
        _needed(frames[packing.plan.stream.source], packing.plan).mapInArrow(packer(packing), PACKED)
        for packing in packings
    ]
    together = reduce(DataFrame.unionByName, packed)
    beats = live and plan.options.idle_timeout is not None
    texts = tuple(packing.text_rows for packing in packings)
    processor = ShardProcessor(Hosted(plan, texts, fingerprint(plan, labels), registered()), beats)
    mode = "ProcessingTime" if beats else "None"
    out = together.groupBy("shard").transformWithStateInPandas(processor, EMITTED, "Append", mode)
    metrics = fn.collect_list(fn.when(fn.col("kind") == METRICS, fn.col("note"))).alias("shards")
    return out.observe(OBSERVED, metrics)


def results(out: DataFrame, plan: PhysicalPlan) -> DataFrame:
    """The rows of the SELECT list."""
    schema = from_arrow_schema(result_schema(plan))
    return out.where(fn.col("kind") == ROWS).select("block").mapInArrow(unpacked, schema)


def aside(out: DataFrame) -> DataFrame:
    """Late and rejected tuples as rows."""
    return out.where(fn.col("kind") == ASIDE).select("block").mapInArrow(unpacked, from_arrow_schema(ASIDE_SCHEMA))


def result_schema(plan: PhysicalPlan) -> pa.Schema:
    """The Arrow schema of the results."""
    if plan.counted:
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
    """What a checkpoint must agree with: the query, its plan and its shards."""
    inputs = [(one.stream, one.columns, one.computed, one.rows) for one in plan.inputs]
    text = repr((plan.operator, inputs, plan.outputs, plan.quality, plan.options, plan.query.out, labels))
    return hashlib.sha256(text.encode()).hexdigest()
