"""Targets for calls from Python, on any runtime.

Invariant: what a call makes is what the clause of the language makes; what is out of range is refused where it is made.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.errors import UsageError
from slackwater.core.quality import (
    DEFAULT_CONFIDENCE,
    DEFAULT_PERIOD,
    Complete,
    Delay,
    NoWait,
    Quality,
    Recall,
    RelativeError,
    asks_estimates,
    completed,
    impossible_share,
)
from slackwater.core.time import parse_duration
from slackwater.language.dialect import parse_quality
from slackwater.plan.fragments import learned
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.registry import controller_for

Share = float | str
FAMILIES = {Recall: "RECALL", RelativeError: "ERROR"}
"""Targets for which a query learns."""


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


def recall(
    target: Share, over: str | None = None, at_most: str | None = None, precision: Share | None = None
) -> Recall:
    """At least this share of a join's results, in any period of this length, with a slack of `at_most` at most; and, of
    an outer join, at least the share `precision` of its rows true.

    What is not said is as `set_target` finds it in force; in a query that starts, the period is a minute.

    >>> print(recall(0.99, over="30 seconds"), recall("95%", at_most="10 minutes"), sep=", ")
    RECALL 0.99 OVER 30 s, RECALL 0.95 OVER 1 min AT MOST 10 min
    """
    period = DEFAULT_PERIOD if over is None else _longer_than_nothing(over, "over")
    return Recall(
        _share(target, "recall", "RECALL"),
        period,
        _most(at_most),
        _unstated(over=over is None, at_most=at_most is None, precision=precision is None),
        None if precision is None else _share(precision, "precision", "PRECISION"),
    )


def relative_error(
    bound: Share, confidence: Share | None = None, at_most: str | None = None, estimated: bool = False
) -> RelativeError:
    """An aggregate that is off by at most this share of its value, in this share of the windows, with a slack of
    `at_most` at most. `estimated`: that is asked of an estimate, which stands beside the value in columns of its own.

    What is not said is as `set_target` finds it in force; in a query that starts, the confidence is 95 %.

    >>> print(relative_error("1%", estimated=True), relative_error("1%", at_most="10 seconds"), sep=", ")
    ERROR 0.01 ESTIMATED CONFIDENCE 0.95, ERROR 0.01 CONFIDENCE 0.95 AT MOST 10 s
    """
    sure = DEFAULT_CONFIDENCE if confidence is None else _share(confidence, "confidence", "CONFIDENCE")
    unstated = _unstated(confidence=confidence is None, at_most=at_most is None)
    return RelativeError(_share(bound, "relative_error", "ERROR"), sure, _most(at_most), unstated, estimated)


def capped(quality: Quality | str | None, at_most: str | None, whole: bool = True) -> Quality | None:
    """A target, given as itself or in words, with a cap on the slack that is chosen for it, where one is given.
    Without `whole` the words may leave out the period of RECALL.

    >>> print(capped("RECALL 0.95 OVER 1 MINUTE", "5 seconds"))
    RECALL 0.95 OVER 1 min AT MOST 5 s
    """
    stated = parse_quality(quality, whole) if isinstance(quality, str) else quality
    if at_most is None:
        return stated
    if not isinstance(stated, Recall | RelativeError):
        said = "there is no target" if stated is None else f"{stated} looks for none"
        raise UsageError(f"at_most={at_most!r} bounds the slack that RECALL and ERROR look for, and {said}")
    if stated.at_most is not None:
        raise UsageError(f"at_most={at_most!r}: the target already says {stated}")
    return replace(
        stated, at_most=_most(at_most), unstated=tuple(name for name in stated.unstated if name != "at_most")
    )


def settable(
    plan: PhysicalPlan, target: Quality | str, at_most: str | None = None, in_force: str | Quality | None = None
) -> Quality:
    """A target that a running query can be given; any other is refused. Of what it does not state, the target that is
    in force counts, else that of the plan."""
    asked = capped(target, at_most, whole=False)
    if asked is None:
        raise UsageError("say which target: slackwater.recall(0.99), or its text")
    now = parse_quality(in_force) if isinstance(in_force, str) else in_force
    quality = completed(asked, now or plan.quality, plan.quality)
    family = FAMILIES.get(type(quality))
    if family is not None and type(quality) is not type(plan.quality):
        above, where = plan.partitioning.above, "the same checkpoint"
        if above is not None and learned(replace(plan, quality=quality)) is not None:
            where = "a new checkpoint, in one shard"
        elif above is not None and above.keys is not None:
            where = "a new checkpoint"
        raise UsageError(
            f"the query was started WITH {plan.quality} and has not learned what {family} needs; stop it, and start it"
            f" again WITH {quality} on {where}"
        )
    if asks_estimates(quality) != asks_estimates(plan.quality):
        one, other = ("no ", "with") if asks_estimates(quality) else ("", "without")
        raise UsageError(
            f"the results of the query have {one}columns for estimates, and keep their columns while it runs; write"
            f" ERROR {'without' if one else 'with'} ESTIMATED, or start the query again {other} it"
        )
    # What does not go with the options of the query is refused here, and not in every shard.
    controller_for(quality, plan.options, plan.windows)
    return quality


def _unstated(**unsaid: bool) -> tuple[str, ...]:
    return tuple(name for name, left_out in unsaid.items() if left_out)


def _most(at_most: str | None) -> int | None:
    """The most slack, where one is given."""
    if at_most is None:
        return None
    most = micros(at_most, "at_most")
    if most <= 0:
        raise UsageError(f"at_most={at_most!r} must be longer than nothing; sw.no_wait() is for no slack at all")
    return most


def _longer_than_nothing(text: str, what: str) -> int:
    length = micros(text, what)
    if length <= 0:
        raise UsageError(f"{what}={text!r} must be longer than nothing")
    return length


def _share(value: Share, what: str, word: str) -> float:
    """A share as a number, or as the language writes it: 0.99, or 99%."""
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise UsageError(f"{what}: {value!r} is no share; write 0.99 or '99%'")
    share = float(f"{number / 100 if text.endswith('%') else number:.15g}")
    why = impossible_share(word, share)
    if why is not None:
        raise UsageError(f"{value!r}: {why}")
    return share


def micros(text: str, what: str) -> int:
    """A duration in words; what is none is refused under the name of the argument."""
    try:
        return parse_duration(text)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{what}={text!r}: {error}") from None
