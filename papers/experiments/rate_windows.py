"""Rate-sized windows on streams whose rates are known: what the windows hold, and what that saves.

References: 001 §2.3 (the example of 2002 events), §4.3, Fig. 6 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import claimed, finish
from papers.experiments.rate_runs import SETTLED_S, RateTrial, mean_of, over_time
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial

SLIDING, ROUNDS, FIXED, IN_TIME = "sliding samples", "rounds", "fixed count", "time windows"
BY_ROUNDS = "sampling = 'rounds'"
STYLES: dict[str, dict[str, Any]] = {
    SLIDING: {"color": "#0b6e4f", "linewidth": 2.0},
    ROUNDS: {"color": "#c05a00"},
    FIXED: {"color": "#888888", "linestyle": "--"},
    IN_TIME: {"color": "#1f4e9c", "linestyle": ":"},
}
COLUMNS = ("way", "resident", "resident_peak", "mb", "results", "cost_us")
D_WINDOW = 250


def example_trials(scale: Scale) -> list[Trial]:
    """Two seconds of 1000 and of 1 event a second."""
    fixed = "SELECT fast.id AS fast, slow.id AS slow FROM fast [ROWS 2000], slow [ROWS 2000]"
    short, full = 0.25, 34.0
    trials: list[Trial] = []
    for seed in scale.seeds:
        trials += [RateTrial(Stage("rates", seed, short), SLIDING)]
        trials += [RateTrial(Stage("rates", seed, short), ROUNDS, options=BY_ROUNDS)]
        # It takes the slow stream 2000 seconds to fill its count.
        trials += [RateTrial(Stage("rates", seed, full), FIXED, text=fixed, count_only=True, every_s=10.0)]
    return trials


def example_claims(rows: Sequence[Row]) -> list[Claim]:
    """2002 events, not 4000."""
    ours, theirs = (max(sum(row["sizes"][-1]) for row in pick(rows, way=way)) for way in (SLIDING, ROUNDS))
    fixed = max(row["resident_over_time"][-1] for row in pick(rows, way=FIXED))
    return [
        Claim("windows of 2 s over 1000/s and 1/s are 2002 events", f"{ours}", ours == 2002),
        Claim("so they are as published (it divides by a little less than 2 s)", f"{theirs}", abs(theirs - 2002) <= 4),
        Claim("a count that is the same for both streams is 4000", f"{fixed}", fixed == 4000),
    ]


def draw_example(figure: Figure, rows: Sequence[Row]) -> None:
    """Events in the windows over time."""
    axes = figure.subplots()
    for way in (SLIDING, ROUNDS, FIXED):
        row = pick(rows, way=way)[0]
        axes.plot(row["seconds"], row["resident_over_time"], label=way, **STYLES[way])
    claimed(axes, 2002, "2002 events")
    axes.set_xscale("log")
    finish(axes, "events in both windows", "seconds", "events", legend=True)


def single_trials(scale: Scale) -> list[Trial]:
    """D and R, in every kind of window."""
    select = "SELECT d.id AS id, d.value AS d, r.value AS r"
    texts = {
        FIXED: f"{select} FROM d [ROWS 250], r [ROWS 250] WHERE d.id = r.id",
        IN_TIME: f"{select} FROM d [RANGE 10 SECONDS], r [RANGE 10 SECONDS] WHERE d.id = r.id",
    }
    trials: list[Trial] = []
    for seed in scale.seeds:
        stage = Stage("drm", seed)
        trials += [RateTrial(stage, SLIDING), RateTrial(stage, ROUNDS, options=BY_ROUNDS)]
        trials += [RateTrial(stage, way, text=text) for way, text in texts.items()]
    return trials


def single_claims(rows: Sequence[Row]) -> list[Claim]:
    """250, the cycle, and what is saved."""
    found = []
    for way in (SLIDING, ROUNDS):
        mine = pick(rows, way=way)
        steady = [size for row in mine for size in over_time(row, "sizes", SETTLED_S, window=0)]
        found.append(Claim(f"the stream of 25/s settles at {D_WINDOW} +-5 % ({way})", f"{min(steady)} to {max(steady)}",
                           min(steady) >= 0.95 * D_WINDOW and max(steady) <= 1.05 * D_WINDOW))  # fmt: skip
        turns = [size for row in mine for size in (row["least_sizes"][1], row["most_sizes"][1])]
        found.append(Claim(f"the other follows its cycle of 10 s ({way})", f"{min(turns)} to {max(turns)}",
                           min(turns) <= 15 and max(turns) >= 0.95 * D_WINDOW))  # fmt: skip
    for way in (ROUNDS, SLIDING):
        saved = saving(rows, way)
        says = f"memory is at least 25 % less than with a fixed count ({way})"
        found.append(Claim(says, f"{saved:.1%} less", saved >= 0.25))
    says = "the same of a time window of 10 s, which is what a window of that interval stands for"
    found.append(Claim(says, f"{saving(rows, IN_TIME):.1%} less", None))
    weight = {row["way"]: row["mb"] for row in over_seeds(rows)}
    by_bytes = 1 - weight[SLIDING] / weight[FIXED]
    found.append(Claim("in bytes, where R is small and D is 50 KB", f"{by_bytes:.1%} less (sliding samples)", None))
    return found


def saving(rows: Sequence[Row], way: str) -> float:
    """What part of a fixed count's events a way does without, once all windows are full."""

    def held(one: str) -> float:
        return float(np.mean([mean_of(row, "resident_over_time", SETTLED_S) for row in pick(rows, way=one)]))

    return 1 - held(way) / held(FIXED)


