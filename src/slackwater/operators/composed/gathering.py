"""Controllers of a lower fragment whose target is judged above: they gather what the one above must know of arrivals.

Invariant: what is gathered of all shards is what one shard would have been shown. Of a stream: of tuples that came
before the clock had passed them their sums by piece of event time, which add up; the others one by one. Of several
operators: every true row, which one shard alone finds, with the slack that it needs. Slack is what was heard last.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.options import Options
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.controllers import DelayObservations, Measured, SlackController
from slackwater.disorder.meters import Report, Watched
from slackwater.operators.composed.true_rows import TrueRows
from slackwater.quality.error.windows import WindowLosses

SLACK = "slack"
"""In a report: the slack that was chosen above."""


class Gathering(SlackController):
    """Slack as it is chosen for an aggregate whose last step runs elsewhere."""

    learns = True
    next_adaptation = AFTER_ALL

    def __init__(self, target: Recall | RelativeError, options: Options) -> None:
        first = options.initial_slack
        self.slack = first if target.at_most is None else min(first, target.at_most)
        self._sums: list[Words] = []
        self._noted: list[Words] = []

    @abstractmethod
    def learn(self, arrived: DelayObservations) -> None:
        """Gather what is to be known of them."""

    def take(self) -> tuple[Words | None, Words | None]:
        """Sums by piece, and what is known one by one, the last row of which says how long it needs; since the last
        call."""
        sums, noted = (np.concatenate(one, axis=1) if one else None for one in (self._sums, self._noted))
        self._sums, self._noted = [], []
        return sums, noted

    @property
    def unknown(self) -> tuple[int, int]:
        """Raw tuples that came when what they could have met was forgotten, and the most rows that one completed."""
        return 0, 0

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


class GatheringTuples(Gathering):
    """Of a stream below one aggregate."""

    def __init__(self, target: RelativeError, options: Options, watched: Watched) -> None:
        super().__init__(target, options)
        self._watched = watched

    def learn(self, arrived: DelayObservations) -> None:
        behind = arrived.behind > 0
        if behind.any():
            self._noted.append(np.vstack([arrived.words[:, behind], arrived.behind[behind]]))
        if not behind.all():
            self._sums.append(WindowLosses.sums_of(self._watched, arrived.words[:, ~behind]))


class GatheringRows(Gathering):
    """Of several operators, whose rows an aggregate adds up elsewhere."""

    def __init__(
        self, target: Recall | RelativeError, options: Options, rows: TrueRows, summed: Watched | None = None
    ) -> None:
        """`summed`: the windows above, where sums of rows that need no slack are enough."""
        super().__init__(target, options)
        self._rows, self.summed = rows, summed
        # To count rows it is enough to know when they are.
        self._known = slice(None) if isinstance(target, RelativeError) else slice(1)

    def learn(self, arrived: DelayObservations) -> None:
        rows = self._rows.take(arrived, self.slack)
        words, need = rows.words, rows.need
        if self.summed is not None and len(rows):
            self._sums.append(WindowLosses.sums_of(self.summed, words[:, need == 0]))
            words, need = words[:, need > 0], need[need > 0]
        if len(need):
            self._noted.append(np.vstack([words[self._known], need]))

    @property
    def unknown(self) -> tuple[int, int]:
        return self._rows.unknown, self._rows.most

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return self._rows.as_arrays()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._rows.restore(arrays)
