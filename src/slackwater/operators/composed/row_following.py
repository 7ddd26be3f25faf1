"""What a controller is told that follows rows up to the top of a query of several operators.

Invariant: what the top emits and what it is given are told as they are; what became of raw tuples further down is not.
"""

from __future__ import annotations

from typing import Protocol

from slackwater.core.batch import Words
from slackwater.core.measured import MeasuredQuality
from slackwater.disorder.meters import QualityMeter
from slackwater.disorder.ordered_batch import OrderedBatch


class RowFollower(Protocol):
    """Hears what the top operator was given and what it made, and can tell how good that was."""

    def made(self, ts: Words) -> None: ...
    def reached_top(self, run: OrderedBatch) -> None: ...
    def measured(self) -> MeasuredQuality: ...
    def begin_at(self, clock: int) -> None: ...


class RowMeter(QualityMeter):
    """A follower of rows, as a meter; what it has learned is persisted with the controller."""

    def __init__(self, follower: RowFollower) -> None:
        self._follower = follower

    def emitted(self, ts: Words, multiplicity: Words | None, by: Words) -> None:
        self._follower.made(ts)

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        self._follower.reached_top(run)

    def measured(self) -> MeasuredQuality:
        return self._follower.measured()

    def begin_at(self, watermark: int, clock: int) -> None:
        self._follower.begin_at(clock)
