"""In-order execution in real time: tuples come when they come, a comparison really takes a while, and one process does
all the work, as a live runtime would.

The condition calls a function that computes for some milliseconds; how many rounds that takes is measured first. The
driver sleeps until the next tuple is due, and hands it to the kernel. What a tuple's turn waits for inside one step is
told apart by the comparisons made until then.

Invariant: the clock on the wall is read by the driver alone; the kernel is told what its work took.

References: 000 §7.2.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import finish
from papers.experiments.in_order import STYLES, TITLES, WAYS, arrivals, join_by_scanning
from papers.experiments.response_model import Setting, improvement_at
from papers.experiments.response_times import NO_GUARD, CountingOperator
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from slackwater.core.batch import ROW, Batch, Floats
from slackwater.core.jit import jit
from slackwater.core.results import ADAPTIVE, FILTER, SYNC, Ordering
from slackwater.core.schema import Kind
from slackwater.core.state import NOTHING
from slackwater.core.time import SECOND
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.release.eager import ENTERS
from slackwater.expressions.functions import register, typed_call
from slackwater.expressions.tree import Column, Literal
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.runtime.driver import Driver

LIVE = Setting(c=0.004, window=5.0, slow=1.0, fast=8.0)
"""A load of 0.16, so one process is busy for 32 % of the time; what else runs on the machine must fit beside it."""
SECONDS, QUICK = 40.0, 20.0
ALPHA = 0.1
VALUES = 5
WARM = 5.0
"""Seconds until the windows are full; tuples that come before are not measured."""


def labour(a: int, b: int, rounds: int) -> bool:
    """Whether two values are equal, found out the long way."""
    x = 1.0
    for _ in range(rounds):
        x = (x * 1.0000001 + 0.5) % 3.0
    return a == b and x >= 0.0


def rounds_for(seconds: float) -> int:
    """How many rounds take so long here."""
    compiled = jit(labour)
    compiled(1, 2, 10)
    begun = time.perf_counter()
    compiled(1, 2, 1_000_000)
    return int(1_000_000 * seconds / (time.perf_counter() - begun))


def laborious(window_s: float, rounds: int) -> WindowJoin:
    """The join of `in_order.py`, by a condition that takes its time."""
    register("slackwater_labour", args=[Kind.INT, Kind.INT, Kind.INT], result=Kind.BOOL)(labour)
    plain = join_by_scanning(round(window_s))
    sides = tuple(Column(stream, "v", Kind.INT) for stream in (0, 1))
    return replace(plain, conditions=(typed_call("slackwater_labour", (*sides, Literal(rounds, Kind.INT))),))


@dataclass(frozen=True)
class LiveTrial(Trial):
    """One strategy for some real seconds; the value is how many."""

    def measured(self) -> Row:
        """The row of this trial."""
        spec = laborious(LIVE.window, rounds_for(LIVE.c))
        batch = arrivals(self.stage.seed, self.value / 60, LIVE.slow, LIVE.fast, VALUES)
        _go(spec, SYNC, batch.take(slice(0, 3)))  # loads the machine code
        done, busy, operator = _go(spec, self.way, batch)
        assert batch.arrival_time is not None
        since = batch.arrival_time / SECOND
        response = (done - since)[since >= WARM]
        seen = operator.ordering
        return {
            "workload": self.stage.workload, "seed": self.stage.seed, "minutes": None, "window_s": LIVE.window,
            "change": "", "way": self.way, "target": None, "period_s": self.period_s, "parameter": "seconds",
            "value": self.value, "offered": True, "tuples": len(batch), "done": int(np.isfinite(response).sum()),
            "response_s": float(np.nanmean(response)), "load": LIVE.load, "busy": busy / self.value,
            "switches": seen.switches, "held_results_max": seen.most_held_results,
        }  # fmt: skip


def _go(spec: WindowJoin, way: str, batch: Batch) -> tuple[Floats, float, CountingOperator]:
    """When every tuple was done, how long the kernel worked, and the operator."""
    operator = CountingOperator(spec, Ordering(way, ALPHA))
    kernel = Pipeline(spec, operator, FixedSlack(0), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    assert batch.arrival_time is not None
    driver, done = Driver(kernel, clock=time.perf_counter), np.full(len(batch), np.nan)
    origin = time.perf_counter()
    for i, due in enumerate((batch.arrival_time / SECOND).tolist()):
        while (early := due - (time.perf_counter() - origin)) > 0:
            time.sleep(early)
        begun = time.perf_counter() - origin
        before = driver.seconds
        driver.discard(batch.take(slice(i, i + 1)))
        took = driver.seconds - before
        compared = np.concatenate([one.compared for one in operator.done] or [NOTHING])
        finished = begun + took * np.cumsum(compared) / max(1.0, float(compared.sum()))
        rows = np.concatenate([one.events.words[ROW] for one in operator.done] or [NOTHING])
        turn = np.concatenate([one.kind != ENTERS for one in operator.done] or [NOTHING > 0])
        done[rows[turn]] = finished[turn]
        operator.done.clear()
    return done, driver.seconds, operator


def live_trials(scale: Scale) -> list[Trial]:
    """All strategies over the same arrivals."""
    seconds = QUICK if scale.quick else SECONDS
    return [LiveTrial(Stage("live", seed), way, value=seconds) for seed in scale.seeds for way in WAYS]


def live_claims(rows: Sequence[Row]) -> list[Claim]:
    """Work that overlaps with waiting is not waited for."""
    response = {row["way"]: row["response_s"] for row in over_seeds(rows)}
    saved = 1 - response[FILTER] / response[SYNC]
    reported = f"{response[SYNC]:.3f} s by Sync-Filter, {response[FILTER]:.3f} s by Filter-Order: {saved:.0%} less"
    wanted = improvement_at(LIVE.load)
    switched = all(row["switches"] > 0 for row in pick(rows, way=ADAPTIVE))
    return [
        Claim(f"Filter-Order saves in real time what the analysis says, {wanted:.0%} or more", reported,
              saved >= wanted),
        Claim("Adaptive, which measures the load itself, switches (α = 0.1)",
              f"{response[ADAPTIVE]:.3f} s" + ("" if switched else "; it did not always switch"), switched),
    ]  # fmt: skip


def draw_live(figure: Figure, rows: Sequence[Row]) -> None:
    """One bar a strategy, a dot for every seed."""
    axes = figure.subplots()
    for place, way in enumerate(WAYS):
        mine = [row["response_s"] for row in pick(rows, way=way)]
        axes.bar(place, float(np.mean(mine)), 0.6, color=STYLES[way]["color"], alpha=0.7)
        axes.plot([place] * len(mine), mine, "k.")
    axes.set_xticks(range(len(WAYS)), [TITLES[way] for way in WAYS])
    finish(axes, "", "", "response time (seconds an input tuple)")


IN_REAL_TIME = Experiment(
    "000-live",
    "Response time in real time (1 and 8 tuples/s, window 5 s, 4 ms a comparison)",
    live_trials,
    live_claims,
    draw_live,
    ("way", "response_s", "busy", "switches", "held_results_max"),
    size=(6.0, 4.5),
)
