"""ADWIN against a twin that keeps its values, and what it is for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.published.controllers.adwin import Adwin
from tests.kit.oracle_adwin import OracleAdwin


def widths(window, values, piece=1):
    return [window.update(values[i : i + piece]) for i in range(0, len(values), piece)]


@given(
    seed=st.integers(0, 2**32),
    levels=st.lists(st.sampled_from([0.0, 0.3, 1.0, 7.0, 50.0]), min_size=1, max_size=4),
    length=st.integers(20, 150),
    whole=st.booleans(),
    delta=st.sampled_from([0.002, 0.1, 1e-6]),
    most=st.sampled_from([2**40, 100]),
)
def test_the_window_is_the_one_of_the_twin_after_every_value(seed, levels, length, whole, delta, most):
    random = np.random.default_rng(seed)
    values = np.concatenate([random.exponential(1.0 + level, length) for level in levels])
    values = np.floor(values) if whole else values
    oracle = OracleAdwin(delta, most)
    wanted = []
    for value in values.tolist():
        oracle.add(value)
        wanted.append(oracle.width)
    window = Adwin(delta, most)
    assert widths(window, values) == wanted
    assert window.mean == pytest.approx(float(np.mean(oracle.values)), rel=1e-9)


def test_batches_of_any_size_give_the_same_window():
    random = np.random.default_rng(5)
    values = np.concatenate([random.random(3000), random.random(1000) * 4, random.random(2000)])
    one, many = Adwin(), Adwin()
    assert one.update(values) == widths(many, values, piece=17)[-1]
    assert one.mean == many.mean


def test_a_stationary_stream_keeps_its_whole_past():
    assert Adwin().update(np.random.default_rng(1).random(100_000)) == 100_000


def test_a_shift_of_the_mean_drops_what_was_before_it():
    random = np.random.default_rng(2)
    window = Adwin()
    window.update(random.random(50_000))
    assert window.update(random.random(2_000) + 0.3) < 2_500
    assert window.mean == pytest.approx(0.8, abs=0.05)


def test_a_bounded_window_keeps_most_of_what_it_may():
    window = Adwin(most=1000)
    found = widths(window, np.random.default_rng(3).random(20_000))
    assert max(found) <= 1000
    assert min(found[1000:]) > 700


def test_no_values_change_nothing():
    window = Adwin()
    assert window.update(np.zeros(0)) == 0
    assert window.mean == 0.0


def test_the_six_newest_values_can_be_evidence_enough_where_no_other_cut_shows_a_change():
    values = np.concatenate([np.zeros(632), np.full(2, -300.0), np.full(6, 100.0)])
    oracle = OracleAdwin()
    for value in values.tolist():
        oracle.add(value)
    assert Adwin().update(values) == oracle.width < 640
