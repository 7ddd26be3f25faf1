"""Any small disordered streams, any epochs, any waiting: what is missing is explained, and nothing else is wrong."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.language.bind import sources_of
from tests.effort import tried
from tests.runtime.streams import Runtime, arrived

COLUMNS = {"k": pa.int64(), "x": pa.float64(), "name": pa.string()}
QUERIES = {
    "two by key": "SELECT a.x AS ax, b.name AS bn FROM a [300 MS], b [500 MS] WHERE a.k = b.k",
    "two by text, filtered": "SELECT a.k AS k FROM a [1 SEC], b [0 MS] WHERE a.name = b.name AND a.x > 0.5",
    "three by key and order": """SELECT a.k AS k, c.x AS cx FROM a [400 MS], b [300 MS], c [200 MS]
        WHERE a.k = b.k AND b.name = c.name AND a.x <= c.x""",
    "four in a chain": """SELECT a.k AS k, d.x AS dx FROM a [400 MS], b [300 MS], c [200 MS], a AS d [500 MS]
        WHERE a.k = b.k AND b.name = c.name AND c.k + 1 = d.k + 1 AND a.x <= d.x""",
    "three in one window": """SELECT a.k AS k, c.x AS cx FROM a [300 MS], b [300 MS], c [300 MS]
        WHERE a.name = b.name AND b.name = c.name AND a.x <= c.x""",
    "with itself": "SELECT l.k AS lk, r.k AS rk FROM a AS l [200 MS], a AS r [300 MS] WHERE l.x = r.x",
    "windows between pairs": """SELECT x.k AS k FROM a AS x, b AS y, c AS z
        WINDOW (x, y) = 300 MS AND WINDOW (y, z) = 150 MS WHERE x.k = y.k AND y.k = z.k""",
    "a path": """SELECT x.k AS k FROM a AS x, b AS y [1 SEC], c AS z
        WHERE x.k = y.k AND x.name = z.name PATH x -> y -> z WITHIN (300 MS, 200 MS)""",
    "windows as elsewhere": """SELECT window.end AS e, window_time(window) AS at, mean(x), count_if(k > 0) AS n,
        percentile(k, 0.5) AS p, SUM(if(k > 0, k, 0)) AS s FROM a GROUP BY window(ts, '1 second', '250 ms'), name""",
    "windows that conditions say": """SELECT a.k AS k FROM a JOIN b ON a.k = b.k
        AND b.ts BETWEEN a.ts - INTERVAL 100 MS AND a.ts + INTERVAL 300 MS
        JOIN c ON c.ts > b.ts + INTERVAL 50 MS AND c.ts <= b.ts + INTERVAL 200 MS WHERE b.name = c.name""",
    "a path either way": """SELECT x.k AS k FROM a AS x, b AS y, c AS z
        WHERE x.k = y.k PATH x <-> y <-> z WITHIN (300 MS, 200 MS)""",
    "the last and the recent": """SELECT a.k AS k, c.x AS cx FROM a [ROWS 2], b [300 MS], c [ROWS 3]
        WHERE a.k = b.k AND a.x <= c.x""",
    "two that follow rates": """SELECT a.k AS k, b.x AS bx FROM a [RATE 300 MS], b [RATE 500 MS] MATCH TIME
        WHERE a.k <> b.k""",
    "two that follow rates, of any age": "SELECT a.k AS k, b.x AS bx FROM a [RATE 200 MS], b [RATE 300 MS]",
    "two that follow rates, near": """SELECT a.k AS k FROM a [RATE 400 MS], b [RATE 300 MS]
        WHERE a.k = b.k MATCH TIME WITHIN 100 MS""",
    "two as they end": "SELECT DSTREAM a.x AS ax, b.k AS bk FROM a [300 MS], b [500 MS] WHERE a.k = b.k",
    "two again and again": "SELECT RSTREAM EVERY 120 MS a.x AS ax FROM a [300 MS], b [500 MS] WHERE a.k = b.k",
    "left": """SELECT a.k AS k, b.x + a.x AS both, b.name AS bn FROM a [300 MS] LEFT JOIN b [500 MS]
        ON a.k = b.k AND a.x > 0 AND b.name <> 'p'""",
    "left, of rows": """SELECT a.k AS k, b.x AS bx FROM a [300 MS] LEFT JOIN b [500 MS] ON a.k = b.k
        WHERE (b.x IS NULL OR b.x > a.x) AND a.name = 'p'""",
    "right, and after": """SELECT b.ts AS bt, a.ts AS at FROM a RIGHT JOIN b
        ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND""",
    "full": "SELECT * FROM a FULL OUTER JOIN b ON a.k = b.k AND a.x <= b.x WINDOW (a, b) = 300 MS",
    "full, any": """SELECT a.k AS ak, b.k AS bk FROM a [100 MS] FULL JOIN b [50 MS] ON a.x <> b.x
        WHERE coalesce(a.k, b.k) = 1""",
    "semi": """SELECT a.k AS k, a.x FROM a [300 MS] LEFT SEMI JOIN b [500 MS] ON a.k = b.k AND a.x >= 0
        WHERE a.name <> 'p'""",
    "exists": """SELECT x, name FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND x > 0
        AND b.ts >= a.ts AND b.ts < a.ts + INTERVAL 1 SECOND)""",
    "anti": "SELECT a.k AS k FROM a [300 MS] ANTI JOIN b [500 MS] ON a.k = b.k AND a.x > 0",
    "not in": "SELECT k, name FROM a [200 MS] WHERE k NOT IN (SELECT k FROM b [100 MS]) AND x >= 0",
    "one": "SELECT k, x, name FROM a WHERE k <> 1",
    "first of every second": "SELECT name, k, ts FROM a [1 SEC] WHERE k <> 1 ORDER BY x DESC, name LIMIT 2",
    "first of every key": """SELECT x, name,
        ROW_NUMBER() OVER (PARTITION BY window, k ORDER BY name DESC NULLS FIRST, x) AS rn
        FROM a [500 MS] QUALIFY rn < 3""",
    "groups": """SELECT name, k, COUNT(*) AS n, SUM(k) AS total, AVG(x) AS mean, MIN(x) AS low, MEDIAN(k) AS mid
        FROM a [1 SEC SLIDE 250 MS] GROUP BY name, k""",
    "groups that are wanted": """SELECT name, COUNT(*) AS n FROM a [1 SEC SLIDE 250 MS] GROUP BY name
        HAVING COUNT(*) > 1 AND (MAX(k) > 0 OR name = 'p')""",
    "around aggregates": """SELECT k + 1 AS next, SUM(x) / COUNT(*) AS mean, MAX(k) - MIN(k) AS spread,
        concat(upper(MIN(name)), '!') AS first, COUNT(*) FILTER (WHERE x > 0.2) AS high, MAX(x) FILTER (WHERE k = 1)
        FROM a [1 SEC SLIDE 250 MS] GROUP BY k HAVING spread >= 0 OR k IS NULL""",
    "groups of the last that are wanted": """SELECT name, AVG(k) * 2 AS twice FROM a [ROWS 4 SLIDE 3] GROUP BY name
        HAVING SUM(k) >= 1""",
    "wanted between landmarks": """SELECT name FROM a [START WHEN k = 0 END WHEN name = 'q'] GROUP BY name
        HAVING COUNT(*) FILTER (WHERE k = 0) > 0""",
    "wanted, as they end": """SELECT DSTREAM k, SUM(k) + 1 AS n FROM a [1 SEC SLIDE 250 MS] GROUP BY k
        HAVING COUNT(*) > 1""",
    "groups of wanted groups": """SELECT k, SUM(n) AS total, MAX(twice) + COUNT(*) AS more FROM
        (SELECT k, name, COUNT(*) AS n, 2 * SUM(k) AS twice FROM a [500 MS] GROUP BY k, name HAVING COUNT(*) > 1) g
        [1 SEC] GROUP BY k HAVING SUM(n) > 2""",
    "groups of the last": "SELECT name, COUNT(*) AS n, AVG(x) AS mean FROM a [ROWS 4 SLIDE 3] GROUP BY name",
    "filled in steps": """SELECT name, COUNT(*) AS n, SUM(k) AS total, MEDIAN(x) AS mid FROM a [1 SEC CUMULATE 200 MS]
        GROUP BY name HAVING COUNT(*) > 1""",
    "sessions": """SELECT name, k, COUNT(*) AS n, SUM(k) AS total, AVG(x) AS mean FROM a [SESSION 150 MS]
        GROUP BY name, k""",
    "sessions of all": "SELECT COUNT(*) AS n, MEDIAN(k) AS mid FROM a [SESSION 60 MS]",
    "sessions at most so long": """SELECT k, COUNT(DISTINCT name) AS names, MAX(x) AS high, COUNT(*) + 1 AS more
        FROM a [SESSION 200 MS AT MOST 400 MS] WHERE x > 0 GROUP BY k HAVING COUNT(*) > 1""",
    "from landmark to landmark": """SELECT name, COUNT(*) AS n, AVG(x) AS mean
        FROM a [START WHEN k = 0 END WHEN name = 'q'] GROUP BY name""",
    "since a landmark": "SELECT k, SUM(k) AS n, MEDIAN(x) AS mid FROM a [START WHEN k = 0 SLIDE 300 MS] GROUP BY k",
    "two by what is made of text": """SELECT upper(a.name) AS up, concat(a.name, '/', b.k) AS both
        FROM a [300 MS], b [500 MS]
        WHERE upper(a.name) = upper(b.name) AND (a.name LIKE 'p%' OR length(b.name) + b.k > a.k)""",
    "groups of text and time": """SELECT lower(name) || '!' AS name, second(ts) AS s, COUNT(upper(name)) AS n
        FROM a [1 SEC SLIDE 250 MS] WHERE name < 'z' OR name IS NULL GROUP BY lower(name) || '!', second(ts)""",
    "float groups": "SELECT x, COUNT(DISTINCT name) AS n, MAX(k) AS high FROM a [500 MS] GROUP BY x",
    "extremes of text": "SELECT k, MIN(name) AS low, MAX(name) AS high FROM a [1 SEC SLIDE 250 MS] GROUP BY k",
    "extremes of the last texts": "SELECT k, MIN(name) AS low, MAX(name) AS high FROM a [ROWS 4 SLIDE 3] GROUP BY k",
    "about how many": """SELECT k, approx_count_distinct(x) AS n, approx_count_distinct(name, 0.3) AS m
        FROM a [1 SEC SLIDE 250 MS] GROUP BY k""",
    "first and last": "SELECT k, FIRST(x) AS f, LAST(x) AS l, LAST(name) AS n FROM a [1 SEC SLIDE 250 MS] GROUP BY k",
    "first and last of the last": "SELECT FIRST(name) AS f, LAST(x) AS l, FIRST(k) AS k FROM a [ROWS 4 SLIDE 3]",
    "chosen by others": """SELECT k, MAX_BY(name, x) AS of_high, arg_min(x, k + 1) AS of_low, any_value(x) AS v,
        MIN_BY(ts, x) FILTER (WHERE k > 0) AS seen FROM a [1 SEC SLIDE 250 MS] GROUP BY k""",
    "chosen of the last": """SELECT name, MAX_BY(k, x) AS of_high, MIN_BY(name, ts) AS old FROM a [ROWS 4 SLIDE 3]
        GROUP BY name""",
    "chosen of sessions": """SELECT k, MAX_BY(name, x) AS of_high, MIN_BY(x, ts) AS old FROM a [SESSION 150 MS]
        GROUP BY k""",
    "chosen of pairs": """SELECT a.k AS k, MAX_BY(a.name, b.x + a.x) AS of_high FROM a [300 MS], b [300 MS]
        WHERE a.k = b.k GROUP BY a.k""",
    "extremes between landmarks": """SELECT k, MIN(name) AS low, MAX(name) AS high
        FROM a [START WHEN k = 0 END WHEN name = 'q'] GROUP BY k""",
}
FAR_APART = [
    ("c", 100, 7, 0.0, "p"), ("a", 1000, 7, 0.0, "p"), ("b", 1000, 7, 0.0, "p"), ("a", 800, 7, 0.0, "p"),
    ("b", 1200, 7, 0.0, "p"), ("a", 1200, 7, 0.0, "p"), ("c", 1200, 7, 0.0, "p"),
]  # fmt: skip
ABSENT = ("left", "left, of rows", "right, and after", "full", "full, any", "semi", "exists", "anti", "not in")
TREES = (
    "two by key",
    "two by what is made of text",
    "three by key and order",
    "four in a chain",
    "with itself",
    "a path",
    "a path either way",
)
WAITING = ("COMPLETE", "NO WAIT", "DELAY 200 MS", "DELAY 1 MINUTE")

ROW = st.tuples(
    st.sampled_from("aaabbc"),
    st.integers(0, 40).map(lambda t: 50 * t),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, math.nan, 0.0, -0.0, 0.5, 1.0]),
    st.sampled_from([None, "p", "q", "é"]),
)


@pytest.mark.local_only("hundreds of examples, tuple release among them; tests/spark/test_replay.py has a few")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, "") for name in QUERIES),
        *((name, "OPTIONS (shape = 'binary')") for name in TREES),
        *((name, "EMIT ON ARRIVAL") for name in ABSENT),
        *((name, "EMIT IN ORDER WITH CORRECTIONS FOR 200 MS") for name in ABSENT if name not in ("semi", "exists")),
        *(("three in one window", f"OPTIONS (join = '{join}')") for join in ("hash", "nested_loop", "merge")),
        *((name, "OPTIONS (ordering = 'filter')") for name in ("two by key", "a path either way")),
        ("four in a chain", "OPTIONS (shape = 'binary', ordering = 'filter')"),
        ("two that follow rates", "OPTIONS (sampling = 'rounds')"),
    ],
)
@tried(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, max_size=40),
    epoch=st.sampled_from(["1", "2", "7", "200 ms", "1 s"]),
    waiting=st.sampled_from(WAITING),
)
def test_every_answer_is_sound(
    runtime: Runtime, name: str, options: str, rows: list[tuple[Any, ...]], epoch: str, waiting: str
) -> None:
    # Nothing is joined before its turn in epochs.
    epoch = "1" if "ordering" in options else epoch
    answer_is_sound(runtime, f"{QUERIES[name]} WITH {waiting} {options}", rows, epoch)


def answer_is_sound(runtime: Runtime, query: str, rows: list[tuple[Any, ...]], epoch: str) -> None:
    """Run a query over those of some rows that belong to its streams, and have it judged."""
    reads = sources_of(query)
    nothing = arrived(COLUMNS, *((stream, 0, None, None, None) for stream in reads))
    streams = {stream: table.slice(0, 0) for stream, table in nothing.items()}
    streams |= arrived(COLUMNS, *(row for row in rows if row[0] in reads))
    verdict = runtime.verify(query, streams, epoch)
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    if verdict.changed is not None:
        assert verdict.changed.sound, verdict.to_json()
        if query.endswith("WITH CORRECTIONS"):
            assert verdict.changed.corrected is not None
            assert verdict.changed.corrected.missing == 0
    if "DELAY 1 MINUTE" in query:
        assert verdict.missing == 0


@pytest.mark.local_only("tuple release")
@pytest.mark.parametrize(("shape", "lost"), [("multiway", 0), ("binary", 1)])
def test_what_a_node_below_has_lost_is_explained_by_the_tuple_that_was_late_there(
    runtime: Runtime, shape: str, lost: int
) -> None:
    """The third stream is far behind, so one operator would have waited for the straggler of the first."""
    query = f"""SELECT a.k AS k FROM a [500 MS], b [500 MS], c [500 MS] WHERE a.k = b.k AND b.k = c.k
        WITH NO WAIT OPTIONS (shape = '{shape}')"""
    verdict = runtime.verify(query, arrived(COLUMNS, *FAR_APART), "1")
    assert (verdict.missing_late, verdict.missing_unexplained, verdict.spurious) == (lost, 0, 0)
