"""Ours: what a controller does when something changes at minute 5.

Invariant: a controller is back once a whole measurement period passes without a recall below .99Γ. How long it took
is told in periods, counted from the change to the first recall from which on that holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, extreme, pick
from papers.experiments.figures import STYLES, claimed, finish, logarithmic
from papers.experiments.join_targets import recall_trial
from papers.experiments.stages import CHANGE_MINUTE, CHANGES, UNCHANGED, Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial

TARGET = 0.95
PERIOD_S = 60
WAYS = ("steady", "model", "pd")
AT_S = 60 * CHANGE_MINUTE


def trials(scale: Scale) -> list[Trial]:
    """Every controller through every change, and through none."""
    found = []
    for change in (*CHANGES, UNCHANGED):
        for seed in scale.seeds:
            # At ten times the rate there are ten times the tuples; five minutes of that show all there is to see.
            minutes = 15.0 if change != "rate x10" else 8.0 if scale.quick else 10.0
            stage = Stage("dsyn3", seed, minutes, change=change)
            for way in (CLAIRVOYANT, *WAYS):
                trial = recall_trial(stage, way, TARGET, PERIOD_S)
                found.append(Trial(**{**vars(trial), "series": True}))
    return found


def periods_until_back(recalls: Sequence[tuple[float, float]], level: float) -> float | None:
    """Periods from the change until recall stays at the level for a whole period; None where it never does.

    >>> late = [(300.0 + t, 0.5 if t < 90 else 1.0) for t in range(200)]
    >>> periods_until_back(late, 0.9), periods_until_back([(t, 1.0) for t, _ in late], 0.9)
    (1.5, 0.0)
    """
    since: float | None = None
    for at, recall in recalls:
        if at < AT_S:
            continue
        if recall < level:
            since = None
        elif since is None:
            since = at
        if since is not None and at - since >= PERIOD_S:
            return max(0.0, since - AT_S) / PERIOD_S if since > AT_S + 1 else 0.0
    return None


def slack_after(slacks: Sequence[tuple[float, float]], seconds: float = 600.0) -> float:
    """The average slack (ms) in the time after the change."""
    total = weight = 0.0
    for (begin, slack), (end, _) in pairwise(slacks):
        begin, end = max(begin, AT_S), min(end, AT_S + seconds)
        if end > begin:
            total, weight = total + slack * (end - begin), weight + end - begin
    return total / weight if weight else 0.0


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What our controller is held to; the published ones beside it."""
    found = []
    for way in WAYS:
        for change in CHANGES:
            mine = pick(rows, way=way, change=change)
            found += [
                _back(f"{way}: back at .99Γ within two periods after {change}", mine, 0.99 * TARGET),
                _back(f"{way}: back at Γ within two periods after {change}", mine, TARGET),
            ]
        found.append(_after_straggler(rows, way))
    return found


def _back(says: str, rows: Sequence[Row], level: float) -> Claim:
    backs = [periods_until_back(row["recall_over_time"], level) for row in rows]
    if not backs:
        return Claim(says, "not offered", None)
    known = [back for back in backs if back is not None]
    if len(known) < len(backs):
        return Claim(says, "not back for a whole period", False)
    return Claim(says, f"{max(known):.2f} periods", max(known) <= 2)


def _after_straggler(rows: Sequence[Row], way: str) -> Claim:
    says = f"{way}: one straggler raises the slack of the next ten minutes by 10 % at most"
    usual = {row["seed"]: slack_after(row["slack_over_time"]) for row in pick(rows, way=way, change=UNCHANGED)}
    raised = [
        {"rise": slack_after(row["slack_over_time"]) / max(usual[row["seed"]], 1e-9) - 1}
        for row in pick(rows, way=way, change="straggler")
        if row["seed"] in usual
    ]
    worst = extreme(raised, "rise", least=False)
    return Claim(says, "not offered" if worst is None else f"{worst:+.1%}", None if worst is None else worst <= 0.1)


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Recall above, slack below, a column a change."""
    grid = figure.subplots(2, len(CHANGES), squeeze=False)
    for column, change in enumerate(CHANGES):
        above, below = grid[0][column], grid[1][column]
        # The steady one comes last and on top: the model's slack swings so fast that its line is a wall.
        for way in reversed(WAYS):
            for row in pick(rows, way=way, change=change)[:1]:
                style = {"color": STYLES[way]["color"], "label": way, "linewidth": 1.6 if way == "steady" else 0.8}
                recalls = [(t / 60, value) for t, value in row["recall_over_time"]]
                slacks = [(t / 60, max(slack, 1.0)) for t, slack in row["slack_over_time"]]
                above.plot(*zip(*recalls, strict=True), **style)
                below.step(*zip(*slacks, strict=True), where="post", **style)
        for row in pick(rows, way=CLAIRVOYANT, change=change)[:1]:
            below.axhline(row["slack_ms"], color="#222222", linestyle=":", label="best constant over all of it")
        claimed(above, TARGET, "Γ")
        for axes in (above, below):
            axes.axvline(CHANGE_MINUTE, color="#555555", linewidth=0.8)
        logarithmic(below)
        finish(
            above,
            f"{change} at minute {CHANGE_MINUTE:g}",
            "result time (minutes)",
            "recall over the last minute",
            column == 0,
        )
        finish(below, "", "event time (minutes)", "slack (ms, log)", column == 0)


CHANGES_OF_STREAMS = Experiment(
    "changes",
    f"What a change at minute {CHANGE_MINUTE:g} does to recall and slack (D_syn ×3, Γ = {TARGET:g} over 1 minute)",
    trials,
    claims,
    draw,
    ("change", "way", "recall", "recall_min", "phi", "phi99", "slack_ms", "latency_ms"),
    size=(13.0, 7.0),
)
