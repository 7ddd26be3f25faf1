"""Joins, result by result, against trying every combination."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import Field, Kind, Schema
from slackwater.expressions.tree import Column
from slackwater.language.bound import JoinQuery, Output, StreamRef
from slackwater.verify import JudgedInput, judge
from tests.effort import tried
from tests.verify.cases import Row, call, col, combinations, given, join, joined, known_equal, lit, same, stream

ROWS = st.lists(
    st.builds(
        Row,
        ts=st.integers(-12, 12),
        k=st.one_of(st.none(), st.integers(0, 2)),
        j=st.integers(0, 1),
        x=st.one_of(st.none(), st.sampled_from([math.nan, 0.0, 1.0, 2.5])),
    ),
    max_size=7,
)
A = [Row(0, 1), Row(10, 1), Row(20, 2)]
B = [Row(5, 1), Row(12, 1), Row(30, 2)]
PAIR = join([10, 10], same("k", 0, 1))
PAIR_REST = (PAIR.conditions, PAIR.outputs, PAIR.quality, PAIR.options)
TRUE = [(0, 0), (1, 0), (1, 1), (2, 2)]


def verdict_of(query, inputs, table, **options):
    return judge(query, [given(rows) for rows in inputs], table, **{"period": 10, "interval": 1} | options)


@tried(40, deadline=None)
@drawn(st.tuples(ROWS, ROWS, ROWS), st.tuples(*[st.integers(0, 8)] * 3), st.sampled_from(["chain", "near", "mixed"]))
def test_the_truth_of_a_three_way_join_equals_trying_every_combination(inputs, windows, shape):
    conditions = {
        "chain": [same("k", 0, 1), same("j", 1, 2)],
        "near": [
            call("<", call("abs", call("-", col(0, "x"), col(2, "x"), kind=Kind.FLOAT), kind=Kind.FLOAT), lit(2.0))
        ],
        "mixed": [same("x", 0, 1), call("<=", col(1, "k"), col(2, "k"))],
    }[shape]

    def holds(a, b, c):
        if shape == "chain":
            return known_equal(a.k, b.k) and b.j == c.j
        if shape == "near":
            return a.x is not None and c.x is not None and abs(a.x - c.x) < 2.0
        return known_equal(a.x, b.x) and None not in (b.k, c.k) and b.k <= c.k

    truth = combinations(windows, inputs, holds)
    verdict = verdict_of(join(windows, *conditions), inputs, joined(inputs, truth))
    assert (verdict.true_results, verdict.missing, verdict.spurious) == (len(truth), 0, 0)
    # The same number could be of other combinations only if some of these were then spurious.
    assert verdict.results == len(truth)
    assert verdict.sound


def test_both_ends_of_a_window_are_closed():
    verdict = verdict_of(PAIR, [A, B], joined([A, B], TRUE))
    assert (verdict.true_results, verdict.sound, verdict.recall_overall) == (4, True, 1.0)


@pytest.mark.parametrize(("first", "second", "joins"), [(0, 10, 1), (10, 0, 1), (0, 11, 0), (11, 0, 0)])
def test_a_window_ends_right_after_its_size_whichever_stream_comes_first(first, second, joins):
    inputs = [[Row(first, 1)], [Row(second, 1)]]
    assert verdict_of(PAIR, inputs, joined(inputs, [])).true_results == joins


def test_windows_of_different_size_reach_back_from_the_latest_member():
    inputs = [[Row(0, 1)], [Row(8, 1)]]
    assert verdict_of(join([8, 0], same("k", 0, 1)), inputs, joined(inputs, [(0, 0)])).sound
    assert verdict_of(join([7, 99], same("k", 0, 1)), inputs, joined(inputs, [])).true_results == 0


def test_a_null_or_nan_key_never_joins():
    inputs = [[Row(0, None, x=math.nan), Row(1, None, x=None)]] * 2
    assert verdict_of(join([9, 9], same("k", 0, 1)), inputs, joined(inputs, [])).true_results == 0
    assert verdict_of(join([9, 9], same("x", 0, 1)), inputs, joined(inputs, [])).true_results == 0


def test_a_missing_result_without_a_late_member_is_unexplained():
    verdict = verdict_of(PAIR, [A, B], joined([A, B], TRUE[1:]))
    assert (verdict.missing_late, verdict.missing_unexplained, verdict.spurious) == (0, 1, 0)
    assert verdict.recall_overall == 0.75


@pytest.mark.parametrize(("met", "explained"), [(9, 0), (10, 1), (12, 2)])
def test_a_late_member_explains_only_results_its_watermark_had_reached(met, explained):
    late = [Row(5, 1, met=met), *B[1:]]
    verdict = verdict_of(PAIR, [[Row(10, 1), Row(12, 1)], late], joined([A, B], []))
    assert verdict.missing == 4
    assert verdict.missing_late == explained


def test_a_combination_outside_the_truth_is_spurious():
    verdict = verdict_of(PAIR, [A, B], joined([A, B], [*TRUE, (0, 2)]))
    assert (verdict.spurious, verdict.missing) == (1, 0)


def test_a_result_produced_twice_is_spurious_once():
    verdict = verdict_of(PAIR, [A, B], joined([A, B], [TRUE[0], *TRUE]))
    assert (verdict.results, verdict.spurious, verdict.missing) == (5, 1, 0)


def test_a_wrong_time_is_spurious_and_leaves_the_true_result_missing():
    verdict = verdict_of(PAIR, [A, B], joined([A, B], TRUE, [5, 10, 13, 30]))
    assert (verdict.spurious, verdict.missing_unexplained) == (1, 1)


def test_a_wrong_value_is_spurious_and_leaves_the_true_result_missing():
    table = joined([A, B], TRUE)
    wrong = table.set_column(0, "k", pa.array([1, 1, 7, 2], pa.int64()))
    verdict = verdict_of(PAIR, [A, B], wrong)
    assert (verdict.spurious, verdict.missing_unexplained) == (1, 1)


def test_floats_may_differ_by_a_billionth_and_a_nan_is_a_null():
    rows = [[Row(0, 1, x=3.0), Row(1, 1, x=math.nan)], [Row(0, 1)]]
    query = join([9, 9], same("k", 0, 1), outputs=[Output("x", col(0, "x"))])
    identity = joined(rows, [(0, 0), (1, 0)]).drop_columns(["k"])
    for values, spurious in (([3.0 + 1e-9, None], 0), ([3.0 + 1e-8, math.nan], 1), ([3.0, 0.0], 1)):
        verdict = verdict_of(query, rows, identity.append_column("x", pa.array(values, pa.float64())))
        assert verdict.spurious == spurious


def test_rows_whose_time_goes_down_are_counted_across_tables():
    parts = [joined([A, B], TRUE[2:]), joined([A, B], TRUE[:2])]
    verdict = verdict_of(PAIR, [A, B], iter(parts))
    assert (verdict.out_of_order, verdict.missing, verdict.spurious) == (1, 0, 0)


def test_a_filter_takes_tuples_out_of_the_truth():
    keep_two = call("=", col(0, "k"), lit(2))
    query = JoinQuery((stream("s0", 10, filters=(keep_two,)), stream("s1", 10)), *PAIR_REST)
    verdict = verdict_of(query, [A, B], joined([A, B], TRUE))
    assert (verdict.true_results, verdict.spurious) == (1, 3)


def test_one_stream_is_a_plain_selection():
    rows = [[Row(3, 1), Row(4, 2)]]
    query = JoinQuery((stream("s0", None, filters=(call(">", col(0, "k"), lit(1)),)),), (), *PAIR_REST[1:])
    assert verdict_of(query, rows, joined(rows, [(1,)])).sound


def test_recall_is_measured_over_the_last_period_only():
    verdict = verdict_of(PAIR, [A, B], joined([A, B], TRUE[1:]), period=10, interval=5)
    # t = 10 covers (0, 10]: the lost result at 5 and the one at 10; (5, 15] has 10 and 12; then 12; nothing; 30.
    assert verdict.measurements == ((10, 0.5), (15, 1.0), (20, 1.0), (30, 1.0))
    assert verdict.fulfilment(0.9) == 0.75


def test_an_event_time_that_came_as_a_number_may_leave_as_that_number():
    schema = Schema((Field("ms", Kind.TIME, pa.int64()),), "ms")
    table = pa.table({"ms": [7], "_row": [0], "_ts": [7000], "_place": [0], "_late": [False], "_watermark": [0]})
    outputs = (Output("t", Column(0, "ms", Kind.TIME)),)
    query = JoinQuery((StreamRef("s0", "s0", schema, None),), (), outputs, *PAIR_REST[2:])
    as_number, as_time = pa.array([7], pa.int64()), pa.array([7], pa.timestamp("ms", "UTC"))
    for leaving in (as_number, as_time):
        produced = pa.table({"t": leaving, "_ts": as_time, "_row_s0": [0]})
        assert judge(query, [JudgedInput(table)], produced).sound


def test_an_empty_input_has_no_truth_and_nothing_to_measure():
    verdict = verdict_of(PAIR, [[], []], joined([A, B], []))
    assert (verdict.true_results, verdict.recall_overall, verdict.fulfilment(0.5)) == (0, 1.0, None)


def test_a_table_without_identities_is_refused_by_name():
    with pytest.raises(DataError, match="_row_s1"):
        verdict_of(PAIR, [A, B], joined([A, B], TRUE).drop_columns(["_row_s1"]))


def test_an_endless_truth_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr("slackwater.verify.join_truth.MOST_COMPARISONS", 3)
    with pytest.raises(UsageError, match="shorter piece"):
        verdict_of(PAIR, [A, B], joined([A, B], TRUE))
