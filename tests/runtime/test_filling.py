"""Windows that are filled in steps: a window answers every step until it is full, with all since its start."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.runtime.streams import Runtime, at, one

COLUMNS = {"k": pa.string(), "v": pa.int64()}
SALES = one(COLUMNS, (1, "a", 1), (3, "b", 2), (2, "a", 4), (8, "a", 8), (12, "b", 16), (23, "a", 32), (31, "a", 64))
QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 20 MS CUMULATE 5 MS] GROUP BY k WITH {}"


@pytest.mark.end_to_end
@pytest.mark.parametrize("epoch", ["1", "3", "1000"])
def test_a_window_answers_every_step_until_it_is_full(runtime: Runtime, epoch: str) -> None:
    query = QUERY.format("DELAY 2 MS")
    ran = runtime.run(query, SALES, epoch)
    assert sorted(ran.rows("window_start", "window_end", "k", "n", "total")) == [
        (at(0), at(5), "a", 2, 5), (at(0), at(5), "b", 1, 2), (at(0), at(10), "a", 3, 13), (at(0), at(10), "b", 1, 2),
        (at(0), at(15), "a", 3, 13), (at(0), at(15), "b", 2, 18), (at(0), at(20), "a", 3, 13),
        (at(0), at(20), "b", 2, 18), (at(20), at(25), "a", 1, 32), (at(20), at(30), "a", 1, 32),
        (at(20), at(35), "a", 2, 96), (at(20), at(40), "a", 2, 96),
    ]  # fmt: skip
    verdict = runtime.verify(query, SALES, epoch)
    assert (verdict.results, verdict.true_results, verdict.missing, verdict.sound) == (12, 12, 0, True)


@pytest.mark.local_only("tuple release")
def test_a_late_tuple_counts_in_the_answers_that_have_not_left(runtime: Runtime) -> None:
    query = "SELECT MEDIAN(v) AS mid, COUNT(*) AS n FROM s [10 MS CUMULATE 5 MS] WITH NO WAIT"
    late = one({"v": pa.int64()}, (1, 5), (6, 7), (2, 9), (8, 1), (11, 3), (4, 2))
    ran = runtime.run(query, late, "1")
    assert ran.rows("window_start", "window_end", "mid", "n") == [
        (at(0), at(5), 5.0, 1), (at(0), at(10), 6.0, 4), (at(10), at(15), 3.0, 1), (at(10), at(20), 3.0, 1),
    ]  # fmt: skip
    verdict = runtime.verify(query, late, "1")
    assert (verdict.spurious, verdict.missing_unexplained, verdict.sound) == (0, 0, True)
    assert verdict.missing_late > 0
