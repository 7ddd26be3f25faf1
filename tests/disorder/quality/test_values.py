"""Moments that fade, against weighted sums over all values; the newest values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.quality.stats.values import RecentValues, ValueMoments

PIECES = st.lists(st.lists(st.floats(-100, 100) | st.just(float("nan")), max_size=20), max_size=8)


@given(pieces=PIECES, memory=st.sampled_from([5.0, 100.0, 1e9]), offset=st.sampled_from([0.0, 1e6]))
def test_moments_are_those_of_exponentially_weighted_values(pieces, memory, offset):
    moments = ValueMoments(memory)
    for piece in pieces:
        moments.absorb(np.array(piece) + offset)
    values = np.array([v + offset for piece in pieces for v in piece if not np.isnan(v)])
    if len(values) == 0:
        assert (moments.mean, moments.variance, moments.kurtosis) == (0.0, 0.0, 1.0)
        return
    weights = (1.0 - 1.0 / memory) ** np.arange(len(values))[::-1]
    mean = np.average(values, weights=weights)
    variance = np.average((values - mean) ** 2, weights=weights)
    assert moments.weight == pytest.approx(weights.sum())
    assert moments.mean == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert moments.variance == pytest.approx(variance, rel=1e-6, abs=1e-6)
    if variance > 1.0:
        fourth = np.average((values - mean) ** 4, weights=weights)
        assert moments.kurtosis == pytest.approx(fourth / variance**2, rel=1e-4)


def test_moments_follow_a_change():
    moments = ValueMoments(memory=100)
    random = np.random.default_rng(1)
    moments.absorb(random.normal(0.0, 1.0, 5000))
    moments.absorb(random.normal(50.0, 3.0, 5000))
    assert moments.mean == pytest.approx(50.0, abs=2.0)
    assert moments.variance == pytest.approx(9.0, rel=0.6)


def test_moments_go_on_from_their_arrays():
    values = np.random.default_rng(2).exponential(3.0, 100)
    whole, first, then = ValueMoments(50), ValueMoments(50), ValueMoments(50)
    whole.absorb(values)
    first.absorb(values[:40])
    then.restore(first.as_arrays())
    then.absorb(values[40:])
    assert (then.mean, then.variance, then.kurtosis) == (whole.mean, whole.variance, whole.kurtosis)


@given(pieces=PIECES, keep=st.integers(1, 30))
def test_the_newest_values_are_kept_however_they_came(pieces, keep):
    recent, then = RecentValues(keep), RecentValues(keep)
    for piece in pieces:
        recent.absorb(np.array(piece))
    values = [v for piece in pieces for v in piece if not np.isnan(v)]
    then.restore(recent.as_arrays())
    assert then.ordered().tolist() == recent.ordered().tolist() == sorted(values[-keep:])
