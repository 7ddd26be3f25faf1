"""Panes against windows counted one by one."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.aggregate.panes import (
    first_open,
    first_pane,
    first_window_with,
    last_pane,
    pane_of,
    panes,
    window_end,
)

GRID = st.builds(panes, st.integers(1, 30), st.one_of(st.none(), st.integers(1, 30)))
TS = st.integers(-200, 200)


@given(GRID, TS, st.integers(-60, 60))
def test_a_window_is_exactly_the_tuples_of_its_panes(grid, ts, k):
    inside = k * grid.slide <= ts < k * grid.slide + grid.range
    assert inside == (first_pane(grid, k) <= pane_of(grid, ts) <= last_pane(grid, k))


@given(GRID, TS, TS)
def test_panes_are_numbered_in_the_order_of_time(grid, a, b):
    if a <= b:
        assert pane_of(grid, a) <= pane_of(grid, b)


@given(GRID, TS)
def test_a_slide_has_at_most_two_panes(grid, ts):
    begin = ts // grid.slide * grid.slide
    numbers = {pane_of(grid, t) for t in range(begin, begin + grid.slide)}
    assert len(numbers) == (1 if grid.range % grid.slide == 0 else 2)


@given(GRID, TS)
def test_the_first_open_window_is_the_oldest_that_ends_after_the_watermark(grid, watermark):
    k = first_open(grid, watermark)
    assert window_end(grid, k - 1) <= watermark < window_end(grid, k)


@given(GRID, TS)
def test_the_first_window_with_a_pane_is_the_oldest_that_has_it_or_follows_it(grid, ts):
    pane = pane_of(grid, ts)
    k = first_window_with.py_func(grid, pane)
    containing = [j for j in range(-300, 300) if first_pane(grid, j) <= pane <= last_pane(grid, j)]
    if containing:
        assert k == containing[0]
    else:
        assert last_pane(grid, k - 1) < pane < first_pane(grid, k)


def test_without_a_slide_windows_tumble():
    assert panes(10, None) == panes(10, 10)
