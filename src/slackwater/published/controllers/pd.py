"""A PD controller on the share of the largest delay that is waited for.

Invariant: alpha stays within 0 and 1, so K stays within 0 and the largest delay ever seen, also when that one grows.
The controller knows no model: it is told what was wanted and what was measured (coverage of a window for aggregates,
recall of the last period for joins). There is no integral term: in quiet times quality stays above what is asked for,
and the sum of such errors would take as long to unwind.

References: 004 §3.4.2 (Eq. 3.7, Fig. 3.7), §4.1.6, §4.2.5; gains from §4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Gains:
    """Weights of the present error and of its change since the last step."""

    proportional: float
    derivative: float


FOR_AGGREGATES = Gains(0.2, 4.0)
FOR_JOINS = Gains(0.6, 0.8)


@dataclass
class PdController:
    """Moves alpha; K is alpha times the largest delay ever. The first step has no change to look at.

    >>> controller = PdController(FOR_JOINS)
    >>> round(controller.step(wanted=0.95, measured=0.75), 3), controller.slack(largest_delay=1000)
    (0.12, 120)
    >>> round(controller.step(wanted=0.95, measured=0.95), 3)
    0.0
    """

    gains: Gains
    alpha: float = 0.0
    previous_error: float | None = None

    def step(self, wanted: float, measured: float) -> float:
        """One adaptation: the new alpha."""
        error = wanted - measured
        change = 0.0 if self.previous_error is None else error - self.previous_error
        moved = self.alpha + self.gains.proportional * error + self.gains.derivative * change
        self.alpha = min(max(moved, 0.0), 1.0)
        self.previous_error = error
        return self.alpha

    def slack(self, largest_delay: int) -> int:
        """K in microseconds, rounded up so that alpha = 1 waits for the largest delay in full."""
        return min(ceil(self.alpha * largest_delay), largest_delay)
