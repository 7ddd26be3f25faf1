"""The productivity profiler, against Algorithm 4.6 done by hand."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.published.controllers.productivity import MOST_BINS, ProductivityProfiler

G = 10
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 30), st.integers(0, 40), st.integers(0, 9)),
    max_size=60,
)
"""Tuples in processing order: stream, how far the watermark moves, how late, the delay, the results it makes."""


def run_of(tuples):
    """A run of (stream, ts, watermark at arrival, delay)."""
    stream, ts, watermark_at_arrival, delay = np.array(tuples, np.int64).reshape(-1, 4).T.copy()
    none = np.zeros(len(ts), np.int64)
    tuples = OrderedTuples.of(stream, np.stack([ts, none]), watermark_at_arrival, delay)
    return OrderedBatch(tuples, BEFORE_ALL, BEFORE_ALL, 0)


def noted(profiler, tuples, made):
    profiler.note(run_of(tuples), np.array(made, float))
    return profiler


def by_hand(windows, tuples, made):
    """Algorithm 4.6 with windows as plain lists: M-cross and M-join by delay bin."""
    inside = [[] for _ in windows]
    in_time, late = [], []
    for (s, ts, watermark_at_arrival, delay), n in zip(tuples, made, strict=True):
        into = -(-delay // G)
        if ts >= watermark_at_arrival:
            sizes = [sum(t >= ts - w for t in other) for other, w in zip(inside, windows, strict=True)]
            in_time.append((into, prod(size for j, size in enumerate(sizes) if j != s), n))
        else:
            late.append(into)
        if ts >= watermark_at_arrival - windows[s]:
            inside[s].append(ts)
    most_cross, most_join = (max((line[k] for line in in_time), default=0) for k in (1, 2))
    lines = in_time + [(into, most_cross, most_join) for into in late]
    length = max((into for into, cross, _ in lines), default=-1) + 1
    maps = np.zeros((2, length))
    for into, cross, join in lines:
        maps[:, into] += cross, join
    return maps


@given(steps=STEPS, windows=st.lists(st.integers(0, 20), min_size=3, max_size=3), cut=st.integers(0, 60))
def test_the_maps_are_those_of_algorithm_4_6_however_runs_are_cut(steps, windows, cut):
    tuples, made, watermark = [], [], 0
    for s, step, behind, delay, n in steps:
        watermark += step
        late = behind > 20
        tuples.append((s, watermark - behind if late else watermark, watermark, delay))
        made.append(0 if late else n)
    profiler = ProductivityProfiler(windows, G)
    noted(profiler, tuples[:cut], made[:cut])
    resumed = ProductivityProfiler(windows, G)
    resumed.restore(profiler.as_arrays())
    found = noted(resumed, tuples[cut:], made[cut:]).take()
    cross, join = by_hand(windows, tuples, made)
    length = max(len(found.cross), len(cross))
    widen = lambda counts: np.pad(counts, (0, length - len(counts))).tolist()  # noqa: E731
    assert (widen(found.cross), widen(found.join)) == (widen(cross), widen(join))
    assert (found.made, found.true) == (sum(made), join.sum())


def test_a_late_tuple_counts_as_the_most_productive_one_in_time():
    tuples = [(0, 100, 100, 0), (1, 101, 101, 0), (1, 102, 102, 0), (0, 103, 103, 0), (1, 90, 103, 13)]
    found = noted(ProductivityProfiler([50, 50], G), tuples, [0, 1, 0, 2, 0]).take()
    assert found.join.tolist() == [3.0, 0.0, 2.0]
    assert found.cross.tolist() == [0 + 1 + 1 + 2, 0.0, 2.0]
    assert (found.made, found.true) == (3.0, 5.0)


def test_an_interval_begins_with_full_windows_and_empty_maps():
    profiler = noted(ProductivityProfiler([50, 50], G), [(0, t, t, 0) for t in range(100, 110)], [0] * 10)
    profiler.take()
    assert profiler.take().true == 0.0
    assert noted(profiler, [(1, 110, 110, 0)], [7]).take().cross.tolist() == [10.0]


def test_a_tuple_older_than_its_window_does_not_enter_it():
    profiler = noted(ProductivityProfiler([5, 5], G), [(0, 100, 100, 0), (0, 94, 100, 6), (0, 95, 100, 5)], [0, 0, 0])
    assert noted(profiler, [(1, 100, 100, 0)], [0]).take().cross[0] == 2.0


def test_windows_and_delays_may_outgrow_the_first_room():
    many = [(0, t, 0, 0) for t in range(5000)]
    profiler = noted(ProductivityProfiler([10_000, 10_000], G), many, [0] * 5000)
    found = noted(profiler, [(1, 5000, 5000, 0), (1, 4000, 5000, G * MOST_BINS * 2)], [1, 0]).take()
    assert found.cross[0] == 5000.0
    assert len(found.join) == MOST_BINS + 1
    assert found.join[-1] == pytest.approx(1.0)
