"""A local run: one process, recorded arrivals, an injected clock.

Invariant: the kernel never asks what time it is; the clock here serves the report, and the kernel is given what its
work took, which decides when it works and never what it answers. An interrupted run ends between
two batches, with everything it has emitted written and counted, and without a flush: its input has not ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from slackwater.core.batch import Batch
from slackwater.core.quality import Quality
from slackwater.core.state import Emission, Observation, StateUpdate
from slackwater.observe.delays import DelayTally
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import Clock, Driver, with_results
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.recorded import RecordedRun, Tick, begin_of, no_tick
from slackwater.runtime.watching import progress_of
from slackwater.sinks.rows import result_tables
from slackwater.sources.replay import Replay

BATCH, LARGE, SMALLEST = 8192, 32768, 256
LOOKS = 32
"""How often a run looks at its memory at least, where it is long enough."""


class LocalRun(RecordedRun):
    """Drives a kernel over a replay."""

    runtime = "local"

    def __init__(
        self,
        plan: PhysicalPlan,
        replay: Replay,
        epochs: Epochs,
        clock: Clock = time.perf_counter,
        batch: int | None = None,
    ) -> None:
        """`batch` says how many arrivals are taken in at once; between two batches a run looks at its memory."""
        self._kernel = kernel_for(plan, epochs, replay.codebook)
        super().__init__(plan, replay, self._kernel.release.controller)
        self._driver = Driver(
            self._kernel, side_output=self.side_outputs, on_emission=self._emitted, on_epoch=self._advanced, clock=clock
        )
        self._asked: list[Quality] = []
        self._saved: dict[tuple[str, str], StateUpdate] = {}
        self.epochs = epochs
        self.in_epochs = not epochs.each_tuple
        self._batch = batch or _batch_of(replay, epochs, self._controller.learns)
        for position, one in enumerate(replay.inputs):
            self.side_outputs.add_unreadable(position, one.reasons)

    def warm_up(self) -> None:
        """Run a few tuples through a kernel that is thrown away."""
        for batch in self.replay.batches(64):
            Driver(kernel_for(self.plan, self.epochs, self.replay.codebook)).discard(batch, end=True)
            return

    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        return result_tables(self.plan, self.replay.codebook, self._watched(tick))

    def _watched(self, tick: Tick) -> Iterator[Emission]:
        for emission in self.emissions():
            yield emission
            tick()

    def emissions(self) -> Iterator[Emission]:
        """Run to the end of the input, or until interrupted; yields what holds results."""
        try:
            yield from with_results(self._driver.run(self._arrivals(), end=False))
            if not self.interrupted:
                yield from with_results(self._driver.epoch(end=True))
        except KeyboardInterrupt:
            self.interrupted = True

    def _arrivals(self) -> Iterator[Batch]:
        """The batches of the recording, until interrupted; between two of them the run looks at itself."""
        for batch in self.replay.batches(self._batch):
            if self.interrupted:
                return
            if not self._done:
                self._statistics.begin(begin_of(batch.ts, self.plan.options.max_behind))
            self._done += len(batch)
            if self._delays is not None:
                self._delays.note(batch, self._kernel.release.clocks)
            yield batch
            self._look()
            if self._asked:
                self._retarget(self._asked.pop())

    def _emitted(self, emission: Emission) -> None:
        self._statistics.latency.note(emission)
        self.resizes += self._kernel.take_resizes()

    def _advanced(self) -> None:
        release = self._kernel.release
        self._statistics.note_clocks(release.slack_log(), release.clocks)
        self.resizes += self._kernel.take_resizes()

    def _tally(self) -> DelayTally:
        return DelayTally([one.stream.alias for one in self.plan.inputs], self.plan.options.max_ahead)

    def set_target(self, target: Quality | str) -> None:
        # It knows the language, which a run does not need.
        from slackwater.runtime.targets import settable

        self._asked = [settable(self.plan, target, in_force=self._asked[0] if self._asked else None)]

    def _retarget(self, quality: Quality) -> None:
        """Go on with a new kernel that has another target, and all that the old one knew."""
        for entry in self._kernel.snapshot_delta():
            self._saved[entry.namespace, entry.key] = entry
        self._saved = {key: entry for key, entry in self._saved.items() if entry.value is not None}
        self.plan = replace(self.plan, quality=quality)
        self._kernel = self._driver.kernel = kernel_for(self.plan, self.epochs, self.replay.codebook)
        self._kernel.restore(self._saved.values())
        self._controller = self._kernel.release.controller
        self._statistics.retarget(self.plan)

    def known(self) -> QueryProgress:
        return replace(progress_of(self.plan, self._kernel, self.replay.codebook), delays=self._delays_taken())

    def _look(self) -> None:
        """Note whether the target can be met, and what is in the windows; this is no work of the query."""
        self._note_outlook(self._kernel.outlook())
        self._statistics.note_memory(self._kernel.memory, max(self._kernel.release.clocks), self._done)
        self._looked_at()

    @property
    def seconds(self) -> float:
        return self._driver.seconds

    def observe(self) -> Observation:
        return self._kernel.observe()


def _batch_of(replay: Replay, epochs: Epochs, learns: bool) -> int:
    """As many arrivals as cost little each, and not so many that a short run is over before it has looked at itself.

    Where a batch is an epoch, where the work it takes is held against arrival times, and where a controller learns,
    which it does between two of them, their size means something, and is left as it is.
    """
    means_nothing = replay.arrival_time is None and not learns and (epochs.each_tuple or epochs.tuples or epochs.span)
    return min(LARGE, max(SMALLEST, len(replay) // LOOKS)) if means_nothing else BATCH
