"""Which controller serves a quality target: a registry by the name that option `controller` has.

Invariant: the first of each registry is the one that serves where nothing is asked for; those that are as published
are in `published.controllers`, and know no AT MOST.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Delay, NoWait, Quality, Recall, RelativeError, asks_estimates, uncapped
from slackwater.core.registry import Registry
from slackwater.core.time import SECOND
from slackwater.disorder.controllers import FixedSlack, LargestDelay, SlackController
from slackwater.quality.error.steady import SteadyError
from slackwater.quality.recall.steady import ControllerConfig, SteadyRecall

PUBLISHED = ("model", "pd")
STEADY = "steady"
Made = TypeVar("Made")


def controller_for(quality: Quality, options: Options, windows: Sequence[int] = ()) -> SlackController:
    """The controller that serves a quality target; `windows` are those of a join.

    >>> controller_for(NoWait(), Options()).slack
    0
    """
    if isinstance(quality, Complete):
        return LargestDelay(options.initial_slack)
    if isinstance(quality, NoWait):
        return FixedSlack(0)
    if isinstance(quality, Delay):
        return FixedSlack(quality.slack)
    if quality.at_most is not None and options.controller in PUBLISHED:
        raise UsageError(f"controller = '{options.controller}' is as published, and knows no AT MOST; leave one out")
    if asks_estimates(quality) and options.controller in PUBLISHED:
        raise UsageError(f"controller = '{options.controller}' is as published, and gives no estimates; leave one out")
    if isinstance(quality, Recall):
        return _for_recall(quality, options, windows)
    return _for_error(quality, options)


def usual_interval(period: int) -> int:
    """How often slack is chosen for a recall over this period.

    Every second; ten times a period where that is short, and six hundred times where it is long.

    >>> from slackwater.core.time import DAY, MINUTE
    >>> [usual_interval(period) / SECOND for period in (SECOND, MINUTE, DAY)]
    [0.1, 1.0, 144.0]
    """
    return max(min(SECOND, max(1, period // 10)), period // 600)


def learning_key(quality: Quality, options: Options, windows: Sequence[int] = ()) -> str:
    """What two controllers must have in common for one to go on with what the other has learned.

    The share that RECALL asks for is not part of it: what was learned are delays and losses, whatever is allowed. Nor
    is the most slack that may be chosen.

    >>> from slackwater.core.time import MINUTE
    >>> low, high = (learning_key(Recall(share, MINUTE), Options()) for share in (0.95, 0.99))
    >>> low == high, low == learning_key(NoWait(), Options())
    (True, False)
    """
    if not isinstance(quality, Recall | RelativeError):
        return str(quality)
    asked = f"RECALL OVER {quality.over}" if isinstance(quality, Recall) else str(uncapped(quality))
    names = (
        "controller",
        "adaptation_interval",
        "granularity",
        "basic_window",
        "selectivity",
        "retrospect",
        "retention",
    )
    return repr((asked, tuple(windows), *(getattr(options, name) for name in names)))


def _for_error(quality: RelativeError, options: Options) -> SlackController:
    make = _named(ERROR_CONTROLLERS, options, "a bound on the error")
    if options.selectivity is not None:
        raise UsageError("option selectivity is for recall targets alone")
    if not 0 < options.retrospect < 1:
        raise UsageError("option retrospect is a share between 0 and 1")
    return make(quality, options)


ERROR_CONTROLLERS: Registry[Callable[[RelativeError, Options], SlackController]] = Registry(
    "controllers", {STEADY: SteadyError}
)


@dataclass(frozen=True)
class RecallTerms:
    """What a controller for a recall target is made from."""

    quality: Recall
    windows: Sequence[int]
    config: ControllerConfig
    retention: int
    options: Options


def _for_recall(quality: Recall, options: Options, windows: Sequence[int]) -> SlackController:
    make = _named(RECALL_CONTROLLERS, options, "a recall target")
    interval = options.adaptation_interval or usual_interval(quality.over)
    if interval > quality.over:
        raise UsageError("option adaptation_interval is longer than the period that recall is measured over")
    config = ControllerConfig(interval, options.granularity, options.basic_window)
    retention = options.least_retention(quality.over)
    if options.selectivity is not None and options.controller != "model":
        raise UsageError("option selectivity is for controller = 'model' alone")
    return make(RecallTerms(quality, windows, config, retention, options))


def _steady(terms: RecallTerms) -> SlackController:
    first, max_behind = terms.options.initial_slack, terms.options.max_behind
    return SteadyRecall(terms.quality, terms.windows, terms.config, terms.retention, first, max_behind)


RECALL_CONTROLLERS: Registry[Callable[[RecallTerms], SlackController]] = Registry("controllers", {STEADY: _steady})


def _named(registry: Registry[Made], options: Options, served: str) -> Made:
    """The maker of the controller that the options ask for."""
    made = registry.find(name := options.controller or STEADY)
    if made is None:
        raise UsageError(f"option controller = '{name}': for {served} there is {', '.join(registry.names())}")
    return made
