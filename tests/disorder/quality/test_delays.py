"""The delay histogram against delays kept in lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.published.controllers.delay_histogram import MOST_SKEWS, DelayHistogram
from tests.kit.oracle_adwin import OracleAdwin

G = 10


def batch(seed, tuples, streams, scale=3.0):
    random = np.random.default_rng(seed)
    delay = np.where(random.random(tuples) < 0.4, random.exponential(scale * G, tuples), 0).astype(np.int64)
    return random.integers(0, streams, tuples), np.arange(tuples) * 7 - delay, delay


def absorb_in_pieces(seen, arrivals, piece):
    for i in range(0, len(arrivals[0]), piece):
        seen.absorb(*(column[i : i + piece] for column in arrivals))


@given(
    seed=st.integers(0, 2**32),
    streams=st.integers(1, 3),
    most=st.sampled_from([100, 2**20]),
    piece=st.sampled_from([1, 33, 1000]),
)
def test_the_histogram_is_of_the_newest_delays_as_many_as_adwin_says(seed, streams, most, piece):
    calm, rough = batch(seed, 300, streams), batch(seed + 1, 300, streams, scale=60.0)
    arrivals = [np.concatenate(columns) for columns in zip(calm, rough, calm, strict=True)]
    seen = DelayHistogram(G, streams, most_values=most)
    absorb_in_pieces(seen, arrivals, piece)
    for s in range(streams):
        delays = arrivals[2][arrivals[0] == s].tolist()
        oracle = OracleAdwin(most=most)
        for delay in delays:
            oracle.add(float(-(-delay // G)))
        bins = [-(-delay // G) for delay in delays[len(delays) - oracle.width :]]
        assert seen.totals[s] == oracle.width
        assert seen.counts(s).tolist() == np.bincount(bins).tolist()
        assert seen.largest[s] == max(bins)
        assert seen.largest_ever[s] == max(delays)


def test_bins_are_open_below_and_closed_above():
    seen = DelayHistogram(G, 1)
    delay = np.array([0, 1, 10, 11, 20, 21, -5])
    seen.absorb(np.zeros(7, np.int64), 100 - delay, delay)
    assert seen.counts(0).tolist() == [2, 2, 2, 1]


def test_a_delay_beyond_the_last_bin_counts_as_one_of_it_and_is_still_the_largest_ever():
    seen = DelayHistogram(G, 1, most_bins=100)
    seen.absorb(np.zeros(2, np.int64), np.array([10**9, 0]), np.array([0, 10**9]))
    assert seen.largest.tolist() == [100]
    assert seen.counts(0)[100] == 1
    assert seen.largest_ever.tolist() == [10**9]


def test_the_largest_bin_falls_when_its_delay_leaves_the_window():
    seen = DelayHistogram(G, 1, most_values=64)
    seen.absorb(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([5000]))
    assert seen.largest.tolist() == [500]
    seen.absorb(np.zeros(100, np.int64), np.arange(100), np.zeros(100, np.int64))
    assert seen.largest.tolist() == [0]
    assert seen.largest_ever.tolist() == [5000]


def test_rates_are_tuples_a_second_of_event_time_and_follow_a_change_once_the_window_does():
    seen = DelayHistogram(10_000, 2)
    assert seen.rates().tolist() == [0.0, 0.0]
    stream = np.zeros(2000, np.int64)
    stream[::4] = 1
    ts = np.arange(2000) * 1000
    seen.absorb(stream, ts, np.zeros(2000, np.int64))
    assert seen.rates() == pytest.approx([750.0, 250.0], rel=0.01)
    slow = ts[-1] + np.arange(1, 2001) * 10_000
    seen.absorb(stream, slow, np.full(2000, 300_000))
    assert seen.rates() == pytest.approx([75.0, 25.0], rel=0.1)


def test_skews_are_means_of_what_was_noted_in_the_window_less_the_smallest():
    seen = DelayHistogram(G, 2, most_values=64)
    assert seen.skews().tolist() == [0.0, 0.0]
    seen.note_skews(np.array([100, 0]))
    seen.note_skews(np.array([300, 10]))
    assert seen.skews().tolist() == [195.0, 0.0]
    seen.absorb(np.zeros(200, np.int64), np.arange(200), np.zeros(200, np.int64))
    seen.note_skews(np.array([1000, 20]))
    assert seen.skews().tolist() == [990.0, 0.0]


def test_a_silent_stream_does_not_collect_skews_forever():
    seen = DelayHistogram(G, 2)
    for i in range(MOST_SKEWS + 50):
        seen.note_skews(np.array([0, i]))
    assert len(seen.as_arrays()["skews"]) == 2 * MOST_SKEWS


@given(seed=st.integers(0, 2**32), cut=st.integers(0, 1500), streams=st.integers(1, 3))
def test_going_on_from_arrays_is_as_if_never_stopped(seed, cut, streams):
    arrivals = [
        np.concatenate(c) for c in zip(batch(seed, 1000, streams), batch(seed, 500, streams, 90.0), strict=True)
    ]
    whole, first = DelayHistogram(G, streams), DelayHistogram(G, streams)
    then = DelayHistogram(G, streams)
    whole.note_skews(np.arange(streams) * 5)
    first.note_skews(np.arange(streams) * 5)
    whole.absorb(*arrivals)
    first.absorb(*(column[:cut] for column in arrivals))
    then.absorb(*arrivals)
    then.restore(first.as_arrays())
    assert then.rates().tolist() == first.rates().tolist()
    then.absorb(*(column[cut:] for column in arrivals))
    wanted, found = whole.as_arrays(), then.as_arrays()
    assert {name: array.tolist() for name, array in found.items()} == {n: array.tolist() for n, array in wanted.items()}
    assert [c.tolist() for c in then.histograms()] == [c.tolist() for c in whole.histograms()]
    assert then.rates().tolist() == whole.rates().tolist()
    assert then.largest.tolist() == whole.largest.tolist()
    assert then.skews().tolist() == whole.skews().tolist()
