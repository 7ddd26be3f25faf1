"""Types of the outside on their way in and out of a query, in the local runtime."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import DataError, QueryError

PRICES = [Decimal("1.50"), Decimal("-0.05"), None, Decimal("9999999.99")]
DAYS = [date(2024, 2, day) for day in (28, 29, 27, 26)]
USERS = [{"user": {"id": 7, "name": "a"}}, None, {"user": None}, {"user": {"id": 8, "name": None}}]


def stream(**columns: pa.Array) -> dict[str, pa.Table]:
    n = len(next(iter(columns.values())))
    return {"s": pa.table({"ts": pa.array(range(n)), **columns})}


def answered(query: str, **columns: pa.Array) -> pa.Table:
    return sw.replay(query, stream(**columns)).results


@pytest.mark.parametrize(
    "column",
    [
        pa.array(PRICES, pa.decimal128(9, 2)),
        pa.array(PRICES, pa.decimal128(9, 2)).cast(pa.decimal256(18, 4)).cast(pa.decimal128(18, 4)),
        pa.array([*DAYS[:3], None], pa.date32()),
        pa.array([datetime(2024, 3, 10, 2, 30), None], pa.timestamp("us")),
        pa.array([0, None, 2**40], pa.timestamp("us", "UTC")),
        pa.array([1, -128, None], pa.int8()),
        pa.array([1.5, None], pa.float32()),
        pa.array([True, None], pa.bool_()),
        pa.array(["text", None], pa.string()),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_comes_back_as_it_was(column):
    whole = answered("SELECT v FROM s WITH COMPLETE", v=column)["v"]
    key = answered("SELECT v, COUNT(*) AS n FROM s [RANGE 1 MS] GROUP BY v WITH COMPLETE", v=column)["v"]
    assert whole.type == key.type == column.type
    assert whole.to_pylist() == key.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("arrow", [pa.decimal32(9, 2), pa.decimal64(9, 2), pa.decimal256(9, 2), None], ids=str)
def test_decimals_of_any_width_in_memory_are_read(arrow):
    column = pa.array(PRICES, pa.decimal128(9, 2))
    column = column.dictionary_encode() if arrow is None else column.cast(arrow)
    assert answered("SELECT v FROM s WITH COMPLETE", v=column)["v"].to_pylist() == PRICES
    assert answered("SELECT v FROM s WITH COMPLETE", v=column.slice(1))["v"].to_pylist() == PRICES[1:]


@pytest.mark.parametrize(
    ("expression", "type_", "values"),
    [
        ("v + 1", pa.decimal128(10, 2), ["2.50", "0.95", None, "10000000.99"]),
        ("v * 1.1", pa.decimal128(11, 3), ["1.650", "-0.055", None, "10999999.989"]),
        ("v - w", pa.decimal128(12, 4), ["-0.0001", "-1.5501", None, "9999998.4899"]),
        ("-abs(v)", pa.decimal128(9, 2), ["-1.50", "-0.05", None, "-9999999.99"]),
        ("round(v, 1)", pa.decimal128(9, 1), ["1.5", "-0.1", None, "10000000.0"]),
        ("coalesce(v, 0)", pa.decimal128(9, 2), ["1.50", "-0.05", "0.00", "9999999.99"]),
        ("CASE WHEN v > 1.49 THEN v END", pa.decimal128(9, 2), ["1.50", None, None, "9999999.99"]),
        ("floor(v)", pa.int64(), [1, -1, None, 9999999]),
        ("ceil(v)", pa.int64(), [2, 0, None, 10000000]),
        ("to_int(v)", pa.int64(), [1, 0, None, 9999999]),
        ("v / 2", pa.float64(), [0.75, -0.025, None, 4999999.995]),
        ("v + x", pa.float64(), [2.0, 0.45, None, 10000000.49]),
    ],
)
def test_decimals_are_computed_exactly(expression, type_, values):
    w, x = pa.array([Decimal("1.5001")] * 4, pa.decimal128(9, 4)), pa.array([0.5] * 4)
    found = answered(
        f"SELECT {expression} AS y FROM s WITH COMPLETE", v=pa.array(PRICES, pa.decimal128(9, 2)), w=w, x=x
    )
    wanted = [Decimal(one) if isinstance(one, str) else one for one in values]
    assert found["y"].type == type_
    assert found["y"].to_pylist() == (pytest.approx(wanted) if type_ == pa.float64() else wanted)


def test_sums_and_averages_of_decimals_are_decimals():
    query = "SELECT SUM(v) AS total, AVG(v) AS mean, MIN(v) AS least, MEDIAN(v) AS middle, COUNT(DISTINCT v) AS n"
    found = answered(f"{query} FROM s [RANGE 1 SECOND] WITH COMPLETE", v=pa.array(PRICES, pa.decimal128(9, 2)))
    assert found.select(["total", "mean", "least"]).schema.types == [
        pa.decimal128(19, 2), pa.decimal128(13, 6), pa.decimal128(9, 2)
    ]  # fmt: skip
    assert found.drop_columns(["window_start", "window_end"]).to_pylist() == [
        {"total": Decimal("10000001.44"), "mean": Decimal("3333333.813333"), "least": Decimal("-0.05"),
         "middle": 1.5, "n": 3}
    ]  # fmt: skip


def test_a_decimal_beyond_64_bits_is_an_error_and_no_wrong_number():
    wide = pa.array([Decimal(10**17)], pa.decimal128(18, 0))
    with pytest.raises(DataError, match="overflow"):
        answered("SELECT v * 1000 AS y FROM s WITH COMPLETE", v=wide)


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ("SELECT w FROM s", "column 'w' of stream s holds decimal(38, 10); at most 18 digits can be read; cast it to"),
        ("SELECT AVG(v) AS m FROM s [1 s]", "v is decimal(18, 9), and an exact average of it has more than 18 digits"),
        ("SELECT v * v * v AS y FROM s", "this product has 27 digits behind the point"),
        (
            "SELECT v FROM s UNION ALL SELECT u FROM s",
            "column 'u' is decimal(9, 2) here, and 'v' of the first query is",
        ),
        ("SELECT b FROM s", "column 'b' of stream s holds binary, which a query cannot read"),
    ],
)
def test_what_cannot_be_exact_is_refused_by_name(query, reported):
    columns = {
        "v": pa.array([Decimal(1)], pa.decimal128(18, 9)),
        "u": pa.array([Decimal(1)], pa.decimal128(9, 2)),
        "w": pa.array([Decimal(1)], pa.decimal128(38, 10)),
        "b": pa.array([b"x"]),
    }
    with pytest.raises(QueryError) as error:
        answered(query, **columns)
    assert reported in str(error.value)


def test_decimals_of_different_scale_are_joined_and_dates_compared():
    a = pa.table(
        {
            "ts": [1, 2],
            "arrival": [1, 3],
            "p": pa.array([Decimal("1.50"), Decimal(2)], pa.decimal128(9, 2)),
            "d": DAYS[:2],
        }
    )
    b = pa.table(
        {
            "ts": [1, 2],
            "arrival": [2, 4],
            "p": pa.array([Decimal("1.5"), Decimal(3)], pa.decimal128(9, 4)),
            "d": DAYS[:2],
        }
    )
    found = sw.replay(
        "SELECT a.p, b.p, a.d FROM a [1 s], b [1 s] WHERE a.p = b.p AND a.d <= '2024-02-28' WITH COMPLETE",
        {"a": a, "b": b},
    )
    (row,) = found.results.drop_columns("_ts").to_pylist()
    assert row == {"a_p": Decimal("1.50"), "b_p": Decimal("1.5000"), "d": date(2024, 2, 28)}


def test_fields_are_read_by_their_path_and_null_where_anything_above_is():
    query = "SELECT event.user.id, s.event.user.name, EVENT.User.ID + 1 AS next FROM s WITH COMPLETE"
    found = answered(query, event=pa.array(USERS))
    assert found.column_names == ["id", "name", "next", "_ts"]
    assert found["id"].to_pylist() == [7, None, None, 8]
    assert found["name"].to_pylist() == ["a", None, None, None]
    assert found["next"].to_pylist() == [8, None, None, 9]


def test_a_column_with_a_dot_in_its_name_wins_over_a_field_of_that_path():
    columns = {"event": pa.array(USERS), "event.user.id": pa.array([1, 2, 3, 4])}
    for written in ('"event.user.id"', "`event.user.id`", "event.user.id", "s.event.user.id"):
        assert answered(f"SELECT {written} AS v FROM s WITH COMPLETE", **columns)["v"].to_pylist() == [1, 2, 3, 4]


def test_a_field_may_be_the_event_time():
    table = pa.table({"event": pa.array([{"at": 5, "v": 1}, {"at": 6, "v": 2}])})
    found = sw.replay("SELECT event.v FROM s WITH COMPLETE", {"s": table}, time="event.at")
    assert found.results["v"].to_pylist() == [1, 2]


def test_a_star_spreads_fields_and_says_what_it_leaves_out():
    events = pa.array([{"id": 1, "tags": ["a"]}])
    with pytest.warns(UserWarning, match=r"s\.event\.tags \(list<item: string>\) is left out"):
        assert answered("SELECT * FROM s WITH COMPLETE", event=events).column_names == ["ts", "event.id", "_ts"]


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view(), pa.list_(pa.binary_view())], ids=str)
def test_rows_with_views_can_be_late_and_rejected(view):
    value = {pa.string_view(): "x", pa.binary_view(): b"x"}.get(view, [b"x"])
    table = pa.table({"ts": pa.array([1000, 1, None, 2000]), "v": [1, 2, 3, 4], "w": pa.array([value] * 4, view)})
    answer = sw.replay("SELECT v FROM s WITH NO WAIT", {"s": table})
    assert answer.late["s"]["w"].to_pylist() == answer.rejected["s"]["w"].to_pylist() == [value]
    if view == pa.string_view():
        whole = sw.replay("SELECT w FROM s WHERE w = 'x' WITH NO WAIT", {"s": table})
        assert whole.results["w"].to_pylist() == ["x", "x"]


@pytest.mark.parametrize("query", [
    "SELECT n FROM s WITH COMPLETE",
    "SELECT v FROM s WHERE n > 0 WITH COMPLETE",
    "SELECT n, COUNT(*) AS c FROM s [RANGE 1 MS] GROUP BY n WITH COMPLETE",
    "SELECT SUM(n) AS c FROM s [RANGE 1 MS] WITH COMPLETE",
])  # fmt: skip
def test_a_number_that_no_word_can_hold_is_rejected_with_a_reason(query):
    answer = sw.replay(query, stream(n=pa.array([1, 2**63, 2**64 - 1], pa.uint64()), v=pa.array([1, 2, 3])))
    assert answer.results.num_rows == 1
    assert answer.rejected["s"]["reason"].to_pylist() == ["value_out_of_range"] * 2
    assert answer.rejected["s"]["n"].to_pylist() == [2**63, 2**64 - 1]
    assert answer.report["rejected"] == 2


def test_an_event_time_that_no_word_can_hold_is_rejected_with_a_reason():
    table = pa.table({"ts": pa.array([1, 2**63, 2**64 - 1], pa.uint64()), "v": [1, 2, 3]})
    answer = sw.replay("SELECT v FROM s WITH COMPLETE", {"s": table})
    assert answer.results["v"].to_pylist() == [1]
    assert answer.rejected["s"]["reason"].to_pylist() == ["time_out_of_range"] * 2


def test_rows_rejected_by_a_live_query_have_exact_decimals_and_dates():
    columns = {"ts": pa.array([None], pa.int64()), "p": pa.array(PRICES[:1]), "d": pa.array(DAYS[:1])}
    live = sw.live("SELECT p, d FROM s WITH NO WAIT", {"s": pa.table(columns)})
    (row,) = live.close().rejected["s"]["row"].to_pylist()
    assert json.loads(row) == {"ts": None, "p": "1.50", "d": "2024-02-28"}
