"""The published controllers for joins, one decision at a time."""

import numpy as np
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Recall
from slackwater.core.time import MILLISECOND, MINUTE, SECOND
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.published.controllers.productivity import Profile
from slackwater.published.controllers.recall import ModelRecall, PdRecall
from slackwater.quality.recall.steady import ControllerConfig
from slackwater.quality.registry import controller_for

PACE = ControllerConfig(interval=SECOND, granularity=10 * MILLISECOND, basic_window=10 * MILLISECOND)
WINDOWS = (5 * SECOND, 5 * SECOND)
TARGET = Recall(0.9, 10 * SECOND)
LARGEST = 400 * MILLISECOND


class Reported:
    """A profiler that says what it was told to say."""

    def __init__(self, *profiles):
        self.profiles = list(profiles)

    def take(self):
        return self.profiles.pop(0)


def interval(made, true):
    """An interval without a link between delay and productivity."""
    return Profile(np.array([1.0]), np.array([float(true)]), float(made))


def adapted(controller, *profiles):
    """The slack after each of these intervals."""
    controller.profiler = Reported(*profiles)
    chosen = []
    for number in range(len(profiles)):
        now = (number + 1) * SECOND
        controller.adapt(Measured((now, now), LARGEST, controller.slack))
        chosen.append(controller.slack)
    return chosen


def model(selectivity="noneqsel", target=TARGET):
    """A model that has seen one tuple in five delayed by 200 ms, and one in a hundred by the largest delay."""
    controller = ModelRecall(target, WINDOWS, PACE, selectivity)
    delay = np.tile([0] * 79 + [200 * MILLISECOND] * 20 + [LARGEST], 6)
    ts = np.arange(len(delay)) * MILLISECOND
    controller.learn(DelayObservations(np.arange(len(delay)) % 2, np.stack([ts, ts]), delay, delay))
    return controller


def test_a_period_below_its_target_makes_the_model_wait_for_the_largest_delay():
    assert adapted(model(), interval(50, 100)) == [LARGEST]


def test_a_period_above_its_target_makes_the_model_wait_for_nothing():
    controller = model()
    assert adapted(controller, interval(100, 100), interval(1000, 1000), interval(10, 10))[-1] == 0
    assert controller.requirement == 0.0


def test_where_nothing_was_processed_the_model_asks_for_the_target_itself():
    controller = model()
    assert adapted(controller, interval(50, 100), interval(0, 0)) == [LARGEST, 200 * MILLISECOND]
    assert controller.requirement == TARGET.target


def test_the_model_swings_when_every_late_tuple_is_taken_for_the_best():
    # The join stands still while the slack is large; so every other interval shows losses, and the rest nothing.
    chosen = adapted(model(), *[interval(80, 100), interval(0, 0)] * 5)
    assert chosen == [LARGEST, 200 * MILLISECOND] * 5


def test_what_lies_longer_ago_than_the_period_is_forgotten():
    lost, whole = interval(0, 1000), interval(100, 100)
    assert adapted(model(), lost, *[whole] * 8)[-1] == LARGEST
    assert adapted(model(), lost, *[whole] * 9)[-1] < LARGEST


def test_tuples_that_happened_to_be_unproductive_do_not_promise_a_recall_of_one_without_slack():
    # The delayed tuples of this second met as many others and made nothing: by Eq. 4.8 as printed gamma(0) exceeds 1.
    profile = Profile(np.array([790.0] + [0.0] * 19 + [300.0]), np.array([790.0] + [0.0] * 20), 0.0)
    assert adapted(model("noneqsel"), profile) == adapted(model("eqsel"), profile) == [LARGEST]


def test_only_noneqsel_looks_at_the_productivity_of_delayed_tuples():
    # Tuples delayed by 200 ms join ten times as often as the others, so it takes them to reach the target.
    cross, join = np.zeros(41), np.zeros(41)
    cross[[0, 20]], join[[0, 20]] = (80, 20), (8, 20)
    profile = Profile(cross, join, 28 * 0.65)
    target = Recall(0.6, SECOND)
    assert adapted(model("eqsel", target), profile) == [0]
    assert adapted(model("noneqsel", target), profile) == [200 * MILLISECOND]


def test_pd_moves_the_share_of_the_largest_delay_by_its_published_gains():
    chosen = adapted(PdRecall(TARGET, WINDOWS, PACE), interval(50, 100), interval(100, 100))
    first = 0.6 * (0.9 - 0.5)
    second = first + 0.6 * (0.9 - 0.75) + 0.8 * (0.5 - 0.75)
    assert chosen == [pytest.approx(first * LARGEST, abs=1), pytest.approx(second * LARGEST, abs=1)]


def test_pd_stays_as_it_is_where_the_period_has_no_results():
    controller = PdRecall(Recall(0.9, SECOND), WINDOWS, PACE)
    chosen = adapted(controller, interval(50, 100), interval(0, 0), interval(0, 0))
    assert chosen[1:] == chosen[:1] * 2


def test_controllers_adapt_every_interval_and_wait_for_all_streams_to_be_heard():
    for controller in (model(), PdRecall(TARGET, WINDOWS, PACE)):
        controller.adapt(Measured((7 * SECOND, -(2**62)), LARGEST, 0))
        assert (controller.slack, controller.next_adaptation) == (0, 8 * SECOND)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (Options(controller="model"), ModelRecall, "NonEqSel"),
        (Options(controller="model", selectivity="eqsel"), ModelRecall, "(EqSel)"),
        (Options(controller="pd"), PdRecall, "PD controller"),
    ],
)
def test_options_choose_the_published_controllers(options, kind, words):
    controller = controller_for(Recall(0.95, MINUTE), options, WINDOWS)
    assert isinstance(controller, kind)
    assert words in controller.describe()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(controller="modle"), "steady, model, pd"),
        (Options(controller="model", selectivity="same"), "noneqsel, eqsel"),
        (Options(selectivity="eqsel"), "controller = 'model' alone"),
        (Options(controller="pd", selectivity="eqsel"), "controller = 'model' alone"),
    ],
)
def test_options_that_say_nothing_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        controller_for(Recall(0.95, MINUTE), options, WINDOWS)
