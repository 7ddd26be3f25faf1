"""The one loop that feeds a kernel: batches in, in arrival order, and emissions out.

Local runs, live queries, shards on Spark, tests and experiments differ in where batches come from, where emissions
go, and what they measure. These are arguments; the loop is always this one.

Invariant: an epoch is what is given to one call. Every emission is yielded once, as it comes, after its late tuples
have gone to the side output; rejected ones go there when the epoch has been drained. Time that the consumer takes
between two emissions does not count as the kernel's. Without a clock no time is measured or reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from slackwater.core.batch import Batch
from slackwater.core.state import Emission
from slackwater.operators.query_kernel import QueryKernel
from slackwater.runtime.side_outputs.collectors import SideOutput
from slackwater.sources.encode import AHEAD

Clock = Callable[[], float]
"""Seconds, from any point in time."""


class Driver:
    """Feeds one kernel.

    `on_emission` is called with every emission before it is passed on, `on_epoch` when an epoch has been drained; both
    are part of the work that is measured. With a side output, late and rejected tuples go there.
    """

    def __init__(
        self,
        kernel: QueryKernel,
        *,
        side_output: SideOutput | None = None,
        on_emission: Callable[[Emission], None] | None = None,
        on_epoch: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.kernel = kernel
        self._side_output, self._on_emission, self._on_epoch = side_output, on_emission, on_epoch
        self._clock = clock
        self.seconds = 0.0
        """How long all epochs took, by the clock."""

    def run(self, batches: Iterable[Batch], end: bool = True) -> Iterator[Emission]:
        """One epoch a batch; with `end`, the input has ended after the last of them, and everything held is emitted."""
        for batch in batches:
            yield from self.epoch(batch)
        if end:
            yield from self.epoch(end=True)

    def epoch(self, *batches: Batch, end: bool = False, since: float | None = None) -> Iterator[Emission]:
        """Absorb batches, then end the epoch; with `end`, everything held is emitted.

        `since` is when work on it began by the clock, if that was before this call.
        """
        begun = self._now() if since is None else since
        for batch in batches:
            self.kernel.absorb(batch)
        yield from self._drained(self.kernel.advance(end), begun)

    def remember(self, batch: Batch, reached: Sequence[int], slack: int) -> Iterator[Emission]:
        """An epoch of a history, of which no time and no latency is measured."""
        for emission in self.kernel.remember(batch, reached, slack):
            if self._side_output is not None and len(emission.late.ts):
                self._side_output.add_late(emission.late)
            yield emission
        if self._on_epoch is not None:
            self._on_epoch()

    def on_processing_time(self, now: int) -> Iterator[Emission]:
        """End an epoch in which nothing arrived; by now streams may have been silent for too long."""
        yield from self._drained(self.kernel.on_processing_time(now), self._now())

    def discard(self, *batches: Batch, end: bool = False) -> None:
        """An epoch whose emissions are dropped."""
        for emission in self.epoch(*batches, end=end):
            del emission

    def _drained(self, emissions: Iterable[Emission], begun: float) -> Iterator[Emission]:
        side_output, on_emission, taken = self._side_output, self._on_emission, 0.0
        for emission in emissions:
            if side_output is not None and len(emission.late.ts):
                side_output.add_late(emission.late)
            if on_emission is not None:
                on_emission(emission)
            taken += self._now() - begun
            yield emission
            # It may be large, and the next one is about to be made.
            del emission
            begun = self._now()
        if side_output is not None:
            for batch in self.kernel.take_ahead():
                side_output.add_rejected(batch, AHEAD)
        if self._on_epoch is not None:
            self._on_epoch()
        if self._clock is not None:
            taken += self._now() - begun
            self.seconds += taken
            self.kernel.report_busy_time(taken)

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock()


def with_results(emissions: Iterable[Emission]) -> Iterator[Emission]:
    """The emissions that hold results; the others hold late tuples alone."""
    return (emission for emission in emissions if len(emission.ts))
