"""Windows that are filled in steps: a day that answers every hour, with all there is since midnight.

Invariant: the windows of a step are those that begin at the multiple of `range` before it and end with it; each is
emitted once, when the watermark reaches its end, and holds what every window holds. The panes are the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.core.batch import Words
from slackwater.core.time import format_duration
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.panes import Panes, filling
from slackwater.operators.contract import WithoutKey


@dataclass(frozen=True)
class FillingAggregate(WindowAggregate):
    """Spec: `range` is the length of a window that is full, and `slide` that of a step, of which it is a multiple."""

    @cached_property
    def grid(self) -> Panes:
        return filling(self.range, self.slide or self.range)

    def bounds(self, window: Words) -> tuple[Words, Words]:
        return window // self.grid.steps * self.range, (window + 1) * self.grid.slide

    @property
    def as_panes(self) -> None:
        return None

    @property
    def watched(self) -> None:
        return None

    @property
    def without_key(self) -> WithoutKey:
        return WithoutKey.NOT

    @property
    def state_identity(self) -> object:
        return "filling", super().state_identity

    @property
    def moves(self) -> str:
        """The window and how it is filled, in words.

        >>> FillingAggregate(60_000_000, 10_000_000, (), (), 2).moves
        'window 1 min, filled in steps of 10 s'
        """
        return f"window {format_duration(self.range)}, filled in steps of {format_duration(self.grid.slide)}"
