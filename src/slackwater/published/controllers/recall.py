"""The published controllers for joins: the analytical model, and a PD controller. For comparison; `steady` is better.

Both know true results by estimate only. The profiler says after every interval how many were made, and how many it
believes there would have been; the sums over the last period are what the controllers act on.

Invariant: made and estimated results are counted over the same tuples, those that the join has processed within the
same intervals. Made ones taken by their timestamps would be set against estimates of other tuples whenever the slack
rises, which stops the join for as long.

- Model (004 Alg. 4.5, 4.7): the recall that the next interval must have for the period to meet the target
  (Eq. 4.9), and the least slack for which the model promises it (Eq. 4.6). Where a late tuple is taken to be the most
  productive one, periods look worse than they are, and the loop swings between hardly any slack and the largest.
- PD (004 §3.4.2, 4.2.5): the share alpha of the largest delay moves with the estimated recall's distance from the
  target, and with how that distance changes.

What they leave open: where the last interval has processed nothing, Eq. 4.9 says nothing and the target itself is asked
for; the PD controller stays as it is where the whole period has no result. The slack starts at `initial_slack`. ADWIN
is told delays as shares of the largest one (`published_delays.py`). sel(K) / sel (Eq. 4.8) counts as 1 at most: it is
learned from one second, and where the delayed tuples of that second made little it promises a recall above 1 for next
to no slack. As published NonEqSel waits no less than EqSel, and so it does here.

To ask for 1 wherever the last interval has processed nothing and the period is short of its target is another reading
of Eq. 4.9. Then the slack stays at the largest delay once it is there: at a target of .999 the model waits as long as
Max-K-slack on D_syn, as published, but for seconds on the soccer streams at .99, where one was published. Of the two,
what is here waits less.

References: 004 §4.2.2-4.2.5, 003 §IV.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.quality import Recall
from slackwater.core.time import BEFORE_ALL, MINUTE, format_duration
from slackwater.disorder.controllers import DelayObservations, KeepsLedger, Measured
from slackwater.disorder.meters import Ledger, Measurable, QualityMeter
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.published.controllers.coverage_model import smallest_slack
from slackwater.published.controllers.delays import DelaysAsShares
from slackwater.published.controllers.pd import FOR_JOINS, PdController
from slackwater.published.controllers.productivity import ProductivityProfiler, Profile, Profiler
from slackwater.published.controllers.recall_model import instant_requirement, recalls, selectivity_ratio
from slackwater.published.controllers.tree_productivity import TreeProductivity
from slackwater.quality.recall.steady import ControllerConfig

Arrays = Mapping[str, npt.NDArray[Any]]
Selectivity = Literal["noneqsel", "eqsel"]
MOST_DELAYS = 2**17
"""The longest R_stat of a stream; the papers have no bound, and a state that is persisted needs one."""
SELECTIVITIES: tuple[Selectivity, ...] = ("noneqsel", "eqsel")


class ProfileMeter(QualityMeter):
    """Tells a profiler how many results every tuple has made."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._made = np.zeros(0)
        """By place in the run at hand."""

    def emitted(self, ts: Words, weight: Words | None, by: Words) -> None:
        more = np.bincount(by, weight)
        if len(more) > len(self._made):
            self._made = np.concatenate([self._made, np.zeros(len(more) - len(self._made))])
        self._made[: len(more)] += more

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        made = np.zeros(len(run) + 1)
        made[: len(self._made)] = self._made
        turns, sequence = run.turns()
        self._profiler.note(turns, made[sequence], raw)
        self._made = np.zeros(0)


class _Profiled(KeepsLedger):
    """A published controller for joins: it knows recall by estimate, and the ledger is for the report alone."""

    profiler: Profiler

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        if query.several_nodes:
            self.profiler = TreeProductivity.in_place_of(self.profiler)
        return (*super().meters(query, automatic_retention, max_behind), ProfileMeter(self.profiler))


class ResultSizes:
    """Results made and true results estimated, of the latest intervals."""

    def __init__(self, intervals: int) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=intervals)

    def note(self, profile: Profile) -> None:
        """An interval has ended."""
        self._latest.append((profile.made, profile.true))

    @property
    def made(self) -> float:
        return sum(made for made, _ in self._latest)

    @property
    def true(self) -> float:
        return sum(true for _, true in self._latest)

    def as_array(self) -> npt.NDArray[Any]:
        """Both, interval by interval."""
        return np.array(self._latest, np.float64).reshape(-1, 2)

    def restore(self, array: npt.NDArray[Any]) -> None:
        """Take over what `as_array` of another one gave."""
        self._latest.clear()
        self._latest.extend((made, true) for made, true in array.tolist())


