"""What every slack would have lost: periods of the past, weighed, and the least slack that would have done."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.disorder.quality.fading import FadingDelays
from slackwater.disorder.quality.past_losses import LATELY, PastLosses, candidates
from slackwater.disorder.quality.recall_model import expected_losses, model_of, recalls

CURVES = st.lists(
    st.lists(st.tuples(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5]), max_size=4), st.integers(0, 8)), max_size=2),
    min_size=1,
    max_size=12,
)


def filled(stretches: list[list[tuple[list[float], int]]], kept: int, span: int) -> PastLosses:
    past = PastLosses(kept, span, memory=3.0)
    for number, notes in enumerate(stretches):
        if number:
            past.next_stretch()
        for curve, tuples in notes:
            past.note(np.array(sorted(curve, reverse=True)), tuples)
    return past


def does(stretches: list[list[tuple[list[float], int]]], kept: int, span: int, k: int, allowed: float) -> bool:
    """The rule, by trying all periods."""
    lost = [sum(t * (sorted(c, reverse=True) + [0.0] * 9)[k] for c, t in notes) for notes in stretches][-kept:]
    came = [sum(t for _, t in notes) for notes in stretches][-kept:]
    bad = periods = 0.0
    for end in range(len(lost)):
        first = max(0, end - span + 1)
        tuples = sum(came[first : end + 1])
        if tuples:
            weight = np.exp(-(len(lost) - 1 - end) / 3.0)
            periods += weight
            bad += weight * (sum(lost[first : end + 1]) > allowed * tuples)
    lossy = [loss > allowed * tuples for loss, tuples in zip(lost, came, strict=True)][-LATELY:]
    return bad <= 0.05 * periods and sum(lossy) < LATELY - 1


@given(CURVES, st.integers(2, 12), st.integers(1, 4), st.sampled_from([0.05, 0.2, 0.3]))
def test_the_least_slack_is_the_first_that_does_for_the_periods_of_the_past(stretches, kept, span, allowed):
    past = filled(stretches, kept, span)
    expected = next(k for k in range(9) if does(stretches, kept, span, k, allowed))
    assert past.least(allowed, missing=0.05) == expected


@given(CURVES, st.integers(2, 6))
def test_the_past_goes_on_where_it_was_restored(stretches, kept):
    past, again = filled(stretches, kept, 2), PastLosses(kept, 2, memory=3.0)
    again.restore(past.as_arrays())
    for one in (past, again):
        one.next_stretch()
        one.note(np.array([0.3, 0.1]), 5)
    for allowed in (0.05, 0.2, 0.4):
        assert again.least(allowed, 0.05) == past.least(allowed, 0.05)
    assert again.known == past.known


def test_a_single_burst_does_not_count_among_thirty_periods_but_a_lasting_change_does():
    past = PastLosses(stretches=300, span=10, memory=1e9)
    for number in range(300):
        past.note(np.array([1.0 if number == 150 else 0.0]), 10)
        past.next_stretch()
    assert past.least(0.05, missing=0.05) == 0
    for _ in range(LATELY):
        past.note(np.array([0.2]), 10)
        past.next_stretch()
    assert past.least(0.05, missing=0.05) == 1


HISTOGRAMS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=40), min_size=2, max_size=4)


@given(HISTOGRAMS, st.integers(0, 30), st.sampled_from([1, 2, 3]))
def test_losses_at_some_slacks_are_those_of_the_model_for_all(histograms, window, basic):
    bins = max(map(len, histograms))
    counts = np.array([one + [0] * (bins - len(one)) for one in histograms])
    windows = [window + s for s in range(len(histograms))]
    ks = candidates()[: np.searchsorted(candidates(), bins)]
    out, scratch = np.empty(len(ks)), np.empty((2, *counts.shape), np.int64)
    expected_losses(model_of(windows, basic, 1), counts, ks, *scratch, np.empty((3, len(counts))), out)
    gamma = recalls(list(counts), windows, [0.0] * len(windows), basic, 1)
    assert out == pytest.approx(np.maximum(0, 1 - gamma[ks]), abs=1e-12)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2000)), max_size=20), max_size=6))
def test_delays_fade_as_if_each_were_kept_with_its_age(intervals):
    seen = FadingDelays(granularity=10, streams=3, memory=50)
    for delays in intervals:
        seen.absorb(np.array([s for s, _ in delays], np.int64), np.array([d for _, d in delays], np.int64))
        seen.fade(20)
    expected = np.zeros((3, 201))
    for age, delays in enumerate(reversed(intervals)):
        for s, d in delays:
            expected[s, -(-d // 10)] += np.exp(-20 * age / 50)
    faded = seen.faded[:, :201]
    assert np.pad(faded, ((0, 0), (0, 201 - faded.shape[1]))) == pytest.approx(expected)
