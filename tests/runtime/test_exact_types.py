"""Decimals, dates and nested fields on every runtime: exact, kept as they are, and the judge finds the same."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from tests.runtime.streams import Runtime

QUERIES = {
    "a selection": """SELECT p, p * 2 AS twice, round(p, 1) AS r, floor(p) AS f, p + q AS total, d, t, event.id FROM a
        WHERE p > -1.005 AND d < '2024-03-20'""",
    "a join": """SELECT a.p AS p, b.q AS q, b.d AS d FROM a [300 MS], b [300 MS]
        WHERE a.p = b.q AND a.p - b.q <= 0.5 AND a.d <> b.d""",
    "groups": """SELECT d, event.id AS id, SUM(p) AS total, AVG(p) AS mean, MIN(p) AS low, MAX(d) AS last,
        COUNT(DISTINCT p) AS n, VAR(p) AS v, MEDIAN(p) AS mid, SUM(p * q) AS both FROM a [1 SEC SLIDE 250 MS]
        GROUP BY d, event.id""",
    "decimals as text": "SELECT CAST(p AS STRING) AS t, concat(q, '!') AS u FROM a",
    "sums of sums": "SELECT SUM(total) AS all_of_it FROM (SELECT SUM(p) AS total FROM a [200 MS]) x [1 SEC]",
}


@pytest.fixture(scope="module")
def streams() -> dict[str, pa.Table]:
    random = np.random.default_rng(5)
    n = 300
    arrival = random.permutation(2 * n)

    def one(mine: np.ndarray) -> pa.Table:
        p = random.integers(-300, 300, n).tolist()
        days = random.integers(0, 30, n).tolist()
        columns = {
            "ts": pa.array(10 * np.arange(n) + random.integers(0, 200, n)),
            "arrival": pa.array(np.sort(mine)),
            "p": pa.array([None if v % 17 == 0 else Decimal(v).scaleb(-2) for v in p], pa.decimal128(9, 2)),
            "q": pa.array([Decimal(v % 7).scaleb(-1) for v in p], pa.decimal128(12, 4)),
            "d": pa.array([None if v == 7 else date(2024, 2, 27) + timedelta(days=v) for v in days]),
            "t": pa.array(days, pa.timestamp("ms")),
            "event": pa.array([None if v == 3 else {"id": v % 4} for v in days]),
        }
        return pa.table(columns)

    return {"a": one(arrival[:n]), "b": one(arrival[n:])}


@pytest.mark.parametrize("name", QUERIES)
def test_the_judge_finds_the_same_of_decimals_dates_and_nested_fields(
    runtime: Runtime, streams: dict[str, pa.Table], name: str
) -> None:
    query = f"{QUERIES[name]} WITH DELAY 50 MS"
    mine = {alias: table for alias, table in streams.items() if alias == "a" or name == "a join"}
    verdict = runtime.verify(query, mine, "100 ms")
    assert verdict.results > 10 or name == "sums of sums"
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)


@pytest.mark.local_only("decoding is the same code")
def test_late_rows_keep_their_types(runtime: Runtime, streams: dict[str, pa.Table]) -> None:
    ran = runtime.run("SELECT p, d, event.id FROM a WITH NO WAIT", {"a": streams["a"]}, "1")
    assert ran.late["a"].num_rows > 0
    assert [ran.late["a"].schema.field(name).type for name in ("p", "d")] == [pa.decimal128(9, 2), pa.date32()]
    assert pa.types.is_struct(ran.late["a"].schema.field("event").type)


def test_a_time_that_is_computed_is_a_timestamp() -> None:
    table = pa.table({"ts": [1000], "v": [86_400], "d": pa.array([1], pa.date32())})
    query = "SELECT CAST(v AS TIMESTAMP) AS t, d + INTERVAL '1' HOUR AS u, coalesce(d, d) AS e FROM s WITH NO WAIT"
    results = sw.replay(query, {"s": table}).results
    utc = pa.timestamp("us", "UTC")
    assert [results.schema.field(name).type for name in "tue"] == [utc, utc, pa.date32()]
    assert results.column("t").cast(pa.int64()).to_pylist() == [86_400_000_000]
