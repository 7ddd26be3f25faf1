"""What was in force when results were emitted: enough to say afterwards what each of them has waited for.

Invariant: these are facts about the release, not about results; whoever hosts a kernel reads them from its emissions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InForce:
    """Durations in microseconds of event time."""

    slack: int
    lag: int
    """How far the watermark was behind the largest clock when the last epoch ended."""
    epoch: int = 0
    """How far the largest clock came in an epoch; 0 where every tuple is emitted by itself."""
    moved: int = 0
    """How far the watermark came in an epoch."""
    known: bool = True
    """Whether this holds of every epoch that emitted results, and not of several on average."""


NOTHING_IN_FORCE = InForce(0, 0)
"""No slack, and every tuple by itself."""
