"""The profiler of trees, against its definition by hand."""

from collections import defaultdict
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.published.controllers.tree_productivity import TreeProductivity

G = 10
WINDOWS = (20, 30, 5)
ARRIVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 9), st.integers(0, 2000)), min_size=2, max_size=40
)
"""Raw tuples: stream, how far time moves, how far the watermark is ahead of it, the delay."""
MADE = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 5)), max_size=40)
"""What the last node processes: how far time moves, the delay, the results."""


def run_of(stream, ts, watermark_at_arrival, delay):
    none = np.zeros(len(ts), np.int64)
    arrays = [np.array(values, np.int64) for values in (stream, ts, watermark_at_arrival, delay)]
    tuples = OrderedTuples.of(arrays[0], np.stack([arrays[1], none]), arrays[2], arrays[3])
    return OrderedBatch(tuples, BEFORE_ALL, BEFORE_ALL, 0)


def runs_of(arrivals, made):
    ts = np.cumsum([step for _, step, _, _ in arrivals]).tolist()
    ahead = [t + max(0, a - 5) for t, (_, _, a, _) in zip(ts, arrivals, strict=True)]
    raw = run_of([s for s, *_ in arrivals], ts, ahead, [d for *_, d in arrivals])
    moments = np.cumsum([step for step, _, _ in made]).tolist()
    return raw, run_of([0] * len(made), moments, [BEFORE_ALL] * len(made), [d for _, d, _ in made])


def by_hand(raw, top, results):
    span = raw.ts.max() - raw.ts.min()
    counts = [sum(raw.stream == s) for s in range(3)]
    inside = [counts[s] / span * WINDOWS[s] if span else 0 for s in range(3)]
    cross, join = defaultdict(float), defaultdict(float)
    of_trigger = defaultdict(int)
    for ts, delay, n in zip(top.ts.tolist(), top.delay.tolist(), results, strict=True):
        join[-(-delay // G)] += n
        of_trigger[ts, -(-delay // G)] += n
    met = {s: prod(inside[j] for j in range(3) if j != s) for s in range(3)}
    in_time = [(s, -(-d // G)) for s, d, late in zip(raw.stream.tolist(), raw.delay.tolist(), raw.late, strict=True)
               if not late]  # fmt: skip
    for s, into in in_time:
        cross[into] += met[s]
    for d, late in zip(raw.delay.tolist(), raw.late, strict=True):
        if late:
            cross[-(-d // G)] += max((met[s] for s, _ in in_time), default=0)
            join[-(-d // G)] += max(of_trigger.values(), default=0)
    return cross, join


def cut(run, begin, end):
    return run_of(run.stream[begin:end], run.ts[begin:end], run.watermark_at_arrival[begin:end], run.delay[begin:end])


@given(arrivals=ARRIVALS, made=MADE, at=st.integers(0, 40))
def test_the_maps_are_those_of_the_definition_however_runs_are_cut(arrivals, made, at):
    raw, top = runs_of(arrivals, made)
    results = [n for _, _, n in made]
    profiler = TreeProductivity(WINDOWS, G)
    profiler.note(cut(top, 0, at), np.array(results[:at], float), cut(raw, 0, at))
    other = TreeProductivity.in_place_of(profiler)
    other.restore(profiler.as_arrays())
    other.note(cut(top, at, None), np.array(results[at:], float), cut(raw, at, None))
    profile = other.take()
    cross, join = by_hand(raw, top, results)
    assert profile.made == sum(results)
    bins = range(max([*cross, *join], default=0) + 1)
    padded = [np.pad(one, (0, len(bins) + 1))[: len(bins)] for one in (profile.cross, profile.join)]
    assert np.allclose(padded[0], [cross[b] for b in bins])
    assert np.allclose(padded[1], [join[b] for b in bins])


def test_rates_follow_the_latest_intervals():
    profiler = TreeProductivity((10, 10), G)
    slow = run_of([0, 1] * 50, range(0, 1000, 10), [BEFORE_ALL] * 100, [0] * 100)
    fast = run_of([0, 1] * 500, range(1000, 2000), [BEFORE_ALL] * 1000, [0] * 1000)
    nothing = run_of([], [], [], [])
    profiler.note(nothing, np.zeros(0), slow)
    before = profiler.take().cross.sum() / 100
    for _ in range(30):
        profiler.note(nothing, np.zeros(0), fast)
        fast = run_of(fast.stream, fast.ts + 1000, fast.watermark_at_arrival, fast.delay)
        after = profiler.take().cross.sum() / 1000
    assert 0.4 < before < 0.6
    assert 4.5 < after < 5.5
