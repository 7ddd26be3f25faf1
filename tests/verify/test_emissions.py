"""Answers that leave on arrival, early or with corrections: what the judge says of right rows, and of wrong ones."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from slackwater.core.emitting import EARLY, ON_ARRIVAL, Emit
from slackwater.core.options import Options
from slackwater.core.quality import Complete
from slackwater.core.schema import Kind
from slackwater.language.bind import bind
from slackwater.language.bound import Aggregate, Output
from slackwater.language.distinct import DistinctQuery
from slackwater.verify import judge
from tests.verify.cases import SCHEMA, UTC, Row, aggregate, col, given, join, joined, same, stream

INSERT, UPDATE, DELETE = "insert", "update", "delete"
CORRECTED = Emit(corrections=True, correctable=10)
PAIR = join([10, 10], same("k", 0, 1))
# The first of a is late: it met the watermark 13, and its results are at 5 and 12.
A = [Row(10, 1), Row(5, 1, met=13), Row(20, 1)]
B = [Row(5, 1), Row(12, 1)]
FIRST, LATER = [(0, 0), (0, 1), (2, 1)], [(1, 0), (1, 1)]


def changes(table, *rows, clocks=None):
    """The table with what each row says of itself: (change, version, whether it amends)."""
    change, version, amends = zip(*rows, strict=True) if rows else ((), (), ())
    table = table.append_column("_change", pa.array(change, pa.string()))
    table = table.append_column("_version", pa.array(version, pa.int64()))
    table = table.append_column("_amends", pa.array(amends, pa.bool_()))
    return table.append_column("_clock", pa.array(clocks or [None] * len(rows), UTC))


def verdict_of(query, inputs, table):
    return judge(query, [given(rows) for rows in inputs], table, period=10, interval=1)


def made(first, later, inputs=(A, B), says=None):
    rows = [(INSERT, 0, False)] * len(first) + [(INSERT, 0, True)] * len(later)
    return changes(joined(inputs, [*first, *later]), *(says or rows))


@pytest.mark.parametrize(
    ("first_there", "met", "explained"), [(True, 12, 1), (True, 11, 0), (False, 12, 0)],
)  # fmt: skip
def test_on_arrival_a_result_is_lost_by_the_member_that_comes_last_alone(first_there, met, explained):
    # The late one is a partner of a tuple of its own watermark's time, which came before it or after.
    table = given([Row(5, 1, met=met)]).table
    table = table.set_column(table.column_names.index("_place"), "_place", pa.array([1 if first_there else 0]))
    other = given([Row(12, 1)]).table
    other = other.set_column(other.column_names.index("_place"), "_place", pa.array([0 if first_there else 1]))
    query = replace(PAIR, emit=Emit(ON_ARRIVAL))
    inputs = [replace(given([]), table=one) for one in (table, other)]
    verdict = judge(query, inputs, joined([[Row(5)], [Row(12)]], []), period=10, interval=1)
    assert (verdict.missing_late, verdict.missing_unexplained) == (explained, 1 - explained)


def test_on_arrival_results_leave_in_any_order_and_a_selection_loses_nothing():
    query = replace(PAIR, emit=Emit(ON_ARRIVAL))
    verdict = verdict_of(query, [A, B], joined([A, B], [*FIRST[::-1], *LATER]))
    assert (verdict.out_of_order, verdict.missing, verdict.sound) == (0, 0, True)
    assert verdict_of(PAIR, [A, B], joined([A, B], FIRST[::-1])).out_of_order == 2
    alone = replace(join([None]), emit=Emit(ON_ARRIVAL))
    verdict = verdict_of(alone, [A], joined([A], [(0,), (2,)]))
    assert (verdict.missing_late, verdict.missing_unexplained) == (0, 1)


def test_the_first_answer_of_a_join_is_judged_beside_the_answer_after_corrections():
    verdict = verdict_of(replace(PAIR, emit=CORRECTED), [A, B], made(FIRST, LATER))
    assert (verdict.results, verdict.missing_late, verdict.out_of_order, verdict.sound) == (3, 2, 0, True)
    assert verdict.changed.corrections == 2
    after = verdict.changed.corrected
    assert (after.results, after.missing, after.spurious, after.recall_overall) == (5, 0, 0, 1.0)
    assert verdict.to_json()["corrected"]["recall_overall"] == 1.0


@pytest.mark.parametrize(("reach", "explained"), [(10, 0), (8, 0), (7, 1), (1, 1)])
def test_what_came_too_late_to_be_corrected_is_explained_and_nothing_else(reach, explained):
    # The result at 5 is 8 older than the watermark 13; that at 12 only 1.
    query = replace(PAIR, emit=Emit(corrections=True, correctable=reach))
    verdict = verdict_of(query, [A, B], made(FIRST, [(1, 1)]))
    after = verdict.changed.corrected
    assert (after.missing_late, after.missing_unexplained) == (explained, 1 - explained)
    assert verdict.sound == bool(explained)


def test_without_a_reach_corrections_are_possible_as_far_as_tuples_may_be_behind():
    query = replace(PAIR, emit=Emit(corrections=True), options=replace(Options(), max_behind=7))
    assert verdict_of(query, [A, B], made(FIRST, [(1, 1)])).sound
    query = replace(query, options=replace(Options(), max_behind=8))
    assert not verdict_of(query, [A, B], made(FIRST, [(1, 1)])).sound


def test_a_correction_that_is_no_true_result_is_spurious_after_corrections_alone():
    verdict = verdict_of(replace(PAIR, emit=CORRECTED), [A, B], made(FIRST, [*LATER, (2, 0)]))
    assert (verdict.spurious, verdict.changed.corrected.spurious, verdict.sound) == (0, 1, False)


def test_a_result_that_leaves_again_as_a_correction_is_named():
    verdict = verdict_of(replace(PAIR, emit=CORRECTED), [A, B], made(FIRST, [*LATER, (0, 1)]))
    (fault,) = verdict.changed.faults
    assert (fault.what, fault.rows) == ("a version that has left before", 1)
    assert "_row_s0 0, _row_s1 1, version 0" in str(fault)
    assert (verdict.changed.corrected.spurious, verdict.sound) == (1, False)


def test_a_first_answer_behind_a_newer_one_is_out_of_order_and_a_correction_is_not():
    verdict = verdict_of(replace(PAIR, emit=CORRECTED), [A, B], made([*FIRST[1:], FIRST[0]], LATER))
    assert (verdict.out_of_order, verdict.changed.corrected.sound) == (1, True)


COUNT = Aggregate("n", "COUNT", None, None, Kind.INT)
KEY = Output("k", col(0, "k"))
ROWS = [Row(1, 1), Row(3, 2), Row(12, 1), Row(4, 1, met=15), Row(5, 3, met=15), Row(31, 1), Row(6, 2, met=31)]
WINDOWS = [(0, 1, 1), (0, 2, 1), (10, 1, 1), (30, 1, 1), (0, 1, 2), (0, 3, 1)]
SAYS = [*[(INSERT, 0, False)] * 4, (UPDATE, 1, True), (INSERT, 0, True)]
COUNTED = aggregate(10, None, COUNT, keys=[KEY])


def windows(rows, says, clocks=None):
    starts, keys, counts = zip(*rows, strict=True)
    return changes(
        pa.table(
            {
                "window_start": pa.array(starts, UTC), "window_end": pa.array([start + 10 for start in starts], UTC),
                "k": pa.array(keys, pa.int64()), "n": pa.array(counts, pa.int64()),
            }
        ), *says, clocks=clocks,
    )  # fmt: skip


def corrected_windows(rows=WINDOWS, says=SAYS, reach=10):
    return verdict_of(replace(COUNTED, emit=Emit(corrections=True, correctable=reach)), [ROWS], windows(rows, says))


def test_a_window_is_judged_as_it_was_first_and_as_it_is_after_corrections():
    verdict = corrected_windows()
    assert (verdict.results, verdict.true_results, verdict.missing_late, verdict.sound) == (4, 5, 3, True)
    after = verdict.changed.corrected
    # The last tuple met the watermark 31 when its window could be corrected up to 20.
    assert (after.results, after.missing_late, after.missing_unexplained, after.fulfilment(0)) == (5, 1, 0, 0.8)
    assert verdict.to_json()["corrected"]["exact"] == 0.8


def test_a_window_that_may_still_be_corrected_must_be():
    assert corrected_windows(reach=21).changed.corrected.missing_unexplained == 1
    assert not corrected_windows(WINDOWS[:5], SAYS[:5]).sound
    assert corrected_windows(WINDOWS[:4], SAYS[:4], reach=4).sound
    assert not corrected_windows(WINDOWS[:4], SAYS[:4], reach=5).sound


def test_a_first_answer_that_is_changed_without_a_late_tuple_is_unexplained_after_corrections():
    verdict = corrected_windows([*WINDOWS, (10, 1, 2)], [*SAYS, (UPDATE, 1, True)])
    assert (verdict.missing_unexplained, verdict.changed.corrected.missing_unexplained) == (0, 1)


@pytest.mark.parametrize(
    ("row", "says", "what"),
    [
        ((0, 1, 2), (UPDATE, 1, True), "a version that has left before"),
        ((0, 1, 2), (UPDATE, 3, True), "a version before its turn"),
        ((0, 1, 2), (UPDATE, -1, True), "a version after its turn"),
        ((0, 1, 2), (INSERT, 2, True), "an insert of what is there"),
        ((0, 1, 2), ("upsert", 2, True), "a change that there is not"),
        ((40, 1, 2), (UPDATE, 0, True), "a change of what is not there"),
        ((40, 1, 2), (DELETE, 0, True), "a change of what is not there"),
    ],
)
def test_a_change_that_breaks_the_rules_is_named(row, says, what):
    verdict = corrected_windows([*WINDOWS, row], [*SAYS, says])
    assert [(fault.what, fault.rows) for fault in verdict.changed.faults] == [(what, 1)]
    assert verdict.to_json()["change_faults"] == {what: 1}
    assert not verdict.sound


def test_what_is_deleted_is_not_there_and_may_come_again():
    again = [*WINDOWS, (0, 3, 1), (0, 3, 1)]
    assert corrected_windows(again, [*SAYS, (DELETE, 1, True), (INSERT, 2, True)]).sound
    gone = corrected_windows(again[:-1], [*SAYS, (DELETE, 1, True)])
    assert (gone.changed.faults, gone.changed.corrected.missing_unexplained) == ((), 1)


def test_rows_of_open_windows_are_no_answers_and_are_looked_at_by_themselves():
    rows = [Row(2, 1), Row(4, 1), Row(6, 1), Row(12, 1)]
    query = replace(aggregate(10, None, COUNT, keys=[KEY]), emit=Emit(EARLY, error=0.5))
    given_rows = [(0, 1, 1), (0, 1, 2), (0, 1, 3), (10, 1, 1)]
    says = [(INSERT, 0, True), (UPDATE, 1, True), (UPDATE, 2, False), (INSERT, 0, False)]
    table = windows(given_rows, says, clocks=[2, 4, 12, None])
    table = table.append_column("_expected_error", pa.array([0.5, 0.4, None, None], pa.float64()))
    verdict = verdict_of(query, [rows], table)
    assert (verdict.results, verdict.missing, verdict.sound) == (2, 0, True)
    early = verdict.changed.early
    assert (early.rows, early.results, early.first_after, early.near_after, early.final_after) == (2, 1, 2, 4, 12)
    # The first was off by two thirds, the second by one third.
    assert (early.near, early.covered) == (0.5, 0.5)
    assert verdict.changed.corrected is None
    assert verdict.to_json()["early"]["final_after_ms"] == 0.012


def test_a_row_of_an_open_window_that_is_taken_back_is_no_answer():
    query = replace(aggregate(10, None, COUNT, keys=[KEY]), emit=Emit(EARLY, every=5))
    table = windows([(0, 1, 1), (0, 2, 1), (0, 2, 1)], [(INSERT, 0, False), (INSERT, 0, True), (DELETE, 1, False)])
    verdict = verdict_of(query, [[Row(1, 1)]], table)
    assert (verdict.results, verdict.sound, verdict.changed.early.covered) == (1, True, None)


def test_distinct_rows_are_those_of_all_tuples_that_could_still_be_corrected():
    rows = [Row(5, 1), Row(13, 1), Row(1, 1, met=6), Row(30, 2), Row(2, 2, met=28)]
    query = DistinctQuery(
        (stream("s", 10),), (KEY,), Complete(), Options(), emit=Emit(corrections=True, correctable=10)
    )  # fmt: skip

    def answer(times, keys):
        return pa.table({"k": pa.array(keys, pa.int64()), "_ts": pa.array(times, UTC)})

    # In time 5 and 30 leave. With the late tuple 1 leaves instead of 5, and 13 as well.
    table = changes(
        answer([5, 30, 1, 5, 13], [1, 2, 1, 1, 1]),
        (INSERT, 0, False), (INSERT, 0, False), (INSERT, 0, True), (DELETE, 1, True), (INSERT, 0, True),
    )  # fmt: skip
    verdict = verdict_of(query, [rows], table)
    assert (verdict.results, verdict.spurious, verdict.sound) == (2, 0, True)
    after = verdict.changed.corrected
    assert (after.results, after.spurious, after.missing_late, after.missing_unexplained) == (3, 0, 1, 0)
    assert not verdict_of(query, [rows], table.slice(0, 4)).sound


COUNTED_PAIRS = """SELECT k, COUNT(*) AS n FROM
    (SELECT a.k AS k FROM a [3 us], b [3 us] WHERE a.k = b.k) j [10 us] GROUP BY k"""
PAIRED_A, PAIRED_B = [Row(1, 1), Row(12, 1)], [Row(2, 1), Row(13, 1)]


def test_above_corrected_rows_a_late_tuple_counts_in_every_window_that_is_open():
    query = bind(f"{COUNTED_PAIRS} EMIT IN ORDER WITH CORRECTIONS FOR 2 us", {"a": SCHEMA, "b": SCHEMA}).query
    for met, first, *sound in ((8, 2, True, True), (12, 1, False, True), (13, 1, True, False)):
        inputs = [given(PAIRED_A), given([*PAIRED_B[:1], Row(3, 1, met=met), *PAIRED_B[1:]])]
        for corrected in (False, True):
            rows = [(0, 1, first), (10, 1, 1), *([(0, 1, 2)] if corrected else [])]
            says = [(INSERT, 0, False)] * 2 + [(UPDATE, 1, True)] * corrected
            verdict = judge(query, inputs, windows(rows, says), period=10, interval=1)
            assert verdict.missing_unexplained == 0
            # The window ends at 10: what met 8 is in time for it, what met 12 for its correction.
            assert verdict.sound == sound[corrected], (met, corrected)
        wrong = judge(query, inputs, windows([(0, 1, 3 - first), (10, 1, 1)], says[:2]), period=10, interval=1)
        assert not wrong.sound
