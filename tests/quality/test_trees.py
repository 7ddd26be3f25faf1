"""Recall targets of trees of joins: one slack for all raw streams is enough, and the ledger know what a tree loses."""

import numpy as np
import pytest

from papers.workloads.dsyn import dsyn3
from slackwater.core.time import SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from tests.effort import more

PERIOD = 20
EPOCHS = {"tuple": Epochs(each_tuple=True), "epoch": Epochs(span=SECOND // 2)}


class Recorded:
    """Two minutes of D_syn x3, and what joins make of them."""

    def __init__(self):
        self.workload = dsyn3(seed=5, minutes=2.0)
        self.truth, _ = self.results("DELAY 10 MINUTES", "multiway", EPOCHS["tuple"])

    def results(self, waiting, shape, epochs, controller="steady"):
        """Results by second, and the report."""
        options = f"shape = '{shape}'" + (f", controller = '{controller}'" if "RECALL" in waiting else "")
        text = f"{self.workload.query.split('WITH')[0]} WITH {waiting} OPTIONS ({options})"
        physical = plan(bind_to_tables(text, self.workload.streams, "ts").query, count_only=True)
        run = LocalRun(physical, replay(physical, self.workload.streams, "ms"), epochs)
        by_second = np.zeros(10_000)
        first = None
        for emission in run.emissions():
            second = emission.ts // SECOND
            first = int(second[0]) if first is None else first
            by_second += np.bincount(second - self.origin(first), emission.multiplicity, len(by_second))
        return by_second, run.report().as_json()

    def origin(self, first):
        if not hasattr(self, "_origin"):
            self._origin = first
        return self._origin

    def recalls(self, made):
        """Over every period, measured every second."""
        last = np.flatnonzero(self.truth)[-1]
        sums = [np.cumsum(np.append(0, counts))[: last + 1] for counts in (made, self.truth)]
        over = [counts[PERIOD:] - counts[:-PERIOD] for counts in sums]
        return over[0][1:] / over[1][1:]


@pytest.fixture(scope="module")
def recorded():
    return Recorded()


def test_a_tree_that_waits_long_enough_makes_all_results(recorded):
    made, report = recorded.results("DELAY 10 MINUTES", "binary", EPOCHS["tuple"])
    assert np.array_equal(made, recorded.truth)
    assert report["late"] == 0


def test_a_tree_that_does_not_wait_loses_more_than_one_operator(recorded):
    one, tree = (recorded.results("NO WAIT", shape, EPOCHS["tuple"])[0].sum() for shape in ("multiway", "binary"))
    assert tree < one < recorded.truth.sum()


@pytest.mark.parametrize(
    ("target", "epochs"),
    [(0.9, "epoch"), (0.99, "tuple"), *more("each target and discipline once, here", (0.9, "tuple"), (0.99, "epoch"))],
)
def test_the_steady_controller_reaches_its_target(recorded, target, epochs):
    made, report = recorded.results(f"RECALL {target} OVER {PERIOD} SECONDS", "binary", EPOCHS[epochs])
    recalls = recorded.recalls(made)
    assert (recalls >= target).mean() >= 0.9
    assert (recalls >= 0.99 * target).mean() == 1.0
    # The largest delay is 20 s.
    assert report["latency_ms"]["avg"] < 3000


@pytest.mark.parametrize("controller", ["model", "pd"])
def test_the_published_controllers_reach_their_target_with_annotated_results(recorded, controller):
    made, _ = recorded.results(f"RECALL 0.9 OVER {PERIOD} SECONDS", "binary", EPOCHS["tuple"], controller)
    assert (recorded.recalls(made) >= 0.99 * 0.9).mean() == 1.0
