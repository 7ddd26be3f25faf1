"""Which controller serves a quality target."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.disorder.controllers import FixedSlack, LargestDelay, SlackController
from slackwater.disorder.quality.steady import Pace, SteadyRecall
from slackwater.model.errors import UsageError
from slackwater.model.options import Options
from slackwater.model.quality import Complete, Delay, NoWait, Quality, Recall
from slackwater.model.time import SECOND

RECALL_CONTROLLERS = ("steady",)


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
    if isinstance(quality, Recall):
        return _for_recall(quality, options, windows)
    raise UsageError(f"WITH {quality} is not offered yet; use WITH COMPLETE, NO WAIT or DELAY <duration>")


def _for_recall(quality: Recall, options: Options, windows: Sequence[int]) -> SlackController:
    if options.controller not in (None, *RECALL_CONTROLLERS):
        known = ", ".join(RECALL_CONTROLLERS)
        raise UsageError(f"option controller = '{options.controller}': for a recall target there is {known}")
    interval = options.adaptation_interval or min(SECOND, max(1, quality.over // 10))
    if interval > quality.over:
        raise UsageError("option adaptation_interval is longer than the period that recall is measured over")
    pace = Pace(interval, options.granularity, options.basic_window)
    return SteadyRecall(quality, windows, pace, options.retention, options.initial_slack)
