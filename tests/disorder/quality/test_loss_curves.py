"""What each slack would have lost: bins against a plain search, curves against the integral, the model, and a join."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.published.controllers.recall_model import recalls
from slackwater.quality.recall.loss_curves import LONGEST_SLACK, count_needed, losses, shape_of, slacks_of

HISTOGRAMS = st.lists(
    st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(any), min_size=2, max_size=4
)  # fmt: skip


def curve(counts: np.ndarray, windows: list[int], granularity: int) -> np.ndarray:
    """The whole curve of these counts by bin."""
    shape = shape_of(windows, granularity)
    bins, streams = len(shape.slacks), len(counts)
    whole = np.zeros((streams, bins), np.int64)
    whole[:, : counts.shape[1]] = counts
    out = np.zeros(bins)
    losses(shape, whole, np.zeros((streams, bins)), np.zeros((streams + 1, bins)), out)
    return out


@given(st.sampled_from([1, 7, 10_000]), st.lists(st.integers(-5, LONGEST_SLACK), max_size=20))
def test_a_tuple_is_counted_at_the_first_slack_that_is_enough_for_it(granularity, needed):
    slacks = slacks_of(granularity)
    counts = np.zeros((1, len(slacks)), np.int64)
    count_needed(slacks, np.zeros(len(needed), np.int64), np.array(needed, np.int64), counts)
    places = [next(k for k, slack in enumerate(slacks) if slack >= one) for one in needed]
    assert counts[0].tolist() == np.bincount(places, minlength=len(slacks)).tolist()


def test_slacks_grow_by_five_percent_and_reach_a_hundred_years():
    slacks = slacks_of(10_000)
    assert slacks[-1] >= LONGEST_SLACK
    assert (np.diff(slacks)[:32] == 10_000).all()
    assert (slacks[33:] / slacks[32:-1]).max() < 1.08


@given(HISTOGRAMS, st.integers(0, 500), st.integers(1, 20))
def test_the_curve_is_one_minus_the_product_of_shares_and_mean_shares(histograms, window, granularity):
    bins = max(map(len, histograms))
    counts = np.array([one + [0] * (bins - len(one)) for one in histograms])
    windows = [window + 3 * s for s in range(len(histograms))]
    slacks = slacks_of(granularity)[:bins]
    share = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)

    def mean_share(s: int, begin: int) -> float:
        """The mean of the share over the window, by the corners of the line: they are all whole numbers."""
        corners = np.arange(begin, begin + windows[s] + 1)
        at = np.interp(corners, slacks, share[s])
        return float(at[0]) if windows[s] == 0 else float(np.trapezoid(at, corners)) / windows[s]

    weights = np.array([float(np.prod([w for j, w in enumerate(windows) if j != s])) for s in range(len(windows))])
    weights = np.ones(len(windows)) if not weights.any() else weights
    wanted = []
    for k in range(bins):
        made = 0.0
        for i, weight in enumerate(weights / weights.sum()):
            others = [mean_share(j, int(slacks[k])) for j in range(len(windows)) if j != i]
            made += weight * share[i, k] * np.prod(others)
        wanted.append(1 - made)
    found = curve(counts, windows, granularity)
    assert found[:bins] == pytest.approx(wanted, abs=1e-9)
    assert not found[bins:].any()


@given(HISTOGRAMS, st.integers(20, 300))
def test_the_curve_is_that_of_the_published_model_within_a_bin(histograms, window):
    bins = max(map(len, histograms))
    counts = np.array([one + [0] * (bins - len(one)) for one in histograms])
    windows = [10 * window] * len(histograms)
    gamma = recalls(list(counts), windows, [0.0] * len(windows), 10, 10)
    found = curve(counts, windows, 10)
    shorter = np.concatenate([[1.0], found[: bins - 1]])
    assert (1 - gamma <= shorter + 1e-9).all()
    assert (1 - gamma >= found[1 : bins + 1] - 1e-9).all()


def test_the_curve_is_what_a_join_really_loses():
    rng = np.random.default_rng(1)
    window, n, period = 2_000, 3_000, 60_000
    ts = [np.sort(rng.integers(0, period, n)) for _ in range(2)]
    needed = [rng.exponential(scale, n).astype(np.int64) for scale in (300, 700)]
    counts = np.zeros((2, len(slacks_of(10))), np.int64)
    for s in range(2):
        count_needed(slacks_of(10), np.full(n, s), needed[s], counts)
    found = curve(counts, [window] * 2, 10)
    external_sync = ts[0][:, np.newaxis] - ts[1][np.newaxis, :]
    joins = np.abs(external_sync) <= window
    for k in (0, 20, 40, 60):
        slack = int(slacks_of(10)[k])
        # A tuple is processed when the watermark is at its time, or when it comes if that is later.
        late = [np.maximum(needed[s] - slack, 0) for s in range(2)]
        processed = [ts[s] + late[s] for s in range(2)]
        last_is_first = processed[0][:, np.newaxis] > processed[1][np.newaxis, :]
        lost = np.where(last_is_first, (late[0] > 0)[:, np.newaxis], (late[1] > 0)[np.newaxis, :]) & joins
        assert lost.sum() / joins.sum() == pytest.approx(found[k], abs=0.02)
