"""What windows that follow rates have come to, as a value."""

from __future__ import annotations

from dataclasses import dataclass


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
