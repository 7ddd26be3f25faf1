"""Sets of queries: started as one streaming query, and changed while they run.

Invariant: every query gives what it would give alone over the same micro-batches. A change takes effect at a
micro-batch, exactly once, and stays in force over restarts; the results of the other queries are not touched by it.
"""

from __future__ import annotations

import os
import threading
import time as wall
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slackwater.core.errors import UsageError
from slackwater.core.quality import Quality, clause
from slackwater.language.clauses import parse_quality
from slackwater.observe.value import QueryProgress
from slackwater.observe.views import History
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.follow import Source
from slackwater.runtime.spark.control import CONTROL
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.progress.reading import parsed_set, polled
from slackwater.runtime.spark.progress.warner import Warner
from slackwater.runtime.spark.query import check_session, is_streaming, shard_labels
from slackwater.runtime.spark.query_set import requests
from slackwater.runtime.spark.query_set.answers import answered
from slackwater.runtime.spark.query_set.batches import (
    ForEachSet,
    SetBatch,
    Sinks,
    batch_of,
    failures,
    folders_of,
    warn_of,
)
from slackwater.runtime.spark.query_set.control import (
    ADD,
    DROP,
    PAUSE,
    RESUME,
    TARGET,
    Known,
    SetLog,
    SetMessage,
    changes_of_start,
    in_force,
)
from slackwater.runtime.spark.query_set.emitted import emitted_by_set
from slackwater.runtime.spark.query_set.host import Output
from slackwater.runtime.spark.query_set.members import Member, Texts, member, named_texts, planned_members
from slackwater.runtime.spark.query_set.requests import Desk, Request
from slackwater.runtime.spark.query_set.started import Started
from slackwater.runtime.spark.running import AVAILABLE, Running, checkpoint_folder, fence_of, trigger_of
from slackwater.runtime.spark.session import default_shards, fitting
from slackwater.runtime.spark.store import At
from slackwater.runtime.targets import settable

PAST = 100
"""Micro-batches of earlier starts whose progress is kept."""


