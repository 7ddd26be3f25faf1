"""The steady controller for joins, driven by hand: what a burst, a ramp, a drop and a cap do to its slack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.options import Options
from slackwater.core.quality import Recall, RelativeError, default_cap
from slackwater.core.time import DAY, MILLISECOND, MINUTE, SECOND
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.quality.recall.steady import ControllerConfig, SteadyRecall
from slackwater.quality.registry import controller_for, learning_key
from tests.effort import tried

RATE = 200
"""Tuples a second, in two streams."""
Delays = Callable[[np.random.Generator, int], np.ndarray]
"""What the tuples of a second needed, in milliseconds."""


def controller(target: float = 0.95, at_most: int | None = None, slack: int = 0) -> SteadyRecall:
    windows = (2 * SECOND, 2 * SECOND)
    return SteadyRecall(
        Recall(target, MINUTE, at_most), windows, ControllerConfig(SECOND, 10_000, 10_000), MINUTE, slack
    )


def seconds(delays: Delays, begin: int, end: int, seed: int = 0) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    for second in range(begin, end):
        rng = np.random.default_rng((seed, second))
        needed = (delays(rng, second) * MILLISECOND).astype(np.int64)
        yield second, rng.integers(0, 2, len(needed)), needed


def run(steady: SteadyRecall, delays: Delays, begin: int, end: int) -> tuple[list[int], list[float]]:
    """Slack in ms after every second, and the share of that second's tuples that were too late."""
    slacks, late = [], []
    watermark = -(2**60)
    for second, stream, needed in seconds(delays, begin, end):
        clock = (second + 1) * SECOND
        watermark = max(watermark, clock - SECOND - steady.slack)
        late.append(float((needed > clock - SECOND - watermark).mean()))
        steady.learn(DelayObservations(stream, stream, needed, needed))
        steady.adapt(Measured((clock, clock), 0, steady.slack))
        slacks.append(steady.slack // MILLISECOND)
    return slacks, late


def calm(rng: np.random.Generator, second: int) -> np.ndarray:
    return rng.exponential(50.0, RATE)


def changing(factor: Callable[[int], float]) -> Delays:
    return lambda rng, second: calm(rng, second) * factor(second)


def test_slack_comes_to_rest_where_what_is_allowed_is_lost():
    slacks, _ = run(controller(), calm, 0, 600)
    # Of exponential delays of 50 ms on average, one in forty needs more than 184 ms; a late tuple costs a result or so.
    assert 100 < min(slacks[300:]) <= max(slacks[300:]) < 190
    assert max(slacks[60:]) < 2.5 * min(slacks[60:])


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99])
def test_a_straggler_or_a_few_move_nothing(target):
    def few(rng, second):
        needed = calm(rng, second)
        needed[: 3 if second == 300 else 0] = 60_000
        return needed

    plain, struck = (run(controller(target), delays, 0, 420)[0] for delays in (calm, few))
    assert np.mean(struck[300:]) <= 1.1 * np.mean(plain[300:])


@pytest.mark.parametrize("target", [0.9, 0.95])
def test_a_burst_that_a_period_can_bear_moves_nothing_once_it_is_over(target):
    def burst(rng, second):
        return np.where(rng.random(RATE) < 0.3 * (300 <= second < 302), 8_000.0, calm(rng, second))

    plain, struck = (run(controller(target), delays, 0, 420)[0] for delays in (calm, burst))
    assert max(struck[303:]) <= 1.2 * max(plain[303:])


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99])
def test_growth_at_once_is_answered_while_the_period_can_still_be_saved(target):
    slacks, late = run(controller(target), changing(lambda second: 1 if second < 300 else 10), 0, 420)
    # A late tuple is still there for others to join with, so about as many results are lost as tuples.
    assert np.mean(late[270:330]) <= 1 - 0.99 * target
    assert slacks[310] > 4 * slacks[299]


@pytest.mark.parametrize("target", [0.95, 0.99])
def test_a_ramp_costs_about_a_second_of_results(target):
    def lag(rng, second):
        """A quarter of the tuples lags behind by more and more, up to 12 s."""
        behind = np.interp(second, [300, 330, 360], [0, 12_000, 12_000])
        return calm(rng, second) + np.where(rng.random(RATE) < 0.25, behind, 0.0)

    slacks, late = run(controller(target), lag, 0, 360)
    # What is later than a window costs the results it completes, and those that others would have completed.
    assert sum(2 * one for one in late[300:360]) < 60 * (1 - 0.98 * target)
    assert max(slacks[330:]) > 12_000


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99])
def test_a_drop_is_followed_within_two_periods(target):
    slacks, _ = run(controller(target), changing(lambda second: 10 if 300 <= second < 480 else 1), 0, 660)
    assert min(slacks[330:480]) > 3 * slacks[299]
    assert max(slacks[480 + 121 :]) <= 1.3 * slacks[299]


TRACES = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([0, 5, 200, 3_000, 90_000, 10**9]), st.integers(0, 30)),
    min_size=1,
    max_size=40,
)


