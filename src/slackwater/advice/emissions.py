"""What it costs to keep nearly all results, by when they leave: in order, on arrival, or with corrections.

A tuple is findable from its arrival until the watermark is beyond its window, whether it is held back meanwhile or
not: so on arrival costs the state of in order, and none of its waiting. To correct results for d longer keeps it for d
longer, which is the state of a slack that is d longer.

Invariant: nothing is found here; every number is that of a slack of the advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slackwater.advice.answer import Advice, in_whole_units
from slackwater.core.emitting import ON_ARRIVAL, ONCE, Emit
from slackwater.core.time import MILLISECOND

ENOUGH = 0.99
"""The share of the first answer."""


@dataclass(frozen=True)
class EmissionCost:
    """One way to emit, with the least slack for ENOUGH."""

    emit: str
    first: float
    """The share that the first answer has."""
    last: float
    """The share with corrections."""
    latency: float | None
    """Of the first answer, as of a slack; None also where nothing waits."""
    state: float

    @property
    def waits(self) -> bool:
        """Whether a result waits for anything but its last member."""
        return self.emit != ON_ARRIVAL

    def as_json(self) -> dict[str, Any]:
        latency = None if self.latency is None else self.latency / MILLISECOND
        return {
            "emit": self.emit,
            "first_answer": self.first,
            "with_corrections": self.last,
            "waits": self.waits,
            "latency_ms": latency,
            "state": self.state,
        }


def emission_costs(advice: Advice) -> list[EmissionCost]:
    """The ways to emit that a query has; none where no slack keeps enough."""
    slack, whole = advice.curve.least(ENOUGH), advice.curve.least(1.0)
    if slack is None or not advice.curve.of:
        return []
    point = advice.point(slack)
    kept, state = point.kept, point.waiting.kept
    found = [EmissionCost(str(ONCE), kept, kept, point.waiting.latency, state)]
    if advice.bound is None and len(advice.by_stream) > 1:
        found.append(EmissionCost(ON_ARRIVAL, kept, kept, None, state))
    if whole is not None and whole > slack:
        corrected = f"{Emit(corrections=True)} FOR {clause(whole - slack)}"
        found.append(EmissionCost(corrected, kept, 1.0, point.waiting.latency, advice.point(whole).waiting.kept))
    return found


def clause(slack: int) -> str:
    """A duration as a query has it.

    >>> clause(1_508_000), clause(60_000_000)
    ('1508 MS', '1 MINUTES')
    """
    count, unit, _ = in_whole_units(slack)
    return f"{count} {'MS' if unit == 'milliseconds' else unit.upper()}"
