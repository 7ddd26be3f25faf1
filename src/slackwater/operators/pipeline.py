"""A query as one kernel behind a clock guard of its own, as a runtime hosts it that sees the tuples themselves.

`absorb` takes tuples in, `advance` ends an epoch and yields results, `snapshot_delta` and `restore` carry its state
from one process to another, `observe` reports clocks and counts.

Invariant (law 4): that of `QueryKernel`; what waits for the verdict of the clock guard is held.
"""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.core.batch import Batch
from slackwater.core.state import StateUpdate
from slackwater.disorder.clock_guard import ClockGuard, Guarded
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.cutting import MOST_TUPLES, Cutting, Epochs, check_epochs
from slackwater.operators.contract import Operator, OperatorSpec
from slackwater.operators.query_kernel import STATE_VERSION, KernelTerms, QueryKernel

__all__ = ["MOST_TUPLES", "STATE_VERSION", "Epochs", "KernelTerms", "Pipeline", "check_epochs"]

CLOCK_GUARD = "clock_guard"
"""The namespace of what the clock guard keeps."""


class Pipeline(QueryKernel):
    """A kernel that admits no tuple which is more than `max_ahead` ahead of its stream's clock."""

    def __init__(
        self, spec: OperatorSpec, operator: Operator, controller: SlackController, terms: KernelTerms, max_ahead: int
    ) -> None:
        super().__init__(spec, operator, controller, terms)
        epochs = terms.epochs
        cutting = Cutting(epochs.each_tuple, epochs.tuples, epochs.span)
        self._clock_guard = ClockGuard(spec.streams, max_ahead, cutting, terms.partition_slots)
        self._ahead: list[Batch] = []

    def _admitted(self, end: bool) -> Guarded:
        admitted = self._clock_guard.admit(super()._admitted(end).batch, end)
        if len(admitted.ahead):
            self._ahead.append(admitted.ahead)
        return admitted

    def take_ahead(self) -> list[Batch]:
        ahead, self._ahead = self._ahead, []
        return ahead

    @property
    def unjudged(self) -> int:
        return self._clock_guard.pending + super().unjudged

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
