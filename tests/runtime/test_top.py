"""The first rows of windows: what comes first, equal rows, nulls, late rows; against DuckDB's own ROW_NUMBER."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from tests.runtime.streams import Runtime, arrived, at

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
EPOCHS = ("1", "7", "1000", "1 s")
PARTS = (
    "ROW_NUMBER() OVER (PARTITION BY window, k ORDER BY {}) AS n FROM s [1 SECOND] QUALIFY n <= 2 WITH DELAY 1 MINUTE"
)


def trace(count: int, seed: int) -> dict[str, pa.Table]:
    """A stream out of order in which many rows are equal, with nulls, NaNs and both zeros."""
    random = np.random.default_rng(seed)
    values: list[float | None] = [None, float("nan"), 0.0, -0.0, 0.5, -2.0, float("inf")]
    rows = [
        (
            "s", max(0, 20 * i - int(random.integers(0, 60)) * 10), int(random.integers(0, 3)),
            values[int(random.integers(0, 7))], ["é", "z", "zz", None][int(random.integers(0, 4))], i // 2,
        )
        for i in range(count)
    ]  # fmt: skip
    return arrived({"k": INT, "x": FLOAT, "name": TEXT, "i": INT}, *rows)


@pytest.mark.parametrize("order", ["x DESC, name", "name DESC NULLS FIRST, x NULLS LAST", "x, i DESC", "k + i % 3"])
def test_rows_are_in_the_order_that_a_database_puts_them_in(runtime: Runtime, order: str) -> None:
    streams = trace(300, 3)
    with duckdb.connect() as connection:
        connection.register("s", streams["s"])
        # As in Spark nulls are least, where nothing else is said.
        items = [
            one if "NULLS" in one else f"{one} NULLS {'LAST' if 'DESC' in one else 'FIRST'}"
            for one in order.split(", ")
        ]
        found = connection.execute(
            "SELECT ts // 1000 AS second, k, i, row_number() OVER (PARTITION BY second, k ORDER BY"
            f" {', '.join(items)}, ts, i) AS n FROM s QUALIFY n <= 2"
        ).fetchall()
    for epoch in runtime.offered(*EPOCHS):
        ran = runtime.run(f"SELECT k, i, {PARTS.format(order)}", streams, epoch)
        rows = [(int(end.timestamp()) - 1, *rest) for end, *rest in ran.rows("window_end", "k", "i", "n")]
        assert Counter(rows) == Counter(found)
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)


def test_groups_are_put_in_order_by_what_need_not_be_selected(runtime: Runtime) -> None:
    rows = [("s", 10 * i, name) for i, name in enumerate(["b", "ab", "b", "é", "ab", "a", "z", "z", None])]
    streams = arrived({"name": TEXT}, *rows)
    query = "SELECT name FROM s [1 SECOND] GROUP BY name ORDER BY COUNT(*) DESC, name LIMIT 5"
    assert [name for (name,) in runtime.run(query, streams).rows("name")] == ["ab", "b", "z", None, "a"]
    flink = """SELECT name, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end
        ORDER BY n DESC, name DESC) AS place FROM (SELECT name, COUNT(*) AS n FROM s [1 SECOND] GROUP BY name))
        WHERE place < 3"""
    assert runtime.run(flink, streams).rows("name", "place") == [("z", 1), ("b", 2)]


def test_of_equal_rows_the_older_is_first_and_then_the_one_that_is_less(runtime: Runtime) -> None:
    rows: list[tuple[Any, ...]] = [("s", 30, 1, "c"), ("s", 20, 1, "b"), ("s", 20, 1, "a"), ("s", 20, 1, None)]
    query = "SELECT name FROM s [1 SECOND] ORDER BY k LIMIT 3 WITH DELAY 1 SECOND"
    for order in (rows, rows[::-1]):
        ran = runtime.run(query, arrived({"k": INT, "name": TEXT}, *order))
        assert ran.rows("name") == [(None,), ("a",), ("b",)]


@pytest.mark.local_only("tuple release; the laws have it in epochs")
def test_a_late_row_counts_while_its_window_is_open(runtime: Runtime) -> None:
    rows = [
        ("s", ts, v) for ts, v in ((100, 5), (900, 6), (200, 9), (1200, 1), (300, 8), (1900, 2), (1300, 7), (3000, 0))
    ]
    query = "SELECT v, ts FROM s [1 SECOND] ORDER BY v DESC LIMIT 1 WITH NO WAIT"
    ran = runtime.run(query, arrived({"v": INT}, *rows), "1")
    assert ran.rows("window_end", "v") == [(at(1000), 9), (at(2000), 7), (at(4000), 0)]
    assert ran.late["s"].num_rows == 3
    verdict = runtime.verify(query, arrived({"v": INT}, *rows), "1")
    assert (verdict.missing_late, verdict.sound) == (0, True)


def test_results_are_not_only_counted(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="leave out LIMIT"):
        runtime.run("SELECT v FROM s [1 SECOND] ORDER BY v LIMIT 1", arrived({"v": INT}, ("s", 0, 1)), count_only=True)
