"""Queries of several operators over any small disordered streams: what is missing is explained, nothing else is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.language.bind import sources_of
from tests.runtime.streams import Runtime, arrived
from tests.runtime.test_against_the_judge import COLUMNS, ROW, WAITING

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
    "joined with a union": """SELECT u.k AS k, c.x AS x FROM
        (SELECT k, x FROM a UNION ALL SELECT k, x FROM b WHERE x > 0) u [300 MS], c [300 MS] WHERE u.k = c.k""",
    "counts of a union of counts": f"""SELECT k, SUM(n) AS n FROM ({COUNTS}
        UNION ALL SELECT k, COUNT(*) AS n, MIN(x) AS low FROM b [1 SEC] GROUP BY k) u [1 SEC] GROUP BY k""",
    "by a float": f"SELECT x, COUNT(*) AS n FROM ({PAIR}) j [500 MS] GROUP BY x",
    "selection of a selection": "SELECT k, y FROM (SELECT k, x * 2 AS y FROM a WHERE k <> 1) s WHERE y > 0",
}
@pytest.mark.local_only("hundreds of examples, tuple release among them; below and in tests/spark are a few")
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, max_size=40),
    epoch=st.sampled_from(["1", "2", "7", "200 ms", "1 s"]),
    waiting=st.sampled_from(WAITING),
)
def test_every_answer_is_sound(
    runtime: Runtime, name: str, rows: list[tuple[Any, ...]], epoch: str, waiting: str
) -> None:
    nothing = arrived(COLUMNS, *((stream, 0, None, None, None) for stream in sources_of(QUERIES[name])))
    streams = {stream: table.slice(0, 0) for stream, table in nothing.items()}
    streams |= arrived(COLUMNS, *(row for row in rows if row[0] in sources_of(QUERIES[name])))
    verdict = runtime.verify(f"{QUERIES[name]} WITH {waiting}", streams, epoch)
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    if waiting == "DELAY 1 MINUTE":
        assert verdict.missing == 0
