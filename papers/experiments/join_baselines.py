"""No-K-slack and Max-K-slack on joins: what is lost without waiting, and what waiting for everything costs.

References: 003 Fig. 6 and Table II; 004 Fig. 4.10 and Table 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, extreme, over_seeds, pick
from papers.experiments.figures import NAMES, STYLES, claimed, finish
from papers.experiments.stages import Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial

SETS = ("soccer", "dsyn3", "dsyn4")
MAX_K_S = {"soccer": 19.96, "dsyn3": 19.72, "dsyn4": 13.88}
MAX_K_LATENCY_S = {"soccer": 20.86, "dsyn3": 21.43, "dsyn4": 15.1}
NO_WAIT_LATENCY_S = {"soccer": 0.31, "dsyn3": 1.4, "dsyn4": 1.18}
NO_WAIT_RECALL = {"soccer": 0.5, "dsyn4": 0.8}


def trials(scale: Scale) -> list[Trial]:
    """Both baselines on all three sets, and the best constant for .95."""
    found = []
    for name in SETS:
        for seed in scale.seeds:
            stage = Stage(name, seed, scale.minutes)
            found += [
                Trial(stage, CLAIRVOYANT, target=0.95),
                Trial(stage, "No-K-slack", "NO WAIT", series=True),
                Trial(stage, "Max-K-slack", "COMPLETE", series=True),
            ]
    return found


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Table by table."""
    found = []
    for row in over_seeds(pick(rows, way="No-K-slack")):
        name = row["workload"]
        if name in NO_WAIT_RECALL:
            said = NO_WAIT_RECALL[name]
            found.append(
                Claim(
                    f"{NAMES[name]}: recall without slack is around {said:g} (Fig. 6)",
                    f"{row['recall']:.3f} on average",
                    abs(row["recall"] - said) <= 0.1,
                )
            )
        found.append(
            Claim(
                f"{NAMES[name]}: without slack latency is {NO_WAIT_LATENCY_S[name]:g} s, processing included",
                f"{row['latency_ms'] / 1000:.3f} s",
                None,
            )
        )
    for row in over_seeds(pick(rows, way="Max-K-slack")):
        name = row["workload"]
        slack = row["slack_ms"] / 1000
        found += [
            Claim(
                f"{NAMES[name]}: Max-K-slack waits {MAX_K_S[name]:g} s on average (Table II)",
                f"{slack:.2f} s",
                abs(slack / MAX_K_S[name] - 1) <= 0.25,
            ),
            Claim(
                f"{NAMES[name]}: its latency is {MAX_K_LATENCY_S[name]:g} s (Table 4.4)",
                f"{row['latency_ms'] / 1000:.2f} s",
                abs(row["latency_ms"] / 1000 / MAX_K_LATENCY_S[name] - 1) <= 0.25,
            ),
        ]
    least = extreme(over_seeds(pick(rows, way="Max-K-slack")), "recall")
    if least is not None:
        found.append(
            Claim("Max-K-slack finds .999 of the results and more (Table II)", f"{least:.4f}", least >= 0.9985)
        )
    return found


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Recall over time, a panel a set."""
    for axes, name in zip(figure.subplots(1, len(SETS), sharey=True), SETS, strict=True):
        for way in ("No-K-slack", "Max-K-slack"):
            for i, row in enumerate(pick(rows, workload=name, way=way)):
                points = [(t / 60, value) for t, value in row["recall_over_time"]]
                if points:
                    style = {**STYLES[way], "linestyle": "-", "alpha": 1.0 if i == 0 else 0.4}
                    axes.plot(*zip(*points, strict=True), label=way if i == 0 else None, **style)
        if name in NO_WAIT_RECALL:
            claimed(axes, NO_WAIT_RECALL[name], f"paper: around {NO_WAIT_RECALL[name]:g} without slack")
        axes.set_ylim(0, 1.03)
        finish(axes, NAMES[name], "result time (minutes)", "recall over the last minute", legend=True)


BASELINES = Experiment(
    "003-fig6",
    "Without slack a join loses up to half of its results; waiting for the largest delay takes many seconds",
    trials,
    claims,
    draw,
    ("workload", "way", "recall", "recall_min", "slack_ms", "latency_ms"),
    also=("003-table2", "004-fig4.10", "004-table4.4"),
    size=(13.0, 4.6),
)
