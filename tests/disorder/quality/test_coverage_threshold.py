"""Thresholds against windows drawn at random: what is asked for holds at the threshold, and does not well below it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.quality.error.coverage_threshold import (
    count_threshold,
    critical_value,
    deviation_threshold,
    distinct_threshold,
    extreme_threshold,
    mean_threshold,
    quantile_threshold,
    sum_threshold,
    variance_threshold,
)

DRAWS = 2000
N = 400
DELTA = 0.1
DRAWN_BADLY = 0.025
"""Beyond three standard deviations of a share of 0.1 over 2000 draws, and room for normality being an approximation."""


def exceeding(aggregate, values, coverage, error):
    """The share of windows whose relative error exceeds `error` when each tuple is there with that probability.

    `values` has a window a line; NaN marks what is missing, and an aggregate without a value counts as exceeding.
    """
    there = np.random.default_rng(11).random(values.shape) < coverage
    true = aggregate(values)
    found = aggregate(np.where(there, values, np.nan))
    return float(np.mean(~(np.abs(found - true) <= error * np.abs(true))))


@pytest.fixture(scope="module", params=["exponential", "normal", "uniform"])
def values(request):
    random = np.random.default_rng(7)
    draw = {
        "exponential": lambda: random.exponential(5.0, (DRAWS, N)),
        "normal": lambda: random.normal(20.0, 4.0, (DRAWS, N)),
        "uniform": lambda: random.uniform(-1.0, 9.0, (DRAWS, N)),
    }
    return draw[request.param]()


def moments(values):
    external_sync = values - values.mean()
    return values.mean(), values.var(), (external_sync**4).mean() / values.var() ** 2


def total(values):
    return np.nansum(values, axis=1)


def count(values):
    return np.sum(~np.isnan(values), axis=1).astype(float)


def mean(values):
    return np.nanmean(values, axis=1)


def variance(values):
    return np.nanvar(values, axis=1, ddof=1)


def deviation(values):
    return np.nanstd(values, axis=1, ddof=1)


def meets(aggregate, values, coverage, error):
    assert exceeding(aggregate, values, coverage, error) <= DELTA + DRAWN_BADLY


def fails(aggregate, values, coverage, error):
    assert exceeding(aggregate, values, coverage, error) > DELTA + DRAWN_BADLY


@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
def test_sum(values, error):
    mu, sigma2, _ = moments(values)
    coverage = sum_threshold(error, DELTA, N, mu, sigma2)
    meets(total, values, coverage, error)
    fails(total, values, 1.0 - 1.4 * (1.0 - coverage), error)


@pytest.mark.parametrize("error", [0.02, 0.05, 0.2])
def test_count(values, error):
    coverage = count_threshold(error, DELTA, N)
    meets(count, values, coverage, error)
    fails(count, values, 1.0 - 1.4 * (1.0 - coverage), error)


@pytest.mark.parametrize("error", [0.01, 0.05])
def test_avg(values, error):
    mu, sigma2, _ = moments(values)
    coverage = mean_threshold(error, DELTA, N, mu, sigma2)
    meets(mean, values, coverage, error)
    fails(mean, values, 0.6 * coverage, error)


@pytest.mark.parametrize("error", [0.05, 0.1])
def test_var_and_stddev(values, error):
    _, _, kurtosis = moments(values)
    coverage = variance_threshold(error, DELTA, N, kurtosis)
    meets(variance, values, coverage, error)
    fails(variance, values, 0.5 * coverage, error)
    coverage = deviation_threshold(error, DELTA, N, kurtosis)
    meets(deviation, values, coverage, error)
    fails(deviation, values, 0.5 * coverage, error)


@pytest.mark.parametrize(("p", "error"), [(0.5, 0.05), (0.5, 0.005), (0.8, 0.02)])
def test_quantiles(values, p, error):
    sample = np.sort(values[:10].ravel())
    coverage = quantile_threshold(error, DELTA, N, p, sample)
    meets(lambda v: np.nanquantile(v, p, axis=1), values[:500], coverage, error)
    assert exceeding(lambda v: np.nanquantile(v, p, axis=1), values[:500], 0.4 * coverage, error) > DELTA


def test_extremes_are_exact_as_often_as_the_confidence_asks(values):
    for aggregate in (lambda v: np.nanmax(v, axis=1), lambda v: np.nanmin(v, axis=1)):
        meets(aggregate, values, extreme_threshold(DELTA), 0.0)
        fails(aggregate, values, extreme_threshold(DELTA) - 0.05, 0.0)


@pytest.mark.parametrize("repeats", [1, 3])
def test_distinct_counts_lose_no_more_than_counts_would(repeats):
    windows = np.tile(np.arange(N // repeats, dtype=float), (DRAWS, repeats))
    coverage = distinct_threshold(0.05, DELTA, N // repeats)

    def distinct(values):
        ordered = np.sort(values, axis=1)
        return 1.0 + np.sum(np.diff(ordered, axis=1) > 0, axis=1)

    meets(distinct, windows, coverage, 0.05)
    if repeats == 1:
        fails(distinct, windows, 1.0 - 1.4 * (1.0 - coverage), 0.05)


def sum_threshold_by_bisection(error, delta, tuples, mean, variance):
    """Alg. 4.2 line 4, by halving the interval from full coverage down."""
    share = (variance + mean**2) / (tuples * mean**2)
    low, high = 0.0, 1.0
    for _ in range(200):
        q = (low + high) / 2
        inside = q + critical_value(delta) * np.sqrt(share * q * (1 - q)) <= error
        low, high = (q, high) if inside else (low, q)
    return 1.0 - low


@given(
    error=st.floats(1e-4, 0.9),
    delta=st.floats(0.001, 0.5),
    tuples=st.integers(1, 10**7),
    mean=st.floats(0.1, 100).flatmap(lambda mean: st.sampled_from([mean, -mean])),
    variance=st.floats(0, 1e4),
)
def test_the_closed_form_of_sum_is_where_equation_4_1_begins_to_hold(error, delta, tuples, mean, variance):
    wanted = sum_threshold_by_bisection(error, delta, tuples, mean, variance)
    found = sum_threshold(error, delta, tuples, mean, variance)
    assert 1.0 - found == pytest.approx(1.0 - wanted, rel=1e-6, abs=1e-14)


@given(error=st.floats(0.0, 2.0), delta=st.floats(0.001, 0.5), tuples=st.floats(0.0, 1e9), mean=st.floats(-5, 5))
def test_thresholds_are_coverages_and_fall_as_the_error_grows(error, delta, tuples, mean):
    sample = np.linspace(-1.0, 5.0, 50)
    for threshold in (
        lambda e: sum_threshold(e, delta, tuples, mean, 2.0),
        lambda e: count_threshold(e, delta, tuples),
        lambda e: mean_threshold(e, delta, tuples, mean, 2.0),
        lambda e: variance_threshold(e, delta, tuples, 3.0),
        lambda e: deviation_threshold(e, delta, tuples, 3.0),
        lambda e: distinct_threshold(e, delta, tuples),
        lambda e: quantile_threshold(e, delta, tuples, 0.3, sample),
    ):
        assert 0.0 <= threshold(error * 1.1) <= threshold(error) <= 1.0


def test_what_leaves_no_room_for_error_needs_every_tuple():
    assert sum_threshold(0.1, 0.05, 100, mean=0.0, variance=1.0) == 1.0
    assert mean_threshold(0.1, 0.05, 100, mean=0.0, variance=1.0) == 1.0
    assert count_threshold(0.0, 0.05, 100) == 1.0
    assert quantile_threshold(0.1, 0.05, 100, 0.5, np.zeros(0)) == 1.0
    assert quantile_threshold(0.1, 0.05, 100, 0.5, np.linspace(-1, 1, 101)) == 1.0


def test_values_that_do_not_vary_need_only_a_tuple():
    assert mean_threshold(0.01, 0.05, 100, mean=3.0, variance=0.0) == pytest.approx(1 - 0.05**0.01)
    assert quantile_threshold(0.01, 0.05, 100, 0.5, np.full(50, 3.0)) < 0.5


def test_a_quantile_at_the_edge_is_an_extreme():
    assert quantile_threshold(0.01, 0.05, 100, 1.0, np.arange(9.0)) == 0.95
