"""Estimators of counts above joins, and the windows they are asked about."""

import numpy as np
import pyarrow as pa
import pytest

from papers.estimators.closed import Race, Seen, errors
from papers.estimators.estimators import ESTIMATORS, Adaptive, AsItIs, Pecj, Scaled


def stream(rng, tuples, length, keys, delay, first):
    ts = np.sort(rng.integers(0, length, tuples))
    order = np.argsort(ts + rng.exponential(delay, tuples), kind="stable")
    return pa.table({"ts": ts[order], "key": rng.integers(0, keys, tuples), "arrival": 2 * np.arange(tuples) + first})


def race(delay=200.0, seed=0):
    rng = np.random.default_rng(seed)
    tables = [stream(rng, 6000, 60_000, 5, delay, first) for first in (0, 1)]
    return tables, Race.of(*tables, 1000, 5000)


def pairs_of(left, right):
    return sum(int(one == other) for one in left for other in right)


def test_a_window_has_the_pairs_of_the_tuples_that_came_before_it_closed():
    tables, made = race()
    rows = [list(zip(*(table[name].to_pylist() for name in ("arrival", "ts", "key")), strict=True)) for table in tables]
    merged = sorted((arrival, side, ts, key) for side, own in enumerate(rows) for arrival, ts, key in own)
    windows = {window.number: window for window in made.windows(150)}
    for number in (7, 31):
        end, clocks, closed, whole = 1000 * (number + 1), [-(2**62)] * 2, ([], []), ([], [])
        for _, side, ts, key in merged:
            if ts // 1000 == number:
                whole[side].append(key)
                if min(clocks) < end + 150:
                    closed[side].append(key)
            clocks[side] = max(clocks[side], ts)
        for seen, own in ((windows[number].closed, closed), (windows[number].whole, whole)):
            assert seen == Seen(len(own[0]), len(own[1]), pairs_of(*own))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_wrong_once_all_has_come(name):
    _, made = race()
    assert np.median(errors(made, AsItIs(), 30_000)) == 0
    assert np.median(errors(made, ESTIMATORS[name](), 30_000)) < 0.02


def test_what_is_expected_to_be_missing_makes_the_error_smaller():
    _, made = race(delay=400.0)
    plain, scaled, pecj = (np.median(errors(made, one(), 0)[20:]) for one in (AsItIs, Scaled, Pecj))
    assert scaled < 0.5 * plain
    assert pecj < 0.5 * plain


def test_an_adaptive_average_follows_a_step_faster_than_noise():
    step, noise = Adaptive(), Adaptive()
    rng = np.random.default_rng(0)
    for value in [10.0] * 20 + [20.0] * 10:
        step.follow(value)
    for value in 10 + rng.normal(0, 1, 400):
        noise.follow(value)
    assert step.mean == pytest.approx(20, abs=0.5)
    assert noise.mean == pytest.approx(10, abs=1.0)