def draw_single(figure: Figure, rows: Sequence[Row]) -> None:
    """Sizes as the paper draws them, and what stands in the windows."""
    left, right = figure.subplots(1, 2)
    for way in (SLIDING, ROUNDS):
        row = pick(rows, way=way)[0]
        left.plot(row["seconds"], [sizes[0] for sizes in row["sizes"]], label=f"D, {way}", **STYLES[way])
        style = STYLES[way] | {"linewidth": 1.0}
        left.plot(row["seconds"], [sizes[1] for sizes in row["sizes"]], label=f"R, {way}", alpha=0.7, **style)
    claimed(left, D_WINDOW, "25/s for 10 s")
    for way in (SLIDING, ROUNDS, FIXED, IN_TIME):
        row = pick(rows, way=way)[0]
        right.plot(row["seconds"], row["resident_over_time"], label=way, **STYLES[way])
    finish(left, "join window sizes", "seconds", "events", legend=True)
    finish(right, "events in both windows", "seconds", "events", legend=True)


WINDOWS = ("D", "R", "⟨D, R⟩", "M")


def double_trials(scale: Scale) -> list[Trial]:
    """Two joins."""
    return [
        RateTrial(Stage("drm", seed), way, query="two_joins", options=options)
        for seed in scale.seeds
        for way, options in ((SLIDING, ""), (ROUNDS, BY_ROUNDS))
    ]


def double_claims(rows: Sequence[Row]) -> list[Claim]:
    """The window of what the first join makes hangs on R."""
    found = []
    for way in (SLIDING, ROUNDS):
        mine = pick(rows, way=way)
        sizes = {name: [s for row in mine for s in over_time(row, "sizes", SETTLED_S, window=at)]
                 for at, name in enumerate(WINDOWS)}  # fmt: skip
        steady = [*sizes["D"], *sizes["M"]]
        says = f"D and M, of steady rate, keep their windows ({way})"
        found.append(Claim(says, f"{min(steady)} to {max(steady)}", min(steady) >= 237 and max(steady) <= 263))
        made = sizes["⟨D, R⟩"]
        says = f"the window of ⟨D, R⟩ follows the cycle of R ({way})"
        found.append(Claim(says, f"{min(made)} to {max(made)}", max(made) >= 5 * min(made)))
    return found


def draw_double(figure: Figure, rows: Sequence[Row]) -> None:
    """The four windows, by way."""
    for axes, way in zip(figure.subplots(1, 2, sharey=True), (SLIDING, ROUNDS), strict=True):
        row = pick(rows, way=way)[0]
        for at, name in enumerate(WINDOWS):
            axes.plot(row["seconds"], [sizes[at] for sizes in row["sizes"]], label=name)
        axes.set_ylim(0, 400)
        finish(axes, way, "seconds", "window (events)", legend=True)


EXAMPLE = Experiment(
    "001-sec2.3", "A window of 2 s over streams of 1000/s and 1/s", example_trials, example_claims, draw_example,
    COLUMNS, size=(8.0, 4.5),
)  # fmt: skip
SINGLE = Experiment(
    "001-fig6", "Window sizes and memory of a single join: D at 25/s, R at 25/s and 1/s in turns of 10 s",
    single_trials, single_claims, draw_single, COLUMNS, size=(12.0, 4.8),
)  # fmt: skip
DOUBLE = Experiment(
    "001-fig8", "Window sizes of two joins: ⟨D, R⟩ with M", double_trials, double_claims, draw_double, COLUMNS,
    size=(11.0, 4.5),
)  # fmt: skip
