"""Drawing: lines over a swept value, one panel a dataset, controllers told apart the same way in every figure.

Invariant: axes carry units, the paper's number is a dashed line, and a way that is not offered has no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, NullLocator

from papers.experiments.experiment import Experiment, over_seeds, pick
from papers.experiments.sweep import CLAIRVOYANT, Row

STYLES: dict[str, dict[str, Any]] = {
    "steady": {"color": "#0b6e4f", "marker": "o", "linewidth": 2.2},
    "model": {"color": "#1f4e9c", "marker": "s"},
    "model EqSel": {"color": "#6aa0e8", "marker": "D"},
    "pd": {"color": "#c05a00", "marker": "^"},
    CLAIRVOYANT: {"color": "#222222", "marker": "x", "linestyle": ":"},
    "Max-K-slack": {"color": "#8a1c4a", "linestyle": "--"},
    "No-K-slack": {"color": "#888888", "linestyle": "--"},
}
NAMES = {
    "soccer": "soccer ×2",
    "dsyn3": "D_syn ×3",
    "dsyn4": "D_syn ×4",
    "velocity1": "velocities 1",
    "velocity2": "velocities 2",
    "binance": "two markets",
    "umts 2, 7": "devices 2 and 7",
    "umts 14, 16": "devices 14 and 16",
}


def write_figure(experiment: Experiment, rows: Sequence[Row], folder: Path) -> Path:
    """Draw the experiment into a PNG file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=experiment.size, layout="constrained")
    figure.suptitle(experiment.title, fontsize=13, fontweight="bold")
    experiment.draw(figure, rows)
    path = folder / f"{experiment.id}.png"
    figure.savefig(path, dpi=130)
    return path


def write_pictures(experiment: Experiment, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw what an experiment has to show beside its figure."""
    written = []
    for name, figure in experiment.pictures(rows).items():
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=130)
    return written


def line(axes: Axes, rows: Sequence[Row], x: str, y: str, way: str, label: str | None = None, **style: Any) -> None:
    """One way of waiting as a line; rows of several seeds are averaged."""
    points = sorted((row[x], row[y]) for row in over_seeds(pick(rows, way=way)) if y in row)
    if points:
        axes.plot(*zip(*points, strict=True), label=label or way, **{"markersize": 5, **STYLES.get(way, {}), **style})


def level(axes: Axes, rows: Sequence[Row], y: str, way: str) -> None:
    """A baseline that hangs on no target, as a level."""
    for row in over_seeds(pick(rows, way=way)):
        if y in row:
            axes.axhline(row[y], label=way, **STYLES.get(way, {}))


def claimed(axes: Axes, value: float, says: str) -> None:
    """The paper's number."""
    axes.axhline(value, color="#b00020", linestyle="--", linewidth=1.2, label=says)


def finish(axes: Axes, title: str, x: str, y: str, legend: bool = False) -> None:
    """Title, axes with units, a light grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.grid(alpha=0.3)
    axes.tick_params(which="both", labelsize=8)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)


def evenly(axes: Axes, values: Sequence[float], text: Callable[[float], str] = lambda value: f"{value:g}") -> None:
    """Ticks at the swept values and nowhere else."""
    axes.set_xticks(list(values), [text(value) for value in values])
    axes.xaxis.set_minor_locator(NullLocator())


def logarithmic(axes: Axes) -> None:
    """A logarithmic y axis with plain numbers, also between the powers of ten where there is only one of them."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter(labelOnlyBase=False))
    axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.6)))
