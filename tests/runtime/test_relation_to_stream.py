"""ISTREAM, DSTREAM and RSTREAM."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from tests.runtime.streams import Runtime, arrived, at, one

COLUMNS = {"k": pa.int64(), "v": pa.int64()}
JOIN = "a.v AS av, b.v AS bv FROM a [5 SEC], b [2 SEC] WHERE a.k = b.k WITH DELAY 10 SECONDS"
STREAMS = arrived(
    COLUMNS,
    ("a", 0, 1, 10), ("b", 4000, 1, 20), ("a", 3500, 1, 11), ("a", 9000, 2, 12), ("b", 9000, 2, 21),
)  # fmt: skip
INSTANT = timedelta(microseconds=1)


@pytest.mark.parametrize("epoch", ["1", "2", "1000"])
def test_a_result_leaves_when_its_first_member_has_left_its_window(runtime: Runtime, epoch: str) -> None:
    """(10, 20) is in force until 5000, when a leaves; (11, 20) until 6000, when b does; (12, 21) until 11000."""
    ran = runtime.run(f"SELECT DSTREAM {JOIN}", STREAMS, epoch)
    assert ran.rows("_ts", "av", "bv") == [
        (at(5000) + INSTANT, 10, 20), (at(6000) + INSTANT, 11, 20), (at(11000) + INSTANT, 12, 21),
    ]  # fmt: skip
    verdict = runtime.verify(f"SELECT DSTREAM {JOIN}", STREAMS, epoch)
    assert (verdict.true_results, verdict.missing, verdict.spurious) == (3, 0, 0)


@pytest.mark.parametrize("epoch", ["1", "2", "1000"])
def test_what_is_in_force_is_given_at_every_multiple_of_the_period(runtime: Runtime, epoch: str) -> None:
    ran = runtime.run(f"SELECT RSTREAM EVERY 2 SECONDS {JOIN}", STREAMS, epoch)
    assert sorted(ran.rows("_ts", "av")) == [(at(4000), 10), (at(4000), 11), (at(6000), 11), (at(10000), 12)]
    assert runtime.verify(f"SELECT RSTREAM EVERY 2 SECONDS {JOIN}", STREAMS, epoch).missing == 0


@pytest.mark.local_only("one runtime suffices: what leaves is told from tuples before")
def test_the_rows_of_an_aggregate_are_the_same_whichever_way_they_leave(runtime: Runtime) -> None:
    """When they leave, tests/operators/test_ways_out.py says; here, that they are the same rows."""
    streams = one(COLUMNS, (1, 1, 10), (3, 1, 30), (5, 1, 50), (6, 1, 60), (20, 1, 0))
    rows = {}
    for way in ("ISTREAM", "DSTREAM", "RSTREAM"):
        query = f"SELECT {way} SUM(v) AS total FROM s [4 MS SLIDE 2 MS] WITH NO WAIT"
        ran = runtime.run(query, streams, "1")
        rows[way] = ran.rows("window_start", "window_end", "total")
        assert runtime.verify(query, streams, "1").missing == 0
    assert rows["ISTREAM"] == rows["DSTREAM"] == rows["RSTREAM"]
    assert rows["DSTREAM"][1] == (at(0), at(4), 40)


@pytest.mark.local_only("refused before any runtime")
@pytest.mark.parametrize(("options", "count_only"), [("", True), ("OPTIONS (shape = 'binary')", False)])
def test_what_only_results_that_leave_at_once_can_have_is_refused(
    runtime: Runtime, options: str, count_only: bool
) -> None:
    with pytest.raises(UsageError, match="DSTREAM"):
        runtime.run(f"SELECT DSTREAM {JOIN} {options}", STREAMS, count_only=count_only)
