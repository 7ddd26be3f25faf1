"""Late tuples of windows that are counted already, and the most that may be waited."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.time import MILLISECOND, MINUTE, SECOND
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.disorder.meters import Asked, Watched
from slackwater.operators.pipeline import Epochs
from slackwater.plan.planner import plan
from slackwater.quality.error.answers import OFF, WITHIN
from slackwater.quality.error.beyond_retention import BITS, MOST_BUCKETS, OldWindows
from slackwater.quality.error.steady import SteadyError
from slackwater.quality.registry import learning_key
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay

RATE, START = 50, 10**9
WATCHED = Watched(SECOND, 250 * MILLISECOND, (), (Asked("COUNT"),))


def arriving(seed, seconds, share, longest):
    """Rows in arrival order; a share of them comes very late, by up to `longest` seconds."""
    rng = np.random.default_rng(seed)
    n = seconds * RATE
    ts = np.sort(rng.integers(0, seconds * 1000, n))
    # Nothing at all happens for a while, but for what comes very late.
    late = (rng.random(n) < share) | ((ts > 20_000) & (ts < 24_000) & (rng.random(n) < 0.7))
    held = np.where(late, rng.uniform(0, 1000 * longest, n), rng.exponential(20.0, n))
    order = np.argsort(ts + held, kind="stable")
    return ts[order], rng.gamma(4.0, 2.0, n)[order]


def true_share(ts, v, given, bound):
    """The slow twin: every window with tuples, by what was emitted of it."""
    good = windows = 0
    for start in range((int(ts.min()) - 1000) // 250 * 250 + 250, int(ts.max()) + 1, 250):
        truth = v[(ts >= start) & (ts < start + 1000)].sum()
        if truth:
            windows += 1
            good += abs(given.get((START + start + 1000) * 1000, np.inf) - truth) <= bound * truth + 1e-9
    return good / windows


@pytest.mark.parametrize(("share", "bound"), [(0.0, 0.01), (0.02, 0.01), (0.02, 0.05), (0.2, 0.05)])
@pytest.mark.parametrize("epochs", [Epochs(each_tuple=True), Epochs(span=SECOND)], ids=["tuples", "epochs"])
def test_the_truth_lies_within_what_is_measured_however_late_tuples_come(share, bound, epochs):
    ts, v = arriving(int(100 * share), 120, share, 50)
    streams = {"s": pa.table({"ts": ts + START, "v": v})}
    text = f"SELECT SUM(v) AS a FROM s [RANGE 1 SECOND SLIDE 250 MS] WITH ERROR {bound} CONFIDENCE 60%"
    physical = plan(bind_to_tables(text + " OPTIONS (retention = 4 SECONDS)", streams, "ts").query)
    run = LocalRun(physical, replay(physical, streams, "ms"), epochs)
    given = {}
    for emission in run.emissions():
        given |= dict(zip(emission.ts.tolist(), emission.columns[-1].view(np.float64).tolist(), strict=True))
    reported = run.report().as_json()["measured_quality"]
    truth = true_share(ts, v, given, bound)
    assert reported["low"] - 1e-9 <= truth <= reported["high"] + 1e-9
    assert reported["measured"] == pytest.approx(truth, abs=0.05)
    assert share == 0.0 or reported["unknown_late"] > 0


def test_a_window_that_gets_its_first_tuple_after_it_was_counted_was_never_emitted():
    old = OldWindows()
    old.add(0, np.array([[WITHIN, 0, OFF, WITHIN], [10, 0, 10, 10], [1, 0, 1, 1]]))
    old.touch(np.array([[1], [2]]))
    lost = old.lost_windows(0.05, 1.0)
    assert (lost.spoiled, lost.never, lost.unsure) == (0.0, 1, 1)
    old.touch(np.array([[0], [0]]))
    assert old.lost_windows(0.05, 1.0).spoiled == 1.0
    assert old.lost_windows(0.5, 1.0).spoiled < 0.1


def test_what_is_kept_of_old_windows_is_bounded_and_goes_on_elsewhere():
    old = OldWindows()
    for bucket in range(MOST_BUCKETS + 50):
        old.add(bucket * BITS, np.array([[WITHIN, OFF], [5, 5], [1, 1]]))
    assert sum(array.nbytes for array in old.as_arrays().values()) < 300_000
    old.touch(np.array([[3 * BITS, MOST_BUCKETS * BITS - 1], [3 * BITS + 4, MOST_BUCKETS * BITS]]))
    copy = OldWindows()
    copy.restore(old.as_arrays())
    assert copy.lost_windows(0.01, 4.0) == old.lost_windows(0.01, 4.0)
    assert copy.as_arrays().keys() == old.as_arrays().keys()
    assert old.lost_windows(0.01, 4.0).unsure >= 5


def steady(at_most=None, confidence=0.95, **options):
    made = SteadyError(RelativeError(0.01, confidence, at_most), Options(**options))
    made.watch(WATCHED)
    return made


def play(made, begin, seconds, delay, share=0.3, seed=0):
    """Tuples of whom a share is `delay` behind; returns the slacks."""
    rng = np.random.default_rng(seed)
    slacks = []
    for second in range(seconds):
        clock = begin + second * SECOND + np.arange(RATE) * SECOND // RATE
        behind = np.where(rng.random(RATE) < share, delay, 0)
        words = np.array([clock - behind, np.arange(RATE)])
        made.learn(DelayObservations(np.zeros(RATE, np.int64), words, behind, behind))
        made.adapt(Measured((int(clock[-1]),), delay, made.slack))
        slacks.append(made.slack)
    return slacks


def test_a_cap_is_never_exceeded_and_a_target_out_of_reach_is_said_and_unsaid():
    made = steady(at_most=2 * SECOND)
    assert max(play(made, MINUTE, 120, 500 * MILLISECOND)) <= 2 * SECOND
    assert not made.outlook().unreachable
    assert max(play(made, 3 * MINUTE, 600, 10 * SECOND)) <= 2 * SECOND
    reported = made.outlook()
    assert reported.unreachable
    assert reported.stated
    assert 8 * SECOND < reported.needed < 15 * SECOND
    assert reported.reached < 0.5
    assert 0 < reported.bound <= reported.choices
    play(made, 13 * MINUTE, 600, 500 * MILLISECOND)
    assert not made.outlook().unreachable


def test_nothing_is_waited_for_that_the_cap_does_not_bring():
    """All that is late is later than the cap: waiting up to the cap would be waiting for nothing."""
    slacks = play(steady(at_most=5 * SECOND), MINUTE, 300, 40 * SECOND)
    assert np.mean(slacks[200:]) < SECOND


def test_without_a_cap_of_its_own_a_target_waits_ten_minutes_at_most():
    assert steady().outlook().cap == 10 * MINUTE
    assert steady(max_behind=MINUTE).outlook().cap == MINUTE


def test_the_cap_is_no_part_of_what_is_learned():
    keys = {learning_key(RelativeError(0.01, 0.95, cap), Options()) for cap in (None, SECOND)}
    assert len(keys) == 1
    one, other = steady(), steady(at_most=100 * MILLISECOND)
    play(one, MINUTE, 60, 500 * MILLISECOND)
    other.restore(one.as_arrays())
    assert other.slack <= 100 * MILLISECOND
    assert max(play(other, 2 * MINUTE, 10, 500 * MILLISECOND)) <= 100 * MILLISECOND


def test_growth_is_followed_within_seconds_and_a_drop_within_two_minutes():
    made = steady()
    before = play(made, MINUTE, 180, 300 * MILLISECOND)[-1]
    grown = play(made, 4 * MINUTE, 180, 3 * SECOND, seed=1)
    assert min(grown[6:]) > 2 * SECOND
    dropped = play(made, 7 * MINUTE, 200, 300 * MILLISECOND, seed=2)
    assert max(dropped[140:]) < 3 * before


def test_a_burst_that_does_not_last_moves_nothing_for_longer_than_seconds():
    made = steady()
    before = play(made, MINUTE, 240, 200 * MILLISECOND)[-1]
    play(made, 5 * MINUTE, 1, 4 * SECOND, seed=1)
    after = play(made, 5 * MINUTE + SECOND, 120, 200 * MILLISECOND, seed=2)
    assert max(after[12:]) <= 1.5 * before


def test_retention_follows_the_delays_that_are_seen_and_no_further_than_max_behind():
    made = SteadyError(RelativeError(0.01, 0.95), Options(retention=None, max_behind=10 * MINUTE))
    made.watch(WATCHED)
    kept = [made.as_arrays()["losses_retention"][0]]
    for begin, delay in pairwise((MINUTE, 3 * MINUTE, 10 * MINUTE, 60 * MINUTE)):
        play(made, 100 * MINUTE + begin, 30, min(delay, 40 * MINUTE) // 2)
        kept.append(made.as_arrays()["losses_retention"][0])
    assert kept[0] == MINUTE < kept[1] < kept[2]
    assert kept[3] <= 10 * MINUTE


def replayed(text, ts, epochs):
    """What is measured of a sum of ones, and the number of windows with tuples."""
    streams = {"s": pa.table({"ts": ts, "v": np.ones(len(ts))})}
    physical = plan(bind_to_tables(text, streams, "ts").query)
    run = LocalRun(physical, replay(physical, streams, "ms"), epochs)
    for _ in run.emissions():
        pass
    return run.report().as_json()["measured_quality"]


@pytest.mark.parametrize("epochs", [Epochs(each_tuple=True), Epochs(span=SECOND)], ids=["tuples", "epochs"])
def test_windows_are_counted_before_a_jump_of_time_drives_them_out(epochs):
    text = "SELECT SUM(v) AS a FROM s [RANGE 1 SECOND] WITH ERROR 5% AT MOST 100 MS"
    ts = np.arange(3000) * 10 + 1_700_000_000_000
    ts[1000::7] -= 3000
    before = replayed(text, ts, epochs)
    ts = np.concatenate((ts, ts + 8 * 3_600_000))
    after = replayed(text, ts, epochs)
    assert before["good"] + before["bad"] == 30
    assert after["good"] + after["bad"] == 60
    assert after["low"] <= before["measured"] <= after["high"]
    assert after["measured"] == pytest.approx(before["measured"], abs=0.05)


def test_every_window_of_a_sparse_stream_is_counted():
    text = "SELECT SUM(v) AS a FROM s [RANGE 2 SECONDS SLIDE 10 MS] WITH ERROR 5%"
    reported = replayed(text, 1_700_000_000_000 + np.arange(50) * 3_600_000, Epochs(each_tuple=True))
    assert (reported["good"], reported["bad"], reported["low"]) == (50 * 200, 0, 1.0)


@pytest.mark.parametrize("epochs", [Epochs(tuples=100), Epochs(tuples=1000)], ids=["100", "1000"])
def test_every_window_is_counted_where_an_epoch_has_many(epochs):
    text = "SELECT SUM(v) AS a FROM s [RANGE 1 DAY] WITH ERROR 5%"
    reported = replayed(text, 20_000 * 86_400_000 + np.arange(1000) * 43_200_000, epochs)
    assert (reported["good"], reported["bad"], reported["low"]) == (500, 0, 1.0)


def test_a_target_out_of_reach_from_the_beginning_is_said_within_three_minutes():
    made = steady(at_most=100 * MILLISECOND)
    play(made, MINUTE, 60, 3 * SECOND)
    assert not made.outlook().unreachable
    play(made, 2 * MINUTE, 120, 3 * SECOND)
    assert made.outlook().unreachable


def test_a_target_is_not_called_out_of_reach_while_the_cap_reaches_it():
    made = steady(at_most=2 * SECOND)
    play(made, MINUTE, 600, 10 * SECOND)
    reported = []
    for second in range(600):
        play(made, 11 * MINUTE + second * SECOND, 1, 100 * MILLISECOND, seed=second)
        reported.append(made.outlook())
    assert reported[0].unreachable
    assert any(one.reached >= 0.95 for one in reported)
    assert not any(one.unreachable and one.reached >= 0.95 for one in reported)
