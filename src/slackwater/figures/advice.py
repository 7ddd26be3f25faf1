"""Advice as a figure: what slack keeps, what it costs, and through which stream the rest is lost.

Invariant: lines are the curves of the advice; the least slack for each target is marked where it is printed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from slackwater.advice.answer import TARGETS, Advice, Curve
from slackwater.core.batch import Floats
from slackwater.core.time import MILLISECOND, SECOND, readable

SHOWN = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
COLOURS = ("#c05a00", "#1f4e9c", "#8a1c4a", "#6aa0e8", "#b08900", "#555555")
MAIN, SPARK, COST, KEPT = "#0b6e4f", "#000000", "#1f4e9c", "#8a1c4a"
LEAST = 1e-5
"""A loss below this is drawn as if it were this."""


def draw_advice(advice: Advice, path: Path) -> None:
    """Draw the advice into a file."""
    figure = Figure(figsize=(8, 7.5), layout="constrained")
    quality, cost = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_quality(quality, advice)
    _draw_cost(cost, advice)
    figure.suptitle("Which slack loses what", fontweight="bold")
    figure.savefig(path, dpi=130)


def _draw_quality(axes: Axes, advice: Advice) -> None:
    what = "recall" if advice.bound is None else f"windows with error ≤ {advice.bound:g}"
    axes.plot(*_line(advice.curve), color=MAIN, linewidth=2.4, drawstyle="steps-post", label=what)
    others = advice.by_stream if len(advice.by_stream) > 1 else {}
    for number, (name, curve) in enumerate(others.items()):
        axes.plot(
            *_line(curve), color=COLOURS[number % len(COLOURS)], linewidth=1.1, drawstyle="steps-post",
            label=f"if only {name} were late",
        )  # fmt: skip
    for bound, curve in advice.further.items():
        if bound != advice.bound:
            axes.plot(*_line(curve), color="#888888", linewidth=1, drawstyle="steps-post", label=f"error ≤ {bound:g}")
    if advice.for_spark is not None:
        axes.plot(
            *_line(advice.for_spark.curve), color=SPARK, linestyle="--", drawstyle="steps-post",
            label=f"Spark's own operators, micro-batches of {advice.for_spark.micro_batch}",
        )  # fmt: skip
    for target in TARGETS:
        slack = advice.curve.least(target)
        axes.axhline(1 - target, color="black", linewidth=0.5, alpha=0.4)
        if slack is not None:
            axes.plot([_drawn(slack)], [max(LEAST, 1 - advice.curve.at(slack))], "o", color=MAIN, markersize=5)
            axes.annotate(
                f"{target:g}: {readable(slack)}", (_drawn(slack), 1 - target), xytext=(6, -11),
                textcoords="offset points", fontsize=8,
            )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(1.0, LEAST)
    axes.set_yticks([1 - share for share in SHOWN], [f"{share:g}" for share in SHOWN])
    axes.minorticks_off()
    axes.set_ylabel("kept")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="best")


def _draw_cost(axes: Axes, advice: Advice) -> None:
    points = [one for one in advice.points if one.waiting.latency is not None]
    slacks = [_drawn(one.slack) for one in points]
    axes.plot(slacks, [(one.waiting.latency or 0) / SECOND for one in points], "o-", color=COST, markersize=4)
    axes.set_ylabel("latency (s)", color=COST)
    axes.set_ylim(0, None)
    state = axes.twinx()
    kept = [one.waiting.kept for one in advice.points]
    state.plot([_drawn(one.slack) for one in advice.points], kept, "s--", color=KEPT, markersize=4)
    state.set_ylabel("tuples kept" if advice.bound is None else "rows of open windows", color=KEPT)
    state.set_ylim(0, None)
    axes.set_xscale("symlog", linthresh=_drawn(10 * MILLISECOND))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: readable(x * SECOND)))
    axes.set_xlim(0, None)
    axes.set_xlabel("slack")
    axes.grid(alpha=0.25)


def _line(curve: Curve) -> tuple[Floats, Floats]:
    return curve.slacks / SECOND, np.maximum(LEAST, 1 - curve.kept)


def _drawn(slack: int) -> float:
    return slack / SECOND
