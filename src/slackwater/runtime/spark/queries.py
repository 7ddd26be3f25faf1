"""Queries over the same streams that are not started yet, one alone among them; with `give="outputs"`, one with several
outputs of the same micro-batches.

Invariant: every query gives what it would give alone over the same micro-batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slackwater.core.errors import UsageError
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.history import History
from slackwater.runtime.spark.batches import (
    ForEach,
    ForEachSet,
    MicroBatch,
    SetBatch,
    Sinks,
    answered,
    batch_of,
    failures,
    notes_of,
    warn_of,
)
from slackwater.runtime.spark.emitted import Program, name_of
from slackwater.runtime.spark.locations import state_root
from slackwater.runtime.spark.members import (
    ALONE,
    KeyGroups,
    Member,
    Terms,
    Texts,
    columns_read,
    member,
    named,
    named_texts,
    planned_members,
)
from slackwater.runtime.spark.progress import Warner
from slackwater.runtime.spark.query import is_streaming
from slackwater.runtime.spark.relations import Relations, with_lookups_of_each
from slackwater.runtime.spark.running import RunningQueries, RunningQuery
from slackwater.runtime.spark.session import check_session, default_shards
from slackwater.runtime.spark.sinks import Given
from slackwater.runtime.spark.started import AVAILABLE, begun, cut_of
from slackwater.runtime.spark.state.root import StateRoot


def queries(
    spark: SparkSession,
    /,
    *,
    streams: Mapping[str, DataFrame],
    queries: Texts,
    time: str = "ts",
    time_unit: str = "ms",
    shards: int | None = None,
    state: str | os.PathLike[str] | None = None,
) -> Queries:
    """Many queries over the same streams, run as one streaming query: every stream is read once for all of them.

        handle = sw.queries(
            spark,
            streams={"i": impressions, "c": clicks},
            queries={
                "clicked": "SELECT ... FROM i [...], c [...] WHERE i.ad = c.ad WITH RECALL 0.99 OVER 1 MINUTE",
                "load": "SELECT ad, COUNT(*) AS n FROM i [RANGE 1 MINUTE] GROUP BY ad WITH ERROR 1%",
            },
        )
        running = handle.start("out/checkpoint", sinks={"clicked": "out/clicked", "load": "out/load"})
        running.progress()["load"].slack
        running.add("seen", "SELECT ...", sinks="out/seen")

    `queries` maps names to texts. Each query gives the results, late rows and counts that it would give alone. Streams
    that are joined with static relations (`sw.lookup`) are read beside the others. `time`,
    `time_unit`, `shards` and `state` are as for `slackwater.sql`. If one of them cannot be bound, the error names it,
    and nothing is started.
    """
    texts, streams = with_lookups_of_each(spark, named_texts(queries), streams)
    plans = planned_members(texts, streams, time, time_unit)
    is_streaming(streams)
    return Queries(spark, texts, plans, dict(streams), time, time_unit, shards, state)


@dataclass(eq=False, repr=False)
class Queries:
    """Queries that are not started yet; `slackwater.queries` makes them."""

    spark: SparkSession
    texts: Mapping[str, str]
    plans: Mapping[str, PhysicalPlan]
    frames: Mapping[str, DataFrame]
    time: str
    unit: str
    shards: int | None
    state: str | os.PathLike[str] | None = None
    alone: bool = False
    """Whether this is one query that was given no name."""
    recorded: bool = False
    """Whether its streams were recorded, so that the clock on the wall says nothing of them."""
    relations: Relations | None = None
    """Static relations that are read anew, where there may be some."""
    terms: Terms = field(default_factory=Terms)

    def columns_of(self, cut: KeyGroups) -> dict[str, list[str]]:
        """The columns of each stream that some query reads."""
        members = [self.member(name, 0, plan, cut, None) for name, plan in self.plans.items()]
        return {name: columns_read(members, name, self.time, frame.columns) for name, frame in self.frames.items()}

    @property
    def names(self) -> list[str]:
        return list(self.texts)

    @property
    def is_streaming(self) -> bool:
        """False for batch input, which is complete and is answered at once by `all`."""
        return is_streaming(self.frames)

    def plan(self, name: str, text: str) -> PhysicalPlan:
        if self.alone or self.texts.get(name) == text:
            return self.plans[name]
        return planned_members({name: text}, self.frames, self.time, self.unit)[name]

    def member(
        self, name: str, generation: int, plan: PhysicalPlan, cut: KeyGroups, groups: int | None, shared: bool = False
    ) -> Member:
        return member(
            name, generation, plan, cut, self.unit,
            groups=groups, live=not self.recorded and self.is_streaming, complete=not self.is_streaming, shared=shared,
        )  # fmt: skip

    def is_shared(self, plan: PhysicalPlan, plans: Iterable[PhysicalPlan]) -> bool:
        """Whether a query that is added is hosted with others, given all plans that there are then."""
        return not self.alone and self.terms.shared(plan, plans)

    def program(self, members: Sequence[Member], cut: KeyGroups, root: StateRoot | None) -> Program:
        return Program(tuple(members), self.frames, self.time, self.unit, cut, root, apart=not self.alone)

    def by_hand(self, stacklevel: int) -> Program:
        """For whoever starts it by hand: the session itself must have what is needed."""
        check_session(self.spark, stacklevel + 1)
        cut = cut_of(self.plans, self.shards or default_shards(self.spark), self.alone)
        members = [
            self.member(name, 0, plan, cut, None, self.is_shared(plan, self.plans.values()))
            for name, plan in self.plans.items()
        ]
        if not self.is_streaming:
            return self.program(members, cut, None)
        root = state_root(self.spark, self.state, name_of(members), stacklevel + 1)
        return replace(self.program(members, cut, root), timed=any(one.timed for one in members))

    def foreach_batch(self, function: ForEachSet, stacklevel: int = 1) -> DataStreamWriter:
        """A writer that calls a function with every `SetBatch`; set its options, trigger and checkpoint, and start it.

        Of a query that has failed there is nothing in the batch; `start` is what remembers it. `stacklevel` says whose
        line warnings name: the caller's, or with 2 that of its caller.
        """
        program = self.by_hand(stacklevel + 1)
        warner = Warner(several=True)

        def each(batch: DataFrame, number: int) -> None:
            kept = batch.persist()
            try:
                answers = answered(notes_of(kept), program.members)
                if not self.alone:
                    warn_of(warner, program.members, answers)
                function(batch_of(program.members, kept, number, answers, failures(answers)))
            finally:
                kept.unpersist()

        return program.emitted().writeStream.foreachBatch(each)

    def all(self, stacklevel: int = 1) -> SetBatch:
        """The outputs of batch input, which is one micro-batch; free them with `emitted.unpersist()`. `stacklevel` is
        as for `foreach_batch`."""
        if self.is_streaming:
            raise UsageError("the input is a stream; take `start` or `foreach_batch`")
        program = self.by_hand(stacklevel + 1)
        kept = program.emitted().persist()
        answers = answered(notes_of(kept), program.members)
        failed = failures(answers)
        for one in program.members:
            if one.key in failed:
                raise UsageError(f"{named(one.name)}{failed[one.key]}")
        return batch_of(program.members, kept, 0, answers, failed)

    def start(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        sinks: Mapping[str, Sinks] | None = None,
        foreach: ForEachSet | None = None,
        trigger: str | None = None,
        flush: bool = False,
        name: str | None = None,
        key_groups: int | None = None,
        history: History | Mapping[str, DataFrame | None] | None = None,
    ) -> RunningQueries:
        """Start all queries as one streaming query, or go on from a checkpoint.

        `sinks` says of every query where its results go: the path of a folder (parquet, every row once),
        `slackwater.sink("kafka", ...)`, or a function of a DataFrame and the number of the micro-batch; or a mapping
        with sinks for `results`, `late` and `rejected`. `foreach` is called with each `SetBatch` whole. `trigger`,
        `flush`, `key_groups` and `history` are as for `slackwater.start`.

        On a checkpoint that is there the last word counts: what was added, dropped or paused while the set ran stays
        so; a query that is new among the stated ones begins now, one that was stated before and is no longer, is
        dropped. State goes on where windows, keys and conditions are the same; else the query is refused by name.
        """
        if not self.is_streaming:
            raise UsageError("the input is a batch DataFrame, which is complete; take `all`, or read it as a stream")
        if not sinks and foreach is None:
            raise UsageError("say where rows go: start(checkpoint, sinks={'name': 'folder'}), or foreach=...")
        started = begun(
            self, checkpoint,
            sinks=sinks, foreach=foreach, trigger=trigger, flush=flush, name=name, key_groups=key_groups,
            history=history,
        )  # fmt: skip
        return RunningQueries(started, flush, trigger == AVAILABLE)


def alone(
    spark: SparkSession,
    plan: PhysicalPlan,
    text: str,
    frames: Mapping[str, DataFrame],
    time: str,
    unit: str,
    shards: int | None,
    state: str | os.PathLike[str] | None = None,
    relations: Relations | None = None,
) -> Queries:
    """One query as a set of one."""
    return Queries(
        spark, {ALONE: text}, {ALONE: plan}, frames, time, unit, shards, state, alone=True, relations=relations
    )


class Outputs:
    """A query that is not started yet, with all its outputs; `give="outputs"` makes one."""

    def __init__(self, query: Queries) -> None:
        self._query = query

    @property
    def plan(self) -> PhysicalPlan:
        """What the query does."""
        return self._query.plans[ALONE]

    @property
    def is_streaming(self) -> bool:
        return self._query.is_streaming

    def foreach_batch(self, function: ForEach) -> DataStreamWriter:
        """A writer that calls a function with every `MicroBatch`; set its options, trigger and checkpoint, and start
        it."""
        return self._query.foreach_batch(lambda batch: function(batch[ALONE]), stacklevel=2)

    def all(self) -> MicroBatch:
        """The outputs of batch input, which is one micro-batch; free them with `emitted.unpersist()`."""
        return self._query.all(stacklevel=2)[ALONE]

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
        history: History | Mapping[str, DataFrame | None] | None = None,
    ) -> RunningQuery:
        """Start the query with a sink for every output that is wanted.

        A sink is the path of a folder (parquet, every row once), `slackwater.kafka_sink(...)`, or a function of a
        DataFrame and the number of the micro-batch; `foreach` is given each `MicroBatch` whole. `trigger` is a duration
        such as "10 seconds", or "available": all that is there now, and then the query ends; with `flush` everything
        that is held is emitted at that end, and the checkpoint is done with.

        State is kept in `key_groups`, 16 of them if nothing is said (4 with a target, since each learns from its own
        tuples, and in a join without a key, since each has copies). A checkpoint keeps their number; a start from it
        may have any number of shards up to that. A `history` is read before the streams, as `slackwater.history` says.
        """
        if not self.is_streaming:
            raise UsageError("the input is a batch DataFrame, which is complete; take `all`, or read it as a stream")
        given = {"results": results, "late": late, "rejected": rejected}
        wanted = {what: one for what, one in given.items() if one is not None}
        if not wanted and foreach is None:
            raise UsageError("say where rows go: start(results='folder'), late=..., rejected=... or foreach=...")
        started = begun(
            self._query,
            checkpoint,
            sinks={ALONE: wanted} if wanted else None,
            foreach=None if foreach is None else _of_one(foreach),
            trigger=trigger,
            flush=flush,
            name=name,
            key_groups=key_groups,
            history=history,
        )
        return RunningQuery(started, flush, trigger == AVAILABLE)


def _of_one(foreach: ForEach) -> ForEachSet:
    return lambda batch: foreach(batch[ALONE])
