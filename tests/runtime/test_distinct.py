"""SELECT DISTINCT: which of equal rows are emitted, what is equal, late rows; against a plain loop."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from tests.effort import more
from tests.runtime.streams import Runtime, at, moments, one

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
EPOCHS = ("7", "100", "1", "1000", "1 s")
QUERY = "SELECT DISTINCT k, name FROM s [RANGE 50 MS] WITH {}"


def tuples(count: int, seed: int) -> list[tuple[int, int | None, str | None]]:
    """Rows (ts in ms, k, name) of which many are equal, some with nulls, out of order by up to 60 ms."""
    random = np.random.default_rng(seed)
    rows: list[tuple[int, int | None, str | None]] = []
    for i in range(count):
        k, name = int(random.integers(0, 4)), ("ab", "b", None)[random.integers(0, 3)]
        rows.append((max(10 * i - int(random.integers(0, 7)) * 10, 0), None if k == 3 else k, name))
    return rows


def emitted(rows: list[tuple[int, Any, Any]], size: int) -> list[tuple[datetime, Any, Any]]:
    """What leaves, by looking at every row that has left."""
    left: list[tuple[int, Any, Any]] = []
    for ts, *row in sorted(rows, key=lambda row: row[0]):
        if not any(other == row and ts - then <= size for then, *other in left):
            left.append((ts, *row))
    return [(at(ts), *row) for ts, *row in left]


@pytest.mark.parametrize("epoch", EPOCHS)
def test_rows_are_those_that_a_plain_loop_finds(runtime: Runtime, epoch: str) -> None:
    rows = tuples(400, seed=5)
    query, streams = QUERY.format("DELAY 1 SECOND"), one({"k": INT, "name": TEXT}, *rows)
    ran = runtime.run(query, streams, epoch)
    wanted = emitted(rows, 50)
    assert 100 < len(wanted) < 300
    # Rows of one time may leave in any order.
    assert Counter(ran.rows("_ts", "k", "name")) == Counter(wanted)
    times = ran.results.column("_ts").to_pylist()
    assert times == sorted(times)
    verdict = runtime.verify(query, streams, epoch)
    assert (verdict.results, verdict.true_results, verdict.missing, verdict.sound) == (
        len(wanted),
        len(wanted),
        0,
        True,
    )


def test_a_row_that_is_held_back_holds_nothing_back(runtime: Runtime) -> None:
    streams = one({"v": INT}, *((ts, 1) for ts in range(0, 19_000, 1000)))
    ran = runtime.run("SELECT DISTINCT v FROM s [RANGE 5 SECONDS] WITH DELAY 1 SECOND", streams)
    assert ran.results.column("_ts").to_pylist() == moments([0, 6000, 12_000, 18_000])


def test_both_ends_of_a_window_belong_to_it(runtime: Runtime) -> None:
    query = "SELECT DISTINCT v FROM s [RANGE {} MS] WITH DELAY 1 SECOND"
    streams = one({"v": INT}, (100, 1), (100, 1), (150, 1), (151, 2), (200, 2), (202, 2))
    for size, wanted in ((0, [100, 150, 151, 200, 202]), (50, [100, 151, 202]), (49, [100, 150, 151, 202])):
        assert runtime.run(query.format(size), streams).results.column("_ts").to_pylist() == moments(wanted)


def test_nulls_are_equal_and_so_are_nans_and_zeros(runtime: Runtime) -> None:
    values = [0.0, None, math.nan, -0.0, None, math.nan, 1.0]
    streams = one({"v": FLOAT}, *enumerate(values))
    query = "SELECT DISTINCT v, v AS again FROM s [RANGE 1 SECOND]"
    ran = runtime.run(query, streams)
    assert list(map(str, ran.rows("v", "again"))) == ["(0.0, 0.0)", "(None, None)", "(nan, nan)", "(1.0, 1.0)"]
    assert runtime.verify(query, streams).missing == 0


def test_what_is_computed_is_compared_and_what_is_filtered_holds_nothing_back(runtime: Runtime) -> None:
    query = "SELECT DISTINCT v % 10 AS last, upper(name) AS name FROM s [RANGE 1 SECOND] WHERE v > 0"
    streams = one({"v": INT, "name": TEXT}, (0, -7, "a"), (1, 11, "a"), (2, 21, "A"), (3, 12, "a"), (4, 1, "b"))
    assert runtime.run(query, streams).rows("_ts", "last", "name") == [
        (at(1), 1, "A"),
        (at(3), 2, "A"),
        (at(4), 1, "B"),
    ]
    assert runtime.verify(query, streams).missing == 0


def test_a_late_row_is_not_emitted_and_holds_nothing_back(runtime: Runtime) -> None:
    query = "SELECT DISTINCT v FROM s [RANGE 2 SECONDS] WITH NO WAIT"
    # In time, the third row would hold back the fourth.
    streams = one({"v": INT}, (0, 9), (5000, 1), (3001, 2), (5001, 2), (6000, 3))
    (epoch,) = runtime.offered("1", "1 s")[:1]
    ran = runtime.run(query, streams, epoch)
    assert ran.rows("_ts", "v") == [(at(0), 9), (at(5000), 1), (at(5001), 2), (at(6000), 3)]
    assert ran.late["s"].num_rows == ran.report["late"] == 1
    verdict = runtime.verify(query, streams, epoch)
    assert (verdict.missing_late, verdict.displaced, verdict.results, verdict.sound) == (1, 1, 4, True)


@pytest.mark.parametrize("seed", [0, *more("another seed, here", 1, 2)])
def test_of_late_rows_the_judge_can_explain_everything(runtime: Runtime, seed: int) -> None:
    streams = one({"k": INT, "name": TEXT}, *tuples(300, seed))
    verdict = runtime.verify(QUERY.format("DELAY 20 MS"), streams, runtime.offered("1", "7")[0])
    assert verdict.sound
    assert verdict.missing_late > 0


@pytest.mark.local_only("refused before a runtime is asked")
def test_results_are_not_counted(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="leave out DISTINCT"):
        runtime.run(QUERY.format("NO WAIT"), one({"k": INT, "name": TEXT}, (0, 1, "a")), count_only=True)
