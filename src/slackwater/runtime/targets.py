"""Targets for calls from Python, on any runtime.

Invariant: what a call makes is what the clause of the language makes; what is out of range is refused where it is made.
"""

from __future__ import annotations

from slackwater.language.clauses import parse_quality
from slackwater.model.errors import SlackwaterError, UsageError
from slackwater.model.quality import Complete, Delay, NoWait, Recall, RelativeError
from slackwater.model.time import parse_duration

Share = float | str


def complete() -> Complete:
    """Never emit early: wait as long as the largest delay seen.

    >>> print(complete())
    COMPLETE
    """
    return Complete()


def no_wait() -> NoWait:
    """Wait for the slowest stream only.

    >>> print(no_wait())
    NO WAIT
    """
    return NoWait()


def delay(duration: str) -> Delay:
    """Wait so long.

    >>> print(delay("2 seconds"))
    DELAY 2 s
    """
    return Delay(micros(duration, "delay"))


def recall(target: Share, over: str = "1 minute") -> Recall:
    """At least this share of a join's results, in any period of this length.

    >>> print(recall(0.99, over="30 seconds"), recall("95%"), sep=", ")
    RECALL 0.99 OVER 30 s, RECALL 0.95 OVER 1 min
    """
    made = _stated(f"RECALL {_share(target, 'recall')} OVER {micros(over, 'over')} MICROSECONDS", target)
    assert isinstance(made, Recall)
    return made


def relative_error(bound: Share, confidence: Share = 0.95) -> RelativeError:
    """An aggregate that is off by at most this share of its value, in this share of the windows.

    >>> print(relative_error("1%"))
    ERROR 0.01 CONFIDENCE 0.95
    """
    text = f"ERROR {_share(bound, 'relative_error')} CONFIDENCE {_share(confidence, 'confidence')}"
    made = _stated(text, bound)
    assert isinstance(made, RelativeError)
    return made


def _stated(text: str, given: Share) -> object:
    try:
        return parse_quality(text)
    except SlackwaterError as error:
        raise UsageError(f"{given!r}: {str(error).splitlines()[0]}") from None


def _share(value: Share, what: str) -> str:
    """A share as the language writes it: 0.99, or 99%."""
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    # Python writes small numbers with an exponent, and infinity in words.
    if not 0 <= number <= 100:
        raise UsageError(f"{what}: {value!r} is no share; write 0.99 or '99%'")
    return f"{number:.15f}".rstrip("0").rstrip(".") + ("%" if text.endswith("%") else "")


def micros(text: str, what: str) -> int:
    """A duration in words; what is none is refused under the name of the argument."""
    try:
        return parse_duration(text)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{what}={text!r}: {error}") from None
