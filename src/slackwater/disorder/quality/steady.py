"""The steady controller for joins: the least slack whose expected loss, corrected by what was really lost, is allowed.

Every interval L it asks the model how much of the results each slack would lose, corrects that by the ledger, and takes
the least slack whose loss is within the allowance:

    K = min { k : c (1 - gamma(k)) (1 + z / sqrt(n(k))) <= (1 - m) (1 - target) }

- gamma is the model of the papers with one selectivity (EqSel). It is asked twice, and the worse answer counts: with
  the delays since they last changed, by ADWIN, and with those of the last ten periods or so, fading. The first knows
  about a change at once; the second remembers bursts, which come rarely and cost much.
- c is what was lost over what the model says of the slack that was in force: what it said then or says now, whichever
  is nearer to the truth, so that c is 1 as long as the two embrace it. Then it may have been ignorant; now it may know
  another world. Only results count that are old enough for their late tuples to have come, and a prior holds c near 1.
- n(k) is how many late tuples a period is expected to have. Where they are few, a period's loss scatters by about
  1 / sqrt(n) of itself, and z times that is kept in hand.
- K stays where it is unless it loses more than is allowed, or a smaller one would lose noticeably less than that:
  where delays are either short or very long, the least slack would jump between the two.
- m is the margin. It rises while a measured period misses the target and falls, nineteen times as slowly, while one
  meets it; so about one period in twenty misses.

Invariant: nothing that is only estimated is fed back. The published loop makes up for estimated losses in the next
interval; a wrong estimate then swings it between no slack and the largest. Here a period that went wrong moves the
margin by a little, and a change of the delays moves the histogram, at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.disorder.controllers import Arrived, Books, Measured
from slackwater.disorder.quality.coverage_model import smallest_slack
from slackwater.disorder.quality.delays import DelayHistogram
from slackwater.disorder.quality.fading import FadingDelays
from slackwater.disorder.quality.recall_model import recalls
from slackwater.model.batch import TS, Floats
from slackwater.model.quality import Recall
from slackwater.model.time import BEFORE_ALL, SECOND, format_duration

MISSED_SHARE = 0.05
"""The share of measured periods that may miss the target."""
MARGIN_STEP = 0.3
"""How much margin a whole missed period adds."""
FADING = 10
"""Delays fade over so many periods."""
FIRST_MARGIN, LARGEST_MARGIN = 0.1, 0.9
BAD_PERIOD = 1.65
"""How many standard deviations a bad period is from the average: one in twenty is worse (z)."""
PRIOR = 0.25
"""How much the ledger must know before it counts, as a share of the losses that are allowed in a period."""
LARGEST_CORRECTION = 8.0
SETTLED = 0.999
"""Results are settled once this share of delays has passed."""
MOST_DELAYS = 2**15
"""Delays that are remembered of each stream: enough to know one in a thousand, few enough to be persisted."""
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
        self.target, self._windows, self._pace = target, tuple(windows), pace
        self.retention, self.interval, self.memory = retention, pace.interval, 2 * target.over
        self.slack = slack
        self.next_adaptation = BEFORE_ALL
        self.books: Books | None = None
        self.margin = FIRST_MARGIN
        self.correction = 1.0
        self.recall: float | None = None
        """Measured over the latest settled period; None before there is one."""
        self._delays = DelayHistogram(
            pace.granularity, max(1, len(windows)), score="logarithm", most_values=MOST_DELAYS
        )
        self._lasting = FadingDelays(pace.granularity, max(1, len(windows)), FADING * target.over)
        self._chosen: deque[tuple[int, int, float]] = deque()
        """Since which frontier a slack was in force, and the loss that the model expected of it then."""
        self._adapted = 0

    def learn(self, arrived: Arrived) -> None:
        self._delays.absorb(arrived.stream, arrived.words[TS], arrived.behind)
        self._lasting.absorb(arrived.stream, arrived.behind)

    def adapt(self, measured: Measured) -> None:
        clocks = np.array(measured.clocks)
        self.next_adaptation = int(clocks.max()) + self._pace.interval
        if clocks.min() == BEFORE_ALL:
            return
        self._delays.note_skews(clocks - clocks.min())
        frontier = int(clocks.min()) - measured.slack
        self._adapted += 1
        self._lasting.fade(self._pace.interval)
        gamma = self._expected()
        if self._adapted <= WARM_UP:
            self.slack = int(self._delays.largest_ever.max())
        else:
            self._settle(frontier, gamma)
            allowed = (1 - self.margin) * (1 - self.target.target)
            loss = self.correction * (1 - gamma) * self._scatter(len(gamma))
            least = smallest_slack(1 - loss, 1 - allowed, self._pace.granularity)
            easy = smallest_slack(1 - loss, 1 - DEAD_BAND * allowed, self._pace.granularity)
            self.slack = min(max(self.slack, least), easy)
        self._chosen.append((frontier, self.slack, float(1 - gamma[self._bin(self.slack, gamma)])))

    def _expected(self) -> Floats:
        """The recall to be expected of every candidate slack."""
        pace, skews = self._pace, self._delays.skews()
        recent, lasting = (
            recalls(histograms, self._windows, skews, pace.basic_window, pace.granularity)
            for histograms in (self._delays.histograms(), self._lasting.histograms())
        )
        worse = np.ones(max(len(recent), len(lasting)))
        for gamma in (recent, lasting):
            worse[: len(gamma)] = np.minimum(worse[: len(gamma)], gamma)
        return worse

    def _scatter(self, candidates: int) -> Floats:
        """By how much a bad period loses more than the average one, for every candidate slack."""
        late = np.zeros(candidates)
        for counts, rate in zip(self._delays.histograms(), self._delays.rates().tolist(), strict=True):
            total = counts.sum()
            if total:
                beyond = total - np.cumsum(counts)
                late[: len(beyond)] += beyond / total * rate * self.target.over / SECOND
        return 1 + BAD_PERIOD / np.sqrt(np.maximum(late, 1e-9))

    def _settle(self, frontier: int, gamma: Floats) -> None:
        """Compare what the model says about the slack of the past with the ledger, as far back as it is settled."""
        settled = frontier - self._settling()
        while len(self._chosen) > 1 and self._chosen[1][0] < settled - self.memory:
            self._chosen.popleft()
        if self.books is None or self._chosen[0][0] >= settled:
            return
        past = [chosen for chosen in self._chosen if chosen[0] < settled]
        made, lost = self.books.between(np.array([*(begin for begin, _, _ in past), settled]))
        bins = np.minimum(np.array([slack for _, slack, _ in past]) // self._pace.granularity, len(gamma) - 1)
        then = float((made + lost) @ np.array([promised for _, _, promised in past]))
        now = float((made + lost) @ (1 - gamma[bins]))
        made, lost = float(made.sum()), float(lost.sum())
        prior = PRIOR * (1 - self.target.target) * (made + lost)
        if prior > 0:
            expected = min(max(lost, min(then, now)), max(then, now))
            self.correction = min(max((lost + prior) / (expected + prior), 1 / LARGEST_CORRECTION), LARGEST_CORRECTION)
        self._measure(settled)

    def _bin(self, slack: int, gamma: Floats) -> int:
        return min(slack // self._pace.granularity, len(gamma) - 1)

    def _measure(self, settled: int) -> None:
        """The recall of the latest settled period, and what it means for the margin."""
        assert self.books is not None
        if settled - self._chosen[0][0] < self.target.over:
            return
        (made,), (lost,) = (of.tolist() for of in self.books.between(np.array([settled - self.target.over, settled])))
        if made + lost == 0:
            return
        self.recall = made / (made + lost)
        step = MARGIN_STEP * self._pace.interval / self.target.over
        if self.recall < self.target.target:
            self.margin = min(self.margin + step, LARGEST_MARGIN)
        else:
            self.margin = max(self.margin - step * MISSED_SHARE / (1 - MISSED_SHARE), 0.0)

    def _settling(self) -> int:
        """How long after the frontier has passed most late tuples have come."""
        longest = 0
        for counts in self._delays.histograms():
            total = counts.sum()
            if total:
                longest = max(longest, int(np.searchsorted(np.cumsum(counts), SETTLED * total)))
        return min(longest * self._pace.granularity, self.retention) + self._pace.interval

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        scalars = [self.margin, self.correction, -1.0 if self.recall is None else self.recall, float(self._adapted)]
        own = {
            "scalars": np.array(scalars),
            "times": np.array([self.slack, self.next_adaptation]),
            "chosen": np.array([chosen[:2] for chosen in self._chosen], np.int64).reshape(-1, 2),
            "expected": np.array([loss for _, _, loss in self._chosen], np.float64),
        }
        own["lasting"] = self._lasting.as_array()
        return own | {f"delays_{name}": array for name, array in self._delays.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.margin, self.correction, recall, adapted = arrays["scalars"].tolist()
        self.recall, self._adapted = None if recall < 0 else recall, int(adapted)
        self.slack, self.next_adaptation = arrays["times"].tolist()
        self._chosen = deque(
            (since, slack, loss)
            for (since, slack), loss in zip(arrays["chosen"].tolist(), arrays["expected"].tolist(), strict=True)
        )
        self._lasting.restore(arrays["lasting"])
        mine = {name.removeprefix("delays_"): array for name, array in arrays.items() if name.startswith("delays_")}
        self._delays.restore(mine)

    def describe(self) -> str:
        return (
            f"the least slack that keeps recall at {self.target.target:g} over {format_duration(self.target.over)},"
            " by the delays seen and by what late tuples really cost (steady)"
        )