def queries(
    spark: SparkSession,
    /,
    *,
    streams: Mapping[str, DataFrame],
    queries: Texts,
    time: str = "ts",
    time_unit: str = "ms",
    shards: int | None = None,
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

    `queries` maps names to texts. Each query gives the results, late rows and counts that it would give alone. `time`,
    `time_unit` and `shards` are as for `slackwater.sql`. If one of them cannot be bound, the error names it, and
    nothing is started.
    """
    texts = named_texts(queries)
    plans = planned_members(spark, texts, streams, time, time_unit)
    is_streaming(streams)
    return Queries(spark, texts, plans, dict(streams), time, time_unit, shards)


@dataclass(frozen=True)
class Status:
    """Where one query of a set stands."""

    text: str
    state: str
    """`running`, `paused`, `failed`, or `ended`, as the whole set has."""
    reason: str | None
    """Why it has failed."""
    target: str
    """The quality that is asked for now."""


class Queries:
    """Queries that are not started yet; `slackwater.queries` makes them."""

    def __init__(
        self,
        spark: SparkSession,
        texts: dict[str, str],
        plans: dict[str, PhysicalPlan],
        frames: dict[str, DataFrame],
        time: str,
        unit: str,
        shards: int | None,
    ) -> None:
        self._spark, self._texts, self._plans, self._frames = spark, texts, plans, frames
        self._time, self._unit, self._shards = time, unit, shards

    @property
    def names(self) -> list[str]:
        """The queries."""
        return list(self._texts)

    @property
    def is_streaming(self) -> bool:
        """False for batch input, which is complete and is answered at once by `all`."""
        return is_streaming(self._frames)

    def plan(self, name: str, text: str) -> PhysicalPlan:
        """The plan of one more query over the same streams."""
        if self._texts.get(name) == text:
            return self._plans[name]
        return planned_members(self._spark, {name: text}, self._frames, self._time, self._unit)[name]

    def member(self, name: str, generation: int, plan: PhysicalPlan, labels: tuple[int, ...]) -> Member:
        """A query with its shards."""
        return member(name, generation, plan, labels, self._unit, self.is_streaming, not self.is_streaming)

    def emitted(
        self,
        members: list[Member],
        labels: tuple[int, ...],
        beats: bool,
        log: SetLog | None = None,
        folders: Mapping[Output, Folder] | None = None,
        emits_all: bool = True,
        state: At | None = None,
    ) -> DataFrame:
        """What these queries emit; see `emitted_by_set`."""
        return emitted_by_set(
            members, self._frames, self._time, self._unit, labels, beats, log, folders, emits_all, state
        )

    def _by_hand(self, stacklevel: int) -> tuple[list[Member], DataFrame]:
        """For whoever starts it by hand: the session itself must have what is needed."""
        count = self._shards or default_shards(self._spark)
        check_session(self._spark, count, stacklevel + 1)
        labels = shard_labels(self._spark, count)
        members = [self.member(name, 0, plan, labels) for name, plan in self._plans.items()]
        return members, self.emitted(members, labels, any(one.beats for one in members))

    def foreach_batch(self, function: ForEachSet) -> DataStreamWriter:
        """A writer that calls a function with every `SetBatch`; set its options, trigger and checkpoint, and start it.

        Of a query that has failed there is nothing in the batch; `start` is what remembers it.
        """
        members, frame = self._by_hand(stacklevel=2)
        warner = Warner(several=True)

        def each(batch: DataFrame, number: int) -> None:
            kept = batch.persist()
            try:
                told = answered(kept, members).told
                warn_of(warner, members, told)
                function(batch_of(members, kept, number, told, failures(told)))
            finally:
                kept.unpersist()

        return frame.writeStream.foreachBatch(each)

    def all(self) -> SetBatch:
        """The outputs of batch input, which is one micro-batch; free them with `emitted.unpersist()`."""
        if self.is_streaming:
            raise UsageError("the input is a stream; take `start` or `foreach_batch`")
        members, frame = self._by_hand(stacklevel=2)
        kept = frame.persist()
        told = answered(kept, members).told
        failed = failures(told)
        for one in members:
            if one.key in failed:
                raise UsageError(f"query {one.name}: {failed[one.key]}")
        return batch_of(members, kept, 0, told, failed)

    def start(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        sinks: Mapping[str, Sinks] | None = None,
        foreach: ForEachSet | None = None,
        trigger: str | None = None,
        flush: bool = False,
        name: str | None = None,
    ) -> RunningQueries:
        """Start all queries as one streaming query, or go on from a checkpoint.

        `sinks` says of every query where its results go: the path of a folder (parquet, every row once),
        `slackwater.sink("kafka", ...)`, or a function of a DataFrame and the number of the micro-batch; or a mapping
        with sinks for `results`, `late` and `rejected`. `foreach` is called with each `SetBatch` whole. `trigger` and
        `flush` are as for `slackwater.start`.

        On a checkpoint that is there the last word counts: what was added, dropped or paused while the set ran stays
        so; a query that is new among the stated ones begins now, one that was stated before and is no longer, is
        dropped. State goes on where windows, keys and conditions are the same; else the query is refused by name.
        """
        if not self.is_streaming:
            raise UsageError("the input is a batch DataFrame, which is complete; take `all`, or read it as a stream")
        return _begun(self, self._spark, checkpoint, sinks or {}, foreach, trigger, flush, name)


def _begun(
    stated: Queries,
    spark: SparkSession,
    checkpoint: str | os.PathLike[str] | None,
    sinks: Mapping[str, Sinks],
    foreach: ForEachSet | None,
    trigger: str | None,
    flush: bool,
    name: str | None,
) -> RunningQueries:
    when = trigger_of(trigger)
    if flush and trigger != AVAILABLE:
        raise UsageError("flush=True ends a set, so it goes with trigger='available'")
    if not sinks and foreach is None:
        raise UsageError("say where rows go: start(checkpoint, sinks={'name': 'folder'}), or foreach=...")
    folder = checkpoint_folder(spark, checkpoint, name)
    strange = [one for one in sinks if one not in stated._texts]
    if strange and "://" not in folder and not Path(folder).exists():
        # On a checkpoint that is there it may be a query that was added while the set ran.
        raise UsageError(f"sinks: there is no query {strange[0]}; there are {', '.join(stated._texts)}")
    fence = fence_of(spark, folder)
    with fence.held():
        with one_sentence():
            log = SetLog(spark, f"{folder}/{CONTROL}")
        shards = stated._shards or log.shards or default_shards(spark)
        with one_sentence(), fitting(spark, shards):
            labels = shard_labels(spark, shards)
        members = {one: stated.member(one, 0, plan, labels) for one, plan in stated._plans.items()}
        changes = changes_of_start(log.messages, stated._texts, {one: mine.structure for one, mine in members.items()})
        started = Started(stated, spark, log, labels, shards, folder, when, name, foreach, fence)
        after = in_force(
            [*log.messages, *(log.numbered(one, i) for i, one in enumerate(changes, len(log.messages) + 1))]
        )
        strange = [one for one in sinks if one not in after and one not in stated._texts]
        if strange:
            raise UsageError(f"sinks: there is no query {strange[0]}; there are {', '.join(after)}")
        beats = log.beats if not log.is_new else any(one.beats for one in members.values())
        for one in after.values():
            started.check_beats(one.name, stated.plan(one.name, one.text), beats)
            if one.failure is None:
                started.write_to(one, sinks.get(one.name, one.sinks), new=log.is_new or one.name not in log.queries)
        with one_sentence():
            log.begin(shards, beats)
            if changes:
                log.say(*changes)
    return RunningQueries(started, flush, trigger == AVAILABLE)


class RunningQueries(Running):
    """A set of queries that runs as one streaming query. A `with` block stops it at its end."""

    def __init__(self, started: Started, flush: bool, available: bool) -> None:
        self._of, self._log = started, started.log
        self._past: list[Any] = []
        self._restart = threading.RLock()
        super().__init__(started.start, started.log, flush, available)
        if started.log.here is not None and not available:
            Desk(started.log.here.parent, self._do, self._stopped, self._runs)

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        # Who changes the set has stopped it, and starts it again.
        with self._restart:
            return super().is_active

    def _runs(self) -> bool:
        return self.is_active

    def _do(self, asked: Request) -> None:
        """What another process asks for."""
        if asked.change == requests.ADD:
            self.add(asked.query, asked.text or "", dict(asked.sinks or {}) or None)
        elif asked.change == requests.TARGET:
            self.set_target(asked.query, asked.target or "", asked.at_most)
        elif asked.change in (requests.DROP, requests.PAUSE, requests.RESUME):
            {requests.DROP: self.drop, requests.PAUSE: self.pause, requests.RESUME: self.resume}[asked.change](
                asked.query
            )
        else:
            raise UsageError(f"a set cannot be asked to {asked.change}")

    @property
    def names(self) -> list[str]:
        """The queries of the set, paused and failed ones among them."""
        with self._of.lock:
            return list(self._log.queries)

    def status(self) -> dict[str, Status]:
        """Where every query stands, by its name."""
        with self._of.lock:
            known = self._log.queries
        found = {}
        whole, _, why = self._state().partition(": ")
        for one in known.values():
            state = "failed" if one.failure is not None else "paused" if one.paused else whole
            stated = clause(self._of.stated.plan(one.name, one.text).quality)
            if whole == "failed" and one.failure is None:
                one, state = replace(one, failure=why), "failed"
            found[one.name] = Status(one.text, state, one.failure, str(parse_quality(one.target_now(stated))))
        return found

    def progress(self) -> dict[str, History]:
        """How every query does: its latest micro-batch and the recent ones, by its name; `failure` says why one has
        stopped."""
        with self._of.lock:
            known = self._log.queries
        keys = {one.key: one.name for one in known.values()}
        found: dict[str, list[QueryProgress]] = {name: [] for name in keys.values()}
        with one_sentence():
            recent = self._query.recentProgress
        for reported in [*self._past, *recent]:
            for key, one in parsed_set(reported).items():
                if key in keys:
                    found[keys[key]].append(one)
        # One that had failed before this start has no micro-batch in it.
        failed = {
            name: {"none_yet": f"query {name} has failed: {one.failure}"} for name, one in known.items() if one.failure
        }
        return {name: History(tuple(mine), **failed.get(name, {})) for name, mine in found.items()}

    def add(self, name: str, text: str, sinks: Sinks | None = None) -> None:
        """Add a query; it begins with a micro-batch that comes now, with whatever arrives from then on.

        The streaming query is stopped and started again on its checkpoint for that, between two micro-batches; what
        the other queries give is not touched. `sinks` is as for `start`. It stays over restarts; folders are known
        again by the next start, other sinks must be given to it.
        """
        with self._restart, self._of.lock:
            self._refuse_available()
            if name in self._log.queries:
                raise UsageError(f"there is a query {name} already; drop it first, or take another name")
            plan = self._of.stated.plan(*named_texts({name: text}).popitem())
            self._of.check_beats(name, plan, self._log.beats)
            self._of.write_to(Known(name, 0, text, "", False), sinks, new=True)
            structure = self._of.stated.member(name, 0, plan, self._of._labels).structure
            message = SetMessage(ADD, query=name, text=text, structure=structure, sinks=folders_of(sinks))
            self._change(message)

    def drop(self, name: str) -> None:
        """End a query: it emits nothing more, and its state is let go of. The streaming query starts again, as for
        `add`."""
        with self._restart, self._of.lock:
            self._change(SetMessage(DROP, query=name, generation=self._known(name).generation))

    def pause(self, name: str) -> None:
        """Let a query rest from the next micro-batch on: what arrives passes it by, and its state stays."""
        self._tell(name, SetMessage(PAUSE))

    def resume(self, name: str) -> None:
        """Go on with a query that rests, from the next micro-batch on."""
        self._tell(name, SetMessage(RESUME))

    def _repr_html_(self) -> str:
        shown = (f"<h4>{escape(name)}</h4>{one._repr_html_()}" for name, one in self.progress().items())
        return "".join(shown) or "<p>the set has no query</p>"

    def _source(self) -> Source:
        """How all of them are followed."""
        with self._of.lock:
            known = self._log.queries
        plans = {name: self._of.stated.plan(name, one.text) for name, one in known.items()}
        return polled(self, plans, None if self._available else self.set_target, lambda: self.names)

    def set_target(self, name: str, target: Quality | str, at_most: str | None = None) -> None:
        """Ask for another quality of one query from the next micro-batch on, as `RunningQuery.set_target` does."""
        known = self._known(name)
        plan = self._of.stated.plan(name, known.text)
        stated = clause(plan.quality)
        quality = settable(plan, target, at_most, known.target_now(stated))
        self._tell(name, SetMessage(TARGET, target=clause(quality), text=stated))

    def _known(self, name: str) -> Known:
        self._refuse_available()
        with self._of.lock:
            known = self._log.queries
        if name not in known:
            raise UsageError(f"there is no query {name}; there are {', '.join(known) or 'none'}")
        return known[name]

    def _refuse_available(self) -> None:
        if self._available:
            raise UsageError("a set over what is there now cannot be told anything; start it again without 'available'")

    def _tell(self, name: str, message: SetMessage) -> None:
        known = self._known(name)
        if known.failure is not None:
            raise UsageError(f"query {name} has failed: {known.failure}; drop it, and add it again")
        with self._of.lock, one_sentence():
            told = SetMessage(
                message.kind, query=name, generation=known.generation, target=message.target, text=message.text
            )
            self._log.say(told)

    def _change(self, message: SetMessage) -> None:
        """Say something that only another start can follow, and start again."""
        if not super().is_active:
            raise UsageError("the set does not run any more; start it again")
        with one_sentence():
            self._log.say(message)
        # A micro-batch that is under way waits for the lock if a query fails in it.
        self._of.lock.release()
        try:
            with one_sentence():
                self._query.stop()
        finally:
            self._of.lock.acquire()
        self._past = [*self._past, *self._query.recentProgress][-PAST:]
        self._query = self._started()

    def _ended(self, timeout: int | None) -> bool:
        deadline = None if timeout is None else wall.monotonic() + timeout
        while True:
            query = self._query
            with one_sentence():
                if deadline is None:
                    query.awaitTermination()
                elif not query.awaitTermination(max(0.001, deadline - wall.monotonic())):  # type: ignore[arg-type]
                    return False
            # Who changes the set has stopped it, and starts it again.
            with self._restart:
                if query is self._query:
                    return True
