"""A file of queries over recorded streams on Spark: one set, one reading of every stream, one streaming query.

    with recorded_set(runtime, plans, sources, time_unit) as run:
        run.drive()
        for name, one in run.runs().items():
            ...                          # a `SparkRun` that has been driven: its tables, its report
            run.failure_of(name)

Invariant: micro-batch e reads file e of every stream, cut by the arrivals of all streams together, and what a query
emits there is kept in a file of its own. So a query tells what it would tell alone over the same micro-batches, by the
same code (`SparkRun`), and the same command on the same folder goes on where the last one stopped. A query that fails
stops alone: nothing is kept of it from the micro-batch on in which it did.
"""

from __future__ import annotations

import hashlib
import json
import queue
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.batch import Words
from slackwater.core.errors import UsageError, writing
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.runtime.recorded import Tick, no_tick
from slackwater.runtime.spark.emitted import Program
from slackwater.runtime.spark.failures import as_ours, one_sentence
from slackwater.runtime.spark.job import MANIFEST, SparkRuntime, _is_new
from slackwater.runtime.spark.locations import state_of_checkpoint
from slackwater.runtime.spark.members import KeyGroups, Member, member
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.query import fingerprint
from slackwater.runtime.spark.replay import epoch_log
from slackwater.runtime.spark.replay.run import AVAILABLE, PATIENCE, SparkRun
from slackwater.runtime.spark.replay.streams import Cut, cut_by, read_streams, write_streams
from slackwater.runtime.spark.session import quiet_session
from slackwater.runtime.spark.store import signed, verified
from slackwater.runtime.spark.versions import as_table
from slackwater.sinks.folder import folder_name
from slackwater.sources.replay import Replay, replay

QUERIES = "queries"
"""The folder with what each query has emitted."""
FAILED = "failed.json"
Ranks = Mapping[str, Words] | None
"""The order of arrival of rows where no column has it, as for `sources.replay.replay`."""


@contextmanager
def recorded_set(
    runtime: SparkRuntime,
    plans: Mapping[str, PhysicalPlan],
    sources: Mapping[str, pa.Table],
    time_unit: str,
    ranks: Ranks = None,
) -> Iterator[RecordedSet]:
    """A set whose files are there; a temporary folder goes when it is over."""
    union = _union(plans)
    arrivals = replay(_bare(union), sources, time_unit, None, ranks)
    with runtime._folder() as folder:
        cut = cut_by(union, arrivals, runtime.epochs)
        mark = _mark(plans, arrivals, runtime)
        if _is_new(folder, mark):
            write_streams(union, sources, cut, folder / "streams")
            (folder / MANIFEST).write_text(signed(mark) + "\n")
        spark = quiet_session(runtime.master, runtime.shards)
        with one_sentence():
            frames = read_streams(spark, union, sources, folder / "streams")
        yield RecordedSet(spark, plans, sources, frames, cut, folder, runtime, time_unit, ranks, arrivals.notes)


