"""Sliding sums with an error target: what each controller waits, and how often it meets the target.

References: 004 Fig. 4.11 (velocities 1) and 4.12 (velocities 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, at_least, extreme, falls, over_seeds, pick
from papers.experiments.figures import NAMES, claimed, finish, level, line, logarithmic
from papers.experiments.stages import Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial

ERRORS = (0.0001, 0.001, 0.01, 0.05, 0.1)
WINDOWS_S = (0.1, 0.5, 1.0, 5.0)
WAYS = {
    "steady": "controller = 'steady'",
    "model": "controller = 'model'",
    "pd": "controller = 'pd'",
}
EPOCH_MS = 500
EPOCH = "epoch ms"
"""The parameter that rows with epochs are marked with."""
PAPER_PHI = {"model": 0.92, "pd": 0.95}
PAPER_SAVED = {"model": 0.48, "pd": 0.32}


def error_trial(stage: Stage, way: str, bound: float, options: str = "") -> Trial:
    """A controller, or the clairvoyant constant, asked for an error."""
    if way == CLAIRVOYANT:
        return Trial(stage, way, target=bound)
    chosen = ", ".join(filter(None, (WAYS[way], options)))
    return Trial(stage, way, f"ERROR {bound:.6f} CONFIDENCE 0.95", chosen, bound)


def trials(name: str, scale: Scale) -> list[Trial]:
    """All controllers on one stream, four sizes of windows, errors from .01 % to 10 %; our own with epochs as well."""
    found = []
    for size in WINDOWS_S:
        for seed in scale.seeds:
            stage = Stage(name, seed, scale.minutes, window_s=size)
            found += [error_trial(stage, way, bound) for way in (CLAIRVOYANT, *WAYS) for bound in ERRORS]
            found += [Trial(stage, "No-K-slack", "NO WAIT"), Trial(stage, "Max-K-slack", "COMPLETE")]
            cut = replace(stage, epoch_ms=EPOCH_MS)
            found += [
                replace(error_trial(cut, way, bound), parameter=EPOCH, value=float(EPOCH_MS))
                for way in (CLAIRVOYANT, "steady") for bound in ERRORS
            ]  # fmt: skip
    return found


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What 004 §4.3.3 says of sums, and what the controller of our own is held to."""
    found = []
    for way, bound in PAPER_PHI.items():
        mine = pick(rows, way=way)
        found.append(at_least(f"{way}: Φ(ε) is {bound:.0%} or more", mine, "phi", bound))
        found.append(falls(f"{way}: latency falls as ε grows", mine, "latency_ms", "target"))
        found.append(_saved(rows, way))
    for release, parameter in (("tuple release", ""), ("epochs of 0.5 s", EPOCH)):
        mine = pick(rows, way="steady", parameter=parameter)
        found.append(at_least(f"ours: steady has Φ(ε) of 95 % or more, {release}", mine, "phi", 0.95))
        found.append(_beside_clairvoyant(mine, pick(rows, way=CLAIRVOYANT, parameter=parameter), release))
    return found


def _beside_clairvoyant(rows: Sequence[Row], best: Sequence[Row], release: str) -> Claim:
    says = f"ours: steady's latency is at most max(1.5 times, + 20 ms) that of the best constant, {release}"
    case = ("workload", "window_s", "seed", "target")
    limits = {tuple(row[key] for key in case): row["latency_ms"] for row in best}
    over = []
    for row in rows:
        limit = limits.get(tuple(row[key] for key in case))
        if limit is not None:
            over.append({"ratio": row["latency_ms"] / max(1.5 * limit, limit + 20)})
    worst = extreme(over, "ratio", least=False)
    if worst is None:
        return Claim(says, "not offered", None)
    within = sum(one["ratio"] <= 1 for one in over)
    return Claim(says, f"{worst:.2f} of that bound at most; within it in {within} of {len(over)} cases", worst <= 1)


def _saved(rows: Sequence[Row], way: str) -> Claim:
    says = f"{way}: latency is at least {PAPER_SAVED[way]:.0%} below Max-K-slack's (ε >= .1 %)"
    most = {row["window_s"]: row["latency_ms"] for row in over_seeds(pick(rows, way="Max-K-slack"))}
    mine = [row for row in over_seeds(pick(rows, way=way)) if row["target"] >= 0.001]
    least = extreme([{"saved": 1 - row["latency_ms"] / most[row["window_s"]]} for row in mine], "saved")
    if least is None:
        return Claim(says, "not offered", None)
    return Claim(says, f"at least {least:.1%} below", least >= PAPER_SAVED[way])


def draw(name: str, figure: Figure, rows: Sequence[Row]) -> None:
    """Latency above, fulfilment below, a column a size of window."""
    grid = figure.subplots(2, len(WINDOWS_S), squeeze=False)
    for column, size in enumerate(WINDOWS_S):
        mine = [_in_percent(row) for row in pick(rows, workload=name, window_s=size, parameter="")]
        above, below = grid[0][column], grid[1][column]
        for way in (*WAYS, CLAIRVOYANT):
            line(above, mine, "value", "latency_ms", way)
            line(below, mine, "value", "phi", way)
        level(above, mine, "latency_ms", "Max-K-slack")
        unslacked = pick(mine, way="No-K-slack")
        if unslacked:
            shares = unslacked[0]["share_within"]
            below.plot(
                [100 * b for b in ERRORS], [shares[f"{b:g}"] for b in ERRORS], "--", color="#888888", label="No-K-slack"
            )
        claimed(below, 0.92, "paper: .92 (model)")
        for axes in (above, below):
            axes.set_xscale("log")
        logarithmic(above)
        below.set_ylim(0, 1.05)
        finish(
            above, f"{NAMES[name]}, W = {size:g} s", "error asked for, ε (%)", "average latency (ms, log)", column == 0
        )
        finish(below, "", "error asked for, ε (%)", "Φ(ε)", column == 0)


def _in_percent(row: Row) -> Row:
    return row | {"value": 100 * (row["target"] or 0.0)}


def _experiment(id_: str, name: str) -> Experiment:
    own_trials: Callable[[Scale], list[Trial]] = partial(trials, name)
    own_draw: Callable[[Figure, Sequence[Row]], None] = partial(draw, name)
    return Experiment(
        id_,
        f"Error targets on sums, {NAMES[name]}: latency and fulfilment by controller, beside the best constant",
        own_trials,
        claims,
        own_draw,
        ("window_s", "value", "target", "way", "latency_ms", "slack_ms", "phi"),
        size=(14.0, 7.0),
    )


ON_VELOCITIES_1 = _experiment("004-fig4.11", "velocity1")
ON_VELOCITIES_2 = _experiment("004-fig4.12", "velocity2")
