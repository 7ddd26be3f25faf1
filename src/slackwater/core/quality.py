"""What a user may ask of an answer: the quality, or the waiting.

Each target is a value with a clause of the language as its face; the disorder package turns it into a slack controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slackwater.core.time import MINUTE, format_duration

DEFAULT_CONFIDENCE, DEFAULT_PERIOD = 0.95, MINUTE
"""What a target has of which these are not stated."""


@dataclass(frozen=True)
class Complete:
    """Never emitted early: slack is the largest delay seen so far (Max-K-slack)."""

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
    at_most: int | None = None
    """The most slack that may be chosen for it, in microseconds; None: what is sensible (`default_cap`)."""
    unstated: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Fields that have their default because nothing was said of them."""
    precision: float | None = None
    """At least this share of the rows is true, where some may turn out not to be; None: nothing is asked."""

    def __str__(self) -> str:
        precision = "" if self.precision is None else f" PRECISION {self.precision:g}"
        return f"RECALL {self.target:g}{precision} OVER {format_duration(self.over)}" + _capped(self.at_most)


@dataclass(frozen=True)
class RelativeError:
    """An aggregate off by at most this share of its true value, in this share of the windows."""

    bound: float
    confidence: float
    at_most: int | None = None
    """The most slack that may be chosen for it, in microseconds; None: what is sensible (`default_cap`)."""
    unstated: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Fields that have their default because nothing was said of them."""
    estimated: bool = False
    """Whether it bounds the error of an estimate, in which what is expected to be missing counts."""

    def __str__(self) -> str:
        return f"ERROR {self.bound:g}{_of_estimate(self)} CONFIDENCE {self.confidence:g}" + _capped(self.at_most)


Quality = Complete | NoWait | Delay | Recall | RelativeError


def impossible_share(word: str, share: float) -> str | None:
    """Why a target cannot ask for this share; None if it can. A recall may be complete.

    >>> impossible_share("RECALL", 1.0), impossible_share("ERROR", 1.0)
    (None, 'ERROR must be more than 0 and less than 1 (100%)')
    """
    if 0 < share < 1 or (word == "RECALL" and share == 1):
        return None
    return f"{word} must be more than 0 and {'at most' if word == 'RECALL' else 'less than'} 1 (100%)"


def clause(quality: Quality) -> str:
    """The target as the language has it, exact to the microsecond; `str` is the one for people.

    >>> clause(Recall(0.99, 60_000_000)), clause(Recall(0.99, 60_000_000, precision=0.999))
    ('RECALL 0.99 OVER 1 min', 'RECALL 0.99 PRECISION 0.999 OVER 1 min')
    """
    if isinstance(quality, Recall):
        precision = "" if quality.precision is None else f" PRECISION {quality.precision!r}"
        return f"RECALL {quality.target!r}{precision} OVER {format_duration(quality.over)}" + _capped(quality.at_most)
    if isinstance(quality, RelativeError):
        share = f"ERROR {quality.bound!r}{_of_estimate(quality)}"
        return f"{share} CONFIDENCE {quality.confidence!r}" + _capped(quality.at_most)
    return str(quality)


def completed(quality: Quality, *in_force: Quality) -> Quality:
    """A target with what it does not state taken from the first of its kind.

    >>> print(completed(Recall(0.99, MINUTE, unstated=("over",)), Delay(5), Recall(0.9, 10_000_000)))
    RECALL 0.99 OVER 10 s
    """
    same = next((one for one in in_force if type(one) is type(quality)), None)
    if same is None or not isinstance(quality, Recall | RelativeError):
        return quality
    return replace(quality, unstated=(), **{name: getattr(same, name) for name in quality.unstated})


def uncapped(quality: Quality) -> Quality:
    """The target itself, whatever the most slack for it.

    >>> print(uncapped(Recall(0.99, 60_000_000, at_most=1_000_000)))
    RECALL 0.99 OVER 1 min
    """
    return replace(quality, at_most=None) if isinstance(quality, Recall | RelativeError) else quality


def default_cap(period: int, max_behind: int) -> int:
    """The most slack for a target that names none: ten of its periods, ten minutes at least, `max_behind` at most.

    An answer over a minute that comes days later is not what was asked for; who wants it says AT MOST.

    >>> default_cap(MINUTE, max_behind=24 * 60 * MINUTE) // MINUTE
    10
    """
    return min(max(10 * period, 10 * MINUTE), max_behind)


def asks_estimates(quality: Quality | None) -> bool:
    """Whether answers have estimates beside them.

    >>> asks_estimates(RelativeError(0.01, 0.95, estimated=True)), asks_estimates(NoWait())
    (True, False)
    """
    return isinstance(quality, RelativeError) and quality.estimated


def _of_estimate(quality: RelativeError) -> str:
    return " ESTIMATED" if quality.estimated else ""


def _capped(at_most: int | None) -> str:
    return "" if at_most is None else f" AT MOST {format_duration(at_most)}"
