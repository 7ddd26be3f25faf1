"""Epochs: how a runtime cuts time.

Invariant: whatever cuts an epoch is a whole number, of tuples or of microseconds; with neither, each call ends one.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from slackwater.core.errors import UsageError
from slackwater.core.time import LONGEST, format_duration

MOST_TUPLES = 10**12
"""No epoch waits for more."""


@dataclass(frozen=True)
class Epochs:
    """How a runtime cuts time: tuple release, or epochs of n tuples, of a span of event time, or as the caller says."""

    each_tuple: bool = False
    tuples: int = 0
    span: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.tuples, Integral) or not isinstance(self.span, Integral):
            raise UsageError("an epoch is a whole number of tuples, or of microseconds")
        if not 0 <= self.tuples <= MOST_TUPLES:
            raise UsageError(f"an epoch of {self.tuples:,} tuples: there are 1 to {MOST_TUPLES:,}")
        if not 0 <= self.span <= LONGEST:
            raise UsageError(f"an epoch of {format_duration(self.span)}: it lasts {format_duration(LONGEST)} at most")


def check_epochs(epochs: object) -> None:
    """Refuse what does not say how time is cut."""
    if epochs is not None and not isinstance(epochs, Epochs):
        raise UsageError(
            f"epochs: a {type(epochs).__name__} is none; write slackwater.Epochs(tuples=1000), for example"
        )
