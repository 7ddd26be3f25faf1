"""Queries of several operators: over any small streams what is missing is explained, and nothing else is wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.effort import tried
from tests.runtime.streams import Runtime, arrived, at
from tests.runtime.test_against_the_judge import ROW, WAITING, answer_is_sound

PAIR = "SELECT a.k AS k, b.x AS x FROM a [300 MS], b [500 MS] WHERE a.k = b.k"
COUNTS = "SELECT k, COUNT(*) AS n, MAX(x) AS high FROM a [500 MS SLIDE 250 MS] GROUP BY k"
QUERIES = {
    "the paper's own": "SELECT COUNT(DISTINCT a.k) AS n FROM a, b WHERE a.k = b.k WINDOW 400 MS",
    "grouped above a join, sliding": """SELECT a.name, COUNT(*) AS n, SUM(b.k) AS total FROM a, b
        WHERE a.k = b.k AND a.x < 1 WINDOW 400 MS SLIDE 100 MS GROUP BY a.name""",
    "a window of its own": f"SELECT k, COUNT(*) AS n, AVG(x) AS mean FROM ({PAIR}) j [1 SEC SLIDE 250 MS] GROUP BY k",
    "join of joins": f"""SELECT j.k AS k, l.name AS name, j._ts AS at FROM ({PAIR}) j [400 MS],
        (SELECT c.k AS k, a.name AS name FROM c [200 MS], a [300 MS] WHERE c.name = a.name) l [200 MS]
        WHERE j.k = l.k AND j.x <= 1""",
    "join of an aggregate": f"""SELECT b.x AS x, t.n * 2 AS n, t.window_end AS e FROM b [300 MS], ({COUNTS}) t [600 MS]
        WHERE b.k = t.k AND t.n > 1""",
    "aggregate of aggregates": f"SELECT n, COUNT(*) AS often, MAX(high) AS most FROM ({COUNTS}) t [1 SEC] GROUP BY n",
    "aggregate of an aggregate of a join": f"""SELECT MAX(n) AS most, MIN(window_start) AS since FROM
        (SELECT k, COUNT(*) AS n FROM ({PAIR}) j [250 MS] GROUP BY k) t [1 SEC]""",
    "union": """SELECT k, x * 2 AS x, name FROM a WHERE k > 0 UNION ALL SELECT k + 1, x, 'q' FROM b
        UNION ALL SELECT c.k, b.x, c.name FROM c [100 MS], b [100 MS] WHERE c.k = b.k""",
    "union with bare nulls": """SELECT k, NULL AS x, name FROM a UNION ALL SELECT NULL, x, NULL FROM b
        UNION ALL SELECT c.k, NULL, c.name FROM c [100 MS], b [100 MS] WHERE c.k = b.k""",
    "joined with a union": """SELECT u.k AS k, c.x AS x FROM
        (SELECT k, x FROM a UNION ALL SELECT k, x FROM b WHERE x > 0) u [300 MS], c [300 MS] WHERE u.k = c.k""",
    "counts of a union of counts": f"""SELECT k, SUM(n) AS n FROM ({COUNTS}
        UNION ALL SELECT k, COUNT(*) AS n, MIN(x) AS low FROM b [1 SEC] GROUP BY k) u [1 SEC] GROUP BY k""",
    "extremes of text": """SELECT b.x AS x, t.low AS low, t.high AS high FROM b [300 MS], (SELECT k, MIN(name) AS low,
        MAX(name) AS high FROM a [500 MS] GROUP BY k) t [600 MS] WHERE b.name = t.high""",
    "by a float": f"SELECT x, COUNT(*) AS n FROM ({PAIR}) j [500 MS] GROUP BY x",
    "first of an aggregate": """SELECT k, name, COUNT(*) AS n FROM a [500 MS SLIDE 250 MS] GROUP BY k, name
        ORDER BY COUNT(*) DESC, MAX(k) LIMIT 2""",
    "first of groups by a key": f"""SELECT *, ROW_NUMBER() OVER (PARTITION BY window, n ORDER BY high DESC, k) AS rn
        FROM ({COUNTS}) t QUALIFY rn = 1""",
    "first of windows that fill in steps": """SELECT name, SUM(k) AS n FROM a [1 SEC CUMULATE 250 MS] GROUP BY name
        ORDER BY COUNT(*) DESC, name LIMIT 2""",
    "first of sessions": """SELECT k, name, COUNT(*) AS n FROM a [SESSION 100 MS] GROUP BY k, name
        QUALIFY ROW_NUMBER() OVER (PARTITION BY window, k ORDER BY MAX(x) DESC, name) = 1""",
    "first of a join": f"SELECT k, x FROM ({PAIR}) j [500 MS] ORDER BY x DESC NULLS FIRST LIMIT 2",
    "first of a union": "SELECT k FROM (SELECT k, x FROM a UNION ALL SELECT k, x FROM b) u [400 MS] ORDER BY x LIMIT 3",
    "counts of different rows": """SELECT name, COUNT(*) AS n, SUM(x) AS total
        FROM (SELECT DISTINCT k, x, name FROM a [300 MS]) d [500 MS SLIDE 250 MS] GROUP BY name""",
    "without doubles, then joined": """SELECT d.x AS x, b.name AS name
        FROM (SELECT DISTINCT k, x + 1 AS x FROM a [1 SEC] WHERE k > 0) d [300 MS], b [400 MS] WHERE d.k = b.k""",
    "different rows of a join": "SELECT DISTINCT a.k, b.x * 2 AS x FROM a [400 MS], b [400 MS] WHERE a.k = b.k",
    "different counts": f"SELECT DISTINCT k, n FROM ({COUNTS}) t [1 SEC] WHERE n > 1",
    "sessions of a union": """SELECT k, COUNT(*) AS n, MAX(x) AS most
        FROM (SELECT k, x FROM a UNION ALL SELECT k, x FROM b) u [SESSION 200 MS AT MOST 1 SEC] GROUP BY k""",
    "aggregate of sessions": """SELECT n, COUNT(*) AS sessions, MIN(window_start) AS since, MAX(s._ts) AS last
        FROM (SELECT name, COUNT(*) AS n FROM a [SESSION 100 MS] GROUP BY name) s [1 SEC] GROUP BY n""",
    "filled in steps above a join": f"SELECT k, SUM(x) AS total FROM ({PAIR}) j [1 SEC CUMULATE 250 MS] GROUP BY k",
    "counts that are filled, joined": """SELECT b.x AS x, t.n AS n, t.window_end AS e FROM b [300 MS],
        (SELECT k, COUNT(*) AS n FROM a [1 SEC CUMULATE 200 MS] GROUP BY k) t [300 MS] WHERE b.k = t.k""",
    "grouped above a left join": """SELECT a.name, COUNT(*) AS n, COUNT(b.k) AS found, SUM(b.k) AS total
        FROM a [400 MS] LEFT JOIN b [400 MS] ON a.k = b.k AND b.x < 1 GROUP BY a.name""",
    "count of an anti join": """SELECT COUNT(*) AS n, MAX(x) AS high FROM (SELECT a.x AS x FROM a [300 MS] ANTI JOIN
        b [200 MS] ON a.k = b.k) j [500 MS SLIDE 250 MS]""",
    "left join of an aggregate": f"""SELECT b.x AS x, t.n * 2 AS n FROM b [300 MS] LEFT JOIN ({COUNTS}) t [600 MS]
        ON b.k = t.k AND t.n > 1 WHERE t.n IS NULL OR b.x > 0""",
    "semi join of pairs, united": f"""SELECT j.k AS k, j.x AS x FROM ({PAIR}) j [400 MS] SEMI JOIN c [200 MS]
        ON j.k = c.k UNION ALL SELECT k, x FROM a WHERE k = 0""",
    "three left": """SELECT a.k AS k, b.x AS bx, c.name AS cn, coalesce(b.x, a.x) AS x FROM a [300 MS]
        LEFT JOIN b [500 MS] ON a.k = b.k LEFT JOIN c [200 MS] ON c.k = a.k AND c.name <> 'p' WHERE a.x > 0""",
    "a pair, left, and what comes with the second": """SELECT a.k AS k, b.x AS bx, c.x AS cx, d.k AS dk FROM a JOIN b
        ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 300 MS
        LEFT JOIN c ON c.k = b.k AND c.ts BETWEEN a.ts - INTERVAL 100 MS AND b.ts + INTERVAL 200 MS
        LEFT JOIN a d ON d.name = c.name AND d.ts > c.ts AND d.ts <= c.ts + INTERVAL 400 MS
        WHERE c.x IS NULL OR c.x <> 0""",
    "full joins": """SELECT a.k AS ak, b.k AS bk, c.k AS ck FROM a [200 MS] FULL JOIN b [100 MS] ON a.k = b.k
        FULL JOIN c [300 MS] ON c.k = a.k""",
    "right behind left, then an inner one": """SELECT a.x AS ax, b.x AS bx, c.x AS cx FROM a [200 MS]
        LEFT JOIN b [300 MS] ON a.k = b.k RIGHT JOIN c [100 MS] ON c.k = b.k JOIN a d [200 MS] ON d.k = c.k
        WHERE d.x > 0""",
    "sessions of what has no partner": """SELECT k, COUNT(*) AS n, MAX(x) AS most FROM (SELECT a.k AS k, a.x AS x
        FROM a [200 MS] ANTI JOIN b [100 MS] ON a.k = b.k) j [SESSION 200 MS] GROUP BY k""",
    "different rows of a left join": """SELECT DISTINCT a.k AS k, b.x AS bx FROM a [300 MS]
        LEFT JOIN b [300 MS] ON a.k = b.k""",
    "left join of different rows": """SELECT d.k AS k, b.x AS bx FROM (SELECT DISTINCT k FROM a [300 MS]) d [200 MS]
        LEFT JOIN b [100 MS] ON d.k = b.k""",
    "exists, and not in": """SELECT a.k AS k, a.x AS x FROM a WHERE a.x >= 0 AND EXISTS (SELECT 1 FROM b WHERE b.k = a.k
        AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 300 MS) AND a.name NOT IN (SELECT name FROM c [200 MS] WHERE
        abs(c.ts - a.ts) <= INTERVAL 250 MS)""",
    "counted where there is one": """SELECT k, COUNT(*) AS n FROM a [400 MS] WHERE k IN (SELECT k FROM b [300 MS])
        GROUP BY k""",
    "selection of a selection": "SELECT k, y FROM (SELECT k, x * 2 AS y FROM a WHERE k <> 1) s WHERE y > 0",
}


@pytest.mark.local_only("hundreds of examples, tuple release among them; below and in tests/spark are a few")
@pytest.mark.parametrize("name", QUERIES)
@tried(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, max_size=40),
    epoch=st.sampled_from(["1", "2", "7", "200 ms", "1 s"]),
    waiting=st.sampled_from(WAITING),
)
def test_every_answer_is_sound(
    runtime: Runtime, name: str, rows: list[tuple[Any, ...]], epoch: str, waiting: str
) -> None:
    answer_is_sound(runtime, f"{QUERIES[name]} WITH {waiting}", rows, epoch)


SALES = {"item": pa.string(), "price": pa.float64()}
SOLD = [
    ("s", 1000, "pen", 1.0), ("t", 1100, "pen", 1.5), ("s", 1200, "cup", 4.0), ("t", 2100, "cup", 5.0),
    ("t", 1300, "ink", 2.0), ("s", 2300, "ink", 2.5), ("s", 2200, "pen", 1.0), ("t", 3500, "pen", 1.2),
    ("s", 3600, "map", 9.0), ("t", 4700, "pen", 1.1), ("s", 4800, "cup", 4.2), ("t", 1900, "cup", 4.9),
]  # fmt: skip


def test_the_items_sold_in_common_are_counted(runtime: Runtime) -> None:
    """The query of the in-order paper, in one shard on Spark; the last tuple is late."""
    query = (
        "SELECT COUNT(DISTINCT s.item) AS common FROM s, t WHERE s.item = t.item WINDOW 1 SECOND WITH DELAY 1 SECOND"
    )
    ran = runtime.run(query, arrived(SALES, *SOLD), "2")
    assert ran.rows("window_end", "common") == [(at(2000), 1), (at(3000), 2)]
    assert {stream: table["item"].to_pylist() for stream, table in ran.late.items()} == {"t": ["cup"]}
    assert (ran.report["late"], ran.report["in_time"]) == (1, len(SOLD) - 1)
    verdict = runtime.verify(query, arrived(SALES, *SOLD), "2")
    assert (verdict.true_results, verdict.missing_late, verdict.sound) == (2, 1, True)


def test_a_chain_with_a_common_key_is_cut_by_it(runtime: Runtime) -> None:
    """On Spark every shard has some of the items; the whole is in order all the same."""
    query = """SELECT u.item AS item, n.often AS often, u.price AS price
        FROM (SELECT item, price FROM s UNION ALL SELECT item, price * 2 FROM t) u [1 SECOND],
             (SELECT j.item AS item, COUNT(*) AS often FROM
                (SELECT s.item AS item FROM s [2 SECONDS], t [2 SECONDS] WHERE s.item = t.item) j [1 SECOND]
              GROUP BY j.item) n [1 SECOND]
        WHERE u.item = n.item WITH DELAY 3 SECONDS"""
    ran = runtime.run(query, arrived(SALES, *SOLD), "3")
    assert ran.results.num_rows > 5
    assert ran.report["late"] == 0
    verdict = runtime.verify(query, arrived(SALES, *SOLD), "3")
    assert (verdict.results, verdict.missing, verdict.sound) == (ran.results.num_rows, 0, True)
