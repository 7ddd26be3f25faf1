"""Ways of waiting over one period of time: recall, slack and latency, one line each.

Invariant: every line is what was seen while the run went on; the target is a dashed line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter

from slackwater.core.batch import Floats
from slackwater.core.quality import Recall
from slackwater.core.time import SECOND, format_duration

COLOURS = {"steady": "#0b6e4f", "Max-K-slack": "#8a1c4a", "No-K-slack": "#888888"}
"""Those of the papers' figures."""


@dataclass(frozen=True)
class Seen:
    """One way of waiting over time, in seconds; NaN where there is nothing to be seen."""

    name: str
    method: str
    """Its name in the papers' figures, by which it is coloured."""
    times: Floats
    recall: Floats
    """Over the last period."""
    measured: Floats
    """By its own ledger, since the beginning."""
    slack: Floats
    latency: Floats


def recall_limits(race: Sequence[Seen], target: Recall) -> tuple[float, float]:
    """What of the recall to show: down to a little below the least that was seen once a period had passed.

    >>> import numpy as np
    >>> times, recall = np.array([1.0, 30.0, 31.0]), np.array([0.2, 0.9, np.nan])
    >>> seen = Seen("NO WAIT", "No-K-slack", times, recall, recall, times, times)
    >>> tuple(round(limit, 3) for limit in recall_limits([seen], Recall(0.95, 20_000_000)))
    (0.86, 1.008)
    """
    settled = np.concatenate([one.recall[one.times >= target.over / SECOND] for one in race])
    seen = settled[np.isfinite(settled)]
    room = 1.0 - min(target.target, float(seen.min())) if len(seen) else 1.0
    return max(0.0, 1.0 - 1.4 * room), 1.0 + 0.08 * room


def draw_race(race: Sequence[Seen], target: Recall, path: Path) -> None:
    """Draw all of them into a file."""
    figure = Figure(figsize=(9, 8), layout="constrained")
    recall, slack, latency = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    for one in race:
        colour = COLOURS[one.method]
        recall.plot(one.times, one.recall, label=f"{one.name} ({one.method})", color=colour)
        if (one.measured == one.measured).any():
            recall.plot(
                one.times, one.measured, color=colour, linestyle=":", label="the same so far, by its own ledger"
            )
        slack.step(one.times, one.slack, where="post", color=colour)
        latency.step(one.times, one.latency, where="post", color=colour)
    recall.axhline(target.target, color="black", linestyle="--", linewidth=1, label=f"target {target.target:g}")
    recall.set_ylabel(f"recall,\nlast {format_duration(target.over)}")
    recall.set_ylim(*recall_limits(race, target))
    recall.legend(loc="best", fontsize=9)
    for axes, name in ((slack, "slack (s)"), (latency, "latency (s)")):
        axes.set_ylabel(name)
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(-0.02, None)
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    latency.set_xlabel("event time (s)")
    for axes in (recall, slack, latency):
        axes.grid(alpha=0.25)
    figure.suptitle(f"The same streams, {len(race)} ways of waiting", fontweight="bold")
    figure.savefig(path, dpi=130)
