"""MAX_BY and MIN_BY on every runtime: DuckDB's arg_max and arg_min over the same rows, and rules where it has none."""

from __future__ import annotations

import math
import random

import duckdb
import pyarrow as pa

from tests.runtime.streams import Runtime, arrived

COLUMNS = {"k": pa.int64(), "x": pa.float64(), "name": pa.string()}
QUERY = """SELECT k, MAX_BY(name, x) AS high, arg_min(name, x) AS low, MAX_BY(x, ts) AS newest FROM a [1 SEC] GROUP BY k
    WITH DELAY 1 MINUTE"""


def rows_without_ties(seed: int, count: int = 120) -> list[tuple[object, ...]]:
    """Up to two seconds out of order; no two rows have one x or one event time."""
    of = random.Random(seed)
    values = [(at - count / 2) / 4 for at in range(count)]
    of.shuffle(values)
    times = [20 * at for at in range(count)]
    times.sort(key=lambda ts: ts + of.randrange(2000))
    return [
        (
            "a", ts, of.randrange(3), None if of.random() < 0.1 else math.inf if x == max(values) else x,
            None if of.random() < 0.2 else f"n{of.randrange(50)}",
        )
        for ts, x in zip(times, values, strict=True)
    ]  # fmt: skip


def test_these_are_what_duckdb_has_for_rows_without_ties(runtime: Runtime) -> None:
    streams = arrived(COLUMNS, *rows_without_ties(7))
    got = runtime.run(QUERY, streams, "7").rows("k", "high", "low", "newest")
    base = duckdb.connect()
    base.register("a", streams["a"])
    truth = base.execute(
        """SELECT k, arg_max(name, x), arg_min(name, x), arg_max(x, ts) FROM a
        GROUP BY ts // 1000, k"""
    ).fetchall()
    assert sorted(got, key=repr) == sorted(truth, key=repr)
    assert len(got) > 6


def test_rows_with_a_null_are_left_out_nan_is_the_greatest_and_ties_go_to_the_greater_and_the_lesser(
    runtime: Runtime,
) -> None:
    of_low, of_high, of_nan = "b", "c", "d"
    rows = [
        ("a", 5, 0, 1.0, "z"), ("a", 1, 0, None, "x"), ("a", 2, 0, -0.0, of_low), ("a", 3, 0, 0.0, "c"),
        ("a", 4, 0, 9.0, None), ("a", 6, 1, 2.0, "a"), ("a", 7, 1, 2.0, of_high), ("a", 8, 2, math.inf, "z"),
        ("a", 9, 2, math.nan, of_nan), ("a", 10, 3, None, "q"), ("a", 11, 0, -3.0, None),
    ]  # fmt: skip
    query = """SELECT k, MIN_BY(name, x) AS low, MAX_BY(name, x) AS high, any_value(name) AS some FROM a [1 SEC]
        GROUP BY k WITH DELAY 1 MINUTE"""
    found = {
        row[0]: row[1:] for row in runtime.run(query, arrived(COLUMNS, *rows), "2").rows("k", "low", "high", "some")
    }
    assert found == {
        0: (of_low, "z", "x"), 1: ("a", of_high, "a"), 2: ("z", of_nan, "z"), 3: (None, None, "q"),
    }  # fmt: skip
