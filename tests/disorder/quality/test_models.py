"""Coverage and recall for all slacks at once, against the equations one slack at a time."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.published.controllers.coverage_model import Calibration, coverages, smallest_slack
from slackwater.published.controllers.recall_model import instant_requirement, recalls, selectivity_ratio
from tests.kit.oracle_models import coverage_by_trial, gamma_by_trial, slack_by_trial

HISTOGRAMS = st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(lambda counts: sum(counts) > 0)
WINDOWS = st.integers(1, 400)
STEPS = st.sampled_from([(10, 10), (30, 10), (15, 10), (7, 10), (23, 7), (5, 10), (10, 1), (1000, 10)])


def array(counts):
    return np.array(counts, np.int64)


@given(counts=HISTOGRAMS, window=WINDOWS, steps=STEPS)
def test_coverages_are_those_of_equation_4_2(counts, window, steps):
    basic, g = steps
    wanted = [coverage_by_trial(counts, window, basic, g, k) for k in range(len(counts))]
    assert coverages(array(counts), window, basic, g) == pytest.approx(wanted, rel=1e-12)


@given(data=st.data(), streams=st.integers(2, 4), steps=STEPS)
def test_recalls_are_those_of_equation_4_6(data, streams, steps):
    basic, g = steps
    histograms = [data.draw(HISTOGRAMS) for _ in range(streams)]
    windows = [data.draw(WINDOWS) for _ in range(streams)]
    skews = [data.draw(st.integers(0, 500)) for _ in range(streams)]
    bins = max(map(len, histograms))
    ratio = data.draw(st.lists(st.floats(0.01, 3.0), min_size=bins, max_size=bins))
    wanted = [gamma_by_trial(histograms, windows, skews, basic, g, k, ratio[k]) for k in range(bins)]
    found = recalls([array(counts) for counts in histograms], windows, skews, basic, g, np.array(ratio))
    assert found == pytest.approx(wanted, rel=1e-12)


@given(data=st.data(), target=st.floats(0.0, 1.0))
def test_the_slack_found_is_the_one_trial_and_error_ends_at(data, target):
    histograms = [data.draw(HISTOGRAMS) for _ in range(3)]
    rest = ([50, 70, 30], [0, 25, 100], 10, 10)
    gamma = recalls([array(counts) for counts in histograms], *rest)
    assume(np.abs(gamma - target).min() > 1e-9)
    wanted = slack_by_trial(lambda k: gamma_by_trial(histograms, *rest, k), target, 10, len(gamma) - 1)
    assert smallest_slack(gamma, target, 10) == wanted


@given(data=st.data(), streams=st.integers(2, 4))
def test_slack_for_the_largest_delay_has_recall_of_exactly_one(data, streams):
    histograms = [array(data.draw(HISTOGRAMS)) for _ in range(streams)]
    windows = [data.draw(WINDOWS) for _ in range(streams)]
    ratio = selectivity_ratio(histograms[0] * 7, histograms[0] * 13)
    assert recalls(histograms, windows, [0] * streams, 15, 10, ratio)[-1] == 1.0
    assert coverages(histograms[0], windows[0], 15, 10)[-1] == 1.0


def test_a_slack_that_nothing_meets_is_the_largest_candidate():
    assert smallest_slack(np.array([0.1, 0.2, 0.3]), 0.9, 10) == 20


def test_recall_that_dips_is_searched_from_below():
    assert smallest_slack(np.array([0.5, 0.95, 0.7, 1.0]), 0.9, 10) == 10


def test_unknown_delays_and_empty_windows_are_taken_as_complete():
    assert recalls([array([0]), array([0, 0])], [50, 50], [0, 0], 10, 10).tolist() == [1.0, 1.0]
    assert recalls([array([3, 1]), array([4])], [0, 0], [0, 0], 10, 10).tolist() == [0.75 / 2 + 0.75 / 2, 1.0]


def test_a_skew_beyond_all_delays_leaves_only_the_other_stream_incomplete():
    found = recalls([array([3, 1]), array([1, 3])], [10, 10], [0, 10**9], 10, 10)
    assert found.tolist() == [0.75, 1.0]


def test_a_ratio_shorter_than_the_histograms_goes_on_with_its_last_entry():
    found = recalls([array([1, 1, 2]), array([1])], [10, 10], [0, 0], 10, 10, np.array([0.5]))
    assert found.tolist() == [0.125, 0.25, 0.5]
    assert recalls([array([1])] * 2, [10, 10], [0, 0], 10, 10, np.ones(0)).tolist() == [1.0]


@given(
    maps=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20),
)
def test_the_selectivity_ratio_is_equation_4_8_and_one_where_undefined(maps):
    join, cross = [j for j, _ in maps], [j + c for j, c in maps]
    for k, found in enumerate(selectivity_ratio(array(join), array(cross)).tolist()):
        if sum(join) == 0 or sum(cross[: k + 1]) == 0:
            assert found == 1.0
        else:
            wanted = sum(join[: k + 1]) / sum(cross[: k + 1]) / (sum(join) / sum(cross))
            assert found == pytest.approx(wanted, rel=1e-12)


@given(
    target=st.floats(0.5, 1.0), before=st.integers(0, 1000), share=st.floats(0.0, 1.0), expected=st.integers(1, 1000)
)
def test_the_instant_requirement_brings_the_period_to_the_target_where_that_can_be(target, before, share, expected):
    produced = share * before
    found = instant_requirement(target, produced, before, expected)
    reached = (produced + expected * found) / (before + expected)
    assert 0.0 <= found <= 1.0
    assert (
        reached == pytest.approx(target) or (found == 1.0 and reached < target) or (found == 0.0 and reached > target)
    )


def test_with_no_results_to_come_the_requirement_is_the_target():
    assert instant_requirement(0.9, 5, 10, 0) == 0.9


def test_calibration_learns_how_much_more_is_missing_than_estimated():
    seen = Calibration(memory=20)
    assert seen.ratio == 1.0
    for _ in range(200):
        seen.note(estimated=0.99, measured=0.97)
    assert seen.ratio == pytest.approx(3.0)
    for _ in range(200):
        seen.note(estimated=0.98, measured=0.99)
    assert seen.ratio == pytest.approx(0.5, rel=0.01)


def test_calibration_leaves_full_coverage_full_and_is_bounded():
    seen = Calibration()
    seen.note(estimated=1.0, measured=0.5)
    assert seen.apply(np.array([0.5, 1.0])).tolist() == [0.0, 1.0]
    assert seen.ratio == Calibration.BOUND
