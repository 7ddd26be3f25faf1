"""Windows that count tuples."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from tests.runtime.streams import Runtime, arrived, at, one

COLUMNS = {"k": pa.int64(), "v": pa.int64()}
LAST_TWO = "SELECT a.v AS av, b.v AS bv FROM a [ROWS 2], b [RANGE 1 MINUTE] WHERE a.k = b.k AND a.v > 0 WITH "
STREAMS = arrived(
    COLUMNS,
    ("a", 1000, 1, 1), ("a", 2000, 2, 2), ("b", 2500, 1, 10), ("a", 4000, 1, 4), ("a", 3000, 9, 0), ("b", 4500, 2, 20),
    ("b", 5000, 1, 30),
)  # fmt: skip
READINGS = one(COLUMNS, (1, 1, 10), (2, 2, 20), (4, 1, 40), (3, 1, 30), (5, 2, 50), (9, 1, 90), (7, 1, 70))


@pytest.mark.parametrize("epoch", ["1", "2", "1000"])
def test_a_member_is_among_the_last_of_its_stream_whatever_its_key_and_age(runtime: Runtime, epoch: str) -> None:
    """When b comes at 2500 the last two of a are 1 and 2; at 4500 they are 2 and 4. What WHERE drops does not count."""
    ran = runtime.run(LAST_TWO + "DELAY 10 SECONDS", STREAMS, epoch)
    assert sorted(ran.rows("_ts", "av", "bv")) == [
        (at(2500), 1, 10), (at(4000), 4, 10), (at(4500), 2, 20), (at(5000), 4, 30),
    ]  # fmt: skip
    verdict = runtime.verify(LAST_TWO + "DELAY 10 SECONDS", STREAMS, epoch)
    assert (verdict.true_results, verdict.missing, verdict.spurious, verdict.displaced) == (4, 0, 0, 0)


@pytest.mark.local_only("late tuples are told before the operator, on every runtime")
def test_a_late_tuple_enters_no_window_that_counts(runtime: Runtime) -> None:
    streams = arrived(
        COLUMNS,
        ("a", 1000, 1, 1), ("b", 1000, 7, 0), ("a", 4000, 2, 4), ("b", 4000, 7, 0),
        ("a", 3000, 1, 3), ("b", 3500, 1, 5), ("b", 5000, 1, 6), ("a", 6000, 8, 9),
    )  # fmt: skip
    ran = runtime.run(LAST_TWO + "NO WAIT", streams, "2")
    assert ran.rows("_ts", "av", "bv") == [(at(5000), 1, 6)], "in the place of the late one, which is not there"
    assert (ran.late["a"].num_rows, ran.late["b"].num_rows) == (1, 1)
    verdict = runtime.verify(LAST_TWO + "NO WAIT", streams, "2")
    assert (verdict.missing_late, verdict.displaced, verdict.sound, verdict.recall_overall) == (3, 1, True, 0.0)


@pytest.mark.local_only("rows are counted where they are made, on every runtime")
def test_counts_are_those_of_the_rows(runtime: Runtime) -> None:
    query = "SELECT a.v AS av FROM a [ROWS 2], b [ROWS 2] WHERE a.k = b.k WITH DELAY 10 SECONDS"
    counted = runtime.run(query, STREAMS, "1000", count_only=True)
    assert counted.rows("second", "count") == [(at(2000), 1), (at(4000), 1), (at(5000), 1)]
    assert runtime.verify(query, STREAMS, "1000", count_only=True).sound


@pytest.mark.local_only("the plan is refused on every runtime")
@pytest.mark.parametrize("option", ["shape = 'binary'", "join = 'hash'"])
def test_trees_and_algorithms_of_windows_of_time_are_refused(runtime: Runtime, option: str) -> None:
    query = f"SELECT a.v AS av FROM a [ROWS 2], b [ROWS 2] WHERE a.k = b.k OPTIONS ({option})"
    with pytest.raises(UsageError, match=r"windows of (rows|time)"):
        runtime.run(query, STREAMS)


@pytest.mark.parametrize("epoch", ["1", "2", "1000"])
def test_a_window_of_rows_is_emitted_when_it_is_full_and_at_the_end_if_it_never_was(
    runtime: Runtime, epoch: str
) -> None:
    query = "SELECT COUNT(*) AS n, SUM(v) AS total, MAX(ts) AS last FROM s [ROWS 4 SLIDE 2] WITH DELAY 3 MS"
    ran = runtime.run(query, READINGS, epoch)
    assert ran.rows("window_start", "window_end", "n", "total", "last") == [
        (at(1), at(4), 4, 100, at(4)),
        (at(3), at(7), 4, 190, at(7)),
        (at(5), at(9), 3, 210, at(9)),
        (at(9), at(9), 1, 90, at(9)),
    ]
    assert runtime.verify(query, READINGS, epoch).missing == 0


def test_groups_are_formed_inside_of_a_window_of_rows(runtime: Runtime) -> None:
    query = "SELECT k, COUNT(*) AS n FROM s [ROWS 4] WHERE v <> 20 GROUP BY k WITH DELAY 3 MS"
    ran = runtime.run(query, READINGS, "2")
    assert sorted(ran.rows("window_end", "k", "n")) == [(at(5), 1, 3), (at(5), 2, 1), (at(9), 1, 2)]
    assert runtime.verify(query, READINGS, "2").missing == 0


@pytest.mark.local_only("tuple release")
def test_a_late_tuple_has_no_number(runtime: Runtime) -> None:
    query = "SELECT SUM(v) AS total FROM s [ROWS 3] WITH NO WAIT"
    ran = runtime.run(query, READINGS, "1")
    assert ran.rows("window_start", "window_end", "total") == [(at(1), at(4), 70), (at(5), at(9), 140)]
    verdict = runtime.verify(query, READINGS, "1")
    assert (verdict.true_results, verdict.missing_late, verdict.displaced, verdict.sound) == (3, 3, 2, True)