class ModelRecall(_Profiled):
    """Slack by the analytical model, as published; with one selectivity (EqSel) or one for every slack (NonEqSel)."""

    learns = True

    def __init__(
        self,
        target: Recall,
        windows: Sequence[int],
        config: ControllerConfig,
        selectivity: Selectivity = "noneqsel",
        slack: int = 0,
        retention: int = MINUTE,
    ) -> None:
        self.target, self._windows, self._config, self.selectivity = target, tuple(windows), config, selectivity
        self.retention, self.interval, self.memory = retention, config.interval, target.over
        self.ledger: Ledger | None = None
        """For the report alone: as published, it knows recall by estimate only."""
        self.slack = slack
        self.next_adaptation = BEFORE_ALL
        self.profiler: Profiler = ProductivityProfiler(windows, config.granularity)
        self.requirement = target.target
        """The recall that the present interval must have."""
        self._sizes = ResultSizes(round((target.over - config.interval) / config.interval))
        self._delays = DelaysAsShares(config.granularity, max(1, len(windows)), most_values=MOST_DELAYS)

    def learn(self, arrived: DelayObservations) -> None:
        self._delays.absorb(arrived.stream, arrived.words[TS], arrived.behind)

    def adapt(self, measured: Measured) -> None:
        clocks = np.array(measured.clocks)
        self.next_adaptation = int(clocks.max()) + self._config.interval
        if clocks.min() == BEFORE_ALL:
            return
        self._delays.note_skews(clocks - clocks.min())
        last = self.profiler.take()
        self._sizes.note(last)
        self.requirement = instant_requirement(self.target.target, self._sizes.made, self._sizes.true, last.true)
        ratio = self._selectivity_ratio(last) if self.selectivity == "noneqsel" else None
        gamma = recalls(
            self._delays.histograms(), self._windows, self._delays.skews(), self._config.basic_window,
            self._config.granularity, ratio,
        )  # fmt: skip
        self.slack = smallest_slack(gamma, self.requirement, self._config.granularity)

    def _selectivity_ratio(self, last: Profile) -> Floats:
        # Beyond 1 it would promise a recall above 1, and so anything that is asked for, with slack that loses tuples.
        return np.minimum(selectivity_ratio(last.join, last.cross), 1.0)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        own = {
            "times": np.array([self.slack, self.next_adaptation]),
            "scalars": np.array([self.requirement]),
            "sizes": self._sizes.as_array(),
        }
        return own | _named("delays", self._delays.as_arrays()) | _named("profile", self.profiler.as_arrays())

    def restore(self, arrays: Arrays) -> None:
        self.slack, self.next_adaptation = arrays["times"].tolist()
        self.requirement = float(arrays["scalars"][0])
        self._sizes.restore(arrays["sizes"])
        self._delays.restore(_those_of("delays", arrays))
        self.profiler.restore(_those_of("profile", arrays))

    def describe(self) -> str:
        return (
            f"slack by the analytical model ({'NonEqSel' if self.selectivity == 'noneqsel' else 'EqSel'}) for recall"
            f" {self.target.target:g} over {format_duration(self.target.over)}, as published; it swings"
        )


class PdRecall(_Profiled):
    """Slack as a share of the largest delay, moved by a PD controller on the estimated recall, as published.

    Delays are of no interest to it but for the largest, which it is told.
    """

    def __init__(
        self, target: Recall, windows: Sequence[int], config: ControllerConfig, slack: int = 0, retention: int = MINUTE
    ) -> None:
        self.target, self._config = target, config
        self.retention, self.interval, self.memory = retention, config.interval, target.over
        self.ledger: Ledger | None = None
        """For the report alone."""
        self.slack = slack
        self.next_adaptation = BEFORE_ALL
        self.profiler: Profiler = ProductivityProfiler(windows, config.granularity)
        self._sizes = ResultSizes(round(target.over / config.interval))
        self._control = PdController(FOR_JOINS)

    def adapt(self, measured: Measured) -> None:
        self.next_adaptation = max(measured.clocks) + self._config.interval
        if min(measured.clocks) == BEFORE_ALL:
            return
        self._sizes.note(self.profiler.take())
        if self._sizes.true > 0:
            self._control.step(self.target.target, self._sizes.made / self._sizes.true)
        self.slack = self._control.slack(measured.largest_delay)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        before = self._control.previous_error
        own = {
            "times": np.array([self.slack, self.next_adaptation]),
            "scalars": np.array([self._control.alpha, np.nan if before is None else before]),
            "sizes": self._sizes.as_array(),
        }
        return own | _named("profile", self.profiler.as_arrays())

    def restore(self, arrays: Arrays) -> None:
        self.slack, self.next_adaptation = arrays["times"].tolist()
        alpha, before = arrays["scalars"].tolist()
        self._control.alpha, self._control.previous_error = alpha, None if np.isnan(before) else before
        self._sizes.restore(arrays["sizes"])
        self.profiler.restore(_those_of("profile", arrays))

    def describe(self) -> str:
        return (
            f"slack as a share of the largest delay, moved by a PD controller for recall {self.target.target:g} over"
            f" {format_duration(self.target.over)}, as published; it knows recall by estimate only"
        )


def _named(prefix: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    return {f"{prefix}_{name}": array for name, array in arrays.items()}


def _those_of(prefix: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    return {n.removeprefix(prefix + "_"): array for n, array in arrays.items() if n.startswith(prefix + "_")}
