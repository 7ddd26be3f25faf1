"""Queries of Spark's documentation, word by word: on the whole input Spark's own batch answer is ours."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.language.bind import sources_of
from slackwater.runtime.local.answer import replay

pytestmark = pytest.mark.xdist_group("spark")

SECOND = 1_000_000
TIME = pa.timestamp("us", "UTC")


def recorded(seed: int, late: int = 20) -> pa.Table:
    """Rows of ten minutes around 1970, up to `late` seconds late; nulls and NaN among the values."""
    of = random.Random(seed)
    times = [2 * at * SECOND - of.randrange(late * SECOND) - 300 * SECOND for at in range(300)]
    return pa.table(
        {
            "ts": pa.array(times, TIME),
            "ad": [of.choice([1, 2, 3, 4, None]) for _ in times],
            "v": [of.choice([None, math.nan, 0.5, 1.0, -2.25, 7.0, of.random()]) for _ in times],
            "n": [of.choice([None, *range(-5, 6)]) for _ in times],
            "ok": [of.choice([None, True, False]) for _ in times],
            "id": range(len(times)),
            "arrival": range(seed, seed + 2 * len(times), 2),
        }
    )


TABLES = {"i": recorded(0), "c": recorded(1)}
TABLES["even"] = TABLES["i"].set_column(0, "ts", pc.floor_temporal(TABLES["i"]["ts"], 2, unit="second"))
"""Of event times that are even seconds many are exactly as far apart as a gap."""
ALONE = {
    "windows": """SELECT window.start, window.end, ad, count(*) AS n, sum(n) AS total FROM i
        GROUP BY window(ts, '1 minute', '20 seconds'), ad""",
    "windows that do not fall together": """SELECT window.start, window.end, count(id) AS n FROM i
        GROUP BY window(ts, '50 seconds', '35 seconds')""",
    "sessions": """SELECT session_window.start, session_window.end, ad, count(*) AS n, sum(n) AS total, avg(v) AS mean
        FROM i GROUP BY session_window(ts, '8 seconds'), ad""",
    "sessions that meet at their ends": """SELECT session_window, count(*) AS n, percentile(n, 0.3) AS p,
        count(DISTINCT ok) AS k FROM even GROUP BY ad, session_window(ts, '6 seconds')""",
    "functions": """SELECT window.start, window.end, mean(n) AS a, mean(v) AS b, count_if(ok) AS c,
        count_if(n > 0 AND ok) FILTER (WHERE n < 4) AS d, percentile(n, 0.3) AS e, percentile(v, 0.75) AS f,
        sum(if(ok, n, 0)) AS g, sum(nvl(n, 100)) AS h, count(ifnull(n, 3)) AS k
        FROM i GROUP BY window(ts, '30 seconds')""",
    "first rows": """SELECT * FROM (SELECT window.start, window.end, ad, count(*) AS n, sum(v) AS total,
        ROW_NUMBER() OVER (PARTITION BY window ORDER BY count(*) DESC, max(n), ad DESC) AS rn
        FROM i GROUP BY window(ts, '1 minute', '20 seconds'), ad) WHERE rn <= 2""",
    "windows of windows": """SELECT window(window, '1 minute') AS window, sum(n) AS n FROM
        (SELECT window, count(*) AS n FROM i GROUP BY window(ts, '20 seconds')) w
        GROUP BY window(window, '1 minute')""",
    "the first of every window": """SELECT window, ad, n, rn FROM (SELECT window, ad, n, row_number() OVER
        (PARTITION BY window ORDER BY n DESC, ad) AS rn FROM (SELECT ad, window, count(*) AS n FROM i
        GROUP BY ad, window(ts, '1 minute')) w) t WHERE rn <= 2""",
    "keys of windows": """SELECT window.start, window.end, ad FROM i GROUP BY window(ts, '30 seconds'), ad""",
    "windows read from a query": """SELECT ad, window.start AS start, window.end AS ending, n FROM
        (SELECT ad, window, count(*) AS n FROM i GROUP BY ad, window(ts, '1 minute')) w WHERE n > 1""",
}
JOINED = {
    "an interval join": """SELECT i.id AS x, c.id AS y FROM i JOIN c
        ON i.ad = c.ad AND c.ts >= i.ts AND c.ts <= i.ts + interval 30 seconds""",
    "with BETWEEN, in WHERE": """SELECT i.id AS x, c.id AS y FROM i, c
        WHERE i.ad = c.ad AND c.ts BETWEEN i.ts - INTERVAL '1 minute' AND i.ts - INTERVAL '5' SECOND""",
    "with strict signs, and USING": """SELECT ad, i.id AS x, c.id AS y FROM i INNER JOIN c USING (ad)
        WHERE c.ts > i.ts AND c.ts - INTERVAL 20 SECONDS < i.ts""",
    "differences": """SELECT i.id AS x, c.id AS y FROM i JOIN c ON c.ts - i.ts < INTERVAL 10 SECONDS
        AND i.ts - c.ts <= INTERVAL '2' SECOND AND c.n > i.n""",
    "units and months": """SELECT i.id AS x, c.id AS y FROM i JOIN c ON date_trunc('minute', i.ts) =
        date_trunc('minute', c.ts) AND c.ts < i.ts + INTERVAL 1 MONTH AND i.ad = c.ad""",
    "left outer": """SELECT i.id AS x, c.id AS y FROM i LEFT OUTER JOIN c
        ON i.ad = c.ad AND c.ts >= i.ts AND c.ts <= i.ts + interval 5 seconds""",
    "full outer": """SELECT i.id AS x, c.id AS y FROM i FULL OUTER JOIN c
        ON i.ad = c.ad AND c.ts BETWEEN i.ts - INTERVAL 2 SECONDS AND i.ts + INTERVAL 2 SECONDS""",
    "left semi": """SELECT i.id AS x FROM i LEFT SEMI JOIN c
        ON i.ad = c.ad AND c.ts >= i.ts AND c.ts <= i.ts + interval 5 seconds""",
    "not exists": """SELECT i.id AS x FROM i WHERE NOT EXISTS (SELECT * FROM c
        WHERE i.ad = c.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 5 SECONDS)""",
    "every column": """SELECT * FROM i JOIN c USING (ad, id)
        WHERE c.ts BETWEEN i.ts - INTERVAL 1 DAY AND i.ts + INTERVAL 1 DAY""",
}


@pytest.fixture(scope="module")
def batch(spark: Any) -> Any:
    for name, table in TABLES.items():
        rows = [
            (*(None if value is None else value for value in row.values()),)
            for row in table.set_column(0, "ts", table["ts"].cast(pa.int64())).to_pylist()
        ]
        kinds = "ts BIGINT, ad BIGINT, v DOUBLE, n BIGINT, ok BOOLEAN, id BIGINT, arrival BIGINT"
        given = spark.createDataFrame(rows, kinds).coalesce(1)
        given.selectExpr("timestamp_micros(ts) AS ts", *given.columns[1:]).createOrReplaceTempView(name)
    return spark


def compared(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """In an order of its own, times as text, floats to nine digits."""

    def plain(value: Any) -> str:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else f"{value + 0.0:.9g}"
        return str(value).removesuffix("+00:00")

    return sorted(tuple(map(plain, row)) for row in rows)


def ours(query: str) -> list[tuple[Any, ...]]:
    read = {name: TABLES[name] for name in sources_of(query)}
    found = replay(f"{query} WITH DELAY 1 MINUTE", read).results
    columns = [name for name in found.column_names if name != "_ts"]
    return [tuple(row[name] for name in columns) for row in found.to_pylist()]


IN_FRONT = {
    "of rows": r"""SELECT id, regexp_extract(concat('n', n), '(\\d+)', 1) AS digits,
        element_at(split(format_string('%s/%s', ad, n), '/'), 2) AS second
        FROM i WHERE regexp_like(CAST(id AS STRING), '[37]$') AND pmod(n, 3) < 2""",
    "of groups": """SELECT window.start, window.end, pmod(n, 3) AS rest, count(*) AS c, sum(length(hex(id))) AS total
        FROM i WHERE md5(CAST(id AS STRING)) > '4' GROUP BY window(ts, '1 minute'), pmod(n, 3)""",
    "of both sides": """SELECT i.id AS x, c.id AS y, initcap(concat_ws(' ', 'it''s', i.ad, i.ok)) AS text FROM i JOIN c
        ON pmod(i.id, 7) = pmod(c.id, 7) AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 30 SECONDS""",
}


@pytest.mark.parametrize("query", IN_FRONT.values(), ids=IN_FRONT)
def test_what_spark_alone_has_is_computed_by_spark(query: str, batch: Any) -> None:
    frames = {name: batch.table(name) for name in sources_of(query)}
    found = sw.sql(batch, f"{query} WITH DELAY 1 MINUTE", shards=2, **frames)
    rows = found.select(*(name for name in found.columns if name != "_ts")).collect()
    wanted = batch.sql(query.replace("it''s", r"it\'s")).collect()
    assert compared([tuple(row) for row in rows]) == compared([tuple(row) for row in wanted])
    assert wanted
    assert "ships" in sw.explain(query, **frames)


@pytest.mark.parametrize("query", [*ALONE.values(), *JOINED.values()], ids=[*ALONE, *JOINED])
def test_a_query_of_spark_has_the_answer_of_spark(query: str, batch: Any) -> None:
    wanted = [
        tuple(part for value in row for part in (value if isinstance(value, tuple) else (value,)))
        for row in batch.sql(query).collect()
    ]
    assert compared(ours(query)) == compared(wanted)
    assert wanted
