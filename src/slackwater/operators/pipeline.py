"""A query as one kernel: clock guard, then release in event-time order, then the operator.

A runtime hosts it: `absorb` takes tuples in, `advance` ends an epoch and yields results, `snapshot_delta` and
`restore` carry its state from one process to another, `observe` reports clocks and counts.

Invariant (law 4): that of `GuardedQuery`; what waits for the verdict of the clock guard is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.state import Emission, StateUpdate
from slackwater.disorder.clock_guard import ClockGuard
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.cutting import MOST_TUPLES, Cutting, Epochs, check_epochs
from slackwater.operators.contract import Operator, OperatorSpec
from slackwater.operators.guarded_query import STATE_VERSION, GuardedQuery

__all__ = ["MOST_TUPLES", "STATE_VERSION", "Epochs", "Pipeline", "check_epochs"]

CLOCK_GUARD = "clock_guard"
"""The namespace of what the clock guard keeps."""


class Pipeline(GuardedQuery):
    """The kernel a runtime hosts; further arguments are those of `GuardedQuery`."""

    def __init__(
        self,
        spec: OperatorSpec,
        operator: Operator,
        controller: SlackController,
        epochs: Epochs,
        max_ahead: int,
        idle_timeout: int | None = None,
        partition_slots: tuple[int, ...] = (),
        *args: Any,
        **more: Any,
    ) -> None:
        super().__init__(spec, operator, controller, epochs, idle_timeout, partition_slots, *args, **more)
        cutting = Cutting(epochs.each_tuple, epochs.tuples, epochs.span)
        self._clock_guard = ClockGuard(spec.streams, max_ahead, cutting, partition_slots)
        self._waiting: list[Batch] = []
        self._ahead: list[Batch] = []

    def absorb(self, batch: Batch) -> None:
        """Take in tuples, in arrival order."""
        if len(batch):
            self.count_taken(len(batch), batch.arrival_time is not None)
            self._waiting.append(batch)

    def advance(self, end: bool = False) -> Iterator[Emission]:
        """End the epoch: move clocks, slack and watermark, emit results. With `end`, emit everything."""
        batch = Batch.concat(self._waiting) if self._waiting else Batch.of([], self._spec.rows)
        self._waiting = []
        admitted = self._clock_guard.admit(batch, end)
        if len(admitted.ahead):
            self._ahead.append(admitted.ahead)
        yield from self.take(admitted, end)

    def take_ahead(self) -> list[Batch]:
        """The tuples rejected since the last call."""
        ahead, self._ahead = self._ahead, []
        return ahead

    @property
    def unjudged(self) -> int:
        return self._clock_guard.pending + sum(map(len, self._waiting))

    def snapshot_delta(self) -> Iterable[StateUpdate]:
        """What to persist since the last call."""
        yield from self._clock_guard.snapshot_delta()
        yield from super().snapshot_delta()

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over the state that an earlier kernel of the same spec persisted.

        A fresh kernel is given all entries. One that was up to date once is given those that were written or dropped
        since then; it must have persisted everything of its own.
        """
        guard: list[StateUpdate] = []
        rest: list[StateUpdate] = []
        for entry in entries:
            (guard if entry.namespace == CLOCK_GUARD else rest).append(entry)
        self._clock_guard.restore(guard)
        super().restore(rest)
