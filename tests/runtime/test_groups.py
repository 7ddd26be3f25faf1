"""HAVING, FILTER, and expressions around aggregates: what is emitted, counted and verified."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.runtime.streams import Runtime, at, one

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
ROWS = one(
    {"name": TEXT, "v": INT},
    (0, "x", 1), (1, "y", 2), (2, "x", 4), (900, "z", 7), (3, None, 3), (1200, "y", 5), (1300, "y", 6), (9000, "w", 1),
)  # fmt: skip
EPOCHS = ("2", "1000")


@pytest.mark.parametrize("epoch", EPOCHS)
def test_groups_that_are_not_wanted_are_neither_emitted_nor_counted(runtime: Runtime, epoch: str) -> None:
    query = """SELECT name, MAX(v) - MIN(v) AS spread FROM s [1 SEC] GROUP BY name
        HAVING COUNT(*) > 1 AND upper(name) <> 'Q' WITH DELAY 5 SECONDS"""
    ran = runtime.run(query, ROWS, epoch)
    assert ran.rows("window_start", "name", "spread") == [(at(0), "x", 3), (at(1000), "y", 1)]
    assert ran.report["results"] == 2
    verdict = runtime.verify(query, ROWS, epoch)
    assert (verdict.sound, verdict.true_results, verdict.missing) == (True, 2, 0)


def test_a_query_of_which_nothing_is_wanted_gives_an_empty_table(runtime: Runtime) -> None:
    ran = runtime.run("SELECT 2 * SUM(v) AS twice FROM s [1 SEC] HAVING COUNT(*) > 100 WITH DELAY 5 SECONDS", ROWS)
    assert ran.results.num_rows == 0
    assert ran.results.schema.field("twice").type == INT


def test_what_is_computed_has_the_types_of_its_parts(runtime: Runtime) -> None:
    query = """SELECT concat(name, '!') AS loud, SUM(v) / COUNT(*) AS mean, COUNT(*) FILTER (WHERE v > 3) AS high,
        SUM(v) FILTER (WHERE v > 3) AS of_high FROM s [1 SEC] WHERE name = 'x' GROUP BY name WITH DELAY 5 SECONDS"""
    ran = runtime.run(query, ROWS)
    assert ran.rows("loud", "mean", "high", "of_high") == [("x!", 2.5, 1, 4)]
    assert [ran.results.schema.field(name).type for name in ("loud", "mean", "high", "of_high")] == [
        TEXT, FLOAT, INT, INT,
    ]  # fmt: skip


def test_a_query_around_reads_only_wanted_groups(runtime: Runtime) -> None:
    query = """SELECT SUM(n) AS total, COUNT(*) AS names FROM
        (SELECT name, COUNT(*) AS n, AVG(v) + 0.5 AS more FROM s [1 SEC] GROUP BY name HAVING COUNT(*) > 1) t [1 MINUTE]
        WHERE more > 0 WITH DELAY 5 SECONDS"""
    assert runtime.run(query, ROWS).rows("total", "names") == [(4, 2)]
    assert runtime.verify(query, ROWS).missing == 0


@pytest.mark.local_only("tuple release")
def test_what_only_a_late_tuple_would_have_left_out_is_displaced(runtime: Runtime) -> None:
    """The true count is 2, so HAVING would have left the window out; the run knew one tuple of it."""
    query = "SELECT COUNT(*) AS n FROM s [1 SEC] HAVING COUNT(*) < 2 WITH NO WAIT"
    streams = one({"v": INT}, (100, 1), (2000, 1), (200, 1), (9000, 1))
    verdict = runtime.verify(query, streams, "1")
    assert (verdict.sound, verdict.displaced, verdict.results, verdict.true_results) == (True, 1, 3, 2)
