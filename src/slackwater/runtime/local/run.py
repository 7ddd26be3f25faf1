"""A local run: one process, recorded arrivals, an injected clock.

Invariant: the kernel never asks what time it is; the clock here serves only the report. An interrupted run ends between
two batches, with everything it has let out written and counted, and without a flush: its input has not ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slackwater.kernel import Emission, Late, Observation
from slackwater.model.batch import ROW, Words
from slackwater.observe.report import LatencyUse, Report, SlackUse
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.kernels import kernel_for
from slackwater.sources.encode import AHEAD, GOOD, REASONS, UTC, Reasons
from slackwater.sources.replay import Replay

BATCH = 8192
Clock = Callable[[], float]


@dataclass
class LocalRun:
    """Drives a kernel over a replay; iterate `emissions`, then ask for the report and for late and rejected rows."""

    plan: PhysicalPlan
    replay: Replay
    epochs: Epochs
    clock: Clock = time.perf_counter
    interrupted: bool = False
    _late: list[Late] = field(default_factory=list)
    _ahead: list[tuple[Words, Words]] = field(default_factory=list)
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self._kernel = kernel_for(self.plan, self.epochs, self.replay.codebook)
        self._slack = SlackUse(self._kernel.release.slack)
        self._latency = LatencyUse()
        self._done = 0

    def warm_up(self) -> None:
        """Have everything compiled before the clock runs, on a kernel that is thrown away."""
        for batch in self.replay.batches(64):
            kernel = kernel_for(self.plan, self.epochs, self.replay.codebook)
            kernel.absorb(batch)
            for _ in kernel.advance(end=True):
                pass
            return

    def emissions(self) -> Iterator[Emission]:
        """Run to the end of the input, or until interrupted; yields what holds results."""
        try:
            for batch in self.replay.batches(BATCH):
                if self.interrupted:
                    return
                begun = self.clock()
                self._kernel.absorb(batch)
                self._done += len(batch)
                yield from self._advance(begun, end=False)
            if not self.interrupted:
                yield from self._advance(self.clock(), end=True)
        except KeyboardInterrupt:
            self.interrupted = True

    def interrupt(self) -> None:
        """Stop after the batch at hand: no tuple is then half way through, so the counts of the report add up."""
        self.interrupted = True

    def _advance(self, begun: float, end: bool) -> Iterator[Emission]:
        for emission in self._kernel.advance(end):
            if len(emission.late.ts):
                self._late.append(emission.late)
            self._latency.note(emission)
            # What the consumer does with an emission is not the kernel's time.
            self._seconds += self.clock() - begun
            if len(emission.ts):
                yield emission
            begun = self.clock()
        self._slack.note(self._kernel.release.slack_log(), max(self._kernel.release.clocks))
        self._ahead += [(batch.stream, batch.words[ROW]) for batch in self._kernel.take_ahead()]
        self._seconds += self.clock() - begun

    @property
    def done(self) -> int:
        """Arrivals taken in."""
        return self._done

    def observe(self) -> Observation:
        return self._kernel.observe()

    def report(self) -> Report:
        """What the run amounts to so far."""
        unreadable: dict[str, int] = {}
        for one in self.replay.inputs:
            for code, count in enumerate(np.bincount(one.reasons, minlength=len(REASONS)).tolist()):
                if code != GOOD and count:
                    unreadable[REASONS[code]] = unreadable.get(REASONS[code], 0) + count
        return Report(
            quality=str(self.plan.quality),
            controller=self._kernel.release.controller.describe(),
            runtime="local",
            observation=self.observe(),
            unreadable=unreadable,
            slack=self._slack,
            latency=self._latency,
            seconds=self._seconds,
            interrupted=self.interrupted,
            aliases=tuple(one.stream.alias for one in self.plan.inputs),
        )

    def late_rows(self, position: int) -> pa.Table:
        """Late rows of one input: stream, delay (milliseconds), the frontier they met, and the row."""
        row, frontier = self.frontiers(position)
        delay = _joined([late.delay[late.stream == position] for late in self._late])
        return self._aside(position, row, {"delay": pa.array(delay / 1000.0), "frontier": pa.array(frontier).cast(UTC)})

    def rejected_rows(self, position: int) -> pa.Table:
        """Rejected rows of one input: stream, reason, and the row."""
        reasons = self._reasons(position)
        row = np.flatnonzero(reasons != GOOD)
        return self._aside(position, row, {"reason": pa.array([REASONS[code] for code in reasons[row]], pa.string())})

    def frontiers(self, position: int) -> tuple[Words, Words]:
        """The late rows of one input and the frontier that each of them met."""
        parts = [(late, late.stream == position) for late in self._late]
        return _joined([late.row[mine] for late, mine in parts]), _joined([late.frontier[mine] for late, mine in parts])

    def rejected(self, position: int) -> Words:
        """Which rows of one input were rejected, for any reason."""
        return np.flatnonzero(self._reasons(position) != GOOD)

    def _reasons(self, position: int) -> Reasons:
        """Why each row of one input was rejected; GOOD where it was not."""
        reasons = self.replay.inputs[position].reasons.copy()
        for stream, row in self._ahead:
            reasons[row[stream == position]] = AHEAD
        return reasons

    def _aside(self, position: int, row: Words, columns: dict[str, pa.Array]) -> pa.Table:
        alias = self.plan.inputs[position].stream.alias
        source = self.replay.tables[position].take(pa.array(row))
        taken = {"stream": pa.array([alias] * len(row), pa.string()), **columns}
        names = [f"{alias}_{name}" if name in taken else name for name in source.column_names]
        return pa.table(
            [*taken.values(), *source.columns], names=[*taken, *names]
        )  # fmt: skip


def _joined(parts: list[Words]) -> Words:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
