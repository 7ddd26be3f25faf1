"""Bad input: a bad value costs its row and nothing else."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from slackwater.core.errors import DataError, QueryError
from tests.runtime.streams import Ran, Runtime, arrived, at, one

INT, FLOAT = pa.int64(), pa.float64()
COUNT = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] WITH DELAY 10 SECONDS"
SELECT = "SELECT v FROM s WITH DELAY 10 SECONDS"
DAY = 86_400_000


def reasons(ran: Ran, stream: str = "s") -> list[str]:
    return ran.rejected[stream].column("reason").to_pylist() if stream in ran.rejected else []


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        (pa.array([1000, None, 1100]), ["null_time"]),
        (pa.array([1000, 2**63 - 1, -(2**63), 1100]), ["time_out_of_range", "time_out_of_range"]),
        (pa.array([1000, 2**64 - 1, 1100], pa.uint64()), ["time_out_of_range"]),
        (
            pa.array([1000.0, math.nan, None, math.inf, -math.inf, 1e300, 1100.0]),
            ["nan_time", "null_time", *["time_out_of_range"] * 3],
        ),
        (
            pa.array(["1970-01-01T00:00:01Z", "soon", "", None, "1970-01-01 01:00:01.1+01:00"]),
            ["unparsable_time", "unparsable_time", "null_time"],
        ),
        (pa.array(["1970-01-01T00:00:01", "0001-01-01T00:00:00+14:00", "1970-01-01 00:00:01.1"]), ["unparsable_time"]),
        (pa.array(["1970-01-01T00:00:01", None, "1970-01-01 00:00:01.1"]).dictionary_encode(), ["null_time"]),
        (pa.array(["1970-01-01T00:00:01", None, "1970-01-01T00:00:01.1"], pa.string_view()), ["null_time"]),
        (pa.array([1000, None, 1100], pa.timestamp("ms")), ["null_time"]),
        (pa.array([1_000_000, 2**62, 1_100_000], pa.timestamp("us")), ["time_out_of_range"]),
        (pa.array([1_000_000_000, None, 1_100_000_000], pa.timestamp("ns", "Asia/Tokyo")), ["null_time"]),
        (pa.array([1000, None, 1100]).cast(pa.decimal128(24, 3)), ["null_time"]),
    ],
    ids=str,
)
def test_a_row_without_a_usable_time_is_rejected_alone(runtime: Runtime, times: pa.Array, wanted: list[str]) -> None:
    streams = {"s": pa.table({"ts": times, "v": range(len(times))})}
    for epoch in runtime.offered("1", "1000"):
        ran = runtime.run(SELECT, streams, epoch)
        assert reasons(ran) == wanted
        assert ran.rows("_ts") == [(at(1000),), (at(1100),)]
        assert ran.report["rejected"] == len(wanted)
        assert ran.report["tuples"] == len(times)


def test_a_value_that_no_answer_can_hold_is_rejected_where_it_is_used(runtime: Runtime) -> None:
    streams = {"s": pa.table({"ts": [1, 2, 3], "v": pa.array([1, 2**64 - 1, 3], pa.uint64()), "w": [1, 2, -(2**63)]})}
    ran = runtime.run(SELECT, streams)
    assert (ran.rows("v"), reasons(ran)) == ([(1,), (3,)], ["value_out_of_range"])
    ran = runtime.run("SELECT w FROM s WITH DELAY 10 SECONDS", streams)
    assert (ran.rows("w"), reasons(ran)) == ([(1,), (2,)], ["value_out_of_range"])


@pytest.mark.parametrize("epoch", ["1", "40", "3", "1000", "1 s"])
def test_one_tuple_a_day_ahead_poisons_nothing(runtime: Runtime, epoch: str) -> None:
    times = [0, 100, DAY, *range(200, 5000, 100), DAY + 1, *range(5000, 9000, 100)]
    ran = runtime.run(COUNT.replace("DELAY 10 SECONDS", "NO WAIT"), one({"v": INT}, *((t, t) for t in times)), epoch)
    assert (reasons(ran), ran.late) == (["ahead", "ahead"], {})
    assert ran.rejected["s"].column("ts").to_pylist() == [DAY, DAY + 1]
    assert ran.rows("n") == [(10,)] * 9


@pytest.mark.parametrize("epoch", ["1", "8", "3", "1000", "1 s"])
def test_a_real_gap_is_accepted(runtime: Runtime, epoch: str) -> None:
    times = [0, 100, *range(DAY, DAY + 2000, 100)]
    ran = runtime.run(COUNT, one({"v": INT}, *((t, t) for t in times)), epoch)
    assert (ran.report["rejected"], ran.report["late"]) == (0, 0)
    assert ran.rows("window_start", "n") == [(at(0), 2), (at(DAY), 10), (at(DAY + 1000), 10)]


def test_max_ahead_moves_the_guard(runtime: Runtime) -> None:
    streams = one({"v": INT}, (0, 1), (30_000, 2), (100, 3))
    assert reasons(runtime.run(SELECT, streams)) == []
    assert reasons(runtime.run(SELECT, streams, max_ahead="10 s")) == ["ahead"]


def test_a_poisoned_stream_does_not_harm_its_partner(runtime: Runtime) -> None:
    query = "SELECT a.v AS av, b.v AS bv FROM a [1 SEC], b [1 SEC] WHERE a.v = b.v WITH NO WAIT"
    rows: list[tuple[Any, ...]] = [("ab"[i % 2], 100 * (i // 2), i // 2) for i in range(100)]
    rows[41:41] = [("a", 3 * DAY, 77)]
    ran = runtime.run(query, arrived({"v": INT}, *rows), "25")
    assert (reasons(ran, "a"), ran.late) == (["ahead"], {})
    assert len(ran.rows("av")) == 50


@pytest.mark.parametrize("epoch", ["1", "4", "1 s"])
def test_a_silent_stream_holds_the_others_until_its_timeout(runtime: Runtime, epoch: str) -> None:
    query = "SELECT a.v AS av, b.v AS bv FROM a [1 SEC], b [1 SEC] WITH NO WAIT"
    rows = [("a", 0, 0), ("b", 0, 0), *(("a", t, t) for t in range(500, 8_001, 500))]
    streams = arrived({"v": INT}, *rows)
    waiting = runtime.run(query, streams, epoch)
    going_on = runtime.run(query, streams, epoch, idle_timeout="3 s")
    assert waiting.report["idle_timeouts"] == {}
    assert going_on.report["idle_timeouts"] == {"b": 1}
    assert waiting.rows("av", "bv") == going_on.rows("av", "bv") == [(0, 0), (500, 0), (1000, 0)]
    reported = waiting.report["latency_ms"]["avg"], going_on.report["latency_ms"]["avg"]
    assert reported[1] is not None
    assert reported[0] is None or reported[1] > reported[0], (
        "what a silent stream holds leaves only with the final flush"
    )


@pytest.mark.local_only("Spark is not told arrival times")
def test_arrival_times_tell_how_long_a_stream_is_silent(runtime: Runtime) -> None:
    query = "SELECT a.v AS av, b.v AS bv FROM a [1 SEC], b [1 SEC] WITH NO WAIT"
    rows = [("a", 0, 0), ("b", 0, 0), *(("a", t, t) for t in range(500, 20_001, 500))]
    streams = arrived({"v": INT}, *rows)
    timed = {name: table.append_column("heard", table.column("arrival")) for name, table in streams.items()}
    ran = runtime.run(query, timed, "4", idle_timeout="3 s", arrival_time="heard")
    assert ran.report["idle_timeouts"] == {}, "41 ms went by"
    broken = {"a": timed["a"], "b": timed["b"].set_column(3, "heard", pa.array([None], INT))}
    with pytest.raises(DataError, match="have no arrival time"):
        runtime.run(query, broken, "4", idle_timeout="3 s", arrival_time="heard")


def test_empty_streams_work(runtime: Runtime) -> None:
    empty = pa.table({"arrival": pa.array([], INT), "ts": pa.array([], INT), "v": pa.array([], FLOAT)})
    for epoch in runtime.offered("1", "1000", "1 s"):
        ran = runtime.run(COUNT, {"s": empty}, epoch)
        assert (ran.results.num_rows, ran.report["tuples"]) == (0, 0)
        assert ran.results.schema.names == ["window_start", "window_end", "n"]
        query = "SELECT a.v AS av, b.v AS bv FROM a [1 SEC], b [1 SEC]"
        ran = runtime.run(query, {"a": empty, **arrived({"v": FLOAT}, ("b", 0, 1.0), ("b", 1, 2.0))}, epoch)
        assert (ran.results.num_rows, ran.report["in_time"]) == (0, 2)
        assert runtime.verify(query, {"a": empty, "b": empty}, epoch).sound


@pytest.mark.parametrize("base", [-(2**50), 2**50, -1, 0])
def test_negative_and_huge_times_work(runtime: Runtime, base: int) -> None:
    streams = one({"v": INT}, (base, 1), (base + 2000, 2), (base + 1000, 3), (base + 9000, 4))
    for epoch in runtime.offered("1", "1000", "1 s"):
        ran = runtime.run(SELECT, streams, epoch)
        assert [v for (v,) in ran.rows("v")] == [1, 3, 2, 4]
        assert ran.results.column("_ts").cast(INT).to_pylist()[0] == base * 1000
        assert runtime.verify(COUNT, streams, epoch).missing == 0


def test_an_integer_overflow_is_an_error(runtime: Runtime) -> None:
    streams = one({"v": INT}, (0, 2**63 - 1), (1, 1), (2, -(2**63) + 1))
    for query in (
        "SELECT v + 1 AS w FROM s",
        "SELECT v FROM s WHERE v * 2 > 0",
        "SELECT SUM(v - 2) AS w FROM s [1 SEC]",
    ):
        with pytest.raises(DataError, match="integer overflow"):
            runtime.run(query, streams)
    assert runtime.run("SELECT SUM(v) AS w FROM s [1 SEC] WITH DELAY 1 SECOND", streams).rows("w") == [(1,)]
    with pytest.raises(DataError, match="integer overflow in SUM"):
        runtime.run("SELECT SUM(v) AS w FROM s [1 SEC] WHERE v > 0", streams)


def test_a_row_that_the_filter_drops_cannot_fail_a_query(runtime: Runtime) -> None:
    streams = one({"k": INT}, (1000, 1), (1001, 2**62))
    query = "SELECT SUM(k * 4) AS total FROM s [RANGE 1 SECOND] WHERE k = 1 WITH DELAY 10 SECONDS"
    assert runtime.run(query, streams).rows("total") == [(4,)]


def test_columns_no_query_can_read_matter_only_when_named(runtime: Runtime) -> None:
    streams = {"s": pa.table({"ts": [1], "v": [2], "list": [[1]], "struct": [{"x": 1}], "bytes": [b"x"]})}
    assert runtime.run(SELECT, streams).rows("v") == [(2,)]
    for column in ("list", "struct", "bytes"):
        with pytest.raises(QueryError, match=f"column '{column}' of stream s holds"):
            runtime.run(f"SELECT {column} FROM s", streams)
