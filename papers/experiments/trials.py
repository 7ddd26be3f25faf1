"""One trial: a query with a target, run as any other query, and what came of it.

Invariant: a trial goes the way of `slackwater run` (bind, plan, replay, run), so what is measured is the product. The
truth is the same query with a slack longer than the stream.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from papers.experiments.stages import Stage
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import Replay, replay
from slackwater.workloads import EPOCH_MS

Floats = npt.NDArray[np.float64]
EVERYTHING = "DELAY 30 DAYS"


@dataclass(frozen=True)
class Answer:
    """What a run gave: a number for each second of result time (joins) or each end of a window (aggregates)."""

    by_time: dict[int, float]
    report: dict[str, Any]
    slack_over_time: list[tuple[float, float]]
    """(seconds since the start, slack in ms) at every adaptation."""
    adaptation_ms: list[float]
    learning_ms: float = 0.0
    """What the controller took to note arrivals, all in all."""

    @property
    def latency_ms(self) -> float:
        return float(self.report["latency_ms"]["avg"] or 0.0)

    @property
    def slack_ms(self) -> float:
        return float(self.report["slack_ms"]["avg"])


class WatchedRun(LocalRun):
    """A run that notes when its controller chose which slack, and how long the choice took."""

    def __init__(self, physical: PhysicalPlan, arrivals: Replay, epochs: Epochs) -> None:
        super().__init__(physical, arrivals, epochs)
        self.slack_over_time: list[tuple[float, float]] = []
        self.adaptation_ms: list[float] = []
        controller = self._kernel.release.controller
        adapt, learn = controller.adapt, controller.learn
        self.learning_ms = 0.0

        def timed(measured: Measured) -> None:
            begun = time.perf_counter()
            adapt(measured)
            self.adaptation_ms.append(1000 * (time.perf_counter() - begun))
            since = max(measured.clocks) / SECOND - EPOCH_MS / 1000
            self.slack_over_time.append((round(since, 3), controller.slack / MILLISECOND))

        def timed_learning(arrived: DelayObservations) -> None:
            begun = time.perf_counter()
            learn(arrived)
            self.learning_ms += 1000 * (time.perf_counter() - begun)

        # Both are called once a segment of arrivals, never once a tuple, so watching them costs next to nothing.
        controller.adapt = timed  # type: ignore[method-assign]
        controller.learn = timed_learning  # type: ignore[method-assign]


def answer(stage: Stage, clause: str, options: str = "") -> Answer:
    """Run the query of a stage with a target; a target that is refused is refused here too."""
    streams = stage.streams.streams
    text = f"{stage.query} WITH {clause}" + (f" OPTIONS ({options})" if options else "")
    physical = plan(bind_to_tables(text, streams, "ts").query, count_only=stage.joins)
    run = WatchedRun(physical, replay(physical, streams, "ms"), stage.epochs)
    by_time = counts_by_second(run) if stage.joins else values_by_end(run)
    return Answer(by_time, run.report().as_json(), run.slack_over_time, run.adaptation_ms, run.learning_ms)


def truth(stage: Stage) -> dict[int, float]:
    """What the query answers when it waits for everything, however it is emitted."""
    return _truth(replace(stage, epoch_ms=0))


@lru_cache(maxsize=2)
def _truth(stage: Stage) -> dict[int, float]:
    return answer(stage, EVERYTHING).by_time


def counts_by_second(run: LocalRun) -> dict[int, float]:
    """How many results a join makes, by the second of their time."""
    found: dict[int, float] = {}
    for emission in run.emissions():
        seconds, place = np.unique(emission.ts // SECOND, return_inverse=True)
        for second, count in zip(seconds.tolist(), np.bincount(place, emission.multiplicity).tolist(), strict=True):
            found[second] = found.get(second, 0.0) + count
    return found


def values_by_end(run: LocalRun) -> dict[int, float]:
    """What an aggregate answers, by the end of the window."""
    found: dict[int, float] = {}
    for table in run.tables():
        ends = table["window_end"].cast("int64").to_pylist()
        found.update(zip(ends, table["total"].to_pylist(), strict=True))
    return found
