"""Which controller serves a quality target."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.disorder.controllers import FixedSlack, LargestDelay, SlackController
from slackwater.disorder.quality.error_published import ModelError, PdError
from slackwater.disorder.quality.error_steady import SteadyError
from slackwater.disorder.quality.published_recall import SELECTIVITIES, ModelRecall, PdRecall
from slackwater.disorder.quality.steady import ControllerConfig, SteadyRecall
from slackwater.model.errors import UsageError
from slackwater.model.options import Options
from slackwater.model.quality import Complete, Delay, NoWait, Quality, Recall, RelativeError, uncapped
from slackwater.model.time import SECOND

RECALL_CONTROLLERS = ("steady", "model", "pd")
ERROR_CONTROLLERS = ("steady", "model", "pd")
PUBLISHED = ("model", "pd")


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
    if isinstance(quality, Recall):
        return _for_recall(quality, options, windows)
    return _for_error(quality, options)


def usual_interval(period: int) -> int:
    """How often slack is chosen for a recall over this period.

    Every second; ten times a period where that is short, and six hundred times where it is long.

    >>> from slackwater.model.time import DAY, MINUTE
    >>> [usual_interval(period) / SECOND for period in (SECOND, MINUTE, DAY)]
    [0.1, 1.0, 144.0]
    """
    return max(min(SECOND, max(1, period // 10)), period // 600)


def learning_key(quality: Quality, options: Options, windows: Sequence[int] = ()) -> str:
    """What two controllers must have in common for one to go on with what the other has learned.

    The share that RECALL asks for is not part of it: what was learned are delays and losses, whatever is allowed. Nor
    is the most slack that may be chosen.

    >>> from slackwater.model.time import MINUTE
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
    if options.controller not in (None, *ERROR_CONTROLLERS):
        known = ", ".join(ERROR_CONTROLLERS)
        raise UsageError(f"option controller = '{options.controller}': for a bound on the error there is {known}")
    if options.selectivity is not None:
        raise UsageError("option selectivity is for recall targets alone")
    if not 0 < options.retrospect < 1:
        raise UsageError("option retrospect is a share between 0 and 1")
    if options.controller == "model":
        return ModelError(quality, options)
    if options.controller == "pd":
        return PdError(quality, options)
    return SteadyError(quality, options)


def _for_recall(quality: Recall, options: Options, windows: Sequence[int]) -> SlackController:
    if options.controller not in (None, *RECALL_CONTROLLERS):
        known = ", ".join(RECALL_CONTROLLERS)
        raise UsageError(f"option controller = '{options.controller}': for a recall target there is {known}")
    interval = options.adaptation_interval or usual_interval(quality.over)
    if interval > quality.over:
        raise UsageError("option adaptation_interval is longer than the period that recall is measured over")
    config = ControllerConfig(interval, options.granularity, options.basic_window)
    retention = options.least_retention(quality.over)
    selectivity = options.selectivity or SELECTIVITIES[0]
    if selectivity not in SELECTIVITIES:
        raise UsageError(f"option selectivity = '{selectivity}': there is {', '.join(SELECTIVITIES)}")
    if options.controller == "model":
        return ModelRecall(quality, windows, config, selectivity, options.initial_slack, retention)
    if options.selectivity is not None:
        raise UsageError("option selectivity is for controller = 'model' alone")
    if options.controller == "pd":
        return PdRecall(quality, windows, config, options.initial_slack, retention)
    return SteadyRecall(quality, windows, config, retention, options.initial_slack, options.max_behind)
