"""From the text of a query and DataFrames to a DataFrame: bind, plan, pack, shuffle by shard, keep state.

Invariant: nothing is started here, and nothing is read from the streams but their schemas; what the user should know is
said as warnings. What comes out is an ordinary streaming DataFrame; late tuples and metrics leave with it, tagged, in
the same micro-batch.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import QueryError, UsageError
from slackwater.core.quality import Recall
from slackwater.language.bound import BoundQuery, goes_by_arrival
from slackwater.operators.contract import PlannedSpec
from slackwater.plan.ordering import check_in_epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan as planned
from slackwater.runtime.spark.control import ControlLog
from slackwater.runtime.spark.exchange.files import FoldersRead, Reads
from slackwater.runtime.spark.exchange.partials import aggregate_of
from slackwater.runtime.spark.exchange.writer import MARK, Packing, packer
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.packed_source import PACKED, folder_read_by, packed_stream
from slackwater.runtime.spark.progress.reading import OBSERVED, observed_name
from slackwater.runtime.spark.session import complaints, have_rocksdb
from slackwater.runtime.spark.state.checkpoint import described, structure
from slackwater.runtime.spark.state.processor import Hosted as AnyHosted
from slackwater.runtime.spark.state.processor import ShardProcessor
from slackwater.runtime.spark.state.shard_task import Hosted
from slackwater.runtime.spark.state.stage import staged
from slackwater.runtime.spark.store import At
from slackwater.runtime.spark.types import arrow_schema, guarded, selected
from slackwater.sources.binding import bind_to_tables, left_out
from slackwater.sources.tabular import check_unit


def empty_table(frame: DataFrame) -> pa.Table:
    """A table without rows that has the columns of a DataFrame, but for marks of ours."""
    schema = arrow_schema(frame.schema)
    return pa.Table.from_batches([], pa.schema([field for field in schema if not field.name.startswith(MARK)]))


@one_sentence()
def planned_over(
    spark: SparkSession,
    query: str,
    streams: Mapping[str, DataFrame],
    time: str,
    time_unit: str,
    stacklevel: int,
) -> tuple[BoundQuery, PhysicalPlan]:
    """A query as it is bound, and its plan; `stacklevel` says whose line warnings name."""
    check_unit(time_unit)
    for name, frame in streams.items():
        if not hasattr(frame, "sparkSession"):
            raise UsageError(f"{name} is a {type(frame).__name__}, and no DataFrame of Spark; `sw.replay` takes tables")
    tables = {name: empty_table(frame) for name, frame in streams.items()}
    bound = bind_to_tables(query, tables, time)
    for column in left_out(bound.query, tables):
        warnings.warn(f"{column} is left out; a query cannot read it", stacklevel=stacklevel + 1)
    if bound.explain:
        raise QueryError("EXPLAIN gives no stream; print it with `slackwater explain`")
    return bound.query, planned(bound.query)


def check_plan(plan: PhysicalPlan, timed: bool) -> None:
    """Refuse what Spark does not offer; `timed` says whether shards read the clock on the wall."""
    check_in_epochs(plan.options)
    if goes_by_arrival(plan.query) and not timed:
        raise UsageError(
            "windows BY ARRIVAL need the moments at which rows arrive, and on Spark only a live query with an"
            " idle_timeout knows these; state OPTIONS (idle_timeout = '1 minute'), or leave out BY ARRIVAL"
        )


def check_session(spark: SparkSession, shards: int, stacklevel: int) -> None:
    """Give a session what our queries need; what cannot be set here, and does harm, is said as a warning."""
    have_rocksdb(spark, stacklevel + 1)
    for complaint in complaints(spark, shards):
        warnings.warn(complaint, stacklevel=stacklevel + 1)


def emitted(
    spark: SparkSession,
    plan: PhysicalPlan,
    frames: Mapping[str, DataFrame],
    shards: int,
    time_unit: str,
    live: bool = False,
    control: ControlLog | None = None,
    state: At | None = None,
    groups: int | None = None,
    folders: Mapping[str, Folder] | None = None,
    emits_all: bool = True,
    tells_latency: bool = False,
) -> DataFrame:
    """Everything a query emits, as tagged rows, with its metrics observed; `state` is a folder of files for its state,
    without one it is kept by Spark. In files it is kept by key group, so that the next start may have more shards or
    fewer; without key groups every shard is one. What goes to `folders` is written there by its shards; its rows are
    there only where it emits all.

    A live query with an idle timeout reads the clock on the wall, and Spark runs micro-batches for ever to let it; in a
    recorded one streams are silent by event time, as in the local runtime. Batch input is complete: it is flushed.
    """
    streaming = is_streaming(frames)
    count = plan.partitioning.shards(shards)
    beats = live and streaming and plan.options.idle_timeout is not None
    check_plan(plan, beats)
    in_files = state is not None and streaming and not beats
    labels = tuple(range(plan.partitioning.shards(groups or shards))) if in_files else shard_labels(spark, count)
    kept = structure(plan, labels, time_unit, beats)
    if control is not None:
        control.begin(kept, shards, len(labels) if in_files else None)
    tasks = min(count, len(labels)) if in_files else None
    packings = packings_of(plan, labels, time_unit, complete=not streaming, tasks=tasks)
    packed, reads = _packed(spark, frames, packings, shards, state if in_files else None)
    if control is not None:
        packed.append(control.stream(labels))
    together = reduce(lambda one, other: one.unionByName(other), packed)
    texts = tuple(packing.text_rows for packing in packings)
    again = FoldersRead(reads, state) if state is not None and reads and aggregate_of(plan) is not None else None
    hosted = Hosted(plan, texts, kept, registered(), dict(folders or {}), emits_all, labels, again, tells_latency)
    if tasks is not None and state is not None:
        out = staged(together, hosted, labels, tasks, state)
    else:
        out = stateful(together, hosted, beats)
    metrics = fn.collect_list(fn.when(fn.col("kind") == METRICS, fn.col("note"))).alias("shards")
    return out.observe(observed_name(OBSERVED), metrics)


def _packed(
    spark: SparkSession, frames: Mapping[str, DataFrame], packings: list[Packing], tasks: int, state: At | None
) -> tuple[list[DataFrame], tuple[Reads, ...]]:
    """The inputs of a query as packed streams: folders that we read ourselves as one, each other input as one; and how
    these folders are read."""
    reads: dict[str, Reads] = {}
    packed = []
    for packing in packings:
        source = packing.plan.stream.source
        frame = frames[source]
        folder = folder_read_by(frame, arrow_schema(frame.schema), state is not None)
        if folder is None:
            packed.append(_needed(frame, packing).mapInArrow(packer(packing), PACKED))
        else:
            before = reads[source].packings if source in reads else ()
            reads[source] = Reads(folder, (*before, packing), registered())
    if reads and state is not None:
        packed.append(packed_stream(spark, reads.values(), state, tasks))
    return packed, tuple(reads.values())


def stateful(packed: DataFrame, hosted: AnyHosted, beats: bool) -> DataFrame:
    """What shards emit of a packed stream, with their state in Spark's store."""
    mode = "ProcessingTime" if beats else "None"
    processor = ShardProcessor(hosted, beats)
    return packed.groupBy("shard").transformWithStateInPandas(processor, hosted.emits, "Append", mode)


