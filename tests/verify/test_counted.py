"""Counted joins: the factored truth equals the enumerated one, and sums are compared second by second."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from slackwater.core.schema import Kind
from slackwater.verify import judge
from tests.effort import tried
from tests.verify.cases import Row, call, col, combinations, counted, given, join, known_equal, same

SECOND = 1_000_000
TIMES = st.sampled_from([-SECOND, -1, 0, 1, SECOND // 2, SECOND, 2 * SECOND, 2 * SECOND + 1])
ROWS = st.lists(
    st.builds(Row, ts=TIMES, k=st.sampled_from([0, 1, 1, None]), j=st.integers(0, 1)), min_size=1, max_size=4
)
WINDOWS = st.sampled_from([0, 1, SECOND // 2, SECOND, 3 * SECOND])

SHAPES = {
    "one class": (
        (same("k", 0, 1), same("k", 1, 2), same("k", 2, 3)),
        lambda a, b, c, d: all(known_equal(a.k, other.k) for other in (b, c, d)),
    ),
    "star": (
        (same("k", 0, 1), same("j", 0, 2), same("k", 0, 3)),
        lambda a, b, c, d: known_equal(a.k, b.k) and a.j == c.j and known_equal(a.k, d.k),
    ),
    "chain": (
        (same("k", 0, 1), same("j", 1, 2), same("k", 2, 3)),
        lambda a, b, c, d: known_equal(a.k, b.k) and b.j == c.j and known_equal(c.k, d.k),
    ),
    "cycle": (
        (same("k", 0, 1), same("j", 1, 2), same("k", 2, 3), same("j", 3, 0)),
        lambda a, b, c, d: known_equal(a.k, b.k) and b.j == c.j and known_equal(c.k, d.k) and d.j == a.j,
    ),
    "apart": (
        (same("k", 0, 1), same("j", 2, 3)),
        lambda a, b, c, d: known_equal(a.k, b.k) and c.j == d.j,
    ),
    "twice": (
        (same("k", 0, 1), call("=", col(0, "k"), col(1, "j")), same("j", 2, 3)),
        lambda a, b, c, d: known_equal(a.k, b.k) and known_equal(a.k, b.j) and c.j == d.j,
    ),
    "residual": (
        (same("k", 0, 1), call("<", col(1, "j"), col(2, "j"))),
        lambda a, b, c, d: known_equal(a.k, b.k) and b.j < c.j,
    ),
    "sum": (
        (call("=", call("+", col(0, "j"), col(1, "j"), kind=Kind.INT), col(2, "j")), same("k", 2, 3)),
        lambda a, b, c, d: a.j + b.j == c.j and known_equal(c.k, d.k),
    ),
}


def times_of(windows, inputs, holds):
    return [
        max(inputs[i][member].ts for i, member in enumerate(members))
        for members in combinations(windows, inputs, holds)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@tried(8, deadline=None)
@drawn(inputs=st.tuples(ROWS, ROWS, ROWS, ROWS), windows=st.tuples(WINDOWS, WINDOWS, WINDOWS, WINDOWS))
def test_the_factored_truth_equals_counting_every_combination(shape, inputs, windows):
    conditions, holds = SHAPES[shape]
    times = times_of(windows, inputs, holds)
    verdict = judge(join(windows, *conditions), [given(rows) for rows in inputs], counted(times), count_only=True)
    assert (verdict.true_results, verdict.missing, verdict.spurious) == (len(times), 0, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_combination_of_equal_times_is_counted_once(shape):
    conditions, holds = SHAPES[shape]
    inputs = [[Row(7, 0, 0), Row(7, 1, 1)]] * 4
    times = times_of([5] * 4, inputs, holds)
    verdict = judge(join([5] * 4, *conditions), [given(rows) for rows in inputs], counted(times), count_only=True)
    assert verdict.true_results == len(times) > 0
    assert verdict.sound


A = [Row(0, 1), Row(SECOND, 1)]
B = [Row(1, 1), Row(SECOND + 5, 1), Row(2 * SECOND, 1, met=2 * SECOND)]
PAIR = join([SECOND, SECOND], same("k", 0, 1))
TIMES_OF_ALL = times_of([SECOND, SECOND], [A, B], lambda a, b: a.k == b.k)


def verdict_of(times, **options):
    return judge(PAIR, [given(A), given(B)], counted(times), count_only=True, **options)


def test_seconds_of_the_truth_are_those_of_the_latest_member():
    assert [time // SECOND for time in TIMES_OF_ALL] == [0, 1, 1, 2]
    assert verdict_of(TIMES_OF_ALL).sound


def test_what_a_late_row_can_explain_is_the_difference_to_the_truth_in_time():
    verdict = verdict_of(TIMES_OF_ALL[:3])
    assert (verdict.missing_late, verdict.missing_unexplained) == (1, 0)
    verdict = verdict_of(TIMES_OF_ALL[:2])
    assert (verdict.missing_late, verdict.missing_unexplained, verdict.recall_overall) == (1, 1, 0.5)


def test_a_surplus_in_one_second_does_not_pay_for_a_lack_in_another():
    verdict = verdict_of([0, 1, *TIMES_OF_ALL[1:3]])
    assert (verdict.spurious, verdict.missing_late, verdict.results) == (1, 1, 4)


def test_a_second_that_comes_after_a_later_one_is_out_of_order():
    table = counted(TIMES_OF_ALL)
    verdict = judge(PAIR, [given(A), given(B)], [table.slice(1), table.slice(0, 1)], count_only=True)
    assert (verdict.out_of_order, verdict.missing, verdict.spurious) == (1, 0, 0)


def test_a_second_may_be_spread_over_several_rows():
    tables = [counted(TIMES_OF_ALL[:2]), counted(TIMES_OF_ALL[2:])]
    assert judge(PAIR, [given(A), given(B)], tables, count_only=True).sound


def test_recall_is_measured_over_whole_seconds():
    verdict = verdict_of(TIMES_OF_ALL[1:], period=SECOND, interval=SECOND)
    assert verdict.measurements == ((SECOND, 0.0), (2 * SECOND, 1.0))
