"""Rate-sized windows on the four meteorology streams: how they start, follow storms, and what the order of joins costs.

References: 001 §4.4, Fig. 9, 10 and 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, pick
from papers.experiments.figures import finish, logarithmic
from papers.experiments.rate_runs import RateTrial, mean_of, over_time
from papers.experiments.rate_windows import BY_ROUNDS, COLUMNS, ROUNDS, SLIDING, STYLES
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial

WINDOWS = {
    "rates": ("METAR", "Acars", "⟨METAR, Acars⟩", "CAPS", "⟨METAR, Acars, CAPS⟩", "Nexrad"),
    "caps_first": ("Acars", "CAPS", "⟨Acars, CAPS⟩", "METAR", "⟨Acars, CAPS, METAR⟩", "Nexrad"),
}
"""In the order of the joins: the paper's, and the reordered one in which the fastest stream comes first."""
MINUTE = 60.0
STORMS = tuple((begin * MINUTE, (begin + 20) * MINUTE) for begin in (20, 80, 140))
NEAR = 0.5
"""A window has settled when its size stays within so much of the median that it has from minute 10 to minute 20."""
STREAMS, COMBINED = (0, 1, 3, 5), (2, 4)
"""Windows of streams, and of what joins make of them, in the paper's order."""
PAPER_MIN, OURS_MIN = 10.0, 2.0


def start_trials(scale: Scale) -> list[Trial]:
    """The first 20 minutes."""
    return [
        RateTrial(Stage("meteorology", seed, 20.0), way, options=options, every_s=5.0)
        for seed in scale.seeds
        for way, options in ((SLIDING, ""), (ROUNDS, BY_ROUNDS))
    ]


def settled_after(row: Row, windows: Sequence[int]) -> float:
    """Minutes until some windows stay near the sizes that they have from minute 10 on."""
    latest = 0.0
    for window in windows:
        usual = float(np.median(over_time(row, "sizes", 10 * MINUTE, window=window)))
        early = zip(row["seconds"], over_time(row, "sizes", 0, 10 * MINUTE, window=window), strict=False)
        off = [second for second, size in early if abs(size - usual) > NEAR * usual]
        latest = max(latest, max(off, default=0.0) / MINUTE)
    return latest


def start_claims(rows: Sequence[Row]) -> list[Claim]:
    """From a window of 100 and an epsilon of 30 minutes."""
    found = []
    for way, allowed in ((ROUNDS, PAPER_MIN), (SLIDING, OURS_MIN)):
        for windows, whose in ((STREAMS, "streams"), (COMBINED, "what joins make")):
            took = [settled_after(row, windows) for row in pick(rows, way=way)]
            says = f"windows of {whose} settle (+-50 %) within {allowed:g} minutes ({way})"
            found.append(Claim(says, f"after {min(took):.1f} to {max(took):.1f}", max(took) <= allowed))
    early = {way: max(max(over_time(row, "sizes", 0, 10 * MINUTE, window=2)) for row in pick(rows, way=way))
             for way in (ROUNDS, SLIDING)}  # fmt: skip
    says = "at first the window of ⟨METAR, Acars⟩ shoots up (to 1300)"
    found.append(Claim(says, f"{early[ROUNDS]} (rounds), {early[SLIDING]} (sliding samples)", early[ROUNDS] > 1000))
    distance = [mean_of(row, "within", 15 * MINUTE, window=0) for row in pick(rows, way=SLIDING)]
    says = "epsilon falls from 30 minutes to half the interval of METAR, 2.8 s"
    found.append(Claim(says, f"{np.mean(distance):.2f} s", bool(abs(np.mean(distance) - 2.77) < 0.3)))
    made = {way: np.mean([row["results"] for row in pick(rows, way=way)]) for way in (ROUNDS, SLIDING)}
    says = "what the bad start costs: results in 20 minutes"
    found.append(Claim(says, f"{made[ROUNDS]:,.0f} (rounds), {made[SLIDING]:,.0f} (sliding samples)", None))
    return found


def draw_sizes(query: str, begin: float, ways: Sequence[str], figure: Figure, rows: Sequence[Row]) -> None:
    """All windows over time, storms shaded."""
    panels = figure.subplots(1, len(ways), sharey=True, squeeze=False)[0]
    for axes, way in zip(panels, ways, strict=True):
        row = pick(rows, way=way, change=query)[0]
        for storm in STORMS:
            if begin * MINUTE <= storm[0] < row["seconds"][-1]:
                axes.axvspan(storm[0] / MINUTE, storm[1] / MINUTE, color="#1f4e9c", alpha=0.08)
        minutes = [second / MINUTE for second in row["seconds"] if second >= begin * MINUTE]
        for at, name in enumerate(WINDOWS[query]):
            dashed = "--" if name.startswith("⟨") else "-"
            axes.plot(minutes, over_time(row, "sizes", begin * MINUTE, window=at), dashed, label=name, linewidth=1.2)
        logarithmic(axes)
        finish(axes, way, "minutes", "window (events)", legend=True)


def rest_trials(scale: Scale) -> list[Trial]:
    """Three hours; 50 minutes where it is to be quick."""
    minutes = 50.0 if scale.quick else 180.0
    return [
        RateTrial(Stage("meteorology", seed, minutes), SLIDING, query=query, every_s=10.0)
        for seed in scale.seeds
        for query in WINDOWS
    ]