def packings_of(
    plan: PhysicalPlan, labels: tuple[int, ...], time_unit: str, complete: bool = False, tasks: int | None = None
) -> list[Packing]:
    """How every input of a query is packed for its shards, which so many tasks run."""
    keys = plan.partitioning.keys
    learns = isinstance(plan.quality, Recall) and not plan.nodes
    return [
        Packing(
            one,
            () if keys is None else keys[position],
            labels,
            time_unit,
            plan.options.max_ahead,
            plan.options.granularity if learns else None,
            complete,
            tasks,
            plan.partitioning.cut(len(labels)),
            aggregate_of(plan),
        )
        for position, one in enumerate(plan.inputs)
    ]


def read_by(plan: PhysicalPlan, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The streams that a query reads, of those that it was given."""
    read = {one.stream.source for one in plan.inputs}
    return {name: frame for name, frame in frames.items() if name in read}


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


def _needed(frame: DataFrame, packing: Packing) -> DataFrame:
    return guarded(selected(frame, packing.read_from(frame.columns)))


def shard_labels(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """Numbers that Spark's hash sends to as many different partitions as there are shards (and partitions)."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    wanted = min(shards, partitions)
    tried = range(64 * partitions)
    labels: dict[int, int] = {}
    for label in tried:
        labels.setdefault(hashed(label) % partitions, label)
        if len(labels) == wanted:
            break
    found = list(labels.values())
    if len(found) < wanted:
        raise UsageError(f"no labels spread {shards} shards over {partitions} partitions; ask for fewer shards")
    spare = [label for label in tried if label not in found]
    return tuple(found + spare[: shards - len(found)])


def hashed(number: int) -> int:
    """What Spark's `hash` makes of an int: Murmur3 with the seed 42. Asking Spark would cost every start a job.

    >>> hashed(0), hashed(1)
    (933211791, -559580957)
    """
    whole = 0xFFFFFFFF
    k = number * 0xCC9E2D51 & whole
    k = (k << 15 | k >> 17) * 0x1B873593 & whole
    h = 42 ^ k
    h = (h << 13 | h >> 19) & whole
    h = (h * 5 + 0xE6546B64 & whole) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & whole
    h = (h ^ h >> 13) * 0xC2B2AE35 & whole
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def fingerprint(plan: PhysicalPlan, labels: tuple[int, ...]) -> str:
    """What a recorded run must agree with to be taken up again: everything that its results depend on."""
    inputs = [(one.stream, one.columns, one.computed, one.rows) for one in plan.inputs]
    operator = plan.operator.identity if isinstance(plan.operator, PlannedSpec) else plan.operator
    cut = plan.partitioning.cut(len(labels))
    parts = (operator, inputs, plan.outputs, plan.quality, plan.options, plan.query.out, labels, cut)
    return hashlib.sha256(json.dumps(described(parts)).encode()).hexdigest()
