"""What the parameters do: the granularity g of the search, the adaptation interval L, the retrospect q.

References: 003 Fig. 9 (L) and 10 (g); 004 Fig. 4.15 and 4.16 (g), 4.17 (q), 4.18 (L).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure

from papers.experiments.aggregate_targets import error_trial
from papers.experiments.experiment import Claim, Experiment, Scale, at_least, over_seeds, pick
from papers.experiments.figures import NAMES, evenly, finish, line, logarithmic
from papers.experiments.join_targets import recall_trial
from papers.experiments.stages import VELOCITIES, Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial

GRANULARITIES_MS = (1, 10, 100, 1000)
INTERVALS_S = (0.1, 0.5, 1.0, 5.0, 10.0)
RETROSPECTS = (0.99, 0.9, 0.8, 0.7, 0.6)
JOIN_SETS = ("soccer", "dsyn3")
JOIN_TARGETS = (0.95, 0.99)
ERROR_TARGETS = (0.001, 0.01)
PUBLISHED = {"g (ms)": 10, "L (s)": 1.0}
"""The papers' own choice; a quick run keeps it and the two ends."""
BOTH = ("steady", "model")


def of_granularity(value: float) -> str:
    """The option for g, in milliseconds."""
    return f"granularity = {value:g} MILLISECONDS"


def of_interval(value: float) -> str:
    """The option for L, in seconds."""
    return f"adaptation_interval = {round(1000 * value)} MILLISECONDS"


def of_retrospect(value: float) -> str:
    """The option for q."""
    return f"retrospect = {value:g}"


def join_trials(parameter: str, values: Sequence[float], scale: Scale) -> list[Trial]:
    """Soccer and D_syn ×3, .95 and .99, with each value of a parameter."""
    found = []
    option = of_granularity if parameter == "g (ms)" else of_interval
    if scale.quick:
        values = [value for value in values if value in (values[0], values[-1], PUBLISHED[parameter])]
    for name in JOIN_SETS:
        for seed in scale.seeds:
            stage = Stage(name, seed, scale.minutes)
            for target in JOIN_TARGETS:
                found.append(recall_trial(stage, CLAIRVOYANT, target))
                for way in BOTH:
                    found += [
                        replace(recall_trial(stage, way, target, options=option(v)), parameter=parameter, value=v)
                        for v in values
                    ]
    return found


def error_trials(
    parameter: str, values: Sequence[float], ways: Sequence[str], size: float, targets: Sequence[float], scale: Scale
) -> list[Trial]:
    """Both velocity streams with each value of a parameter."""
    found = []
    option = of_granularity if parameter == "g (ms)" else of_retrospect
    for name in VELOCITIES:
        for seed in scale.seeds:
            stage = Stage(name, seed, scale.minutes, window_s=size)
            for target in targets:
                found.append(error_trial(stage, CLAIRVOYANT, target))
                for way in ways:
                    found += [
                        replace(error_trial(stage, way, target, option(v)), parameter=parameter, value=v)
                        for v in values
                    ]
    return found


def _growth(rows: Sequence[Row], says: str, cases: Sequence[str], way: str = "model") -> Claim:
    """Whether latency is higher at the largest value than at the smallest, for every named set."""
    reported, holds = [], True
    for name in cases:
        mine = sorted(over_seeds(pick(rows, workload=name, way=way)), key=lambda row: row["value"])
        for target in sorted({row["target"] for row in mine}):
            line_ = [row for row in mine if row["target"] == target]
            if len(line_) > 1:
                first, last = line_[0]["latency_ms"], line_[-1]["latency_ms"]
                reported.append(f"{NAMES[name]} {target:g}: {first:.0f} -> {last:.0f} ms")
                holds = holds and last > first
    return Claim(says, "; ".join(reported) or "not offered", holds if reported else None)


def claims_of_g_on_joins(rows: Sequence[Row]) -> list[Claim]:
    """003 §VI-D."""
    return [
        _growth(rows, "model: a coarser g waits longer on soccer", ("soccer",)),
        at_least("ours: steady keeps Φ(.99Γ) at 97 % for every g", pick(rows, way="steady"), "phi99", 0.97),
    ]


