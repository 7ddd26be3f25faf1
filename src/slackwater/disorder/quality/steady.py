"""The steady controller for joins: the least slack that would have done in nearly all recent periods.

For every stretch of the recent past it keeps a curve: the share of results that each slack would have lost, by the
model of the papers and the delays of that very stretch. Every interval L it takes the least slack that keeps both:

    in 97 % of the periods that ended in the past:       c loss(k) <= (1 - m) (1 - target)
    in two at least of the last five stretches:          c loss(k) <= (1 - m) (1 - target)

- The first is the promise itself, asked of the past: recall over a period, met in nearly all periods. How much losses
  scatter, and whether they come evenly or in bursts, is in the periods; nothing is assumed about it. Older periods
  count less.
- The second answers a change that lasts before it has spoilt a twentieth of the past. A burst does not move it.
- c is what was really lost, by the ledger, over what the curves say of the slack that was in force then. Only results
  count that are old enough for their late tuples to have come, and a prior holds c near 1.
- m is the margin. It rises while a measured period misses the target and falls, nineteen times as slowly, while one
  meets it; so about one period in twenty misses, also where the model is wrong in a way that c does not mend.
- Slack is lowered only to where 85 % of what is allowed would be lost: where delays are either short or very long, the
  least slack would jump between the two.

Invariant: nothing that is only estimated is fed back. The published loop makes up for estimated losses in the next
interval; a wrong estimate then swings it between no slack and the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.disorder.controllers import Arrived, Books, Measured
from slackwater.disorder.quality.fading import FadingDelays
from slackwater.disorder.quality.past_losses import PastLosses, candidates
from slackwater.disorder.quality.recall_model import expected_losses, model_of
from slackwater.model.batch import Floats, Words
from slackwater.model.quality import Recall
from slackwater.model.time import BEFORE_ALL, format_duration

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
DEAD_BAND = 0.85
"""Slack is lowered only to where this share of what is allowed is lost."""
WARM_UP = 2
"""Intervals in which the largest delay is waited for, because nothing is known."""


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

    def __init__(self, target: Recall, windows: Sequence[int], pace: Pace, retention: int, slack: int = 0) -> None:
        self.target, self._pace = target, pace
        self.retention, self.interval, self.memory = retention, pace.interval, ACCOUNTED * target.over
        self.slack = slack
        self.next_adaptation = BEFORE_ALL
        self.books: Books | None = None
        self.margin = FIRST_MARGIN
        self.correction = 1.0
        self.recall: float | None = None
        """Measured over the latest settled period; None before there is one."""
        streams = max(1, len(windows))
        self._model = model_of(windows or (0,), pace.basic_window, pace.granularity)
        self._candidates = candidates()
        self._delays = FadingDelays(pace.granularity, streams, MEMORY * target.over)
        self._stretch = max(pace.interval, target.over // STRETCHES)
        span = -(-target.over // self._stretch)
        self._past = PastLosses(2 * MEMORY * span, span, MEMORY * span)
        self._stretch_end = BEFORE_ALL
        self._begins: Words = np.zeros(0, np.int64)
        self._expected: Floats = np.zeros(0)
        """Frontiers at the end of past intervals, and the share of results that the slack in force loses there."""
        self._adapted = 0

    def learn(self, arrived: Arrived) -> None:
        self._delays.absorb(arrived.stream, arrived.needed)

    def adapt(self, measured: Measured) -> None:
        clocks = np.array(measured.clocks)
        largest = int(clocks.max())
        self.next_adaptation = largest + self._pace.interval
        if clocks.min() == BEFORE_ALL:
            return
        frontier = int(clocks.min()) - measured.slack
        self._adapted += 1
        self._note(frontier, measured.slack)
        if largest >= self._stretch_end:
            self._past.next_stretch()
            self._stretch_end = largest + self._stretch
            self._settle(frontier)
        if self._adapted <= WARM_UP:
            self.slack = self._delays.largest
            return
        allowed = (1 - self.margin) * (1 - self.target.target) * self._past.known / self.correction
        least, easy = (self._past.least(share * allowed, TOLERATED) for share in (1.0, DEAD_BAND))
        at_least, at_most = (int(self._candidates[k]) * self._pace.granularity for k in (least, easy))
        self.slack = min(max(self.slack, at_least), at_most)

    def _note(self, frontier: int, slack: int) -> None:
        """Put the interval that has ended into the past."""
        counts = self._delays.fresh
        tuples = int(counts.sum())
        if tuples:
            bins = counts.shape[1]
            ks = self._candidates[: int(np.searchsorted(self._candidates, bins))]
            scratch = np.empty((2, *counts.shape), np.int64)
            curve = np.empty(len(ks))
            expected_losses(self._model, counts, ks, scratch[0], scratch[1], np.empty((3, len(counts))), curve)
            self._past.note(curve, tuples)
            if self._adapted > WARM_UP:
                # Where slack has grown, the frontier stands still until the clocks have caught up with it.
                frontier = max(frontier, int(self._begins.max(initial=frontier)))
                self._begins = np.append(self._begins, frontier)
                self._expected = np.append(self._expected, self._loss_at(slack, curve))
        self._delays.fade(self._pace.interval)

    def _loss_at(self, slack: int, curve: Floats) -> float:
        k = int(np.searchsorted(self._candidates, slack // self._pace.granularity, side="right")) - 1
        return float(curve[k]) if k < len(curve) else 0.0

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
        return min(self._delays.quantile(SETTLED), self.retention) + self._pace.interval

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
