"""What a user may ask of an answer: the quality, or the waiting.

Each target is a value with a clause of the language as its face; the disorder package turns it into a slack controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.time import format_duration


@dataclass(frozen=True)
class Complete:
    """Never let out early: slack is the largest delay seen so far (Max-K-slack)."""

    def __str__(self) -> str:
        return "COMPLETE"


@dataclass(frozen=True)
class NoWait:
    """Slack 0 (No-K-slack). The slowest stream is still waited for."""

    def __str__(self) -> str:
        return "NO WAIT"


@dataclass(frozen=True)
class Delay:
    """A fixed slack, in microseconds."""

    slack: int

    def __str__(self) -> str:
        return f"DELAY {format_duration(self.slack)}"


@dataclass(frozen=True)
class Recall:
    """At least this share of a join's true results, measured over the last `over` microseconds."""

    target: float
    over: int

    def __str__(self) -> str:
        return f"RECALL {self.target:g} OVER {format_duration(self.over)}"


@dataclass(frozen=True)
class RelativeError:
    """An aggregate off by at most this share of its true value, in this share of the windows."""

    bound: float
    confidence: float

    def __str__(self) -> str:
        return f"ERROR {self.bound:g} CONFIDENCE {self.confidence:g}"


Quality = Complete | NoWait | Delay | Recall | RelativeError


def clause(quality: Quality) -> str:
    """The target as the language has it, exact to the microsecond; `str` is the one for people.

    >>> clause(Recall(0.99, 60_000_000))
    'RECALL 0.99 OVER 60000000 MICROSECONDS'
    """
    if isinstance(quality, Delay):
        return f"DELAY {quality.slack} MICROSECONDS"
    if isinstance(quality, Recall):
        return f"RECALL {quality.target!r} OVER {quality.over} MICROSECONDS"
    if isinstance(quality, RelativeError):
        return f"ERROR {quality.bound!r} CONFIDENCE {quality.confidence!r}"
    return str(quality)
