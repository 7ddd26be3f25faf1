"""Window aggregates: edges, functions, groups, late tuples."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from tests.runtime.streams import Runtime, at, one

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
EPOCHS = ("1", "3", "1000", "1 s")
EVERY = """
SELECT COUNT(*) AS n, COUNT(v) AS known, SUM(v) AS total, AVG(v) AS mean, MIN(v) AS low, MAX(v) AS high, VAR(v) AS var,
       STDDEV(v) AS sd, MEDIAN(v) AS mid, QUANTILE(v, 0.25) AS quarter, COUNT(DISTINCT v) AS kinds
FROM s [RANGE 1 SECOND] WITH DELAY 5 SECONDS
"""
NAMES = ("n", "known", "total", "mean", "low", "high", "var", "sd", "mid", "quarter", "kinds")


def same(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    return len(found) == len(wanted) and all(
        x == y or (isinstance(x, float) and isinstance(y, float) and (math.isclose(x, y) or (x != x and y != y)))
        for x, y in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("epoch", EPOCHS)
def test_every_function_gives_what_a_hand_computes(runtime: Runtime, epoch: str) -> None:
    nan = math.nan
    streams = one(
        {"v": FLOAT},
        (100, 4.0), (0, 1.0), (999, 2.0), (500, 1.0), (600, None),
        (1000, 5.0), (2000, None), (3100, 1.0), (3200, nan), (3000, 3.0),
    )  # fmt: skip
    expected = [
        (5, 4, 8.0, 2.0, 1.0, 4.0, 2.0, math.sqrt(2.0), 1.5, 1.0, 3),
        (1, 1, 5.0, 5.0, 5.0, 5.0, None, None, 5.0, 5.0, 1),
        (1, 0, None, None, None, None, None, None, None, None, 0),
        (3, 3, nan, nan, 1.0, nan, nan, nan, 3.0, 2.0, 3),
    ]
    ran = runtime.run(EVERY, streams, epoch)
    for found, wanted in zip(ran.rows(*NAMES), expected, strict=True):
        assert same(found, wanted), (found, wanted)
    assert runtime.verify(EVERY, streams, epoch).missing == 0


def test_integers_stay_integers_where_they_can(runtime: Runtime) -> None:
    ran = runtime.run(EVERY, one({"v": INT}, (0, 2**62), (1, 2**62 - 1), (2, -5)))
    types = {name: ran.results.schema.field(name).type for name in NAMES}
    assert [name for name in NAMES if types[name] == INT] == ["n", "known", "total", "low", "high", "kinds"]
    assert ran.rows("total", "low", "high") == [(2**63 - 6, -5, 2**62)]


@pytest.mark.parametrize("epoch", EPOCHS)
def test_a_window_holds_its_start_and_not_its_end(runtime: Runtime, epoch: str) -> None:
    query = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 500 MS] WITH DELAY 1 SECOND"
    streams = one({"v": INT}, (1000, 1), (1499, 1), (1500, 1), (4000, 1))
    ran = runtime.run(query, streams, epoch)
    assert ran.rows("window_start", "window_end", "n") == [
        (at(500), at(1500), 2),
        (at(1000), at(2000), 3),
        (at(1500), at(2500), 1),
        (at(3500), at(4500), 1),
        (at(4000), at(5000), 1),
    ]


def test_windows_before_1970_are_aligned_like_those_after(runtime: Runtime) -> None:
    ran = runtime.run("SELECT COUNT(*) AS n FROM s [1 SEC]", one({"v": INT}, (-1, 1), (0, 1), (-1000, 1)), "1000")
    assert ran.rows("window_start", "n") == [(at(-1000), 2), (at(0), 1)]


@pytest.mark.parametrize("epoch", EPOCHS)
def test_null_and_nan_form_groups_of_their_own(runtime: Runtime, epoch: str) -> None:
    nan = math.nan
    values = [0.0, None, nan, -0.0, None, nan, 1.0]
    streams = one({"g": FLOAT}, *((i, value) for i, value in enumerate(values)))
    query = "SELECT g, COUNT(*) AS n FROM s [1 SEC] GROUP BY g"
    ran = runtime.run(query, streams, epoch)
    assert sorted((str(g), n) for g, n in ran.rows("g", "n")) == [("0.0", 2), ("1.0", 1), ("None", 2), ("nan", 2)]
    assert runtime.verify(query, streams, epoch).missing == 0


def test_a_computed_group_of_nulls_is_null(runtime: Runtime) -> None:
    query = "SELECT g * 2 AS twice, COUNT(*) AS n FROM s [1 SEC] GROUP BY g * 2"
    streams = one({"g": FLOAT}, (0, 1.5), (1, None), (2, None))
    assert sorted(runtime.run(query, streams).rows("twice", "n"), key=str) == [(3.0, 1), (None, 2)]
    assert runtime.verify(query, streams).missing == 0


@pytest.mark.end_to_end
def test_groups_by_text_and_by_expression(runtime: Runtime) -> None:
    query = "SELECT name, SUM(v) AS total FROM s [1 SEC] WHERE v <> 3 GROUP BY name, v > 1 WITH DELAY 1 SECOND"
    streams = one(
        {"name": TEXT, "v": INT}, (0, "x", 1), (1, "y", 2), (2, "x", 4), (3, "x", 1), (4, None, 1), (5, "x", 3)
    )
    ran = runtime.run(query, streams, "2")
    assert sorted(ran.rows("name", "total"), key=str) == [("x", 2), ("x", 4), ("y", 2), (None, 1)]
    assert ran.report["filtered"] == 1
    assert runtime.verify(query, streams, "2").missing == 0


@pytest.mark.local_only("tuple release")
def test_a_late_tuple_enters_the_windows_that_are_still_open(runtime: Runtime) -> None:
    query = "SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] WITH NO WAIT"
    streams = one({"v": INT}, (500, 1), (2000, 1), (1500, 1), (2500, 1), (9000, 1))
    ran = runtime.run(query, streams, "1")
    assert ran.rows("window_start", "n")[:3] == [(at(-1000), 1), (at(0), 1), (at(1000), 3)]
    assert ran.late["s"].column("ts").to_pylist() == [1500]
    verdict = runtime.verify(query, streams, "1")
    assert (verdict.sound, verdict.missing_late) == (True, 1)


@pytest.mark.parametrize("epoch", EPOCHS)
def test_complete_needs_no_luck_once_slack_begins_high(runtime: Runtime, epoch: str) -> None:
    query = "SELECT SUM(v) AS total FROM s [RANGE 1 SECOND] WITH COMPLETE"
    streams = one({"v": INT}, *((t, 1) for t in (3000, 100, 5000, 2500, 9000, 6500, 8000)))
    ran = runtime.run(query, streams, epoch, initial_slack="3 s")
    assert (ran.report["late"], ran.report["slack_ms"]["max"]) == (0, 3000.0)
    assert sum(total for (total,) in ran.rows("total")) == 7


def test_case_counts_what_it_is_told(runtime: Runtime) -> None:
    query = "SELECT SUM(CASE WHEN v > 2 THEN 1 ELSE 0 END) AS high, MAX(abs(v)) AS far FROM s [1 SEC]"
    streams = one({"v": INT}, (0, 1), (1, 3), (2, -9), (3, None))
    assert runtime.run(query, streams).rows("high", "far") == [(1, 9)]
    assert runtime.verify(query, streams).missing == 0
