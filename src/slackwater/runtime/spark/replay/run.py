"""A run over recorded streams on Spark.

Invariant: everything told comes from the files of the epoch log, read in the order of the micro-batches; a run that
takes up an older one reads that one's files first, so its results and its report are those of one run.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.engines import EnginesSeen, of_all_shards
from slackwater.core.measured import MeasuredQuality, together
from slackwater.core.memory import Memory
from slackwater.core.memory import together as all_shards
from slackwater.core.outlook import Outlook, worst
from slackwater.core.rates import RatesSeen, Resize
from slackwater.core.state import NO_LATE, Emission, Observation
from slackwater.core.time import BEFORE_ALL
from slackwater.core.trade_off import TradeOff, strictest
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.delays import Buckets, added
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.registry import controller_for
from slackwater.runtime.recorded import RecordedRun, Tick, no_tick
from slackwater.runtime.spark.exchange.writer import SOURCE_ROW
from slackwater.runtime.spark.failures import as_ours, one_sentence
from slackwater.runtime.spark.output_schema import result_schema
from slackwater.runtime.spark.progress.value import clocks_of, watermark_of
from slackwater.runtime.spark.query import emitted
from slackwater.runtime.spark.replay import epoch_log
from slackwater.runtime.spark.replay.ordered_merge import Merged
from slackwater.runtime.spark.running import state_folder
from slackwater.runtime.watching import PartitionNamed
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
        self._reported: dict[int, dict[str, Any]] = {}
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
        state = state_folder(self._spark, str(self._folder / "query"))
        out = emitted(
            self._spark, self.plan, self._frames, self.shards, self._time_unit, state=state, tells_latency=True
        )
        available = self._trigger == AVAILABLE
        trigger = {"availableNow": True} if available else {"processingTime": self._trigger}
        self._begun = time.perf_counter()
        return (
            out.writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(self._folder / "query"))
            .trigger(**trigger)
            .start()
        )

    def _keep(self, frame: DataFrame, number: int) -> None:
        """Called by Spark, in a thread of its own, with what a micro-batch emits."""
        lines = frame.toArrow()
        now = time.perf_counter()
        epoch_log.write(self._folder / "epochs", number, lines, now - self._begun)
        self._begun = now
        self._finished.put(number)

    def _noted(self, number: int) -> epoch_log.EpochLog:
        out = epoch_log.read(self._folder / "epochs", number)
        for reported in out.metrics:
            self._reported[reported["shard"]] = reported
            self.resizes += [
                (node, Resize(at, tuple(sizes), within)) for node, at, sizes, within in reported["resizes"]
            ]
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
        self._delays = added([self._delays, *(reported["delays"] for reported in out.metrics)])
        if self._watcher is not None:
            self._watcher.look()
        return out

    def take_delays(self) -> Buckets:
        found, self._delays = self._delays, {}
        return found

    def trade_off(self) -> TradeOff | None:
        return strictest([TradeOff.of_json(one["trade_off"]) for one in self._reported.values() if one["trade_off"]])

    def idle_now(self) -> Sequence[bool]:
        return next((one["idle_now"] for one in self._reported.values()), ())

    def partitions(self) -> list[PartitionNamed]:
        told: Any = next((one["partitions"] for one in self._reported.values() if one["partitions"]), [])
        return [(stream, name, BEFORE_ALL if clock is None else clock) for stream, name, clock in told]

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        # All shards hear the same headers.
        reported = next(iter(self._reported.values()), None)
        return () if reported is None else tuple(WrongClock(*one) for one in reported["wrong_clocks"])

    @property
    def seconds(self) -> float:
        return self._seconds

    def observe(self) -> Observation:
        reported = list(self._reported.values())
        inputs = len(self.plan.inputs)

        def total(name: str) -> int:
            return sum(one[name] for one in reported)

        ahead = self.side_outputs.ahead()
        counts = {name: total(name) for name in ("in_time", "late", "filtered", "held", "state_rows", "results")}
        taken_in = ahead + sum(counts[name] for name in ("in_time", "late", "filtered", "held"))
        return Observation(
            clocks=tuple(clocks_of(reported[0])) if reported else (BEFORE_ALL,) * inputs,
            slack=max((one["slack"] for one in reported), default=self._controller.slack),
            watermark=min((watermark_of(one) for one in reported), default=BEFORE_ALL),
            tuples=taken_in,
            ahead=ahead,
            epochs=max((one["epochs"] for one in reported), default=0),
            idle=tuple(reported[0]["idle"]) if reported else (0,) * inputs,
            quality=together(
                [MeasuredQuality.of_counts(one["quality"]["counts"]) for one in reported if one["quality"]]
            ),
            ordering=None,
            waited=None,
            rates=tuple(RatesSeen.of_json(one) for one in reported[0]["rates"]) if reported else (),
            engines=of_all_shards([EnginesSeen.of_json(one["engines"]) for one in reported if one["engines"]]),
            memory=all_shards([Memory.of_json(one["memory"]) for one in reported]),
            parts=(),
            outlook=worst([Outlook.of_json(one["outlook"]) for one in reported if one["outlook"]]),
            **counts,
        )
