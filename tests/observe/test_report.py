"""Distributions and what a report says of slack and latency."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.state import NO_LATE, Emission
from slackwater.observe.distribution import MOST_VALUES, Distribution
from slackwater.observe.report import LatencyUse, SlackUse

WEIGHTED = st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(1, 10**9)), min_size=1, max_size=40)


@given(WEIGHTED, st.floats(0, 1), st.integers(0, 40))
def test_quantiles_and_mean_are_those_of_the_repeated_values(pairs: list[tuple[int, int]], p: float, cut: int) -> None:
    seen = Distribution()
    for part in (pairs[:cut], pairs[cut:]):
        seen.add(np.array([v for v, _ in part], np.int64), np.array([w for _, w in part], np.int64))
    weight = sum(w for _, w in pairs)
    assert seen.weight == weight
    assert seen.mean == sum(v * w for v, w in pairs) / weight
    found = seen.quantile(p)
    assert found in {v for v, _ in pairs}
    assert sum(w for v, w in pairs if v <= found) >= p * weight
    assert p == 0 or sum(w for v, w in pairs if v < found) < p * weight


def test_many_distinct_values_keep_the_sum_exact_and_the_quantiles_near() -> None:
    values = np.random.default_rng(0).permutation(np.arange(3 * MOST_VALUES, dtype=np.int64) * 1001)
    seen = Distribution()
    for part in np.array_split(values, 7):
        seen.add(part)
    assert seen.weight == len(values)
    assert seen.mean == values.sum() / len(values)
    for p in (0.05, 0.5, 0.99):
        assert seen.quantile(p) == pytest.approx(np.quantile(values, p), rel=1e-3)


def test_weights_beyond_a_word_are_summed_exactly() -> None:
    seen = Distribution()
    seen.add(np.array([5, 5, 7]), np.array([2**62, 2**62, 2**62]))
    assert (seen.weight, seen.quantile(0.5), seen.quantile(0.7)) == (3 * 2**62, 5, 7)


@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.integers(1, 2**22)).flatmap(
            lambda pair: st.sampled_from([pair, (pair[0] >> 30, pair[1]), (2**40, 2**20), (-(2**40), 2**20)])
        ),
        min_size=1,
        max_size=40,
    )
)
def test_sums_beyond_a_word_are_exact(pairs: list[tuple[int, int]]) -> None:
    seen = Distribution()
    seen.add(np.array([v for v, _ in pairs], np.int64), np.array([w for _, w in pairs], np.int64))
    weight = sum(w for _, w in pairs)
    assert (seen.weight, seen.mean) == (weight, sum(v * w for v, w in pairs) / weight)


def test_an_empty_distribution_has_neither_mean_nor_quantile() -> None:
    seen = Distribution()
    seen.add(np.zeros(0, np.int64))
    assert (seen.mean, seen.quantile(0.5), seen.weight) == (None, None, 0)


def test_slack_is_averaged_over_event_time() -> None:
    use = SlackUse(0)
    use.note([], 0)
    use.note([(1_000_000, 2000)], 4_000_000)
    use.note([(4_000_000, 6000)], 5_000_000)
    assert use.as_ms() == {"avg": 2.4, "p50": 2.0, "p95": 6.0, "max": 6.0, "last": 6.0}


def test_the_initial_slack_counts_from_the_first_tuple_on() -> None:
    use = SlackUse(0)
    use.begin(1_000_000)
    use.note([(2_000_000, 4000)], 5_000_000)
    use.begin(4_500_000)
    assert use.as_ms()["avg"] == 3.0


def test_slack_without_any_time_is_what_it_began_with() -> None:
    assert SlackUse(3000).as_ms() == {"avg": 3.0, "p50": 3.0, "p95": 3.0, "max": 3.0, "last": 3.0}


def test_what_the_flush_lets_out_has_no_latency() -> None:
    use = LatencyUse()
    ts, clock, weight = np.array([1000, 2000]), np.array([5000, 5000]), np.array([3, 1])
    use.note(Emission(ts, (), clock, weight, NO_LATE))
    use.note(Emission(ts, (), clock + 10**9, weight, NO_LATE, flushed=True))
    assert use.as_ms() == {"avg": 3.75, "p50": 4.0, "p95": 4.0, "p99": 4.0}
    assert LatencyUse().as_ms()["avg"] is None
