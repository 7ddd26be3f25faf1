"""Values and queries that people come up with: right, or refused in one sentence, and soon."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import DataError, QueryError, UsageError

ONE = pa.table(
    {
        "ts": [1],
        "d": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "name": ["a" * 100],
        "day": pa.array([date(2024, 1, 31)]),
    }
)


def selected(items: str, table: pa.Table = ONE) -> list[dict[str, Any]]:
    rows = sw.replay(f"SELECT {items} FROM s WITH NO WAIT", {"s": table}).results
    return rows.drop_columns(["_ts"]).to_pylist()


def test_a_written_decimal_keeps_all_its_digits() -> None:
    amounts = pa.array([Decimal("1234567890123456.78"), Decimal("1234567890123456.80")], pa.decimal128(18, 2))
    rows = selected(
        "w = 1234567890123456.78 AS same, w - 1234567890123456.78 AS more, w IN (1234567890123456.78, 2.5) AS one",
        pa.table({"ts": [1, 2], "w": amounts}),
    )
    assert [(row["same"], row["more"], row["one"]) for row in rows] == [
        (True, Decimal("0.00"), True),
        (False, Decimal("0.02"), False),
    ]
    with pytest.raises(QueryError, match="more digits than a decimal can hold"):
        selected("d = 1.00000000000000000001 AS x")


def test_decimals_are_cast_and_written() -> None:
    casts = "CAST(d AS DOUBLE) AS f, CAST(-d AS INT) AS i, CAST(d AS STRING) AS t, CAST(d AS BOOLEAN) AS b"
    assert selected(f"{casts}, 'x' || d AS c") == [{"f": 1.5, "i": -1, "t": "1.50", "b": True, "c": "x1.50"}]
    with pytest.raises(UsageError, match="cannot take or give decimal"):
        sw.register("odd", lambda x: x, args=[sw.Kind.DECIMAL], result=sw.Kind.FLOAT)


def test_a_date_that_is_cast_to_a_timestamp_is_one() -> None:
    assert selected("CAST(day AS TIMESTAMP) AS t") == [{"t": datetime(2024, 1, 31, tzinfo=UTC)}]


def test_like_takes_no_longer_for_many_wildcards() -> None:
    begun = time.perf_counter()
    items = "name LIKE '%a%a%a%a%a%a%a%c' AS l, name LIKE 'a%a%_a' AS m, name LIKE '%' AS n, name LIKE '%b%' AS o"
    assert selected(items) == [{"l": False, "m": True, "n": True, "o": False}]
    assert time.perf_counter() - begun < 30


def test_a_long_chain_of_ors_is_a_list() -> None:
    either = " OR ".join(f"d = {n}" for n in range(1000))
    assert "IN (" in sw.explain(f"SELECT ts FROM s WHERE {either}", s=ONE)
    assert selected(f"CASE WHEN {either} OR d = 1.5 THEN 1 ELSE 0 END AS found") == [{"found": 1}]


def test_fields_of_pushed_structs_and_decimals_of_few_digits_are_read() -> None:
    schema = pa.schema([("ts", pa.int64()), ("st", pa.struct([("t", pa.string())])), ("d", pa.decimal128(7, 2))])
    live = sw.live("SELECT st.t, d FROM a WITH NO WAIT", {"a": schema})
    live.push("a", pa.table([[1], [{"t": "q"}], [Decimal("2.00")]], schema=schema))
    live.push("a", [{"ts": 2, "st": {"t": "r"}, "d": Decimal("1.50")}])
    assert live.close().results.select(["t", "d"]).to_pylist() == [{"t": "r", "d": Decimal("1.50")}]


def test_a_rejected_row_may_hold_a_date_that_no_calendar_has() -> None:
    days = pa.array([0, 1, 2, 2932897], pa.int32()).cast(pa.date32())
    table = pa.table({"ts": [1, 2, 3, 4], "v": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()), "day": days})
    answer = sw.replay("SELECT SUM(v) AS x FROM s [1 s] WITH NO WAIT", {"s": table})
    assert answer.results["x"].to_pylist() == [6]
    assert answer.report["rejected"] == 1


def test_dates_among_datetimes_are_refused_and_not_cut() -> None:
    with pytest.raises(DataError, match="mixes dates and datetimes"):
        sw.replay("SELECT ts FROM s", {"s": [{"ts": date(2024, 1, 1)}, {"ts": datetime(2024, 1, 1, 0, 5)}]})


def test_an_empty_cell_of_a_csv_file_is_null_whatever_the_others_hold(tmp_path: Any) -> None:
    (tmp_path / "s.csv").write_text("ts,name\n1000,\n2000,x\n")
    rows = sw.replay("SELECT name FROM s WITH NO WAIT", {"s": tmp_path / "s.csv"}).results
    assert rows["name"].to_pylist() == [None, "x"]
