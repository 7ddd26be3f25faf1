"""A run over recorded streams on Spark.

Invariant: everything reported comes from the files of the epoch log, read in the order of the micro-batches; a run that
takes up an older one reads that one's files first, so its results and its report are those of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from slackwater.core.state import NO_LATE, Emission, Observation
from slackwater.core.values import total
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.delays import Buckets, added
from slackwater.observe.value import QueryProgress, nothing_observed
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.registry import controller_for
from slackwater.runtime.recorded import RecordedRun, Tick, no_tick
from slackwater.runtime.spark.exchange.writer import SOURCE_ROW
from slackwater.runtime.spark.output_schema import result_schema
from slackwater.runtime.spark.replay import epoch_log
from slackwater.sinks.rows import SecondCounts
from slackwater.sources.replay import Replay

MicroBatches = Callable[[Tick, Callable[[], bool]], Iterator[int]]
"""Runs to the end of the input, or until interrupted: the numbers of micro-batches as they are kept."""


class SparkRun(RecordedRun):
    """One query over the files of recorded streams."""

    runtime = "spark"
    shards: int

    def __init__(
        self,
        plan: PhysicalPlan,
        replay: Replay,
        arrivals: tuple[int, ...],
        folder: Path,
        shards: int,
        micro_batches: MicroBatches | None = None,
    ) -> None:
        """`arrivals` says how many have come by the end of each micro-batch; those that are not kept in the folder are
        run by `micro_batches`."""
        super().__init__(plan, replay, controller_for(plan.quality, plan.options, plan.windows))
        self.shards = plan.partitioning.shards(shards)
        self._arrivals, self._folder, self._micro_batches = arrivals, folder, micro_batches
        (folder / "epochs").mkdir(exist_ok=True)
        self._reported: dict[tuple[int, bool], QueryProgress] = {}
        self._seconds = 0.0
        self._delays: Buckets = {}

    def warm_up(self) -> None:
        """Nothing: workers compile on their own, and what they have compiled they find on disk."""

    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        if self.plan.count_only:
            yield self._counts(tick)
            return
        nothing = True
        for out in self._epochs(tick):
            # All shards share a watermark, so nothing that comes later is older.
            if out.results is not None and out.results.num_rows:
                nothing = False
                yield out.results
        if nothing:
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
        if self._micro_batches is not None and kept < len(self._arrivals):
            for number in self._micro_batches(tick, lambda: self.interrupted):
                # The last one of an interrupted run may run a second time.
                if number >= kept:
                    yield self._noted(number)

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
            asked, emit = str(self.plan.quality), self.plan.emit
            return QueryProgress(
                target=asked, emit=str(emit), amends=emit.amends, observed=self.observe(), delays=delays
            )
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
