"""A query alone, with slacks that are told in advance instead of chosen: what a lazy trigger had in force.

Invariant: what runs is the product's kernel; only its controller's choice is replaced. A slack takes effect at the
first adaptation of the query at or after the clock at which it is told to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from papers.experiments.concurrent_plans import QueryStage
from papers.experiments.trials import counts_by_second, values_by_end
from slackwater.disorder.controllers import Measured
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import Replay, replay


class ReplayedRun(LocalRun):
    """A run whose controller reads its choices off a list of (clock, slack)."""

    def __init__(
        self, physical: PhysicalPlan, arrivals: Replay, epochs: Epochs, changes: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(physical, arrivals, epochs)
        controller = self._kernel.release.controller
        clocks = [clock for clock, _ in changes]

        def told(measured: Measured) -> None:
            at = bisect_right(clocks, max(measured.clocks))
            controller.slack = changes[at - 1][1] if at else 0

        controller.adapt = told  # type: ignore[method-assign]


def replayed(stage: QueryStage, changes: Sequence[tuple[int, int]]) -> dict[int, float]:
    """What the query of a stage answers with these slacks, by time."""
    streams = stage.streams.streams
    text = f"{stage.query} WITH {stage.asked.clause} OPTIONS (controller = 'model')"
    physical = plan(bind_to_tables(text, streams, "ts").query, count_only=stage.joins)
    run = ReplayedRun(physical, replay(physical, streams, "ms"), stage.epochs, changes)
    return counts_by_second(run) if stage.joins else values_by_end(run)
