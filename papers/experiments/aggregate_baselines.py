"""No-K-slack and Max-K-slack on sliding sums: how wrong they are, by the size of the window.

References: 004 Fig. 4.9 and Table 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, extreme, over_seeds, pick
from papers.experiments.figures import NAMES, finish
from papers.experiments.stages import VELOCITIES, Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial

WINDOWS_S = (0.1, 0.5, 1.0, 5.0, 10.0)
COLORS = ("#c05a00", "#d9a400", "#0b6e4f", "#1f4e9c", "#6a2c91")
WITHIN_1_PERCENT = {"velocity1": 0.99, "velocity2": 0.97}
MAX_K_LATENCY_S = {"velocity1": 3.05, "velocity2": 17.3}
NO_WAIT_LATENCY_S = {"velocity1": 0.22, "velocity2": 0.014}
WRONG_SHARE = 0.0075
"""004: even in the worst case only about 0.7 % of the results were wrong."""


def trials(scale: Scale) -> list[Trial]:
    """Both baselines on both streams, five sizes of windows, and the best constant for an error of 1 %."""
    found = []
    for name in VELOCITIES:
        for size in WINDOWS_S:
            for seed in scale.seeds:
                stage = Stage(name, seed, window_s=size)
                found += [
                    Trial(stage, CLAIRVOYANT, target=0.01),
                    Trial(stage, "No-K-slack", "NO WAIT", series=True),
                    Trial(stage, "Max-K-slack", "COMPLETE"),
                ]
    return found


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What 004 §4.3.2 says of sums."""
    found = []
    for name in VELOCITIES:
        said = WITHIN_1_PERCENT[name]
        share = _share(rows, name, 10.0, "0.01")
        says = f"{NAMES[name]}: without slack {said:.0%} of the sums over 10 s are within 1 %"
        found.append(_measured(says, share, None if share is None else abs(share - said) <= 0.03))
        share = _share(rows, name, 0.1, "0.1")
        says = f"{NAMES[name]}: nearly half of the sums over 0.1 s are off by 10 % or more"
        off = None if share is None else 1 - share
        found.append(_measured(says, off, None if off is None else 0.35 <= off <= 0.6))
    for name in VELOCITIES:
        rare = pick(rows, workload=name, way="Max-K-slack")
        wrong = extreme([{"share": row["wrong"] / row["measurements"]} for row in rare], "share", least=False)
        says = f"{NAMES[name]}: with Max-K-slack at most 0.7 % of the sums are wrong (Table 4.3)"
        found.append(_measured(says, wrong, None if wrong is None else wrong <= WRONG_SHARE))
        for way, table in (("Max-K-slack", MAX_K_LATENCY_S), ("No-K-slack", NO_WAIT_LATENCY_S)):
            mine = over_seeds(pick(rows, workload=name, way=way))
            latency = sum(row["latency_ms"] for row in mine) / 1000 / max(1, len(mine))
            holds = abs(latency / table[name] - 1) <= 0.25 if way == "Max-K-slack" else None
            says = f"{NAMES[name]}: latency with {way} is {table[name]:g} s, processing included"
            found.append(Claim(says, f"{latency:.3f} s", holds))
    return found


def _share(rows: Sequence[Row], name: str, size: float, bound: str) -> float | None:
    mine = pick(rows, workload=name, way="No-K-slack", window_s=size)
    return sum(row["share_within"][bound] for row in mine) / len(mine) if mine else None


def _measured(says: str, share: float | None, holds: bool | None) -> Claim:
    return Claim(says, "not measured" if share is None else f"{share:.2%}", holds)


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """The distribution of the error without slack, a panel a stream."""
    for axes, name in zip(figure.subplots(1, 2, sharey=True), VELOCITIES, strict=True):
        for color, size in zip(COLORS, WINDOWS_S, strict=True):
            mine = pick(rows, workload=name, way="No-K-slack", window_s=size)
            if mine:
                points = [(100 * x, y) for x, y in mine[0]["error_distribution"]]
                axes.plot(*zip(*points, strict=True), label=f"W = {size:g} s", color=color)
        axes.plot([1.0], [WITHIN_1_PERCENT[name]], "x", color="#b00020", label="paper, W = 10 s")
        axes.set_xscale("log")
        axes.set_ylim(0, 1.03)
        finish(axes, NAMES[name], "relative error (%, log)", "share of sums within it", legend=True)


BASELINES = Experiment(
    "004-fig4.9",
    "Without slack, sums over small windows are often wrong by 10 % and more",
    trials,
    claims,
    draw,
    ("workload", "window_s", "way", "wrong", "least_error", "largest_error", "slack_ms", "latency_ms"),
    also=("004-table4.3",),
    size=(11.0, 4.8),
)