class RecordedSet:
    """Drives a set over the files of recorded streams."""

    def __init__(
        self,
        spark: SparkSession,
        plans: Mapping[str, PhysicalPlan],
        sources: Mapping[str, pa.Table],
        frames: dict[str, DataFrame],
        cut: Cut,
        folder: Path,
        runtime: SparkRuntime,
        time_unit: str,
        ranks: Ranks,
        notes: tuple[str, ...],
    ) -> None:
        self._spark, self._plans, self._sources, self._frames = spark, plans, sources, frames
        self._cut, self._folder, self._runtime, self._time_unit, self._ranks = cut, folder, runtime, time_unit, ranks
        self.notes = notes
        """What is odd about the order of arrival."""
        self.interrupted = False
        self.done = 0
        """Arrivals taken in."""
        self._finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._begun = 0.0
        for name in plans:
            (self._of(name) / "epochs").mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return self._cut.arrivals[-1]

    def interrupt(self) -> None:
        """Stop after the micro-batch at hand."""
        self.interrupted = True

    def drive(self, tick: Tick = no_tick) -> None:
        """Run all queries to the end of the input, or until interrupted."""
        kept = min((self._kept(name) for name in self._plans if self.failure_of(name) is None), default=None)
        if kept is None or kept == self._cut.epochs:
            return
        with one_sentence():
            running = self._started()
        try:
            self._follow(running, tick)
        finally:
            with one_sentence():
                running.stop()

    def _follow(self, running: StreamingQuery, tick: Tick) -> None:
        number, last = -1, self._cut.epochs - 1
        while number < last:
            active = running.isActive
            if self.interrupted and active:
                with one_sentence():
                    running.stop()
                continue
            try:
                number = self._finished.get(timeout=PATIENCE)
                self.done = self._cut.arrivals[number]
            except queue.Empty:
                if not active:
                    break
            tick()
        failure = running.exception()
        if failure is not None and not self.interrupted:
            raise as_ours(str(failure))

    def _started(self) -> StreamingQuery:
        checkpoint, cut = str(self._folder / "query"), KeyGroups(self._runtime.shards, self._runtime.shards)
        members = [member(name, 0, one, cut, self._time_unit) for name, one in self._plans.items()]
        timed = next(iter(self._plans.values())).inputs[0].stream.schema.time
        root = state_of_checkpoint(self._spark, checkpoint)
        out = Program(tuple(members), self._frames, timed, self._time_unit, cut, root, reports_latency=True)
        available = self._runtime.trigger == AVAILABLE
        trigger = {"availableNow": True} if available else {"processingTime": self._runtime.trigger}
        self._begun = time.perf_counter()
        return (
            out.emitted()
            .writeStream.foreachBatch(lambda frame, number: self._keep(members, frame, number))
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )

    def _keep(self, members: list[Member], frame: DataFrame, number: int) -> None:
        """Called by Spark, in a thread of its own, with what a micro-batch emits."""
        lines = as_table(frame)
        now = time.perf_counter()
        with writing(self._folder):
            for one in members:
                mine = lines.filter(pc.equal(lines["query"], one.key)).drop_columns(["query"])
                notes = mine.filter(pc.equal(mine["kind"], METRICS))["note"].to_pylist()
                failures = [reason for note in notes if (reason := json.loads(note)["failure"]) is not None]
                if failures and self.failure_of(one.name) is None:
                    (self._of(one.name) / FAILED).write_text(signed({"reason": failures[0]}) + "\n")
                if self.failure_of(one.name) is None:
                    epoch_log.write(self._of(one.name) / "epochs", number, mine, now - self._begun)
        self._begun = now
        self._finished.put(number)

    def runs(self) -> dict[str, SparkRun]:
        """Every query as a run that has come as far as the set was driven."""
        return {name: self._run(name, plan) for name, plan in self._plans.items()}

    def _run(self, name: str, plan: PhysicalPlan) -> SparkRun:
        # What a filter or a computed column makes of a row is known to the shards; it might fail here, too.
        inputs = tuple(replace(one, computed=(), stream=replace(one.stream, filters=())) for one in plan.inputs)
        arrivals = replay(replace(plan, inputs=inputs), self._sources, self._time_unit, None, self._ranks)
        done = np.zeros(self._cut.epochs, np.int64)
        for one in plan.inputs:
            done += np.searchsorted(self._cut.epoch[one.stream.source], np.arange(self._cut.epochs), "right")
        run = SparkRun(
            self._spark, plan, arrivals, self._frames, tuple(done[: self._kept(name)].tolist()), self._of(name),
            shards=self._runtime.shards, time_unit=self._time_unit,
        )  # fmt: skip
        run.interrupted = self.interrupted
        return run

    def failure_of(self, name: str) -> str | None:
        """Why a query has failed; None where it has not."""
        told = self._of(name) / FAILED
        return str(verified(told.read_bytes(), told)["reason"]) if told.exists() else None

    def _kept(self, name: str) -> int:
        return epoch_log.kept(self._of(name) / "epochs")

    def _of(self, name: str) -> Path:
        return self._folder / QUERIES / folder_name(name)


def _union(plans: Mapping[str, PhysicalPlan]) -> PhysicalPlan:
    """A plan with the inputs of all queries: for each source one, and then the others."""
    inputs = [one for plan in plans.values() for one in plan.inputs]
    first: dict[str, InputPlan] = {}
    for one in inputs:
        first.setdefault(one.stream.source, one)
    times = {one.stream.schema.time for one in inputs}
    if len(times) > 1:
        raise UsageError(f"queries of one file take event time from one column, and not from {' and '.join(times)}")
    others = [one for one in inputs if one is not first[one.stream.source]]
    some = next(iter(plans.values()))
    furthest = max(plan.options.max_ahead for plan in plans.values())
    return replace(some, inputs=(*first.values(), *others), options=replace(some.options, max_ahead=furthest))


def _bare(union: PhysicalPlan) -> PhysicalPlan:
    """The sources of a union, each once, with nothing but event times."""

    def timed(one: InputPlan) -> InputPlan:
        stream = replace(one.stream, filters=())
        return replace(one, columns=(), computed=(), stream=stream, partition_slot=NO_PARTITION)

    sources = len({one.stream.source for one in union.inputs})
    return replace(union, inputs=tuple(map(timed, union.inputs[:sources])))


def _mark(plans: Mapping[str, PhysicalPlan], arrivals: Replay, runtime: SparkRuntime) -> dict[str, str]:
    """What a folder must agree with to be taken up again."""
    labels = tuple(range(runtime.shards))
    queries = hashlib.sha256(repr({name: fingerprint(one, labels) for name, one in plans.items()}).encode())
    return runtime._mark(next(iter(plans.values())), arrivals) | {"query and shards": queries.hexdigest()}
