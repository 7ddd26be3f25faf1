import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.errors import UsageError
from slackwater.workloads.soccer import IN_ORDER, DelayProfile, disordered_times, run_pattern
from slackwater.workloads.workload import delays, disorder_statistics
from tests.effort import tried


@st.composite
def profiles(draw):
    out_of_order = draw(st.integers(0, 200))
    runs = draw(st.integers(1, out_of_order)) if out_of_order else 0
    tuples = out_of_order + max(runs, 1) + draw(st.integers(0, 100))
    profile = DelayProfile(
        out_of_order,
        runs,
        max_delay_ms=draw(st.integers(1, 5000)),
        peak_at=draw(st.floats(0, 1)),
        episodes=draw(st.integers(0, 5)),
        backlog=draw(st.floats(1, 50)),
        second_half_share=draw(st.floats(0, 1)),
    )
    return tuples, draw(st.integers(1, 20_000)), profile


@tried(200, deadline=None)
@given(profiles(), st.integers(0, 2**32))
def test_the_counts_asked_for_are_the_counts_measured(case, seed):
    tuples, duration_ms, profile = case
    made = disordered_times(np.random.default_rng(seed), tuples, duration_ms, profile)
    found = disorder_statistics(made.ts)
    assert (found.tuples, found.out_of_order) == (tuples, profile.out_of_order)
    assert found.correlated == profile.out_of_order - profile.runs
    assert found.max_delay_ms <= max(profile.max_delay_ms, 1)
    assert made.ts.min() >= 0
    assert made.ts.max() <= duration_ms
    assert (np.diff(made.moment) >= 0).all()
    assert ((made.run == IN_ORDER) == (delays(made.ts) == 0)).all()


def test_a_run_number_never_spans_two_runs():
    profile = DelayProfile(300, 40, max_delay_ms=500, peak_at=0.5, episodes=2, backlog=10)
    run = disordered_times(np.random.default_rng(1), 600, 60_000, profile).run
    for number in range(profile.runs):
        places = np.flatnonzero(run == number)
        assert len(places) >= 1
        assert places[-1] - places[0] == len(places) - 1


def test_the_largest_delay_is_reached_exactly_where_the_stream_is_long_enough():
    profile = DelayProfile(3000, 500, max_delay_ms=7_000, peak_at=0.0, episodes=3, backlog=10)
    for seed in range(5):
        ts = disordered_times(np.random.default_rng(seed), 6000, 60_000, profile).ts
        assert disorder_statistics(ts).max_delay_ms == 7_000


@pytest.mark.parametrize(("tuples", "late", "runs"), [(10, 5, 6), (10, 9, 2), (5, 0, 1), (5, 1, 0), (1, 1, 1)])
def test_an_impossible_pattern_is_refused(tuples, late, runs):
    with pytest.raises(UsageError, match="cannot hold"):
        run_pattern(np.random.default_rng(0), tuples, late, runs)
