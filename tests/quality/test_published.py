"""The published controllers behind whole joins: the laws, and what the papers and our findings say of them."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.workloads.dsyn import dsyn3
from slackwater.core.options import Options
from slackwater.core.quality import Recall
from slackwater.core.time import AFTER_ALL, MINUTE, SECOND
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs
from slackwater.plan.planner import plan
from slackwater.published.controllers.recall import ModelRecall, PdRecall
from slackwater.quality.recall.steady import ControllerConfig
from slackwater.quality.registry import controller_for
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from tests.effort import tried, tries
from tests.kit import laws
from tests.kit.drive import drive, pipeline_of, results_of
from tests.kit.examples import KINDS, WITH_TARGETS
from tests.kit.traces import cuttings, pieces, seeded_trace, traces

JOINS = {example.name: example.spec for example in WITH_TARGETS if "join" in example.name or "way" in example.name}
NAMES = [
    "equi-join",
    "theta join, counted",
    "three-way chain",
    "four-way star, counted",
    "three-way chain, as a tree",
    "four-way star, as a tree, counted",
]
PACE = ControllerConfig(interval=5, granularity=2, basic_window=2)
TARGET = Recall(0.9, 20)
MAKERS = {
    "model": lambda windows: ModelRecall(TARGET, windows, PACE),
    "eqsel": lambda windows: ModelRecall(TARGET, windows, PACE, "eqsel"),
    "pd": lambda windows: PdRecall(TARGET, windows, PACE),
}
EPOCHS = st.sampled_from([Epochs(), Epochs(each_tuple=True), Epochs(tuples=5), Epochs(span=4)])
each_controller = pytest.mark.parametrize("controller", MAKERS)
each_join = pytest.mark.parametrize("name", NAMES)


@each_controller
@each_join
@tried(12)
@given(data=st.data())
def test_going_on_after_a_restore_equals_never_having_stopped(name, controller, data):
    spec = JOINS[name]
    batch = data.draw(traces(spec.streams, KINDS, most=24, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    stop, epochs = data.draw(st.integers(0, len(cuts))), data.draw(EPOCHS)
    turns = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=5))
    make = lambda: MAKERS[controller](spec.windows)  # noqa: E731
    laws.going_on_after_restore_equals_never_stopping(spec, pipeline_of(spec), batch, epochs, cuts, stop, make)
    laws.taking_turns_equals_never_stopping(spec, pipeline_of(spec), batch, epochs, cuts, turns, make)


@each_controller
@each_join
@tried(12)
@given(data=st.data())
def test_whatever_the_slack_results_are_true_and_in_order(name, controller, data):
    spec = JOINS[name]
    batch = data.draw(traces(spec.streams, KINDS, most=24, filtered=True))
    cuts, epochs = data.draw(cuttings(len(batch))), data.draw(EPOCHS)
    laws.output_is_ordered_and_true(spec, pipeline_of(spec), batch, epochs, cuts, MAKERS[controller](spec.windows))


@each_join
def test_the_profiler_hears_of_every_result_that_is_made(name):
    spec = JOINS[name]
    controller = PdRecall(TARGET, spec.windows, PACE, slack=4)
    # An interval that never ends, so that all results are in the one profile.
    controller.next_adaptation = AFTER_ALL
    batch = seeded_trace(3, spec.streams, KINDS, tuples=400, longest_step=1, keys=2)
    outcome = drive(pipeline_of(spec)(controller, Epochs(each_tuple=True)), pieces(batch, [100, 250, 400]))
    results = results_of(spec, outcome.emissions)
    profile = controller.profiler.take()
    assert profile.made == sum(results.values()) > 0
    assert profile.true > profile.made
    # A tree knows its windows by rates alone.
    assert isinstance(spec, JoinTree) or profile.cross.sum() >= profile.true


@dataclass
class Tried:
    """A run over D_syn x3: recall over each minute, measured every second; slack over time."""

    recalls: np.ndarray
    slack: np.ndarray
    latency: float

    def fulfilled(self, target):
        return float((self.recalls >= target).mean())


class Recorded:
    """Four minutes of D_syn x3, and what is made of them."""

    def __init__(self):
        self.workload = dsyn3(seed=5, minutes=4.0)
        self.truth = self.results("DELAY 10 MINUTES")[0]

    def results(self, waiting):
        """Results by second, the slack after every adaptation, and the report."""
        query = bind_to_tables(
            f"{self.workload.query.split('WITH')[0]} WITH {waiting}", self.workload.streams, "ts"
        ).query
        physical = plan(query, count_only=True)
        run = LocalRun(physical, replay(physical, self.workload.streams, "ms"), Epochs(each_tuple=True))
        controller, slack = run._kernel.release.controller, []
        adapt = controller.adapt
        controller.adapt = lambda measured: (adapt(measured), slack.append(controller.slack))
        seconds = {}
        for emission in run.emissions():
            for second, count in zip((emission.ts // SECOND).tolist(), emission.multiplicity.tolist(), strict=True):
                seconds[second] = seconds.get(second, 0) + count
        return seconds, np.array(slack), run.report().as_json()

    def tried(self, target, options):
        made, slack, report = self.results(f"RECALL {target} OVER 1 MINUTE OPTIONS ({options})")
        seconds = range(min(self.truth), max(self.truth) + 1)
        sums = np.cumsum([[0, 0]] + [[made.get(s, 0), self.truth.get(s, 0)] for s in seconds], axis=0)
        period = MINUTE // SECOND
        over = (sums[period:] - sums[:-period])[1:]
        return Tried(over[:, 0] / over[:, 1], slack, report["latency_ms"]["avg"])


@pytest.fixture(scope="module")
def recorded():
    return Recorded()


def test_the_model_meets_its_target_on_dsyn_and_swings_between_hardly_any_slack_and_the_largest(recorded):
    for target in (0.9, 0.95, 0.99):
        tried = recorded.tried(target, "controller = 'model'")
        assert tried.fulfilled(0.99 * target) == 1.0
        settled = tried.slack[10:]
        jumps = np.abs(np.diff(settled)) > settled.max() / 2
        assert jumps.mean() > 0.2


def test_the_model_waits_longer_for_more_recall(recorded):
    low, high = (recorded.tried(target, "controller = 'model'") for target in (0.9, 0.999))
    assert low.latency < high.latency
    assert low.slack.mean() < high.slack.mean()


def test_pd_knows_no_more_than_an_estimate_and_waits_longer_than_it_must(recorded):
    # The published weakness turns to the safe side here: late tuples taken for the best make recall look too low.
    tried = recorded.tried(0.95, "controller = 'pd'")
    assert tried.fulfilled(0.99 * 0.95) == 1.0
    assert tried.recalls.mean() > 0.97


@pytest.mark.parametrize("join", ["equi-join", "three-way, one class, as a tree"])
@pytest.mark.parametrize("name", ["steady", "model", "pd"])
def test_what_is_chosen_does_not_depend_on_how_arrivals_are_cut_into_batches(name, join):
    (spec,) = (example.spec for example in WITH_TARGETS if example.name == join)
    options = Options(controller=name, adaptation_interval=5, granularity=2, basic_window=2, retention=40)
    for seed in range(tries(6)):
        batch = seeded_trace(seed, spec.streams, KINDS, tuples=400)
        found = []
        for cuts in ([400], [*range(7, 400, 7), 400], list(range(1, 401))):
            chosen = controller_for(Recall(0.9, 40), options, spec.windows)
            run = drive(pipeline_of(spec)(chosen, Epochs(each_tuple=True)), pieces(batch, cuts))
            found.append(results_of(spec, run.emissions))
        assert found[0] == found[1] == found[2]
