"""In-order execution: response times by Sync-Filter, Filter-Order and Adaptive, over the cost of a comparison and over
the rate of the slow stream; in virtual time, see `response_times.py`.

Two streams of integers with exponential times between tuples, joined within a minute where their values are equal, by
comparing them one by one. The paper's numbers can only be read off its figures, so its claims are the sentences of its
text. Tuples whose turn had not come when the streams ended are left out.

References: 000 Fig. 7 to 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import finish, logarithmic
from papers.experiments.response_model import Setting, improvement_at
from papers.experiments.response_times import drive
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.workloads import exponential_stream
from slackwater.core.batch import FIRST_COLUMN, ROW, Batch
from slackwater.core.results import ADAPTIVE, DEFAULT_ALPHA, FILTER, SYNC, Ordering
from slackwater.core.schema import Kind
from slackwater.core.time import SECOND
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column
from slackwater.operators.join.operator import WindowJoin

WINDOW, FAST, MINUTES = 60, 10.0, 20.0
COSTS = (1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 600.0, 700.0, 1000.0)
"""Microseconds a comparison."""
RATES = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Tuples a second of the slow stream."""
COST, RATE = "c (µs)", "λ1 (1/s)"
WAYS = (SYNC, FILTER, ADAPTIVE)
TITLES = {SYNC: "Sync-Filter", FILTER: "Filter-Order", ADAPTIVE: "Adaptive"}
STYLES: dict[str, dict[str, Any]] = {
    SYNC: {"color": "#c05a00", "marker": "s"},
    FILTER: {"color": "#1f4e9c", "marker": "^"},
    ADAPTIVE: {"color": "#0b6e4f", "marker": "o", "linestyle": "--"},
}
CLOSE = 0.05
"""How near Adaptive is to be to the better of the two."""
KEEPS_UP = 0.9
"""The claims are about servers that are busy for less than this share of the time."""


@dataclass(frozen=True)
class OrderTrial(Trial):
    """One strategy; the value is the cost of a comparison or the rate of the slow stream, whichever is varied."""

    @property
    def setting(self) -> Setting:
        """What is joined, in seconds."""
        c, slow = (self.value / 1e6, 1.0) if self.parameter == COST else (0.0005, self.value)
        return Setting(c, WINDOW, slow, FAST)

    def measured(self) -> Row:
        """The row of this trial."""
        stage, setting = self.stage, self.setting
        batch = arrivals(stage.seed, stage.minutes or MINUTES, setting.slow, FAST)
        assert batch.arrival_time is not None
        found = drive(join_by_scanning(WINDOW), Ordering(self.way), batch, setting.c)
        response = found.done - batch.arrival_time / SECOND
        assert found.seen is not None
        return {
            "workload": stage.workload, "seed": stage.seed, "minutes": stage.minutes, "window_s": WINDOW, "change": "",
            "way": self.way, "target": None, "period_s": self.period_s, "parameter": self.parameter,
            "value": self.value, "offered": True, "tuples": len(batch), "done": int(np.isfinite(response).sum()),
            "results": len(found.results), "response_s": float(np.nanmean(response)),
            "response_fast_s": float(np.nanmean(response[batch.stream == 1])),
            "analysis_s": setting.filter if self.way == FILTER else setting.sync, "load": setting.load,
            "measured_load": found.seen.load, "busy": setting.busy, "switches": found.seen.switches,
            "filter_share": float(np.mean(found.filters)), "memory": float(np.mean(found.memory)),
            "memory_max": float(np.max(found.memory)), "held_results_max": found.seen.most_held_results,
        }  # fmt: skip


def join_by_scanning(window_s: int) -> WindowJoin:
    """Equal values within so many seconds, found by comparing tuples one by one; rows out."""
    equal = typed_call("=", (Column(0, "v", Kind.INT), Column(1, "v", Kind.INT)))
    columns = tuple((stream, "v", FIRST_COLUMN) for stream in (0, 1))
    emit = ((0, ROW), (1, ROW))
    return WindowJoin((window_s * SECOND,) * 2, (), (equal,), columns, emit, FIRST_COLUMN + 1)


@lru_cache(maxsize=2)
def arrivals(seed: int, minutes: float, slow: float, fast: float, values: int = 500) -> Batch:
    """A slow and a fast stream; tuples arrive when they happen."""
    made = []
    for number, rate in enumerate((slow, fast)):
        ts, value = exponential_stream(seed, number, 50 + int(1.5 * 60 * minutes * rate), [rate], values)
        inside = ts < 60 * minutes * SECOND
        made.append((ts[inside], value[inside]))
    stream = np.repeat([0, 1], [len(ts) for ts, _ in made])
    ts, value = (np.concatenate(column) for column in zip(*made, strict=True))
    order = np.argsort(ts, kind="stable")
    words = np.stack([ts[order], np.arange(len(order)), value[order]])
    return Batch(stream[order], words, np.ones(len(order), np.bool_), ts[order])


def _trials(parameter: str, values: Sequence[float], scale: Scale) -> list[Trial]:
    minutes = scale.minutes or MINUTES
    return [
        OrderTrial(Stage("exponential", seed, minutes), way, parameter=parameter, value=value)
        for seed in scale.seeds for value in values for way in WAYS
    ]  # fmt: skip


