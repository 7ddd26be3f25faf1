"""What a pipeline tells a controller that follows rows up to the top of a query of several operators."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.model.batch import Words
from slackwater.model.measured import MeasuredQuality


@runtime_checkable
class RowFollower(Protocol):
    """Hears what the top operator was given and what it made, and can tell how good that was."""

    def made(self, ts: Words) -> None: ...
    def reached_top(self, run: OrderedBatch) -> None: ...
    def measured(self) -> MeasuredQuality: ...
    def begin_at(self, clock: int) -> None: ...
