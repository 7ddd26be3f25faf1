"""What windows that follow rates have come to, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slackwater.core.time import MAX_TIME


@dataclass(frozen=True)
class Resize:
    """Windows of `sizes` tuples, and matches `within` so much event time, for tuples from `at` on."""

    at: int
    sizes: tuple[int, ...]
    within: int


@dataclass(frozen=True)
class RatesSeen:
    """What is in force in one join, and how often that has changed."""

    sizes: tuple[int, ...]
    within: int
    resized: int

    def as_json(self) -> dict[str, Any]:
        """For the report; `within_ms` is None where times need not match.

        >>> RatesSeen((1, 1), MAX_TIME, 0).as_json()["within_ms"] is None
        True
        """
        within = None if self.within >= MAX_TIME else self.within / 1000
        return {"sizes": list(self.sizes), "within_ms": within, "resized": self.resized}
