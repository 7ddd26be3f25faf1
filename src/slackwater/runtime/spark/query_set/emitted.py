"""From the queries of a set and DataFrames to one DataFrame of everything they emit.

Invariant: every source is read by one scan, whoever reads it; all sources that were given are read, also those that no
query reads now, since one that is added later may. There is one exchange and one stateful operator. Nothing is started
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.functions import registered
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.packed_source import folder_read_by, packed_stream
from slackwater.runtime.spark.progress.reading import OBSERVED_SET, observed_name
from slackwater.runtime.spark.query import stateful
from slackwater.runtime.spark.query_set.control import SetLog
from slackwater.runtime.spark.query_set.host import HostedSet, Output
from slackwater.runtime.spark.query_set.members import Member, columns_read
from slackwater.runtime.spark.query_set.packing import PACKED, SetReads, readers_of, set_packer
from slackwater.runtime.spark.state.stage import staged
from slackwater.runtime.spark.store import At
from slackwater.runtime.spark.types import arrow_schema, guarded, selected


def emitted_by_set(
    members: Sequence[Member],
    frames: Mapping[str, DataFrame],
    time: str,
    time_unit: str,
    labels: tuple[int, ...],
    beats: bool,
    log: SetLog | None = None,
    folders: Mapping[Output, Folder] | None = None,
    emits_all: bool = True,
    state: At | None = None,
    tells_latency: bool = False,
) -> DataFrame:
    """Everything that the queries emit, as rows with the key of their query and a tag, with metrics observed; `state`
    is a folder of files for their state, without one it is kept by Spark.

    What goes to these folders is written there by the operator; its rows are there only where it emits all. Latency is
    told for reports of recorded runs.
    """
    in_files = state is not None and not beats
    packed: list[DataFrame] = []
    reads: list[SetReads] = []
    for source, frame in frames.items():
        names = columns_read(members, source, time, frame.columns)
        packings = readers_of(members, source)
        folder = folder_read_by(frame, arrow_schema(frame.schema), in_files)
        if folder is None:
            packed.append(guarded(selected(frame, names)).mapInArrow(set_packer(packings, time_unit), PACKED))
        else:
            reads.append(SetReads(folder, tuple(packings), tuple(names), time_unit, registered()))
    if reads and state is not None:
        spark = next(iter(frames.values())).sparkSession
        packed.append(packed_stream(spark, reads, state, len(labels), PACKED))
    if log is not None:
        said = log.stream(labels)
        packed.append(said.withColumn("readers", fn.lit(None).cast("string")).drop("stream", "partials"))
    together = reduce(lambda one, other: one.unionByName(other), packed)
    hosted = HostedSet(tuple(members), registered(), dict(folders or {}), emits_all, tells_latency)
    if state is not None and in_files:
        out = staged(together, hosted, labels, len(labels), state)
    else:
        out = stateful(together, hosted, beats)
    metrics = fn.collect_list(fn.when(fn.col("kind") == METRICS, fn.col("note"))).alias("queries")
    return out.observe(observed_name(OBSERVED_SET), metrics)