def storm_claims(rows: Sequence[Row]) -> list[Claim]:
    """CAPS grows fivefold, at once."""
    mine = pick(rows, change="rates")
    clear, storm = (np.mean([mean_of(row, "sizes", *part, window=3) for row in mine])
                    for part in ((10 * MINUTE, 20 * MINUTE), (26 * MINUTE, 40 * MINUTE)))  # fmt: skip
    response = max(_reaches(row, 3, 0.9 * float(storm), STORMS[0][0]) for row in mine) / MINUTE
    back = max(_reaches(row, 3, 1.1 * float(clear), STORMS[0][1], falling=True) for row in mine) / MINUTE
    says = "windows grow in storms (CAPS, five times the rate)"
    calm, wild = (np.mean([mean_of(row, "resident_over_time", *part) for row in mine])
                  for part in ((10 * MINUTE, 20 * MINUTE), (26 * MINUTE, 40 * MINUTE)))  # fmt: skip
    return [
        Claim(says, f"{clear:.0f} in clear weather, {storm:.0f} in a storm", bool(4.5 <= storm / clear <= 5.5)),
        Claim("the response is rapid: within the interval of 5 minutes", f"{response:.1f} min up, {back:.1f} min down",
              response <= 5.5 and back <= 5.5),
        Claim("clear weather saves memory", f"{calm:.0f} events in clear weather, {wild:.0f} in a storm",
              bool(calm < wild)),
    ]  # fmt: skip


def _reaches(row: Row, window: int, level: float, since: float, falling: bool = False) -> float:
    """Seconds until a window has come so far."""
    for second, sizes in zip(row["seconds"], row["sizes"], strict=True):
        if second >= since and (sizes[window] <= level if falling else sizes[window] >= level):
            return float(second - since)
    return float("inf")


def order_claims(rows: Sequence[Row]) -> list[Claim]:
    """A fast stream that joins first costs more."""
    held = {query: {key: np.mean([mean_of(row, key) for row in pick(rows, change=query)])
                    for key in ("resident_over_time", "mb_over_time")} for query in WINDOWS}  # fmt: skip
    storm = {query: np.mean([mean_of(row, "resident_over_time", 26 * MINUTE, 40 * MINUTE)
                             for row in pick(rows, change=query)]) for query in WINDOWS}  # fmt: skip
    now, first = held["rates"], held["caps_first"]
    return [
        Claim("CAPS in the first join costs more memory than later (events in windows)",
              f"{first['resident_over_time']:.0f} against {now['resident_over_time']:.0f}",
              bool(first["resident_over_time"] > now["resident_over_time"])),
        Claim("most of all in storms", f"{storm['caps_first']:.0f} against {storm['rates']:.0f}",
              bool(storm["caps_first"] > storm["rates"])),
        Claim("in bytes, events in several windows counted once",
              f"{first['mb_over_time']:.2f} MB against {now['mb_over_time']:.2f} MB",
              bool(first["mb_over_time"] > now["mb_over_time"])),
    ]  # fmt: skip


def draw_orders(figure: Figure, rows: Sequence[Row]) -> None:
    """Sizes of the reordered query, and the memory of both."""
    left, right = figure.subplots(1, 2)
    row = pick(rows, change="caps_first")[0]
    for at, name in enumerate(WINDOWS["caps_first"]):
        minutes = [second / MINUTE for second in row["seconds"] if second >= 20 * MINUTE]
        left.plot(minutes, over_time(row, "sizes", 20 * MINUTE, window=at), label=name, linewidth=1.2)
    for query, title in (("rates", "CAPS third"), ("caps_first", "CAPS first")):
        one = pick(rows, change=query)[0]
        minutes = [second / MINUTE for second in one["seconds"]]
        style = STYLES[SLIDING] if query == "rates" else STYLES[ROUNDS]
        right.plot(minutes, one["resident_over_time"], label=title, **style)
    for axes in (left, right):
        for storm in STORMS:
            if storm[0] < row["seconds"][-1]:
                axes.axvspan(storm[0] / MINUTE, storm[1] / MINUTE, color="#1f4e9c", alpha=0.08)
    finish(left, "CAPS first: window sizes", "minutes", "events", legend=True)
    finish(right, "events in all windows", "minutes", "events", legend=True)


START = Experiment(
    "001-fig9", "Start-up from a window of 100 and an epsilon of 30 minutes, four meteorology streams",
    start_trials, start_claims, partial(draw_sizes, "rates", 0.0, (SLIDING, ROUNDS)), COLUMNS, size=(12.0, 5.0),
)  # fmt: skip
STORMY = Experiment(
    "001-fig10", "Four meteorology streams after the start: join(join(join(METAR, Acars), CAPS), Nexrad)",
    rest_trials, storm_claims, partial(draw_sizes, "rates", 20.0, (SLIDING,)), ("change", *COLUMNS),
    size=(9.0, 5.0),
)  # fmt: skip
REORDERED = Experiment(
    "001-fig11", "The fastest stream first: join(join(join(Acars, CAPS), METAR), Nexrad)",
    rest_trials, order_claims, draw_orders, ("change", *COLUMNS), size=(12.0, 5.0),
)  # fmt: skip
