"""The truth of a join whose windows follow rates, for the windows that were in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.rates import Resize
from slackwater.core.time import BEFORE_ALL
from slackwater.language.bind import bind
from slackwater.language.bound import JoinQuery, Match, RateWindow
from slackwater.sources.files import schema_of
from slackwater.verify import Verdict, judge
from tests.verify.cases import Row, join, same
from tests.verify.cases import given as rows_of

PAIR = join([None, None])
AT_FIRST = Resize(BEFORE_ALL, (2, 2), 100)


def rated(query: JoinQuery = PAIR) -> JoinQuery:
    streams = tuple(replace(stream, window=RateWindow(10)) for stream in query.streams)
    return replace(query, streams=streams, match=Match(None))


def judged(
    first: list[Row], second: list[Row], resizes: list[Resize], produced: list[tuple[int, int, int]], **options: Any
) -> Verdict:
    rows = {
        "k": pa.array([first[a].k for a, _, _ in produced], pa.int64()),
        "_row_s0": pa.array([a for a, _, _ in produced], pa.int64()),
        "_row_s1": pa.array([b for _, b, _ in produced], pa.int64()),
        "_ts": pa.array([ts for _, _, ts in produced], pa.int64()),
    }
    inputs = [rows_of(first), rows_of(second)]
    return judge(rated(options.get("query", PAIR)), inputs, pa.table(rows), resizes=[AT_FIRST, *resizes])


def test_a_tuple_that_was_pushed_out_has_no_results() -> None:
    first = [Row(1), Row(2), Row(3)]
    found = judged(first, [Row(5)], [], [(1, 0, 5), (2, 0, 5)])
    assert (found.true_results, found.missing, found.spurious) == (2, 0, 0)
    assert judged(first, [Row(5)], [], [(0, 0, 5), (1, 0, 5), (2, 0, 5)]).spurious == 1


def test_a_smaller_window_lets_go_and_a_larger_one_takes_nothing_back() -> None:
    """From 4 on one tuple of the first stream is left; from 6 on there is room for three, and 1 and 2 stay away."""
    first = [Row(1), Row(2), Row(3), Row(7)]
    resizes = [Resize(4, (1, 2), 100), Resize(6, (3, 2), 100)]
    found = judged(first, [Row(5), Row(8)], resizes, [(2, 0, 5), (3, 0, 7), (2, 1, 8), (3, 1, 8)])
    assert (found.true_results, found.missing, found.spurious) == (4, 0, 0)


def test_of_two_changes_at_one_time_the_later_one_counts() -> None:
    first, resizes = [Row(1), Row(2)], [Resize(4, (9, 9), 100), Resize(4, (1, 2), 100)]
    found = judged(first, [Row(4)], resizes, [(1, 0, 4)])
    assert (found.true_results, found.missing, found.spurious) == (1, 0, 0)


def test_what_is_in_force_counts_for_tuples_of_its_very_time() -> None:
    first = [Row(1), Row(2)]
    found = judged(first, [Row(4)], [Resize(4, (1, 2), 100)], [(1, 0, 4)])
    assert (found.true_results, found.missing, found.spurious) == (1, 0, 0)


def test_times_match_within_what_is_in_force_when_the_newer_one_comes() -> None:
    resizes = [Resize(10, (9, 9), 3)]
    found = judged(
        [Row(1), Row(11)], [Row(4), Row(8), Row(14)], resizes, [(0, 0, 4), (0, 1, 8), (1, 1, 11), (1, 2, 14)]
    )
    assert (found.true_results, found.missing, found.spurious) == (4, 0, 0)
    found = judged(
        [Row(1), Row(11)], [Row(4), Row(8), Row(15)], resizes, [(0, 0, 4), (0, 1, 8), (1, 1, 11), (1, 2, 15)]
    )
    assert (found.true_results, found.missing, found.spurious) == (3, 0, 1)


def test_windows_let_go_when_time_moves_on_so_the_order_of_equal_times_is_free() -> None:
    """At 5 a third tuple of the first stream and one of the second: 1 is in the window still, and gone at 6."""
    first, second = [Row(1), Row(2), Row(5)], [Row(5), Row(6)]
    right = [(0, 0, 5), (1, 0, 5), (2, 0, 5), (1, 1, 6), (2, 1, 6)]
    found = judged(first, second, [], right)
    assert (found.true_results, found.missing, found.spurious) == (5, 0, 0)
    assert judged(first, second, [], right[1:]).missing_unexplained == 1
    assert judged(first, second, [], [*right, (0, 1, 6)]).spurious == 1


def test_a_late_tuple_is_in_no_window_and_in_the_truth() -> None:
    first = [Row(1), Row(2), Row(3, met=4)]
    found = judged(first, [Row(5)], [], [(0, 0, 5), (1, 0, 5)])
    assert (found.true_results, found.missing_late, found.displaced, found.sound) == (2, 1, 1, True)


def test_conditions_hold_and_do_not_change_what_windows_hold() -> None:
    query = join([None, None], same("k", 0, 1))
    first = [Row(1, k=7), Row(2, k=8), Row(3, k=8)]
    found = judged(first, [Row(5, k=7), Row(6, k=8)], [], [(1, 1, 6), (2, 1, 6)], query=query)
    assert (found.true_results, found.missing, found.spurious) == (2, 0, 0)


SCHEMAS = {name: schema_of(name, pa.table({"ts": [1], "k": [1]}), "ts") for name in "abc"}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k FROM a [RATE 1 s], b [RATE 1 s], c [RATE 1 s] MATCH TIME",
        "SELECT j.k FROM (SELECT a.k FROM a [RATE 1 s], b [RATE 1 s]) j [RATE 1 s], c [RATE 1 s] MATCH TIME",
        "SELECT COUNT(*) AS n FROM (SELECT a.k FROM a [RATE 1 s], b [RATE 1 s]) j [RANGE 1 s]",
    ],
)
def test_several_operators_are_refused_in_a_sentence(query: str) -> None:
    bound = bind(query, SCHEMAS).query
    with pytest.raises(UsageError, match="one by one"):
        judge(bound, [rows_of([])] * (3 if " c " in query else 2), pa.table({}))
