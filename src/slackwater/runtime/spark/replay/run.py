"""A run over recorded streams on Spark.

Invariant: everything reported comes from the files of the epoch log, read in the order of the micro-batches; a run that
takes up an older one reads that one's files first, so its results and its report are those of one run.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.state import NO_LATE, Emission, Observation
from slackwater.core.values import total
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.delays import Buckets, added
from slackwater.observe.value import QueryProgress, nothing_observed
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.registry import controller_for
from slackwater.runtime.recorded import RecordedRun, Tick, no_tick
from slackwater.runtime.spark.emitted import Program
from slackwater.runtime.spark.exchange.writer import SOURCE_ROW
from slackwater.runtime.spark.failures import as_ours, one_sentence
from slackwater.runtime.spark.locations import state_of_checkpoint
from slackwater.runtime.spark.members import ALONE, KeyGroups, member
from slackwater.runtime.spark.output_schema import result_schema
from slackwater.runtime.spark.replay import epoch_log
from slackwater.runtime.spark.replay.ordered_merge import Merged
from slackwater.runtime.spark.versions import as_table
from slackwater.sinks.rows import SecondCounts
from slackwater.sources.replay import Replay

AVAILABLE = "available"
PATIENCE = 0.1


class SparkRun(RecordedRun):
    """Drives a streaming query over the files of recorded streams."""

    runtime = "spark"
    shards: int

    def __init__(
        self,
        spark: SparkSession,
        plan: PhysicalPlan,
        replay: Replay,
        frames: dict[str, DataFrame],
        arrivals: tuple[int, ...],
        folder: Path,
        *,
        shards: int,
        time_unit: str,
        trigger: str = AVAILABLE,
    ) -> None:
        super().__init__(plan, replay, controller_for(plan.quality, plan.options, plan.windows))
        self.shards = plan.partitioning.shards(shards)
        self._spark, self._frames, self._time_unit = spark, frames, time_unit
        self._arrivals, self._folder, self._trigger = arrivals, folder, trigger
        (folder / "epochs").mkdir(exist_ok=True)
        self._finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._reported: dict[tuple[int, bool], QueryProgress] = {}
        self._begun = self._seconds = 0.0
        self._delays: Buckets = {}

    def warm_up(self) -> None:
        """Nothing: workers compile on their own, and what they have compiled they find on disk."""

    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        if self.plan.count_only:
            yield self._counts(tick)
            return
        merged, nothing = Merged(), True
        for out in self._epochs(tick):
            ready = merged.in_order(out.results, self.observe().watermark)
            if ready is not None:
                nothing = False
                yield ready
        rest = merged.rest()
        if rest is not None:
            yield rest
        elif nothing:
            yield result_schema(self.plan).empty_table()

    def _counts(self, tick: Tick) -> pa.Table:
        counts = SecondCounts()
        for out in self._epochs(tick):
            if out.results is not None:
                second, count = (out.results.column(name).cast(pa.int64()).to_numpy() for name in ("second", "count"))
                counts.note(Emission(second, (), second, count, NO_LATE))
        return counts.table()

    def _epochs(self, tick: Tick) -> Iterator[epoch_log.EpochLog]:
        """The micro-batches in order: those kept from before, then new ones as they are done."""
        kept = epoch_log.kept(self._folder / "epochs")
        for number in range(kept):
            yield self._noted(number)
        if kept == len(self._arrivals):
            return
        with one_sentence():
            running = self._started()
        try:
            yield from self._followed(running, kept, tick)
        finally:
            with one_sentence():
                running.stop()

    def _followed(self, running: StreamingQuery, kept: int, tick: Tick) -> Iterator[epoch_log.EpochLog]:
        last = len(self._arrivals) - 1
        number = kept - 1
        while number < last:
            active = running.isActive
            if self.interrupted and active:
                with one_sentence():
                    running.stop()
                continue
            try:
                number = self._finished.get(timeout=PATIENCE)
            except queue.Empty:
                if not active:
                    break
                tick()
                continue
            # The last micro-batch of an interrupted run may run a second time.
            if number >= kept:
                yield self._noted(number)
                tick()
        failure = running.exception()
        if failure is not None and not self.interrupted:
            raise as_ours(str(failure))

    def _started(self) -> StreamingQuery:
        checkpoint = str(self._folder / "query")
        one = member(ALONE, 0, self.plan, cut := KeyGroups(self.shards, self.shards), self._time_unit)
        timed = self.plan.inputs[0].stream.schema.time
        root = state_of_checkpoint(self._spark, checkpoint)
        out = Program((one,), self._frames, timed, self._time_unit, cut, root, apart=False, reports_latency=True)
        available = self._trigger == AVAILABLE
        trigger = {"availableNow": True} if available else {"processingTime": self._trigger}
        self._begun = time.perf_counter()
        return (
            out.emitted()
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )

    def _keep(self, frame: DataFrame, number: int) -> None:
        """Called by Spark, in a thread of its own, with what a micro-batch emits."""
        lines = as_table(frame)
        now = time.perf_counter()
        epoch_log.write(self._folder / "epochs", number, lines, now - self._begun)
        self._begun = now
        self._finished.put(number)

    def _noted(self, number: int) -> epoch_log.EpochLog:
        out = epoch_log.read(self._folder / "epochs", number)
        self._reported |= {one.shards[0].place: one for one in out.shards}
        new = total(out.shards)
        if new is not None:
            self.resizes += new.resizes
            self._delays = added([self._delays, new.delays])
        for reported in out.latency:
            self._statistics.latency.add(reported)
        seen = self.observe()
        clock = max(seen.clocks)
        self._statistics.note_clocks([(clock, seen.slack)], seen.clocks)
        self._note_outlook(seen.outlook)
        if seen.memory is not None and number < len(self._arrivals) - 1:
            self._statistics.memory.note(seen.memory, clock, self._arrivals[number])
        for table in out.side_output:
            self.side_outputs.add_rows(table, SOURCE_ROW)
        self._seconds += out.seconds
        self._done = self._arrivals[number]
        if self._watcher is not None:
            self._watcher.look()
        return out

    def known(self) -> QueryProgress:
        found = total(self._reported.values())
        delays, self._delays = self._delays, {}
        if found is None:
            return QueryProgress(target=str(self.plan.quality), observed=self.observe(), delays=delays)
        return replace(found, observed=self.observe(), delays=delays, rejected={}, shards=())

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        # All shards hear the same headers.
        return next((one.wrong_clocks for one in self._reported.values() if one.wrong_clocks), ())

    @property
    def seconds(self) -> float:
        return self._seconds

    def observe(self) -> Observation:
        ahead = self.side_outputs.ahead()
        found = total(one.observed for one in self._reported.values())
        if found is None:
            nothing = nothing_observed(len(self.plan.inputs))
            return replace(nothing, slack=self._controller.slack, tuples=ahead, ahead=ahead)
        taken_in = ahead + found.in_time + found.late + found.filtered + found.held
        return replace(found, tuples=taken_in, ahead=ahead, ordering=None, waited=None)
