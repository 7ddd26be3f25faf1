"""Window aggregates against computing every window in Python."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from slackwater.core.schema import Kind
from slackwater.language.bound import Aggregate, Output
from slackwater.verify import judge
from tests.effort import tried
from tests.verify.cases import UTC, Row, aggregate, col, given

INF, NAN = math.inf, math.nan
COUNT = Aggregate("n", "COUNT", None, None, Kind.INT)
SUM = Aggregate("total", "SUM", col(0, "x"), None, Kind.FLOAT)
NUMBERS = (
    COUNT,
    Aggregate("known", "COUNT", col(0, "x"), None, Kind.INT),
    SUM,
    Aggregate("ints", "SUM", col(0, "j"), None, Kind.INT),
    Aggregate("mean", "AVG", col(0, "x"), None, Kind.FLOAT),
    Aggregate("low", "MIN", col(0, "x"), None, Kind.FLOAT),
    Aggregate("high", "MAX", col(0, "x"), None, Kind.FLOAT),
    Aggregate("var", "VAR", col(0, "x"), None, Kind.FLOAT),
    Aggregate("sd", "STDDEV", col(0, "x"), None, Kind.FLOAT),
    Aggregate("median", "MEDIAN", col(0, "x"), None, Kind.FLOAT),
    Aggregate("p90", "QUANTILE", col(0, "x"), 0.9, Kind.FLOAT),
    Aggregate("kinds", "COUNT_DISTINCT", col(0, "x"), None, Kind.INT),
)
KEY = Output("k", col(0, "k"))
ROWS = st.lists(
    st.builds(
        Row,
        ts=st.integers(-15, 15),
        k=st.one_of(st.none(), st.integers(0, 1)),
        j=st.integers(-3, 3),
        x=st.one_of(st.none(), st.sampled_from([0.1, -0.1, 0.2, 1e6, -1e6, 3.0])),
    ),
    max_size=12,
)


def quantile(values, p):
    ordered = sorted(values)
    place = p * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def aggregates_of(rows):
    x = [row.x for row in rows if row.x is not None]
    several = len(x) > 1
    return {
        "n": len(rows),
        "known": len(x),
        "total": sum(x) if x else None,
        "ints": sum(row.j for row in rows),
        "mean": sum(x) / len(x) if x else None,
        "low": min(x, default=None),
        "high": max(x, default=None),
        "var": statistics.variance(x) if several else None,
        "sd": statistics.stdev(x) if several else None,
        "median": statistics.median(x) if x else None,
        "p90": quantile(x, 0.9) if x else None,
        "kinds": len(set(x)),
    }


def windows_of(rows, size, slide, enters=lambda row, end: True):
    groups = defaultdict(list)
    for row in rows:
        start = row.ts // slide * slide
        while start > row.ts - size:
            if enters(row, start + size):
                groups[(start + size, start, row.k)].append(row)
            start -= slide
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], repr(item[0][2]))))


def rows_of(groups, chosen=NUMBERS):
    kinds = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64()}
    columns = {
        "window_start": pa.array([start for _, start, _ in groups], UTC),
        "window_end": pa.array([end for end, _, _ in groups], UTC),
        "k": pa.array([key for _, _, key in groups], pa.int64()),
    }
    values = [aggregates_of(rows) for rows in groups.values()]
    for each in chosen:
        columns[each.name] = pa.array([value[each.name] for value in values], kinds[each.kind])
    return pa.table(columns)


@tried(20, deadline=None)
@drawn(ROWS, st.integers(1, 8), st.one_of(st.none(), st.integers(1, 8)))
def test_the_true_aggregates_equal_computing_every_window(rows, size, slide):
    groups = windows_of(rows, size, slide or size)
    verdict = judge(aggregate(size, slide, *NUMBERS, keys=[KEY]), [given(rows)], rows_of(groups))
    assert (verdict.true_results, verdict.missing, verdict.spurious) == (len(groups), 0, 0)
    assert verdict.fulfilment(0) in (1.0, None)


@tried(12, deadline=None)
@drawn(ROWS, st.lists(st.one_of(st.none(), st.integers(-15, 25)), min_size=12, max_size=12))
def test_a_late_row_is_expected_in_every_window_that_was_still_open(rows, met):
    rows = [Row(row.ts, row.k, row.j, row.x, row.name, late) for row, late in zip(rows, met, strict=False)]
    groups = windows_of(rows, 6, 2, lambda row, end: row.met is None or row.met < end)
    truth = windows_of(rows, 6, 2)
    verdict = judge(aggregate(6, 2, *NUMBERS, keys=[KEY]), [given(rows)], rows_of(groups))
    assert (verdict.missing_unexplained, verdict.spurious, verdict.true_results) == (0, 0, len(truth))
    assert verdict.missing_late == sum(len(groups.get(window, ())) != len(found) for window, found in truth.items())


def test_a_deviation_is_judged_where_its_square_is_no_float():
    rows = [Row(1, 1, x=1e300), Row(2, 1, x=-1e300), Row(11, 1, x=2.0**505), Row(12, 1, x=0.0)]
    spreads = tuple(Aggregate(name.lower(), name, col(0, "x"), None, Kind.FLOAT) for name in ("VAR", "STDDEV"))
    table = rows_of(windows_of([Row(row.ts, row.k, x=1.0) for row in rows], 10, 10), ())
    for var, sound in (([INF, 2.0**1009], True), ([NAN, 2.0**1009], False)):
        reported = {"var": var, "stddev": [2**0.5 * 1e300, 2.0**504 * 2**0.5]}
        full = pa.table({name: table[name] for name in table.column_names} | reported)
        assert judge(aggregate(10, None, *spreads, keys=[KEY]), [given(rows)], full).sound == sound


A = [Row(1, 1, x=1.0), Row(3, 1, x=2.0), Row(4, 2, x=4.0), Row(12, 1, x=8.0)]
QUERY = aggregate(10, None, COUNT, SUM, keys=[KEY])
RIGHT = rows_of(windows_of(A, 10, 10), (COUNT, SUM))


def verdict_of(table, rows=A, query=QUERY):
    return judge(query, [given(rows)], table)


def changed(name, values):
    return RIGHT.set_column(RIGHT.column_names.index(name), name, pa.array(values, RIGHT.schema.field(name).type))


def test_a_right_answer_is_sound():
    verdict = verdict_of(RIGHT)
    assert (verdict.results, verdict.true_results, verdict.sound) == (3, 3, True)


def test_a_wrong_value_without_late_rows_is_unexplained():
    verdict = verdict_of(changed("total", [3.0, 5.0, 8.0]))
    assert (verdict.missing_late, verdict.missing_unexplained, verdict.spurious) == (0, 1, 0)
    assert [error for _, error in verdict.measurements] == [0.0, 0.25, 0.0]
    assert verdict.fulfilment(0.2) == pytest.approx(2 / 3)


def test_the_worst_aggregate_decides_the_error():
    table = changed("total", [3.3, 4.0, 8.0])
    verdict = verdict_of(table.set_column(3, "n", pa.array([4, 1, 1], pa.int64())))
    assert max(error for _, error in verdict.measurements) == 1.0


def test_a_window_never_emitted_is_missed_at_any_error():
    verdict = verdict_of(RIGHT.slice(1))
    assert (verdict.missing_unexplained, verdict.fulfilment(1e9)) == (1, pytest.approx(2 / 3))
    assert verdict.to_json()["measurements"]["never"] == 1


def test_a_window_or_group_outside_the_truth_is_spurious():
    moved = [0, 0, 20]
    wrong = changed("window_start", moved).set_column(1, "window_end", pa.array([t + 10 for t in moved], UTC))
    verdict = verdict_of(wrong)
    assert (verdict.spurious, verdict.missing_unexplained) == (1, 1)
    assert verdict_of(changed("k", [1, None, 1])).spurious == 1


def test_a_row_given_twice_is_spurious_once():
    verdict = verdict_of(pa.concat_tables([RIGHT.slice(0, 1), RIGHT]))
    assert (verdict.results, verdict.spurious, verdict.missing) == (4, 1, 0)


def test_a_window_that_comes_after_a_later_one_is_out_of_order():
    verdict = verdict_of([RIGHT.slice(1), RIGHT.slice(0, 1)])
    assert (verdict.out_of_order, verdict.missing) == (1, 0)


def test_a_run_that_counts_a_row_it_met_too_late_is_unexplained():
    late = [Row(1, 1, x=1.0, met=10), *A[1:]]
    verdict = verdict_of(RIGHT, late)
    assert (verdict.missing_unexplained, verdict.missing_late) == (1, 0)
    without = verdict_of(changed("total", [2.0, 4.0, 8.0]).set_column(3, "n", pa.array([1, 1, 1], pa.int64())), late)
    assert (without.missing_unexplained, without.missing_late) == (0, 1)


def test_a_window_of_which_every_row_came_too_late_must_not_be_given():
    late = [*A[:3], Row(12, 1, x=8.0, met=20)]
    assert verdict_of(RIGHT.slice(0, 2), late).missing_late == 1
    assert verdict_of(RIGHT, late).missing_unexplained == 1
    only_sum = changed("total", [3.0, 4.0, None]).drop_columns(["n"])
    assert verdict_of(only_sum, late, aggregate(10, None, SUM, keys=[KEY])).missing_unexplained == 1


def test_a_sum_that_cancels_may_show_rounding_but_no_more():
    rows = [Row(0, x=value) for value in (0.1, 1e9, -1e9, -0.1)]
    for total, missing in ((1e-8, 0), (1e-3, 1)):
        table = rows_of(windows_of(rows, 10, 10), (SUM,)).set_column(3, "total", pa.array([total]))
        verdict = judge(aggregate(10, None, SUM, keys=[KEY]), [given(rows)], table)
        assert verdict.missing == missing


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, NAN], {"total": NAN, "mean": NAN, "low": 1.0, "high": NAN, "var": NAN, "kinds": 2, "known": 2}),
        ([NAN, NAN], {"total": NAN, "low": NAN, "high": NAN, "sd": NAN, "kinds": 1}),
        ([NAN, None], {"total": NAN, "low": NAN, "var": None, "known": 1, "n": 2}),
        ([None, None], {"total": None, "mean": None, "low": None, "median": None, "kinds": 0, "known": 0, "n": 2}),
        ([1.0, INF], {"total": INF, "mean": INF, "low": 1.0, "high": INF}),
    ],
)
def test_nan_and_null_are_aggregated_as_in_spark(values, wanted):
    rows = [Row(0, x=value) for value in values]
    chosen = [each for each in NUMBERS if each.name in wanted]
    kinds = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64()}
    edges = {"window_start": pa.array([0], UTC), "window_end": pa.array([10], UTC)}
    right = {each.name: pa.array([wanted[each.name]], kinds[each.kind]) for each in chosen}
    assert judge(aggregate(10, None, *chosen), [given(rows)], pa.table(edges | right)).missing == 0
    for each in chosen:
        wrong = right | {each.name: pa.array([77], kinds[each.kind])}
        assert judge(aggregate(10, None, *chosen), [given(rows)], pa.table(edges | wrong)).missing == 1


def test_a_text_key_with_a_null_group_is_compared_whatever_its_arrow_type():
    rows = [Row(0, name="a"), Row(1, name=None)]
    key = Output("name", col(0, "name"))
    names = pa.array([None, "a"], pa.string()).dictionary_encode()
    edges = {"window_start": pa.array([0, 0], UTC), "window_end": pa.array([10, 10], UTC)}
    table = pa.table(edges | {"name": names, "n": [1, 1]})
    assert judge(aggregate(10, None, COUNT, keys=[key]), [given(rows)], table).sound


def test_a_run_without_rows_misses_everything():
    verdict = verdict_of([])
    assert (verdict.results, verdict.missing_unexplained, verdict.recall_overall) == (0, 3, 0.0)
