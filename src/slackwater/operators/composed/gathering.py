"""The controller of a lower fragment whose target is judged above: it gathers what the one above must know of arrivals.

Invariant: what is gathered of all shards is what one shard would have been shown: of tuples that came before the clock
had passed them their sums by piece of event time, which add up; the others one by one. Slack is what was heard last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.controllers import DelayObservations, Measured, SlackController
from slackwater.disorder.meters import Report, Watched
from slackwater.quality.error.windows import WindowLosses

SLACK = "slack"
"""In a report: the slack that was chosen above."""


class Gathering(SlackController):
    """Slack as it is chosen for a bound on the error of an aggregate whose last step runs elsewhere."""

    learns = True
    next_adaptation = AFTER_ALL

    def __init__(self, target: RelativeError, options: Options, watched: Watched) -> None:
        first = options.initial_slack
        self.slack = first if target.at_most is None else min(first, target.at_most)
        self._target, self._watched = target, watched
        self._sums: list[Words] = []
        self._behind: list[Words] = []

    def learn(self, arrived: DelayObservations) -> None:
        behind = arrived.behind > 0
        if behind.any():
            self._behind.append(np.vstack([arrived.words[:, behind], arrived.behind[behind]]))
        if not behind.all():
            self._sums.append(WindowLosses.sums_of(self._watched, arrived.words[:, ~behind]))

    def take(self) -> tuple[Words | None, Words | None]:
        """Sums by piece, and tuples behind their clock with how far they are; since the last call."""
        sums, behind = (np.concatenate(one, axis=1) if one else None for one in (self._sums, self._behind))
        self._sums, self._behind = [], []
        return sums, behind

    def adapt(self, measured: Measured) -> None:
        """It is not asked: slack is heard."""

    def join_shards(self, taught: bool) -> bool:
        return True

    def hear(self, reports: Sequence[Report]) -> None:
        for one in reports:
            if SLACK in one:
                self.slack = int(one[SLACK][0])

    def describe(self) -> str:
        return "the slack that is chosen where all rows meet"