@tried(40)
@given(TRACES, st.integers(0, 2 * MINUTE), st.sampled_from([0, 1, 70_000, 5 * SECOND]), st.sampled_from([0.5, 0.99]))
def test_the_cap_is_never_exceeded(trace, first, cap, target):
    steady = controller(target, cap, slack=first)
    assert steady.slack <= cap
    clock = 0
    for tuples, scale, passed in trace:
        clock += passed * SECOND
        needed = np.arange(tuples) * scale * MILLISECOND
        stream = np.arange(tuples) % 2
        steady.learn(DelayObservations(stream, stream, needed, needed))
        steady.adapt(Measured((clock, clock), 0, steady.slack))
        assert 0 <= steady.slack <= cap
    again = controller(target, cap // 2)
    again.restore(steady.as_arrays())
    assert again.slack <= cap // 2


def test_a_target_that_states_no_cap_has_one_that_follows_from_its_period():
    hours = controller_for(Recall(0.9, 3 * 60 * MINUTE), Options(max_behind=DAY // 2), (SECOND, SECOND))
    assert (hours.outlook().cap, hours.outlook().stated) == (default_cap(180 * MINUTE, DAY // 2), False)
    assert controller(at_most=7).outlook().stated


def test_a_target_out_of_reach_is_said_within_ten_periods_and_taken_back_when_it_comes_into_reach():
    def uploads(rng, second):
        """Until minute 15 one tuple in five comes an hour late."""
        return calm(rng, second) + np.where(rng.random(RATE) < 0.2 * (second < 900), 3_600_000.0, 0.0)

    steady = controller(at_most=10 * SECOND)
    slacks, _ = run(steady, uploads, 0, 600)
    outlook = steady.outlook()
    assert outlook.unreachable
    assert outlook.bound > 0.9 * outlook.choices
    assert outlook.needed is not None
    assert 3_600 * SECOND <= outlook.needed < 1.1 * 3_600 * SECOND
    # Of results that need two tuples .64 are made, whatever the cap.
    assert outlook.reached == pytest.approx(0.64, abs=0.03)
    # Waiting for ten seconds would be no better than waiting for a quarter of one.
    assert max(slacks[300:]) < 400
    run(steady, uploads, 600, 900 + 600)
    outlook = steady.outlook()
    assert not outlook.unreachable
    assert outlook.needed is not None
    assert outlook.needed < SECOND


def behind(rng: np.random.Generator, second: int) -> np.ndarray:
    """24 tuples in a thousand are three hours late: 47 results in a thousand, if they are like others."""
    return calm(rng, second) + np.where(np.arange(RATE) * 0.024 % 1 < 0.024, 3 * 3_600_000.0, 0.0)


def test_a_target_is_not_out_of_reach_where_the_cap_reaches_it_with_little_to_spare():
    steady = controller()
    run(steady, behind, 0, 600)
    outlook = steady.outlook()
    assert outlook.bound > 0
    assert outlook.reached is not None
    assert outlook.reached > 0.95
    assert not outlook.unreachable


@dataclass
class LostWindows:
    """A ledger in which a tuple beyond the cap costs so many times what others do."""

    worth: float
    asked: int = 0

    def between(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(len(edges) - 1), np.zeros(len(edges) - 1)

    def lost_to_far(self) -> tuple[float, float]:
        self.asked += 1
        return 1_000.0 * self.asked, 1_000.0 * self.asked * self.worth * (1 - 0.976**2)

    def ages(self) -> None:
        """Every member has a window."""


def test_tuples_beyond_the_cap_count_with_what_they_really_cost():
    plain, _ = run(controller(), calm, 0, 600)
    slacks = {}
    for worth in (0.0, 1.0, 2.0):
        steady = controller()
        steady.ledger = LostWindows(worth)
        slacks[worth], _ = run(steady, behind, 0, 600)
        outlook = steady.outlook()
        assert outlook.reached == pytest.approx(1 - min(worth, 1.0) * (1 - 0.976**2), abs=0.003)
    assert np.mean(slacks[0.0][120:]) <= 1.05 * np.mean(plain[120:])
    assert np.mean(slacks[1.0][120:]) > 1.5 * np.mean(plain[120:])


def test_what_is_needed_is_not_said_before_anything_is_known():
    outlook = controller().outlook()
    assert (outlook.needed, outlook.reached, outlook.unreachable) == (None, None, False)


def jumping(rng: np.random.Generator, second: int) -> np.ndarray:
    return calm(rng, second) * (1 if second < 100 else 20)


@tried(8)
@given(st.integers(1, 199))
def test_a_restart_on_the_way_chooses_the_same_slacks(stop):
    whole, _ = run(controller(0.99), jumping, 0, 200)
    first = controller(0.99)
    before, _ = run(first, jumping, 0, stop)
    again = controller(0.99)
    again.restore(first.as_arrays())
    after, _ = run(again, jumping, stop, 200)
    assert before + after == whole


@tried(8)
@given(st.lists(st.integers(0, RATE), max_size=3))
def test_it_does_not_matter_how_what_came_is_cut(cuts):
    whole, parts = controller(0.99), controller(0.99)
    for second, stream, needed in seconds(jumping, 0, 130):
        whole.learn(DelayObservations(stream, stream, needed, needed))
        for part in np.split(np.arange(RATE), sorted(cuts)):
            parts.learn(DelayObservations(stream[part], stream[part], needed[part], needed[part]))
        for one in (whole, parts):
            one.adapt(Measured(((second + 1) * SECOND,) * 2, 0, one.slack))
        assert whole.slack == parts.slack


def test_a_cap_is_no_part_of_what_is_learned():
    for free, capped in (
        (Recall(0.9, MINUTE), Recall(0.9, MINUTE, SECOND)),
        (RelativeError(0.1, 0.9), RelativeError(0.1, 0.9, 1)),
    ):
        assert learning_key(free, Options()) == learning_key(capped, Options())


def test_state_is_small():
    steady = controller(0.99)
    run(steady, calm, 0, 1_300)
    assert sum(array.nbytes for array in steady.as_arrays().values()) < 100_000