def _against(rows: Sequence[Row], way: str, other: str) -> dict[float, float]:
    """By value, how much longer the response time of one is than that of another, over all seeds."""
    mine, others = (
        {row["value"]: row["response_s"] for row in over_seeds(pick(rows, way=one))} for one in (way, other)
    )
    return {value: mine[value] / others[value] - 1 for value in mine if value in others}


def order_claims(rows: Sequence[Row]) -> list[Claim]:
    """Filter-Order is the faster one; Adaptive is with the one that the load asks for."""
    load = {row["value"]: row["load"] for row in rows}
    kept_up = {value for value, share in load.items() if 2 * share < KEEPS_UP}
    saved = {value: -longer for value, longer in _against(rows, FILTER, SYNC).items()}
    worst = min(saved.values(), default=0.0)
    claims = [
        Claim("Sync-Filter has the worst response time everywhere", f"{worst:.1%} longer at least", worst >= -0.001)
    ]
    at = [value for value in kept_up if load[value] >= DEFAULT_ALPHA - 1e-9]
    least = min((saved[value] for value in at), default=None)
    promised = improvement_at(DEFAULT_ALPHA)
    says = (
        f"Filter-Order saves {promised:.0%} or more from a load of α = {DEFAULT_ALPHA:g} on (the paper measured 45 %)"
    )
    claims.append(_bounded(says, least, lambda found: found >= promised, "saves {:.1%} at least"))
    for other, wanted in ((SYNC, sorted(kept_up - set(at))), (FILTER, sorted(at))):
        gaps = _against(rows, ADAPTIVE, other)
        worst_gap = max((abs(gaps[value]) for value in wanted), default=None)
        side = "below" if other == SYNC else "from"
        says = f"ours: Adaptive is within 5 % of {TITLES[other]} {side} the threshold"
        claims.append(_bounded(says, worst_gap, lambda found: found <= CLOSE, "{:.1%} off at most"))
    switched = sorted({row["value"] for row in pick(rows, way=ADAPTIVE) if row["switches"] > 0})
    wanted = sorted(value for value in load if load[value] >= DEFAULT_ALPHA - 1e-9)
    listed = ", ".join(f"{value:g}" for value in switched) or "nowhere"
    claims.append(Claim(f"Adaptive switches where the load is {DEFAULT_ALPHA:g} or more", listed, switched == wanted))
    return [*claims, _memory(rows)]


def _bounded(says: str, found: float | None, holds: Any, reported: str) -> Claim:
    return Claim(says, "not measured", None) if found is None else Claim(says, reported.format(found), holds(found))


def _memory(rows: Sequence[Row]) -> Claim:
    """What Filter-Order keeps beside what Sync-Filter keeps."""
    sync, early = ({r["value"]: r["memory"] for r in over_seeds(pick(rows, way=way))} for way in (SYNC, FILTER))
    more = [early[value] / sync[value] - 1 for value in sync if value in early]
    reported = f"{min(more):+.1%} to {max(more):+.1%} on average" if more else "not measured"
    return Claim("Filter-Order keeps more tuples and results than Sync-Filter", reported, min(more, default=0.0) > 0)


def draw_order(parameter: str, figure: Figure, rows: Sequence[Row]) -> None:
    """Response time, the same against Sync-Filter, and what is kept."""
    left, middle, right = figure.subplots(1, 3)
    mine = over_seeds(rows)
    base = {row["value"]: row["response_s"] for row in pick(mine, way=SYNC)}
    for way in WAYS:
        points = sorted((row["value"], row["response_s"], row["memory"]) for row in pick(mine, way=way))
        if points:
            x, response, memory = zip(*points, strict=True)
            left.plot(x, response, label=TITLES[way], **STYLES[way])
            share = [r / base[value] for value, r in zip(x, response, strict=True) if value in base]
            middle.plot(x[: len(share)], share, label=TITLES[way], **STYLES[way])
            right.plot(x, memory, label=TITLES[way], **STYLES[way])
    threshold = DEFAULT_ALPHA / (WINDOW * FAST) * 1e6 if parameter == COST else DEFAULT_ALPHA / (0.0005 * WINDOW * FAST)
    for axes in (left, middle, right):
        axes.set_xscale("log")
        axes.axvline(threshold, color="#b00020", linestyle="--", linewidth=1.2, label="load = α = 0.3")
    logarithmic(left)
    finish(left, "response time", parameter, "seconds an input tuple (log)", legend=True)
    finish(middle, "against Sync-Filter", parameter, "share of its response time", legend=True)
    finish(right, "memory", parameter, "tuples and results kept", legend=True)


COLUMNS = (
    "value",
    "way",
    "response_s",
    "response_fast_s",
    "analysis_s",
    "load",
    "switches",
    "memory",
    "held_results_max",
)
BY_COST = Experiment(
    "000-fig7",
    "Response time over the cost of a comparison (1 and 10 tuples/s, window 60 s)",
    partial(_trials, COST, COSTS),
    order_claims,
    partial(draw_order, COST),
    COLUMNS,
    also=("000-fig8",),
    size=(14.0, 4.5),
)
BY_RATE = Experiment(
    "000-fig9",
    "Response time over the rate of the slow stream (c = 0.5 ms, 10 tuples/s, window 60 s)",
    partial(_trials, RATE, RATES),
    order_claims,
    partial(draw_order, RATE),
    COLUMNS,
    also=("000-fig10",),
    size=(14.0, 4.5),
)
