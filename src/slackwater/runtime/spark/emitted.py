"""From queries and DataFrames to one DataFrame of what they emit.

Invariant: every source is read by one scan, whoever reads it; all sources that were given are read, also those that no
query reads now, since one that is added later may. There is one exchange and one stage of shards. Nothing is started
here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.runtime.spark.control import ControlLog, for_every_task
from slackwater.runtime.spark.exchange.packing import (
    NOW,
    PACKED,
    FoldersRead,
    Reads,
    packer_of,
    packing_rows,
    registered,
)
from slackwater.runtime.spark.exchange.writer import aggregate_of
from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.history.pieces import Kept, PieceReads, pieces_read, reads_of, sources_of
from slackwater.runtime.spark.members import KeyGroups, Member, columns_read, groups_of
from slackwater.runtime.spark.output_schema import EMITTED, METRICS, NOTE, ResultRows, result_schema
from slackwater.runtime.spark.packed_source import folder_read_by, packed_stream
from slackwater.runtime.spark.progress import observed_name
from slackwater.runtime.spark.state.fragments import stages_of
from slackwater.runtime.spark.state.host import Hosted, Output, staged
from slackwater.runtime.spark.state.root import StateRoot
from slackwater.runtime.spark.types import arrow_schema, guarded, selected
from slackwater.runtime.spark.versions import map_in_arrow

AVAILABLE_NOW_FOR_ALL = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


@dataclass(frozen=True)
class Program:
    """What runs as one streaming query, or as one batch."""

    members: tuple[Member, ...]
    frames: Mapping[str, DataFrame]
    time: str
    unit: str
    cut: KeyGroups
    root: StateRoot | None
    """Where state is kept; None where all input is here, and state ends with it."""
    log: ControlLog | None = None
    timed: bool = False
    """Whether silence is timed by the clock on the wall."""
    apart: bool = True
    """Whether a query that fails fails by itself."""
    folders: Mapping[Output, Folder] = field(default_factory=dict)
    """Outputs that shards write themselves."""
    emits_all: bool = True
    """Whether the rows of those are handed on as well."""
    only_notes: bool = False
    """Whether nobody asks for rows of other outputs."""
    reports_latency: bool = False
    """Whether shards say how long results have waited, for a report of the whole run."""
    tapped: bool = False
    """Whether rows of the sources are handed on as well, as they were read."""
    history: Kept | None = None
    """What goes before the streams."""
    in_history: bool = False
    """Whether it is to be read now, and the streams do not begin yet."""

    @property
    def spark(self) -> SparkSession:
        return next(iter(self.frames.values())).sparkSession

    def emitted(self) -> DataFrame:
        """Everything, as lines with the key of a query and a kind, with metrics observed."""
        packed, hosted = self._packed()
        out = self._staged(packed, hosted, EMITTED)
        observed = self._observed(out, fn.when(fn.col("kind") == METRICS, fn.col("note")))
        # Left out here a column costs nothing; in every micro-batch Spark would analyze another DataFrame.
        return observed.drop("block") if self.only_notes else observed

    def results(self) -> DataFrame:
        """The results of its one query as rows, with metrics observed."""
        (member,) = self.members
        packed, hosted = self._packed()
        schema = arrow_schema(from_arrow_schema(result_schema(member.plan)))
        emits = from_arrow_schema(schema).add(NOTE, "string")
        rows = replace(hosted, emitter=ResultRows(schema))
        out = self._staged(packed, rows, emits)
        return self._observed(out, fn.col(NOTE)).where(fn.col(NOTE).isNull()).drop(NOTE)

    def _observed(self, out: DataFrame, note: Column) -> DataFrame:
        # A batch has no progress to look at, and over Connect PySpark 3.5 cannot carry lists.
        return out if self.root is None else out.observe(observed_name(), fn.collect_list(note).alias("shards"))

    def _staged(self, packed: DataFrame, hosted: Hosted, emits: Any) -> DataFrame:
        """What shards emit: in one stage, or in two where a query has fragments."""
        lower, upper = stages_of(hosted)
        labels, tasks, root = self.cut.labels, self.cut.tasks, self.root
        if upper is None:
            return staged(packed, lower, labels, tasks, root, emits)
        lines = staged(packed, lower, labels, tasks, root, PACKED)
        return staged(lines, upper, labels, tasks, None if root is None else root.above(), emits)

    def _packed(self) -> tuple[DataFrame, Hosted]:
        """The lines that go to shards, and what hosts these."""
        packed: list[DataFrame] = []
        reads: list[Reads] = []
        pieces: list[PieceReads] = []
        packings = [(one.key, one.packings) for one in self.members if not one.shares]
        groups = groups_of(self.members)
        # A source that is asked where it stands must know the checkpoint.
        checkpoint = None if self.root is None or self.root.within is not None else self.root.folder
        for source, frame in self.frames.items():
            names = columns_read(self.members, source, self.time, frame.columns)
            overlap = None
            if self.history is not None:
                names = list(dict.fromkeys([*names, *([self.history.id] if self.history.id else [])]))
                overlap = self.history.overlap(source, self.time, self.unit, arrow_schema(frame.schema))
            folder = folder_read_by(frame, arrow_schema(frame.schema), checkpoint is not None)
            packer = packer_of(
                packings,
                source,
                self.unit,
                self.apart,
                folder is not None,
                (one.packing(source) for one in groups),
                self.tapped,
                None if self.in_history else overlap,
            )
            if self.in_history:
                assert self.history is not None, "a history is read"
                found = reads_of(self.history, source, frame, names, packer)
                pieces += [] if found is None else [found]
            if folder is None and self.in_history:
                packed += (self._nothing() for _ in range(sources_of(frame)))
            elif folder is None:
                packed.append(map_in_arrow(guarded(selected(frame, names)), packing_rows(packer), PACKED))
            else:
                reads.append(Reads(source, folder, packer, tuple(names)))
        read = None
        if reads and self.in_history:
            # All folders are one source.
            packed.append(self._nothing())
        elif reads and checkpoint is not None:
            packed.append(packed_stream(self.spark, reads, checkpoint, self.cut.tasks, PACKED))
            if any(aggregate_of(one.plan) is not None for one in self.members):
                read = FoldersRead(tuple(reads), checkpoint)
        if self.log is not None:
            said = self.log.lines()
            tasks = self.cut.tasks
            packed.append(pieces_read(said, pieces, tasks) if self.in_history else self.log.stream(said, tasks))
        if self.timed:
            packed.append(heartbeats(self.spark, self.cut.tasks))
        lines = reduce(lambda one, other: one.unionByName(other), packed)
        return with_moment(lines) if self.timed else lines, Hosted(
            self.members,
            self.apart,
            registered(),
            dict(self.folders),
            self.emits_all,
            self.reports_latency,
            read,
            groups=groups,
        )

    def _nothing(self) -> DataFrame:
        """Lines that never come, from a source that stands in the place of another one."""
        assert self.history is not None, "the streams wait for a history"
        nothing = self.history.nothing(self.spark)
        return for_every_task(nothing, 1, readers="", part=fn.lit(0).cast("long"), header=fn.col("value"))


def heartbeats(spark: SparkSession, tasks: int) -> DataFrame:
    """Lines of the packed stream that come once a second, also where nothing else does."""
    # Else one source that has no end would let a query over what is there now end after its first micro-batch.
    spark.conf.set(AVAILABLE_NOW_FOR_ALL, "true")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return for_every_task(rate, tasks, readers=NOW, part=fn.lit(0).cast("long"), header=fn.lit(None))


def with_moment(lines: DataFrame) -> DataFrame:
    """Lines that tell when their micro-batch began. For Spark that is the current time in all of a micro-batch, and it
    is in its log, so one that runs again has the same."""
    return lines.withColumn(NOW, fn.unix_micros(fn.current_timestamp()))


def name_of(members: Iterable[Member]) -> str:
    """What the folder of their state is called in that of a streaming query which somebody else starts."""
    kept = [(one.key, one.structure) for one in members]
    return hashlib.sha256(repr(kept).encode()).hexdigest()[:16]
