"""One query, several outputs: results, late rows, rejected rows and progress of the same micro-batches.

Invariant: a micro-batch is computed once, whatever is done with its outputs; every output has the rows of this very
run, so late and rejected rows are as many as the progress counts.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slackwater.core.errors import UsageError
from slackwater.core.values import total
from slackwater.observe.value import QueryProgress
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark import output_schema
from slackwater.runtime.spark import query as build
from slackwater.runtime.spark.folders import KINDS, WRITTEN, Folder, folder_of, publish, tidy
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.query import check_session
from slackwater.runtime.spark.running import RunningQuery, begin
from slackwater.runtime.spark.session import default_shards
from slackwater.runtime.spark.sinks import Given, Writer, writer_of


class Told(NamedTuple):
    """What is known of a micro-batch once it is computed: which outputs have rows, and what the shards say."""

    kinds: frozenset[str]
    shards: Sequence[QueryProgress]


class Answer:
    """What the job that computes a micro-batch says of one query."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        """The outputs that have rows."""
        self.shards: list[QueryProgress] = []
        self.files: dict[str, list[str]] = defaultdict(list)
        """Of folders that shards write themselves, by the kind of rows: files that are not yet published."""

    def note(self, kind: str, note: str) -> None:
        """Take a line that a shard has emitted."""
        if kind == METRICS:
            self.shards.append(QueryProgress.of_json(json.loads(note)))
        elif kind == WRITTEN:
            what, _, name = note.partition("/")
            self.kinds.add(what)
            self.files[what].append(name)
        else:
            self.kinds.add(kind)

    @property
    def told(self) -> Told:
        """Without the files."""
        return Told(frozenset(self.kinds), self.shards)


@dataclass(frozen=True)
class MicroBatch:
    """What one micro-batch emitted: DataFrames of its rows, and its progress."""

    number: int
    plan: PhysicalPlan
    emitted: DataFrame
    told: Told | None = None
    """None where that is still to be asked."""

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Which outputs have rows; asking computes the micro-batch."""
        if self.told is not None:
            return self.told.kinds
        return frozenset(line.kind for line in self.emitted.select("kind").collect())

    @cached_property
    def results(self) -> DataFrame:
        """The rows of the SELECT list."""
        return output_schema.results(self.emitted, self.plan)

    @cached_property
    def late(self) -> DataFrame:
        """Rows that came behind the watermark: stream, ts, delay_ms, watermark, row (as JSON)."""
        return output_schema.late(self.emitted)

    @cached_property
    def rejected(self) -> DataFrame:
        """Rows that could not be used: stream, reason, ts, row (as JSON)."""
        return output_schema.rejected(self.emitted)

    @cached_property
    def progress(self) -> QueryProgress | None:
        """The state of the query after this micro-batch; None where no shard had anything to do."""
        if self.told is not None:
            shards = self.told.shards
        else:
            lines = self.emitted.where(fn.col("kind") == METRICS).select("note").collect()
            shards = [QueryProgress.of_json(json.loads(line.note)) for line in lines]
        progress = total(shards)
        return None if progress is None else replace(progress, query="", batch=self.number)


ForEach = Callable[[MicroBatch], None]


