"""Landmark windows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.runtime.streams import Runtime, at, one

COLUMNS = {"kind": pa.string(), "v": pa.int64()}
TRIP = one(
    COLUMNS,
    (1, "x", 1), (2, "begin", 2), (4, "end", 4), (3, "begin", 3), (5, "x", 5), (6, "both", 6), (8, "begin", 8),
    (7, "end", 7), (9, "x", 9),
)  # fmt: skip
FROM_TO = "FROM s [START WHEN kind IN ('begin', 'both') END WHEN kind IN ('end', 'both')] WITH "


@pytest.mark.parametrize("epoch", ["1", "2", "1000"])
def test_a_window_goes_from_landmark_to_landmark_both_included(runtime: Runtime, epoch: str) -> None:
    """A second START inside of a window opens none, and an END outside of one closes none; one tuple may do both."""
    query = f"SELECT COUNT(*) AS n, SUM(v) AS total, MEDIAN(v) AS mid {FROM_TO} DELAY 2 MS"
    ran = runtime.run(query, TRIP, epoch)
    assert ran.rows("window_start", "window_end", "n", "total", "mid") == [
        (at(2), at(4), 3, 9, 3.0),
        (at(6), at(6), 1, 6, 6.0),
        (at(8), at(9), 2, 17, 8.5),
    ]
    assert runtime.verify(query, TRIP, epoch).missing == 0


@pytest.mark.parametrize("epoch", ["1", "2", "1000"])
def test_a_window_without_end_answers_at_every_slide_in_which_something_came(runtime: Runtime, epoch: str) -> None:
    query = (
        "SELECT kind, COUNT(*) AS n, MAX(v) AS high FROM s [START WHEN v = 3 SLIDE 2 MS] GROUP BY kind WITH DELAY 2 MS"
    )
    ran = runtime.run(query, TRIP, epoch)
    assert sorted(ran.rows("window_end", "kind", "n", "high")) == [
        (at(4), "begin", 1, 3),
        (at(6), "begin", 1, 3), (at(6), "end", 1, 4), (at(6), "x", 1, 5),
        (at(8), "begin", 1, 3), (at(8), "both", 1, 6), (at(8), "end", 2, 7), (at(8), "x", 1, 5),
        (at(10), "begin", 2, 8), (at(10), "both", 1, 6), (at(10), "end", 2, 7), (at(10), "x", 2, 9),
    ]  # fmt: skip
    assert set(ran.rows("window_start")) == {(at(3),)}
    assert runtime.verify(query, TRIP, epoch).missing == 0


@pytest.mark.local_only("tuple release")
def test_a_late_tuple_neither_opens_nor_closes_a_window(runtime: Runtime) -> None:
    ran = runtime.run(f"SELECT COUNT(*) AS n {FROM_TO} NO WAIT", TRIP, "1")
    assert ran.rows("window_start", "window_end", "n") == [(at(2), at(4), 2), (at(6), at(6), 1), (at(8), at(9), 2)]
    verdict = runtime.verify(f"SELECT COUNT(*) AS n {FROM_TO} NO WAIT", TRIP, "1")
    assert (verdict.true_results, verdict.missing_late, verdict.displaced, verdict.sound) == (3, 1, 1, True)
