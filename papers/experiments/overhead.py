"""How long one choice of slack takes, by target and granularity.

Timed are the calls of the controller's `adapt` in an ordinary run, without the first few; the share of the run's cost
that is told beside counts its `learn` as well. Two trials run at a time, so
the figures are those of a machine that has something else to do as well.

References: 003 Fig. 11; 004 Fig. 4.19 and 4.20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure

from papers.experiments.aggregate_targets import error_trial
from papers.experiments.experiment import Claim, Experiment, Scale, extreme, pick
from papers.experiments.figures import NAMES, claimed, evenly, finish, line, logarithmic
from papers.experiments.join_baselines import SETS
from papers.experiments.join_targets import recall_trial
from papers.experiments.parameters import GRANULARITIES_MS, of_granularity
from papers.experiments.stages import VELOCITIES, Stage
from papers.experiments.sweep import Row, Trial

RECALLS = (0.9, 0.99, 0.999)
ERRORS = (0.001, 0.01, 0.1)
WAYS = ("steady", "model", "pd")
FREE_SHARE = 0.05


def join_trials(scale: Scale) -> list[Trial]:
    """Every controller, target and granularity on the three sets."""
    stages = [Stage(name, seed, 3.0 if scale.quick else None) for name in SETS for seed in scale.seeds]
    targets = RECALLS[1:2] if scale.quick else RECALLS
    return [
        replace(recall_trial(stage, way, target, options=of_granularity(g)), parameter="g (ms)", value=float(g))
        for stage in stages for way in WAYS for target in targets for g in GRANULARITIES_MS
    ]  # fmt: skip


def sum_trials(scale: Scale) -> list[Trial]:
    """Every controller, target and granularity on sums over 1 s."""
    bounds = ERRORS[1:2] if scale.quick else ERRORS
    stages = [Stage(name, seed, scale.minutes, window_s=1.0) for name in VELOCITIES for seed in scale.seeds]
    return [
        replace(error_trial(stage, way, bound, of_granularity(g)), parameter="g (ms)", value=float(g))
        for stage in stages for way in WAYS for bound in bounds for g in GRANULARITIES_MS
    ]  # fmt: skip


def claims(paper_ms: float, ours_ms: float, rows: Sequence[Row]) -> list[Claim]:
    """The paper's bound for its model, and the ones our own is held to."""
    found = []
    for way in ("model", "steady"):
        mine = [row for row in pick(rows, way=way) if row["value"] >= 10]
        worst = extreme(mine, "adaptation_ms", least=False)
        bounds = [("ours", ours_ms)] if way == "steady" else [("paper", paper_ms), ("ours", ours_ms)]
        for who, bound in bounds:
            says = f"{who}: one adaptation of {way} takes less than {bound:g} ms on average, g >= 10 ms"
            found.append(_below(says, worst, bound, "ms"))
    share = extreme([row for row in pick(rows, way="steady") if row["value"] == 10], "adaptation_share", least=False)
    found.append(
        _below("ours: learning and adapting (steady) take less than 5 % of a run, g = 10 ms", share, FREE_SHARE, "")
    )
    quick = extreme(pick(rows, way="pd"), "adaptation_ms", least=False)
    found.append(_below("paper: one adaptation of pd takes around 0.025 ms", quick, 0.05, "ms"))
    return found


def _below(says: str, value: float | None, bound: float, unit: str) -> Claim:
    if value is None:
        return Claim(says, "not offered", None)
    return Claim(says, f"at most {value:.3f} {unit}".strip(), value < bound)


def draw(paper_ms: float, sets: Sequence[str], figure: Figure, rows: Sequence[Row]) -> None:
    """A panel a set; a line a controller and target."""
    for axes, name in zip(figure.subplots(1, len(sets), sharey=True), sets, strict=True):
        mine = pick(rows, workload=name)
        targets = sorted({row["target"] for row in mine})
        for way in WAYS:
            for i, target in enumerate(targets):
                some = pick(mine, target=target)
                line(axes, some, "value", "adaptation_ms", way, f"{way}, {target:g}", alpha=1 - 0.3 * i)
        claimed(axes, paper_ms, f"paper: below {paper_ms:g} ms")
        axes.set_xscale("log")
        logarithmic(axes)
        evenly(axes, GRANULARITIES_MS)
        finish(axes, NAMES[name], "granularity g (ms)", "time of one adaptation (ms, log)", legend=True)


COLUMNS = (
    "workload",
    "target",
    "way",
    "value",
    "adaptation_ms",
    "adaptation_ms_p50",
    "adaptation_ms_p99",
    "adaptation_share",
)
ON_SUMS = Experiment(
    "004-fig4.19",
    "Time of one adaptation for a sum (W = 1 s)",
    sum_trials,
    partial(claims, 1.0, 0.5),
    partial(draw, 1.0, VELOCITIES),
    COLUMNS,
    size=(11.0, 4.8),
)
ON_JOINS = Experiment(
    "003-fig11",
    "Time of one adaptation for a join",
    join_trials,
    partial(claims, 5.0, 1.0),
    partial(draw, 5.0, SETS),
    COLUMNS,
    also=("004-fig4.20",),
    size=(13.0, 4.8),
)
