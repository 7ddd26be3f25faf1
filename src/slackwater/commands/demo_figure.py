"""The race of the demo as a picture: recall, slack and latency over event time.

Invariant: every line is what a contender was seen to have while it ran; the target is a dashed line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter

from slackwater.commands.demo_race import Contender
from slackwater.commands.demo_truth import Truth, recent_recall
from slackwater.model.batch import Floats
from slackwater.model.errors import UsageError
from slackwater.model.quality import Complete, NoWait, Recall
from slackwater.model.time import SECOND, format_duration

FORMATS = (".png", ".svg", ".pdf")
STYLES = {Complete: ("Max-K-slack", "#8a1c4a"), NoWait: ("No-K-slack", "#888888"), Recall: ("steady", "#0b6e4f")}


def drawable(path: Path | None) -> Path | None:
    """The path, if a picture can be written there."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: name a file that ends in {', '.join(FORMATS)}")
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--figure {path}: there is no folder {path.absolute().parent}")
    return path


def draw(contenders: Sequence[Contender], truth: Truth, begin: int, target: Recall, path: Path) -> None:
    """Draw all contenders into a file; the game begins at event time `begin`."""
    figure = Figure(figsize=(9, 8), layout="constrained")
    recall, slack, latency = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    for contender in contenders:
        method, colour = STYLES[type(contender.quality)]
        # The last moment is the end of the input, where everything is let out.
        seen = [moment for moment in contender.moments[:-1] if moment.clock is not None]
        times = [((moment.clock or begin) - begin) / SECOND for moment in seen]
        recall.plot(
            times, _floats(recent_recall(seen, truth, target.over)), label=f"{contender.name} ({method})", color=colour
        )
        if isinstance(contender.quality, Recall):
            books = _floats([moment.measured for moment in seen])
            recall.plot(times, books, color=colour, linestyle=":", label="the same so far, by its own books")
        slack.step(times, [moment.slack / SECOND for moment in seen], where="post", color=colour)
        latency.step(times, _floats([moment.latency for moment in seen]) / SECOND, where="post", color=colour)
    recall.axhline(target.target, color="black", linestyle="--", linewidth=1, label=f"target {target.target:g}")
    recall.set_ylabel(f"recall,\nlast {format_duration(target.over)}")
    recall.set_ylim(0, 1.02)
    recall.legend(loc="lower right", fontsize=9)
    for axes, name in ((slack, "slack (s)"), (latency, "latency (s)")):
        axes.set_ylabel(name)
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(-0.02, None)
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    latency.set_xlabel("event time (s)")
    for axes in (recall, slack, latency):
        axes.grid(alpha=0.25)
    figure.suptitle("The same game, three ways of waiting", fontweight="bold")
    figure.savefig(path, dpi=130)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)
