"""In-order execution in theory: the two numerical examples of the analysis, drawn from its equations.

References: 000 §5.2, Fig. 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import claimed, finish, logarithmic
from papers.experiments.in_order import STYLES, TITLES
from papers.experiments.response_model import MOST, Setting
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from slackwater.core.results import FILTER, SYNC

DAY = 86_400.0
COST, RATE = "c (µs)", "λ1 (1/s)"
COSTS = tuple(0.01 * 2**k for k in range(7))
"""Microseconds; one more doubling, and Eq. 1 does not hold any more."""
RATES = (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class AnalysisTrial(Trial):
    """One strategy in one setting, by the equations."""

    @property
    def setting(self) -> Setting:
        if self.parameter == COST:
            return Setting(self.value / 1e6, DAY, 1.0, 10.0)
        return Setting(0.0001, DAY, self.value, 1.0)

    def measured(self) -> Row:
        """The row of this trial: nothing is run."""
        setting = self.setting
        return {
            "workload": self.stage.workload, "seed": self.stage.seed, "minutes": None, "window_s": DAY, "change": "",
            "way": self.way, "target": None, "period_s": self.period_s, "parameter": self.parameter,
            "value": self.value, "offered": True, "load": setting.load,
            "response_s": setting.filter if self.way == FILTER else setting.sync,
            "improvement": 0.0 if self.way == SYNC else setting.improvement,
        }  # fmt: skip


def _trials(parameter: str, values: Sequence[float], scale: Scale) -> list[Trial]:
    # Nothing is left to chance; the seeds are there because every experiment has them.
    return [
        AnalysisTrial(Stage("analysis", seed), way, parameter=parameter, value=value)
        for seed in scale.seeds for value in values for way in (SYNC, FILTER)
    ]  # fmt: skip


def cost_claims(rows: Sequence[Row]) -> list[Claim]:
    """Filter-Order does not hang on c, and saves half where nobody keeps up any more."""
    mine = sorted(over_seeds(pick(rows, way=FILTER)), key=lambda row: row["value"])
    early, saved = [row["response_s"] for row in mine], [row["improvement"] for row in mine]
    limit = Setting(1 / (DAY * 10.0), DAY, 1.0, 10.0).improvement
    return [
        Claim("the response time of Filter-Order does not hang on c", f"{min(early):.3f} to {max(early):.3f} s",
              max(early) - min(early) < 1e-9),
        Claim("its improvement grows with c", f"{saved[0]:.1%} to {saved[-1]:.1%}", saved == sorted(saved)),
        Claim("its upper bound is 0.5 (Eq. 8)", f"{limit:.3f} where c|w| = 1/(λ1λ2)", abs(limit - MOST) < 1e-9),
    ]  # fmt: skip


def rate_claims(rows: Sequence[Row]) -> list[Claim]:
    """From ten seconds to five."""
    fastest = max(row["value"] for row in rows)
    sync, early = (pick(rows, way=way, value=fastest)[0]["response_s"] for way in (SYNC, FILTER))
    says = "the response time falls from 10 s to 5 s at the highest rate"
    return [Claim(says, f"from {sync:.2f} s to {early:.2f} s", abs(sync - 10) < 1 and abs(early - 5) < 1)]


def draw_analysis(parameter: str, figure: Figure, rows: Sequence[Row]) -> None:
    """Response time, and what is saved of it."""
    left, right = figure.subplots(1, 2)
    for way in (SYNC, FILTER):
        points = sorted((row["value"], row["response_s"]) for row in pick(rows, way=way))
        left.plot(*zip(*points, strict=True), label=TITLES[way], **STYLES[way])
    points = sorted((row["value"], row["improvement"]) for row in pick(rows, way=FILTER))
    right.plot(*zip(*points, strict=True), label=TITLES[FILTER], **STYLES[FILTER])
    claimed(right, MOST, "upper bound (Eq. 8)")
    for axes in (left, right):
        axes.set_xscale("log")
    if parameter == RATE:
        logarithmic(left)
    finish(left, "response time (Eq. 3 and 5)", parameter, "seconds", legend=True)
    finish(right, "relative improvement (Eq. 7)", parameter, "share of Sync-Filter's", legend=True)


COLUMNS = ("value", "way", "response_s", "improvement", "load")
BY_COST = Experiment(
    "000-fig5",
    "Analysis, example 1: response time over the cost of a comparison (1 and 10 tuples/s, window one day)",
    partial(_trials, COST, COSTS),
    cost_claims,
    partial(draw_analysis, COST),
    COLUMNS,
    size=(10.0, 4.5),
)
BY_RATE = Experiment(
    "000-fig6",
    "Analysis, example 2: response time over the rate of the slow stream (c = 0.1 ms, window one day)",
    partial(_trials, RATE, RATES),
    rate_claims,
    partial(draw_analysis, RATE),
    COLUMNS,
    size=(10.0, 4.5),
)
