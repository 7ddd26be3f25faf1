"""Tuples held back by random delays, each on its own.

Invariant: tuples are only ever held back; event times are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.errors import UsageError
from slackwater.workloads.workload import Floats


@dataclass(frozen=True)
class Delays:
    """Hold back this share of the tuples, each on its own, by up to `max_delay_ms` (log-uniformly: mostly little)."""

    late_share: float
    max_delay_ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.late_share <= 1:
            raise UsageError(f"late_share is a share between 0 and 1, not {self.late_share:g}")
        if self.max_delay_ms < 0:
            raise UsageError(f"max_delay_ms is a length of time, not {self.max_delay_ms}")

    def draw(self, rng: np.random.Generator, tuples: int) -> Floats:
        """Milliseconds to hold each tuple back.

        >>> held = Delays(late_share=0.5, max_delay_ms=200).draw(np.random.default_rng(0), 1000)
        >>> bool(450 < (held > 0).sum() < 550), bool(held.max() <= 200)
        (True, True)
        """
        depth: Floats = float(self.max_delay_ms + 1) ** rng.random(tuples) - 1
        return np.where(rng.random(tuples) < self.late_share, depth, 0.0)
