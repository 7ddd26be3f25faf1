"""Pictures of the zoo: for each member its delays and, over them, what was waited; below, the quality over time.

Invariant: dots are tuples, at the time they happened and with the time that they really took, whatever a wrong clock
says; tuples of wrong clocks are red.

`python -m papers.experiments.zoo_pictures docs/disorder` draws the small ones of the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from papers.experiments.experiment import pick
from papers.experiments.figures import STYLES, claimed, finish
from papers.experiments.sweep import CLAIRVOYANT, Row
from papers.experiments.zoo_runs import MINUTES, SCHEDULE
from slackwater.workloads import EPOCH_MS, Workload
from slackwater.workloads.disorder import ZOO, DisorderKind, ZooMember, zoo

DOTS = 3000
LEAST_S = 0.005
"""Delays below are drawn there: the axis is logarithmic."""
MOST_S = 1e5
TARGET = 0.95
WRONG = "#c2342b"
DOT: dict[str, Any] = {"linestyle": "", "marker": ".", "markersize": 2.5, "alpha": 0.5}


def pictures(rows: Sequence[Row]) -> Mapping[str, Figure]:
    """One for each member that our controller was asked for a recall of .95 on, tuple by tuple."""
    found = {}
    for name, member in ZOO.items():
        mine = pick(rows, workload=f"zoo/{name}", target=TARGET, value=0.0)
        if any("quality_over_time" in row for row in mine):
            found[f"zoo-{name}"] = _picture(member, mine)
    return found


def _picture(member: ZooMember, rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    figure.suptitle(f"{member.name.replace('_', ' ')}: {member.says}", fontsize=11, fontweight="bold")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    seed = min(row["seed"] for row in rows)
    draw_delays(above, member, zoo(member.name, seed, MINUTES))
    style: dict[str, Any] = {"linewidth": 1.6, "drawstyle": "steps-post"}
    for row in pick(rows, seed=seed):
        if row["way"] == CLAIRVOYANT:
            above.axhline(row["slack_ms"] / 1000, color="#222222", linestyle=":", label="best constant")
        elif row["way"] == SCHEDULE and "slack_by_minute" in row:
            slacks = [max(slack / 1000, LEAST_S) for slack in (*row["slack_by_minute"], row["slack_by_minute"][-1])]
            above.plot(range(len(slacks)), slacks, color="#d98e04", label="best schedule", **style)
        elif row.get("slack_over_time"):
            colour = STYLES[row["way"]]["color"]
            at, slack = np.array(row["slack_over_time"]).T
            above.plot(at / 60, np.maximum(slack / 1000, LEAST_S), color=colour, label=f"{row['way']}: slack", **style)
            ends, recall = np.array(row["quality_over_time"]).T
            below.plot(ends / 60, recall, color=colour, linewidth=1.6, label=row["way"])
    slacks_s = [slack / 1000 for row in rows for _, slack in row.get("slack_over_time", [])]
    above.set_ylim(top=min(max([100.0, *(2 * slack for slack in slacks_s)]), MOST_S))
    claimed(below, TARGET, f"asked for: {TARGET:g}")
    known = MINUTES * member.known_after + (1 if member.kind is DisorderKind.CHANGING else 0)
    below.axvspan(0, known, color="#999999", alpha=0.15, label="not judged")
    lowest = min([0.9, *(value for row in rows for _, value in row.get("quality_over_time", []))])
    below.set_ylim(max(-0.02, lowest - 0.02), 1.005)
    finish(above, "", "", "delay, slack (s, log)", legend=True)
    finish(below, "", "event time (minutes)", "recall over the last minute", legend=True)
    return figure


def draw_delays(axes: Axes, member: ZooMember, workload: Workload) -> None:
    """Tuples of stream b as dots: when they happened, and how long they took."""
    table = workload.streams["b"]
    some = np.linspace(0, table.num_rows - 1, min(DOTS, table.num_rows)).astype(np.int64)
    ts, sent, moment = (table[name].to_numpy()[some] for name in ("ts", "sent", "moment"))
    # A clock that drifts is wrong by a little, and so is the time that the tuple seems to take.
    drifts = member.kind is not DisorderKind.WRONG_CLOCKS
    at, took = (sent - EPOCH_MS) / 60_000, (moment - (ts if drifts else sent)) / 1000
    wrong = np.zeros(len(ts), np.bool_) if drifts else ts != sent
    axes.plot(at[~wrong], np.maximum(took[~wrong], LEAST_S), color="#5b7083", **DOT)
    if wrong.any():
        axes.plot(at[wrong], np.maximum(took[wrong], LEAST_S), color=WRONG, label="tuples with wrong clocks", **DOT)
    axes.set_yscale("log")
    axes.set_ylim(LEAST_S * 0.8, 100)
    axes.set_xlim(0, MINUTES)


def draw_seen(axes: Axes, workload: Workload) -> None:
    """Tuples of stream b as a query sees them: when they arrive, and how old they say they are; ahead is below 0."""
    table = workload.streams["b"]
    some = np.linspace(0, table.num_rows - 1, min(DOTS, table.num_rows)).astype(np.int64)
    ts, sent, moment = (table[name].to_numpy()[some] for name in ("ts", "sent", "moment"))
    at, age, wrong = (moment - EPOCH_MS) / 60_000, (moment - ts) / 1000, ts != sent
    axes.plot(at[~wrong], age[~wrong], color="#5b7083", **DOT)
    axes.plot(at[wrong], age[wrong], color=WRONG, **DOT)
    axes.set_yscale("symlog", linthresh=1.0)
    ticks = {"3 days ahead": -259_200, "1 min ahead": -60, "30 min ahead": -1800, "0": 0, "1 min": 60, "3 h": 10_800}
    ticks["1970"] = EPOCH_MS // 1000
    low, high = float(age.min()), float(age.max())
    shown = {name: tick for name, tick in ticks.items() if 3 * min(low, -1) <= tick <= 3 * max(high, 1)}
    axes.set_yticks(list(shown.values()), list(shown))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(6 * min(low, -1), 6 * max(high, 1))
    axes.set_xlim(0, MINUTES)


def write_small(folder: Path) -> None:
    """Every member small enough for a page of documentation: its delays, or what wrong clocks say."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, member in ZOO.items():
        figure = Figure(figsize=(6.0, 1.7), layout="constrained")
        axes, workload = figure.subplots(), zoo(name, 0, MINUTES)
        if member.kind is DisorderKind.WRONG_CLOCKS:
            draw_seen(axes, workload)
            finish(axes, "", "minutes", "age on arrival")
        else:
            draw_delays(axes, member, workload)
            finish(axes, "", "minutes", "delay (s)")
        figure.savefig(folder / f"{name}.png", dpi=90)


if __name__ == "__main__":
    write_small(Path(sys.argv[1]))
