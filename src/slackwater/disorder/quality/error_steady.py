"""The steady controller for aggregates: the slack that all but delta of the recent windows needed.

Every window has a needed slack: the least with which its answer would have been within the bound. It can be computed
after the fact, exactly, from the late tuples that came for the window and what they weigh (`error_losses`). So

    K = the least slack that meets the need of all but a share (1 - m) delta of the recent windows

- Recent are the windows of the last five minutes, and more of them where one straggler, which spoils every window it
  belongs to, would weigh too much; the weight of a window fades with age. A need that becomes known later is put right.
- m is the margin. Every window whose need turns out larger than the slack it was closed under raises it, every other
  lowers it a little, such that it rests where a little less than delta of the windows fail.
- Where windows keep turning out to need more than K, again and again for seconds, the delays have changed, and only the
  newest windows count from there on. A burst of late tuples may spoil as many windows, but it does so at once.

Invariant: nothing is modelled for COUNT, SUM and AVG. For other aggregates it is not known what a value would have
been without a given tuple, and the share of a window that may be missing comes from the coverage thresholds. Of several
aggregates and several groups the worst decides; a group costs memory and time like the operator's own partial results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.disorder.controllers import Arrived, Measured
from slackwater.disorder.quality.error_needs import (
    MARGIN,
    Judging,
    needs_as_arrays,
    needs_of,
    no_needs,
    slack_for_needs,
)
from slackwater.disorder.quality.error_threshold import Thresholds
from slackwater.disorder.quality.error_windows import Watched, WindowLosses
from slackwater.disorder.quality.needed_slack import edge_of
from slackwater.disorder.run import Run
from slackwater.model.measured import MeasuredQuality
from slackwater.model.options import Options
from slackwater.model.quality import RelativeError
from slackwater.model.time import BEFORE_ALL, MILLISECOND, MINUTE, SECOND

INTERVAL = 500 * MILLISECOND
"""How often slack is chosen anew: what is learned fades over minutes, and every choice cuts the stream's batches."""
MEMORY = 5 * MINUTE
STRAGGLER = 10.0
"""One straggler may weigh at most delta over this."""
FEWEST = 20.0
"""The memory has at least this many windows that may fail."""
AIM = 0.92
"""The share of delta at which the margin rests."""
GAIN = 10.0
FIRST_MARGIN = 0.4
NEWEST = 3 * SECOND
"""For how long windows must turn out to need more before the past is forgotten; eight steps or windows at least."""
NEWEST_MOST = 300
EXACT = frozenset(("COUNT", "SUM", "AVG"))


class SteadyError:
    """Slack for a bound on the error of an aggregate."""

    follows_largest_delay = False
    learns = True

    def __init__(self, target: RelativeError, options: Options) -> None:
        self.target, self._options = target, options
        self.slack = options.initial_slack
        self.next_adaptation = BEFORE_ALL

    def watch(self, watched: Watched) -> None:
        """Hear which windows there are."""
        self._unit = max(1, self._options.granularity // 10)
        self._losses = WindowLosses(watched, self._options.least_retention(), self._unit)
        self._modelled = Thresholds(self.target, tuple(a for a in watched.aggregates if a.function not in EXACT))
        self._is_modelled = np.array([a.function not in EXACT for a in watched.aggregates], np.bool_)
        self._models = bool(self._is_modelled.any())
        self._allowed = np.full(len(watched.aggregates), self.target.bound)
        delta = 1.0 - self.target.confidence
        overlap = max(1.0, watched.range / watched.slide)
        memory = max(MEMORY / watched.slide, STRAGGLER * overlap / delta, FEWEST / delta)
        self._interval = self._options.adaptation_interval or min(max(watched.slide, INTERVAL), SECOND)
        step = max(watched.slide, self._interval)
        lately = max(NEWEST, 8 * step)
        self._judging = Judging(
            keep=1.0 - 1.0 / memory,
            gain=GAIN / memory,
            aim=AIM * delta,
            delta=delta,
            settling=watched.slide + SECOND,
            calming=max(0.0, 1.0 - self._interval / lately),
            # Of the steps lately, half must have brought news; more where many windows may fail anyway.
            alarm=(0.5 + 0.5 * delta) * lately / step,
            newest=int(min(lately // watched.slide, NEWEST_MOST)),
        )
        self._needs = no_needs(len(self._losses.books.late.lines), FIRST_MARGIN)
        self._scratch = np.zeros((2, self._losses.components))

    @property
    def margin(self) -> float:
        """m, by which less than delta is aimed at."""
        return float(self._needs.scalars[MARGIN])

    def needed(self, end: int) -> int | None:
        """The slack that the window with this end needed, as far as is known; None if nothing is known of it."""
        window = self._losses.last_ended(end)
        at = window & (len(self._needs.number) - 1)
        return edge_of(int(self._needs.into[at]), self._unit) if self._needs.number[at] == window else None

    def learn(self, arrived: Arrived) -> None:
        self._losses.absorb(arrived, self.slack)
        if self._models:
            self._modelled.absorb(arrived.words)

    def hear_of(self, run: Run) -> None:
        """Hear which tuples came too late."""
        self._losses.tally.hear(run)

    def measured(self) -> MeasuredQuality:
        """The windows so far that were within the bound."""
        return self._losses.measured(self.target.confidence, not self._is_modelled.any(), self._allowed)

    def adapt(self, measured: Measured) -> None:
        self._losses.count(self._allowed)
        clock = max(measured.clocks)
        self.next_adaptation = clock + self._interval
        if clock == BEFORE_ALL:
            return
        losses, needs = self._losses, self._needs
        frontier = losses.reach(clock, measured.slack)
        if self._models and self._modelled.is_due(clock):
            self._allow(clock)
        self.slack = slack_for_needs(
            losses.watch, losses.books, needs, self._judging, self._allowed, self._scratch,
            clock, frontier, measured.slack,
        )  # fmt: skip

    def _allow(self, clock: int) -> None:
        """Work out anew what may be missing where the effect on the value is not known."""
        self._modelled.recalculate(clock, self._losses.tuples())
        self._allowed[self._is_modelled] = 1.0 - self._modelled.shares

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        found: dict[str, npt.NDArray[Any]] = {"times": np.array([self.slack, self.next_adaptation])}
        found |= {f"needs_{name}": array for name, array in needs_as_arrays(self._needs).items()}
        found |= {f"losses_{name}": array for name, array in self._losses.as_arrays().items()}
        found |= {f"modelled_{name}": array for name, array in self._modelled.as_arrays().items()}
        return found | {"allowed": self._allowed.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.slack, self.next_adaptation = arrays["times"].tolist()
        self._needs = needs_of(len(self._needs.number), under("needs_", arrays))
        self._losses.restore(under("losses_", arrays))
        self._modelled.restore(under("modelled_", arrays))
        self._allowed = np.array(arrays["allowed"])

    def describe(self) -> str:
        return (
            f"the least slack that would have kept the error of recent windows within {self.target.bound:g}, but for"
            f" {1 - self.target.confidence:.4g} of them, by what late tuples really weighed (steady)"
        )


def under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, under the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
