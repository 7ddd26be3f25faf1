"""Session windows: where they begin and end, what late tuples do to them, how long they are; against a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.runtime.streams import Runtime, at, one

COLUMNS = {"k": pa.int64(), "v": pa.int64()}
VISITS = one(COLUMNS, (10, 1, 5), (30, 2, 7), (15, 1, 6), (20, 1, 1), (26, 1, 2), (35, 2, 8), (12, 1, 9), (90, 1, 3))
QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [SESSION 5 MS{}] GROUP BY k WITH {}"


def visits(count: int, seed: int) -> list[tuple[int, int | None, float | None]]:
    """Rows (ts in ms, k, v) of a few users with breaks, out of order by up to 40 ms."""
    random = np.random.default_rng(seed)
    rows: list[tuple[int, int | None, float | None]] = []
    for i in range(count):
        k, v = int(random.integers(0, 5)), float(random.integers(0, 9))
        rows.append((max(4 * i - int(random.integers(0, 11)) * 4, 0), None if k == 4 else k, None if v == 0 else v))
    return rows


def sessions(rows: list[tuple[int, Any, Any]], gap: int, most: int = 2**40) -> list[tuple[Any, ...]]:
    """Start, end, key, tuples, sum and different values of every session, by going along the tuples of every key."""
    found = []
    for key in {row[1] for row in rows}:
        ordered = sorted((row for row in rows if row[1] == key), key=lambda row: row[0])
        cuts = [0]
        for i in range(1, len(ordered)):
            if ordered[i][0] - ordered[i - 1][0] > gap or ordered[i][0] - ordered[cuts[-1]][0] >= most:
                cuts.append(i)
        for begin, end in zip(cuts, [*cuts[1:], len(ordered)], strict=True):
            inside = ordered[begin:end]
            values = [v for *_, v in inside if v is not None]
            stop = min(inside[-1][0] + gap, inside[0][0] + most)
            found.append(
                (at(inside[0][0]), at(stop), key, len(inside), sum(values) if values else None, len({*values}))
            )
    return sorted(found, key=str)


@pytest.mark.end_to_end
@pytest.mark.parametrize("epoch", ["1", "50", "1000", "1 s"])
@pytest.mark.parametrize("most", [None, 60])
def test_sessions_are_those_that_a_plain_loop_finds(runtime: Runtime, epoch: str, most: int | None) -> None:
    rows = visits(600, seed=3)
    streams = one({"k": pa.int64(), "v": pa.float64()}, *rows)
    length = "" if most is None else f" AT MOST {most} MS"
    query = (
        "SELECT k, COUNT(*) AS n, SUM(v) AS total, COUNT(DISTINCT v) AS different"
        f" FROM s [SESSION 18 MS{length}] GROUP BY k WITH DELAY 1 SECOND"
    )
    ran = runtime.run(query, streams, epoch)
    wanted = sessions(rows, 18) if most is None else sessions(rows, 18, most)
    assert len(wanted) > 60
    found = ran.rows("window_start", "window_end", "k", "n", "total", "different")
    assert sorted(found, key=str) == wanted
    verdict = runtime.verify(query, streams, epoch)
    assert (verdict.results, verdict.true_results, verdict.missing, verdict.sound) == (*[len(wanted)] * 2, 0, True)


def test_a_session_lasts_as_long_as_its_tuples_are_near_and_the_gap(runtime: Runtime) -> None:
    ran = runtime.run(QUERY.format("", "DELAY 1 SECOND"), VISITS)
    assert ran.rows("window_start", "window_end", "k", "n", "total") == [
        (at(10), at(25), 1, 4, 21), (at(26), at(31), 1, 1, 2), (at(30), at(40), 2, 2, 15), (at(90), at(95), 1, 1, 3),
    ]  # fmt: skip


def test_a_session_that_is_full_ends_and_the_next_tuple_begins_another(runtime: Runtime) -> None:
    ran = runtime.run(QUERY.format(" AT MOST 10 MS", "DELAY 1 SECOND"), VISITS)
    assert ran.rows("window_start", "window_end", "k", "n", "total") == [
        (at(10), at(20), 1, 3, 20), (at(20), at(25), 1, 1, 1), (at(26), at(31), 1, 1, 2), (at(30), at(40), 2, 2, 15),
        (at(90), at(95), 1, 1, 3),
    ]  # fmt: skip


@pytest.mark.local_only("tuple release")
def test_a_late_tuple_makes_open_sessions_one_and_is_lost_where_they_are_closed(runtime: Runtime) -> None:
    query = "SELECT COUNT(*) AS n FROM s [SESSION 10 MS] WITH NO WAIT"
    late = one({"v": pa.int64()}, (0, 1), (20, 1), (12, 1), (25, 1), (5, 1), (36, 1), (31, 1), (60, 1), (41, 1))
    ran = runtime.run(query, late, "1")
    # 12 joins 20; 5 is near 0, which has ended, and 12, which has not; 31 is near 25, which has ended, and 36; 41 comes
    # too late for any.
    assert ran.rows("window_start", "window_end", "n") == [
        (at(0), at(10), 1), (at(5), at(35), 4), (at(31), at(46), 2), (at(60), at(70), 1),
    ]  # fmt: skip
    verdict = runtime.verify(query, late, "1")
    assert (verdict.spurious, verdict.missing_unexplained, verdict.out_of_order, verdict.sound) == (0, 0, 0, True)


def test_nulls_are_a_key_and_texts_are_counted(runtime: Runtime) -> None:
    rows = [(1, None, "b"), (3, "x", "a"), (2, None, "a"), (40, None, None), (44, "x", "b")]
    streams = one({"k": pa.string(), "name": pa.string()}, *rows)
    query = (
        "SELECT k, MIN(name) AS least, LAST(name) AS newest, COUNT(DISTINCT name) AS names, COUNT(*) * 2 AS twice"
        " FROM s [SESSION 5 MS] GROUP BY k HAVING COUNT(*) > 0 WITH DELAY 1 SECOND"
    )
    ran = runtime.run(query, streams)
    assert sorted(ran.rows("window_start", "k", "least", "newest", "names", "twice"), key=str) == [
        (at(1), None, "a", "a", 2, 4), (at(3), "x", "a", "a", 1, 2), (at(40), None, None, None, 0, 2),
        (at(44), "x", "b", "b", 1, 2),
    ]  # fmt: skip
    assert runtime.verify(query, streams).missing == 0


@pytest.mark.parametrize("epoch", ["1", "100"])
@pytest.mark.parametrize("target", ["NO WAIT", "COMPLETE", "DELAY 8 MS"])
def test_what_is_wrong_is_explained_by_late_tuples(runtime: Runtime, target: str, epoch: str) -> None:
    streams = one({"k": pa.int64(), "v": pa.float64()}, *visits(500, seed=8))
    verdict = runtime.verify(
        f"SELECT k, AVG(v) AS mean FROM s [SESSION 18 MS] GROUP BY k WITH {target}", streams, epoch
    )
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert verdict.missing_late > 0
