"""Rate-sized windows beside windows of time: what each holds, what each finds, and when which of them pays.

Where it is known how far apart in time a match may be, a window of time of that length finds all matches, whatever the
rates do: it is the truth here, and what it holds is the least that has to be held. All others are asked for the same
matches.

References: 001 §2.2 (false negatives), §2.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import finish, logarithmic
from papers.experiments.rate_runs import RateTrial
from papers.experiments.rate_windows import BY_ROUNDS, FIXED, IN_TIME, ROUNDS, SLIDING, STYLES
from papers.experiments.recorded_streams import WEATHER, folder_of_recordings
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial

LEAST = "time windows of a match"
ALL_STYLES = STYLES | {LEAST: {"color": "#8a1c4a"}}
WAYS = (SLIDING, ROUNDS, FIXED, IN_TIME, LEAST)


@dataclass(frozen=True)
class Case:
    """A join by time: what is kept of each stream, how far apart a match may be, and a count that is always enough."""

    left: str
    right: str
    keeps: str
    match: str
    count: int
    where: str = ""
    wait: str = "COMPLETE"

    def text(self, way: str) -> str:
        """The query in one kind of windows."""
        windows = {
            FIXED: f"ROWS {self.count}", IN_TIME: f"RANGE {self.keeps}", LEAST: f"RANGE {self.match}",
        }.get(way, f"RATE {self.keeps}")  # fmt: skip
        streams = f"FROM {self.left} [{windows}], {self.right} [{windows}]"
        near = f"ABS({self.left}.ts - {self.right}.ts) <= INTERVAL {self.match}"
        if way in (SLIDING, ROUNDS):
            streams, near = f"{streams} MATCH TIME WITHIN {self.match}", ""
        where = " AND ".join(filter(None, (self.where, "" if way == LEAST else near)))
        # The text is ours, for our own parser.
        select = f"SELECT {self.left}.ts AS a, {self.right}.ts AS b {streams}"
        return f"{select} WHERE {where}" if where else select


SAME_AIR = "us.temp_c = ca.temp_c AND us.dew_c = ca.dew_c"
CASES = {
    "drm": Case("d", "r", "10 SECONDS", "500 MILLISECONDS", 250),
    "meteorology": Case("metar", "caps", "5 MINUTES", "3 SECONDS", 400),
    "special 2019": Case("special", "routine", "1 HOUR", "30 MINUTES", 20_000, "special.station = routine.station",
                         "DELAY 20 MINUTES"),
    "border 2019": Case("us", "ca", "10 MINUTES", "5 MINUTES", 10_000, SAME_AIR, "DELAY 20 MINUTES"),
}  # fmt: skip
"""Two seeded workloads, and recorded weather reports, which come in bursts at full and half hours."""


def trials(scale: Scale) -> list[Trial]:
    """All cases that can be had, each in five kinds of windows; recordings have no seed."""
    found: list[Trial] = []
    for name, case in CASES.items():
        recorded = name in WEATHER
        if recorded and not (folder_of_recordings() / f"{WEATHER[name].file}.parquet").exists():
            continue
        minutes = None if recorded or name == "drm" or not scale.quick else 45.0
        for seed in scale.seeds[:1] if recorded else scale.seeds:
            found += [
                RateTrial(
                    Stage(name, seed, minutes), way, case.wait, BY_ROUNDS * (way == ROUNDS), query=name,
                    text=case.text(way), every_s=60.0 if recorded else 5.0, count_only=True,
                )
                for way in WAYS
            ]  # fmt: skip
    return found


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What is found of what is there, and what is held for it."""
    found = []
    for name in CASES:
        mine = {row["way"]: row for row in over_seeds(pick(rows, workload=name))}
        if not mine:
            found.append(Claim(f"{name}", "recorded streams are absent", None))
            continue
        least = mine[LEAST]
        reported = []
        for way in WAYS:
            row = mine[way]
            reported.append(
                f"{way} {row['results'] / max(1.0, least['results']):.1%} with {row['resident']:.0f} events"
            )
        found.append(Claim(f"{name}: matches found, and events held", "; ".join(reported), None))
        says = f"{name}: where the distance is known, windows of time of that length find all with the fewest events"
        fewest = all(least["resident"] <= row["resident"] or row["results"] < least["results"] for row in mine.values())
        found.append(Claim(says, f"{least['resident']:.0f} events", fewest))
    return found


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Events held over time, case by case."""
    shown = [name for name in CASES if pick(rows, workload=name)]
    panels = np.ravel(figure.subplots(2, (len(shown) + 1) // 2, squeeze=False))
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, shown, strict=False):
        least = pick(rows, workload=name, way=LEAST)[0]
        for way in WAYS:
            row = pick(rows, workload=name, way=way)[0]
            share = row["results"] / max(1, least["results"])
            minutes = [second / 60 for second in row["seconds"]]
            axes.plot(minutes, row["resident_over_time"], label=f"{way}: {share:.1%} found", **ALL_STYLES[way])
        logarithmic(axes)
        finish(axes, name, "minutes", "events in both windows", legend=True)


RATE_OR_TIME = Experiment(
    "rate-or-time", "Windows that follow rates beside windows of time: matches found, events held",
    trials, claims, draw, ("workload", "way", "results", "resident", "resident_peak", "cost_us"),
    size=(12.0, 8.0),
)  # fmt: skip
