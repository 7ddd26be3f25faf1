"""Partitions of a stream whose clocks are odd: far ahead of most others of the same stream, or far behind them.

Invariant: a partition is named only if its stream has at least three; of two it is not known which is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slackwater.core.time import BEFORE_ALL, format_duration


@dataclass(frozen=True)
class PartitionClock:
    """The clock of one partition of a stream; its name is the word of the column that names partitions."""

    stream: int
    name: int
    clock: int


@dataclass(frozen=True)
class OddClock:
    """A partition by its stream and word, how far its clock is ahead of most others, and since when."""

    stream: int
    name: int
    ahead: int
    since: int
    waited_for: bool


@dataclass(frozen=True)
class WrongClock:
    """A partition by name, and how far its clock is ahead of most others, in microseconds; less than 0 if behind."""

    stream: str
    part: Any
    ahead: int
    since: int = BEFORE_ALL
    """The event time of most others when it was first so."""
    waited_for: bool = False
    """Whether results wait for it; else it is wrong, and isolated."""

    def __str__(self) -> str:
        """As a sentence for users.

        >>> print(WrongClock("reports", "rx7", 30 * 60_000_000))
        part rx7 of stream reports has a clock 30 min ahead of most others
        """
        far, way = format_duration(abs(self.ahead)), "ahead of" if self.ahead > 0 else "behind"
        return f"part {self.part} of stream {self.stream} has a clock {far} {way} most others"

    @property
    def remedy(self) -> str:
        """What helps.

        >>> print(WrongClock("reports", "rx7", 1_800_000_000).remedy)
        it is isolated, and moves no clock; set the clock of its sender, or leave it out in WHERE
        """
        if self.waited_for:
            half = format_duration(-self.ahead // 2)
            return (
                f"results wait for it; OPTIONS (idle_timeout = '1 min') lets go of it once it is silent, max_behind ="
                f" '{half}' at once"
            )
        if self.ahead > 0:
            return "it is isolated, and moves no clock; set the clock of its sender, or leave it out in WHERE"
        return (
            "it is isolated, and its rows are late; set the clock of its sender, or raise max_behind if they are to be"
            " waited for"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"stream": self.stream, "part": self.part, "ahead_ms": self.ahead / 1000}
