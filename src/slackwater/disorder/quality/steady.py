"""The steady controller for joins: the least slack that keeps the promise, by the past and by what is going on.

TODO
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.disorder.controllers import Arrived, Books, Measured
from slackwater.disorder.quality.loss_curves import count_needed, shape_of
from slackwater.disorder.quality.past_losses import PastLosses
from slackwater.disorder.quality.running_period import GROWN, Running, Scratch, least_for_now, take_in
from slackwater.model.batch import Floats, Words
from slackwater.model.outlook import Outlook
from slackwater.model.quality import Recall, default_cap
from slackwater.model.time import BEFORE_ALL, DAY, format_duration

MISSED_SHARE = 0.05
"""The share of measured periods that may miss the target."""
TOLERATED = 0.03
"""The share of past periods that a slack may have failed: less, because the next period is not one of them."""
MARGIN_STEP = 0.3
"""How much margin a whole missed period adds."""
MEMORY = 10
"""The past fades over so many periods; twice as many are kept."""
STRETCHES = 20
"""A period has so many stretches, unless slack is chosen more rarely than that."""
FIRST_MARGIN, LARGEST_MARGIN = 0.05, 0.9
PRIOR = 1.0
"""How much the ledger must know before it counts, as a share of the losses that are allowed in a period."""
LARGEST_CORRECTION = 8.0
SETTLED = 0.999
"""Results are settled once this share of delays has passed."""
ACCOUNTED = 3
"""Periods over which the ledger is compared with the model."""
DEAD_BAND = 0.92
"""Slack is lowered only to where this share of what is allowed is lost."""


@dataclass(frozen=True)
class Pace:
    """How often a controller adapts, and how finely. Microseconds."""

    interval: int
    granularity: int
    basic_window: int


class SteadyRecall:
    """Slack for a recall target."""

    follows_largest_delay = False
    learns = True

    def __init__(
        self,
        target: Recall,
        windows: Sequence[int],
        pace: Pace,
        retention: int,
        slack: int = 0,
        max_behind: int = DAY,
    ) -> None:
        self.target, self._pace = target, pace
        self.retention, self.interval, self.memory = retention, pace.interval, ACCOUNTED * target.over
        self.cap = default_cap(target.over, max_behind) if target.at_most is None else target.at_most
        self.slack = min(slack, self.cap)
        self.next_adaptation = BEFORE_ALL
        self.books: Books | None = None
        self.margin = FIRST_MARGIN
        self.correction = 1.0
        self.recall: float | None = None
        """Measured over the latest settled period; None before there is one."""
        streams = max(1, len(windows))
        self._shape = shape_of(windows or (0,), pace.granularity)
        self._slacks = self._shape.slacks
        bins = len(self._slacks)
        self._counts: Words = np.zeros((streams, bins), np.int64)
        """Tuples of the interval at hand, by the slack that they needed."""
        self._faded: Floats = np.zeros(bins)
        self._work = Scratch(np.zeros((streams, bins)), np.zeros((streams + 1, bins)), np.zeros(bins))
        self._stretch = max(pace.interval, target.over // STRETCHES)
        span = -(-target.over // self._stretch)
        self._past = PastLosses(2 * MEMORY * span, span, MEMORY * span, bins)
        intervals = max(4, -(-target.over // pace.interval))
        self._running = Running(
            np.zeros(bins), np.zeros(bins), np.zeros(intervals), np.zeros(intervals), np.zeros(bins + 1), np.zeros(GROWN, np.int64)
        )
        self._stretch_end = BEFORE_ALL
        self._frontier = BEFORE_ALL
        self._begins: Words = np.zeros(0, np.int64)
        self._expected: Floats = np.zeros(0)
        """Frontiers at the end of past intervals, and the share of results that the slack in force loses there."""
        self._adapted = 0
        self._by_past = 0
        """The place of the slack that the past asks for."""

    def learn(self, arrived: Arrived) -> None:
        count_needed(self._slacks, arrived.stream, arrived.needed, self._counts)

    def adapt(self, measured: Measured) -> None:
        largest, slowest = max(measured.clocks), min(measured.clocks)
        self.next_adaptation = largest + self._pace.interval
        if slowest == BEFORE_ALL:
            return
        # Where slack has grown, the frontier stands still until the clocks have caught up with it.
        self._frontier = max(self._frontier, slowest - measured.slack)
        allowed = (1 - self.margin) * (1 - self.target.target) / self.correction
        place = self._adapted % len(self._running.lost)
        lost = take_in(
            self._shape, self._counts, self._work, self._past.ring, self._past.place, self._running, place,
            slowest - self._frontier, allowed,
        )  # fmt: skip
        self._begins = np.append(self._begins, self._frontier)
        self._expected = np.append(self._expected, lost)
        self._adapted += 1
        if largest >= self._stretch_end or self._adapted < 3:
            trusted = allowed * self._past.known
            least = self._past.least(trusted, TOLERATED, self._by_past)
            easy = self._past.least(DEAD_BAND * trusted, TOLERATED, least)
            self._by_past = min(max(self._by_past, least), easy)
        if largest >= self._stretch_end:
            self._past.next_stretch()
            self._stretch_end = largest + self._stretch
            self._settle(self._frontier)
        wanted = least_for_now(self._shape, self._running, place, self._adapted, self._by_past, allowed)
        self.slack = min(wanted, self.cap)

    def _settle(self, frontier: int) -> None:
        """Compare what the model says about the slack of the past with the ledger, as far back as it is settled."""
        settled = frontier - self._settling()
        first = max(0, int(np.searchsorted(self._begins, settled - self.memory)) - 1)
        self._begins, self._expected = self._begins[first:], self._expected[first:]
        past = int(np.searchsorted(self._begins, settled))
        if self.books is None or past == 0:
            return
        edges = np.append(self._begins[:past], settled)
        made, lost = self.books.between(edges)
        expected = (made + lost) * self._expected[:past]
        prior = PRIOR * (1 - self.target.target) * float(made.sum() + lost.sum())
        if prior > 0:
            ratio = (float(lost.sum()) + prior) / (float(expected.sum()) + prior)
            self.correction = min(max(ratio, 1 / LARGEST_CORRECTION), LARGEST_CORRECTION)
        if settled - edges[0] >= self.target.over:
            latest = int(np.searchsorted(edges, settled - self.target.over))
            self._measure(float(made[latest:].sum()), float(lost[latest:].sum()), float(expected[latest:].sum()))

    def _measure(self, made: float, lost: float, expected: float) -> None:
        """The latest settled period, and what it means for the margin."""
        if made + lost == 0:
            return
        self.recall = made / (made + lost)
        step = MARGIN_STEP * self._stretch / self.target.over
        if self.recall >= self.target.target:
            self.margin = max(self.margin - step * MISSED_SHARE / (1 - MISSED_SHARE), 0.0)
        elif self.correction * expected <= (1 - self.target.target) * (made + lost):
            # The model would have promised this period: it is more than ignorance of what was to come.
            self.margin = min(self.margin + step, LARGEST_MARGIN)

    def _settling(self) -> int:
        """How long after the frontier has passed most late tuples have come."""
        return min(3_000_000, self.retention) + self._pace.interval

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        scalars = [self.margin, self.correction, -1.0 if self.recall is None else self.recall, float(self._adapted)]
        own: dict[str, npt.NDArray[Any]] = {
            "scalars": np.array(scalars),
            "times": np.array([self.slack, self.next_adaptation, self._stretch_end]),
            "begins": self._begins,
            "expected": self._expected,
        }
        own |= {f"delays_{name}": array for name, array in self._delays.as_arrays().items()}
        return own | {f"past_{name}": array for name, array in self._past.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.margin, self.correction, recall, adapted = arrays["scalars"].tolist()
        self.recall, self._adapted = None if recall < 0 else recall, int(adapted)
        self.slack, self.next_adaptation, self._stretch_end = arrays["times"].tolist()
        self._begins, self._expected = arrays["begins"], arrays["expected"]
        self._delays.restore(_part(arrays, "delays_"))
        self._past.restore(_part(arrays, "past_"))

    def describe(self) -> str:
        return (
            f"the least slack that keeps recall at {self.target.target:g} over {format_duration(self.target.over)},"
            " by the delays seen and by what late tuples really cost (steady)"
        )


def _part(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
