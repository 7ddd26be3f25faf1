"""Window graphs: what follows from stated bounds, no less and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.time import WindowBound, before, within
from slackwater.core.window_graph import UNBOUNDED, WindowGraph, close

STREAMS = 4
PAIRS = st.permutations(range(STREAMS)).map(lambda order: tuple(order[:2]))
BOUNDS = st.lists(st.builds(lambda pair, most: WindowBound(*pair, most), PAIRS, st.integers(0, 9)), max_size=9).map(
    tuple
)
TIMES = st.tuples(*[st.integers(0, 20)] * STREAMS)


@given(st.lists(BOUNDS, min_size=1, max_size=3), TIMES)
def test_times_keep_the_graph_iff_they_keep_all_that_one_alternative_states(alternatives, times):
    stated = any(all(times[b.newer] - times[b.older] <= b.most for b in bounds) for bounds in alternatives)
    graph = WindowGraph(STREAMS, tuple(alternatives))
    assert graph.keeps(times) == stated
    if stated:
        every = range(STREAMS)
        assert all(times[i] - times[j] <= graph.widest[i][j] for i in every for j in every)
        assert all(times[j] >= max(times) - graph.windows[j] for j in every)


@given(BOUNDS)
def test_every_bound_that_follows_is_reached_by_some_times(bounds):
    closed = close(STREAMS, bounds)
    for older in range(STREAMS):
        # As far from one stream as the others may be, all at once; what nothing bounds may be anywhere far off.
        times = [min(line[older], UNBOUNDED) for line in closed]
        assert all(times[b.newer] - times[b.older] <= b.most for b in bounds)


def test_a_graph_is_plain_iff_one_window_per_stream_says_the_same():
    assert WindowGraph.of_windows((5, 0, 3)).plain
    assert WindowGraph(2, (before(0, 1, 5),)).plain
    assert not WindowGraph(3, ((*within(0, 1, 5), *within(1, 2, 5)),)).plain
    assert not WindowGraph(2, (before(0, 1, 5), before(1, 0, 5))).plain


def test_an_alternative_that_allows_all_that_another_does_decides():
    assert not WindowGraph(2, (before(0, 1, 5), within(0, 1, 5))).undecided
    assert WindowGraph(2, (before(0, 1, 5), before(1, 0, 5))).undecided