def claims_of_interval(rows: Sequence[Row]) -> list[Claim]:
    """003 §VI-C."""
    return [
        _growth(rows, "model: a longer L waits longer", JOIN_SETS),
        at_least("ours: steady keeps Φ(.99Γ) at 97 % for every L", pick(rows, way="steady"), "phi99", 0.97),
    ]


def claims_of_g_on_sums(rows: Sequence[Row]) -> list[Claim]:
    """004 §4.3.4."""
    return [
        _growth(rows, "model: a coarser g waits longer on both streams", VELOCITIES),
        at_least("ours: steady keeps Φ(ε) at 95 % for every g", pick(rows, way="steady"), "phi", 0.95),
    ]


def claims_of_retrospect(rows: Sequence[Row]) -> list[Claim]:
    """004 §4.3.4: q = .99 is best on both streams."""
    reported, holds = [], True
    for name in VELOCITIES:
        mine = over_seeds(pick(rows, workload=name, way="pd"))
        if mine:
            best = max(row["phi"] for row in mine)
            ours = next(row["phi"] for row in mine if row["value"] == RETROSPECTS[0])
            reported.append(f"{NAMES[name]}: {ours:.3f}, best {best:.3f}")
            holds = holds and ours >= best - 0.005
    return [
        Claim(
            "pd: q = .99 fulfils best on both streams",
            "; ".join(reported) or "not offered",
            holds if reported else None,
        )
    ]


def draw(label: str, in_powers: bool, figure: Figure, rows: Sequence[Row]) -> None:
    """Latency above, fulfilment below; a column a set and target."""
    cases = list(dict.fromkeys((row["workload"], row["target"]) for row in rows))
    grid = figure.subplots(2, len(cases), squeeze=False)
    for column, (name, target) in enumerate(cases):
        mine = pick(rows, workload=name, target=target)
        best = over_seeds(pick(mine, way=CLAIRVOYANT))
        values = sorted({row["value"] for row in mine if row["way"] != CLAIRVOYANT})
        for axes, key, text in (
            (grid[0][column], "latency_ms", "average latency (ms, log)"),
            (grid[1][column], "phi", "Φ"),
        ):
            for way in ("steady", "model", "pd"):
                line(axes, mine, "value", key, way)
            if best:
                axes.axhline(best[0][key], color="#222222", linestyle=":", label="clairvoyant, g = 10 ms")
            if in_powers:
                axes.set_xscale("log")
            if values:
                evenly(axes, values)
            if key == "latency_ms":
                logarithmic(axes)
            else:
                axes.set_ylim(0, 1.05)
            title = f"{NAMES[name]}, target {target:g}" if key == "latency_ms" else ""
            finish(axes, title, label, text, legend=column == 0)


JOIN_COLUMNS = ("workload", "target", "way", "value", "latency_ms", "slack_ms", "phi", "phi99")
SUM_COLUMNS = ("workload", "target", "way", "value", "latency_ms", "slack_ms", "phi")
G_ON_SUMS = Experiment(
    "004-fig4.15",
    "Granularity g on sums (W = 5 s)",
    partial(error_trials, "g (ms)", GRANULARITIES_MS, BOTH, 5.0, ERROR_TARGETS),
    claims_of_g_on_sums,
    partial(draw, "granularity g (ms)", True),
    SUM_COLUMNS,
    size=(14.0, 7.0),
)
G_ON_JOINS = Experiment(
    "003-fig10",
    "Granularity g on joins",
    partial(join_trials, "g (ms)", GRANULARITIES_MS),
    claims_of_g_on_joins,
    partial(draw, "granularity g (ms)", True),
    JOIN_COLUMNS,
    also=("004-fig4.16",),
    size=(14.0, 7.0),
)
RETROSPECT = Experiment(
    "004-fig4.17",
    "Retrospect q of the PD controller on sums (W = 1 s, ε = 0.1 %)",
    partial(error_trials, "q", RETROSPECTS, ("pd",), 1.0, (0.001,)),
    claims_of_retrospect,
    partial(draw, "retrospect q", False),
    SUM_COLUMNS,
    size=(9.0, 7.0),
)
INTERVAL = Experiment(
    "003-fig9",
    "Adaptation interval L on joins",
    partial(join_trials, "L (s)", INTERVALS_S),
    claims_of_interval,
    partial(draw, "adaptation interval L (s)", True),
    JOIN_COLUMNS,
    also=("004-fig4.18",),
    size=(14.0, 7.0),
)
