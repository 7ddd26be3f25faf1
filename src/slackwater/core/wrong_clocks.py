"""Partitions of a stream whose clocks are wrong: far ahead of most others of the same stream, or far behind them.

Invariant: a partition is named only if its stream has at least three; of two it is not known which is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from slackwater.core.time import BEFORE_ALL, format_duration

FEWEST = 3


@dataclass(frozen=True)
class PartitionClock:
    """The clock of one partition of a stream; its name is the word of the column that names partitions."""

    stream: int
    name: int
    clock: int


@dataclass(frozen=True)
class WrongClock:
    """A partition by name, and how far its clock is ahead of most others, in microseconds; less than 0 if behind."""

    stream: str
    part: Any
    ahead: int

    def __str__(self) -> str:
        """As a sentence for users.

        >>> print(WrongClock("reports", "rx7", 30 * 60_000_000))
        part rx7 of stream reports has a clock 30 min ahead of most others
        """
        far, way = format_duration(abs(self.ahead)), "ahead of" if self.ahead > 0 else "behind"
        return f"part {self.part} of stream {self.stream} has a clock {far} {way} most others"

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"stream": self.stream, "part": self.part, "ahead_ms": self.ahead / 1000}


def wrong_clocks(parts: Iterable[PartitionClock], max_ahead: int, max_behind: int) -> list[tuple[PartitionClock, int]]:
    """The partitions that are more than `max_ahead` ahead of the middle one of their stream, or `max_behind` behind it.

    >>> parts = [PartitionClock(0, name, clock) for name, clock in enumerate((10, 11, 12, 5000, -5000))]
    >>> [(part.name, ahead) for part, ahead in wrong_clocks(parts, max_ahead=100, max_behind=100)]
    [(3, 4989), (4, -5011)]
    """
    found = []
    known = [part for part in parts if part.clock != BEFORE_ALL]
    for stream in sorted({part.stream for part in known}):
        mine = [part for part in known if part.stream == stream]
        if len(mine) >= FEWEST:
            middle = median_low(part.clock for part in mine)
            found += [
                (part, part.clock - middle) for part in mine if not -max_behind <= part.clock - middle <= max_ahead
            ]
    return found