class Outputs:
    """A query that is not started yet, with all its outputs; `give="outputs"` makes one."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PhysicalPlan,
        frames: Mapping[str, DataFrame],
        shards: int | None,
        unit: str,
    ) -> None:
        self._spark, self.plan, self._frames = spark, plan, frames
        self._shards, self._unit = shards, unit

    def _emitted(self, stacklevel: int) -> DataFrame:
        """For whoever starts it by hand: the session itself must have what is needed."""
        shards = self._shards or default_shards(self._spark)
        check_session(self._spark, shards, stacklevel + 1)
        return build.emitted(self._spark, self.plan, self._frames, shards, self._unit, True)

    @property
    def is_streaming(self) -> bool:
        """False for batch input, which is complete and is answered at once by `all`."""
        return build.is_streaming(self._frames)

    def foreach_batch(self, function: ForEach) -> DataStreamWriter:
        """A writer that calls a function with every `MicroBatch`; set its options, trigger and checkpoint, and start
        it."""
        return self._emitted(stacklevel=2).writeStream.foreachBatch(_once(self.plan, function))

    def all(self) -> MicroBatch:
        """The outputs of batch input, which is one micro-batch; free them with `emitted.unpersist()`."""
        if self.is_streaming:
            raise UsageError("the input is a stream; take `start` or `foreach_batch`")
        return MicroBatch(0, self.plan, self._emitted(stacklevel=2).persist())

    def start(
        self,
        *,
        results: Given | None = None,
        late: Given | None = None,
        rejected: Given | None = None,
        foreach: ForEach | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        trigger: str | None = None,
        flush: bool = False,
        name: str | None = None,
        key_groups: int | None = None,
    ) -> RunningQuery:
        """Start the query with a sink for every output that is wanted.

        A sink is the path of a folder (parquet, every row once), `slackwater.kafka_sink(...)`, or a function of a
        DataFrame and the number of the micro-batch; `foreach` is given each `MicroBatch` whole. `trigger` is a duration
        such as "10 seconds", or "available": all that is there now, and then the query ends; with `flush` everything
        that is held is emitted at that end, and the checkpoint is done with.

        State is kept in `key_groups`, 16 of them if nothing is said (4 with a target, since each learns from its own
        tuples, and in a join without a key, since each has copies). A checkpoint keeps their number; a start from it
        may have any number of shards up to that.
        """
        if not self.is_streaming:
            raise UsageError("the input is a batch DataFrame, which is complete; take `all`, or read it as a stream")
        wanted = {"results": results, "late": late, "rejected": rejected}
        writers = {what: writer_of(given, what) for what, given in wanted.items() if given is not None}
        if not writers and foreach is None:
            raise UsageError("say where rows go: start(results='folder'), late=..., rejected=... or foreach=...")

        for what, writer in writers.items():
            writer.check(output_schema.result_schema(self.plan).names if what == "results" else [], what)

        def refuse() -> None:
            for what, writer in writers.items():
                writer.refuse_other_runs(self._spark, what)

        found = {KINDS[what]: folder_of(self._spark, self.plan, what, writer) for what, writer in writers.items()}
        folders = {kind: folder for kind, folder in found.items() if folder is not None}

        def each(run: str) -> Callable[[DataFrame, int], None]:
            mine = {what: writer.of_run(run, what) for what, writer in writers.items() if KINDS[what] not in folders}
            return _written(self.plan, folders, mine, foreach)

        return begin(
            self._spark,
            self.plan,
            lambda control, shards, groups, state: build.emitted(
                self._spark,
                self.plan,
                self._frames,
                shards,
                self._unit,
                True,
                control,
                state,
                groups,
                folders,
                emits_all=foreach is not None,
            ),
            each,
            refuse,
            shards=self._shards,
            key_groups=key_groups,
            checkpoint=checkpoint,
            trigger=trigger,
            flush=flush,
            name=name,
        )


def _written(
    plan: PhysicalPlan, folders: Mapping[str, Folder], writers: Mapping[str, Writer], foreach: ForEach | None
) -> Callable[[DataFrame, int], None]:
    """For Spark's `foreachBatch`: publishes what shards have written to folders, and writes the rest."""
    # Where all rows leave by folders, the job that computes them needs no second look at them.
    asked_again = foreach is not None or bool(writers)
    begun: list[int] = []

    def each(frame: DataFrame, number: int) -> None:
        # The first micro-batch of a start may have been written before, with rows that are none any more; and a start
        # that died may have left hidden files.
        first = not begun
        begun.append(number)
        tidy(folders.values() if first else ())
        kept = frame.persist() if asked_again else frame
        try:
            answer = _answered(kept)
            for kind, folder in folders.items():
                if first or kind in answer.files:
                    publish(folder, answer.files.get(kind, ()), number)
            batch = MicroBatch(number, plan, kept, answer.told)
            for what, writer in writers.items():
                # A job of Spark to write nothing costs as much as one that writes little.
                if first or not writer.only_rows or KINDS[what] in answer.kinds:
                    writer.write(getattr(batch, what), number)
            if foreach is not None:
                foreach(batch)
        finally:
            if asked_again:
                kept.unpersist()
            tidy(folders.values())

    return each


def _answered(emitted: DataFrame) -> Answer:
    """Compute a micro-batch in one job."""
    answer = Answer()
    for kind, note in emitted.select("kind", "note").collect():
        answer.note(kind, note)
    return answer


def _once(plan: PhysicalPlan, function: ForEach) -> Callable[[DataFrame, int], None]:
    """For Spark's `foreachBatch`: what the micro-batch emits is computed once and kept until the function is done."""

    def each(frame: DataFrame, number: int) -> None:
        kept = frame.persist()
        try:
            batch = MicroBatch(number, plan, kept)
            # State moves on with the computation, so it must be made even if the function looks at nothing.
            _ = batch.kinds
            function(batch)
        finally:
            kept.unpersist()

    return each
