"""As-of joins: which version a tuple gets, late tuples of either side; against DuckDB's own ASOF JOIN."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from tests.effort import more
from tests.runtime.streams import Runtime, arrived, at

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
EPOCHS = ("1", "7", "1000", "1 s")
QUERY = "SELECT a.v AS mine, b.v AS theirs, b.ts AS since FROM a {} b MATCH_CONDITION (a.ts {} b.ts) ON a.k = b.k"
FORMS = [
    ("ASOF JOIN", ">=", ""),
    ("LEFT ASOF JOIN", ">=", ""),
    ("ASOF LEFT JOIN", ">", " WITHIN 300 MS"),
    ("ASOF JOIN", ">", " WITHIN 1 SECOND WHERE b.v % 3 > 0"),
]


def trace(count: int, seed: int, late: int = 60) -> dict[str, pa.Table]:
    """Two streams by five keys and null, out of order; no two tuples of b have one time, so one of them is latest."""
    random = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    taken: set[int] = set()
    for i in range(count):
        stream, k = "ab"[int(random.integers(0, 2))], int(random.integers(0, 6))
        ts = max(0, 10 * i - int(random.integers(0, late)) * 10)
        if stream == "a" or ts not in taken:
            rows.append((stream, ts, None if k == 5 else k, i))
        taken |= {ts} if stream == "b" else set()
    return arrived({"k": INT, "v": INT}, *rows)


def by_duckdb(streams: dict[str, pa.Table], form: tuple[str, str, str]) -> Counter[Any]:
    """The same query of tables, with what WITHIN leaves out taken out afterwards."""
    join, sign, rest = form
    outer = "LEFT" in join
    within = {"": None, " WITHIN 300 MS": 300}.get(rest.partition(" WHERE")[0], 1000)
    with duckdb.connect() as connection:
        connection.register("a", streams["a"])
        connection.register("b", streams["b"])
        found = connection.execute(
            "SELECT a.ts, a.v, b.v, b.ts FROM a ASOF LEFT JOIN (SELECT * FROM b WHERE k IS NOT NULL) b"
            f" ON a.k = b.k AND a.ts {sign} b.ts"
        ).fetchall()
    rows: Counter[Any] = Counter()
    for ts, mine, theirs, since in found:
        young = since is not None and (within is None or ts - since <= within)
        row = (theirs, since) if young else (None, None)
        if (young or outer) and (not rest.endswith("> 0") or (row[0] is not None and row[0] % 3 > 0)):
            rows[at(ts), mine, row[0], None if row[1] is None else row[1]] += 1
    return rows


@pytest.mark.end_to_end
@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form))
def test_rows_are_those_of_duckdb(runtime: Runtime, form: tuple[str, str, str]) -> None:
    streams = trace(500, seed=4)
    query = QUERY.format(*form[:2]) + form[2] + " WITH DELAY 1 MINUTE"
    wanted = by_duckdb(streams, form)
    assert wanted.total() > 40
    for epoch in runtime.offered(*EPOCHS):
        ran = runtime.run(query, streams, epoch)
        found = Counter((*row, _ms(since)) for *row, since in ran.rows("_ts", "mine", "theirs", "since"))
        assert found == wanted
        times = ran.results.column("_ts").to_pylist()
        assert times == sorted(times)
    verdict = runtime.verify(query, streams, runtime.offered("7")[0])
    assert (verdict.results, verdict.true_results, verdict.missing) == (wanted.total(), wanted.total(), 0)
    assert verdict.sound


def _ms(moment: Any) -> Any:
    return moment if moment is None or isinstance(moment, int) else round(moment.timestamp() * 1000)


@pytest.mark.parametrize("seed", [0, *more("another seed, here", 1, 2)])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form))
def test_of_late_tuples_the_judge_can_explain_everything(
    runtime: Runtime, form: tuple[str, str, str], seed: int
) -> None:
    query = QUERY.format(*form[:2]) + form[2] + " WITH DELAY 100 MS"
    verdict = runtime.verify(query, trace(400, seed), runtime.offered("7", "1")[0])
    assert verdict.sound
    assert verdict.missing_late > 0
    assert verdict.displaced > 0


def test_what_is_not_newer_counts_and_what_is_older_alone_with_the_other_sign(runtime: Runtime) -> None:
    streams = arrived(
        {"k": INT, "v": INT}, ("b", 1000, 1, 10), ("a", 2000, 1, 1), ("b", 2000, 1, 20), ("a", 2001, 1, 2),
        ("a", 900, 1, 3),
    )  # fmt: skip
    for sign, first in ((">=", 20), (">", 10)):
        ran = runtime.run(QUERY.format("LEFT ASOF JOIN", sign) + " WITH DELAY 10 SECONDS", streams)
        assert ran.rows("_ts", "mine", "theirs") == [(at(900), 3, None), (at(2000), 1, first), (at(2001), 2, 20)]


def test_of_two_of_one_time_the_larger_counts_whichever_came_first(runtime: Runtime) -> None:
    for values in ((3, 9, 4), (9, 4, 3)):
        rows = (("b", 1000, 1, value) for value in values)
        streams = arrived({"k": INT, "v": INT}, *rows, ("a", 1500, 1, 1))
        ran = runtime.run(QUERY.format("ASOF JOIN", ">=") + " WITH DELAY 10 SECONDS", streams)
        assert ran.rows("theirs") == [(9,)]
        assert runtime.verify(QUERY.format("ASOF JOIN", ">=") + " WITH DELAY 10 SECONDS", streams).sound


def test_both_ends_of_within_belong_to_it(runtime: Runtime) -> None:
    query = QUERY.format("LEFT ASOF JOIN", ">=") + " WITHIN 500 MS WITH DELAY 10 SECONDS"
    streams = arrived({"k": INT, "v": INT}, ("b", 1000, 1, 7), ("a", 1500, 1, 1), ("a", 1501, 1, 2))
    assert runtime.run(query, streams).rows("mine", "theirs") == [(1, 7), (2, None)]


def test_nulls_and_nans_equal_nothing_and_leave_with_nulls(runtime: Runtime) -> None:
    query = QUERY.format("LEFT ASOF JOIN", ">=") + " WITH DELAY 10 SECONDS"
    rows = [("b", 1, k, 1) for k in (None, math.nan, -0.0)] + [
        ("a", 2, k, i) for i, k in enumerate((None, math.nan, 0.0))
    ]
    ran = runtime.run(query, arrived({"k": FLOAT, "v": INT}, *rows))
    assert sorted(ran.rows("mine", "theirs")) == [(0, None), (1, None), (2, 1)]


def test_texts_are_keys_and_values_and_conditions_stand_where_they_mean_something(runtime: Runtime) -> None:
    query = (
        "SELECT upper(b.name) AS name, b.v + a.v AS sum FROM a LEFT ASOF JOIN b MATCH_CONDITION (b.ts <= a.ts)"
        " ON a.name = b.name AND b.v > 0 WHERE a.v > 1 AND (b.v IS NULL OR b.v + a.v < 20) WITH DELAY 10 SECONDS"
    )
    streams = arrived(
        {"name": TEXT, "v": INT}, ("b", 1, "x", 5), ("b", 2, "x", -5), ("b", 3, "y", 90), ("a", 5, "x", 2),
        ("a", 6, "y", 3), ("a", 7, "z", 4), ("a", 8, "x", 1),
    )  # fmt: skip
    # The negative one is no version; what the row of y comes to is too much, and that of z has no version.
    ran = runtime.run(query, streams)
    assert ran.rows("_ts", "name", "sum") == [(at(5), "X", 7), (at(7), None, None)]
    assert runtime.verify(query, streams).sound


def test_versions_are_valid_from_their_time_until_the_next(runtime: Runtime) -> None:
    streams = arrived(
        {"k": INT, "v": INT}, ("b", 1000, 1, 5), ("a", 1000, 1, 1), ("a", 4000, 1, 2), ("b", 3000, 1, 0),
        ("b", 6000, 1, 7), ("a", 2999, 1, 3), ("a", 6000, 1, 4), ("a", 6000, 2, 5),
    )  # fmt: skip
    # A version of nothing says that there is none from then on.
    query = (
        "SELECT a.v AS mine, CASE WHEN r.v > 0 THEN r.v END AS theirs FROM a {} JOIN b FOR SYSTEM_TIME AS OF a.ts AS r"
        " ON a.k = r.k {} WITH DELAY 10 SECONDS"
    )
    found = [(1, 5), (3, 5), (2, None), (4, 7), (5, None)]
    assert runtime.run(query.format("LEFT", ""), streams).rows("mine", "theirs") == found
    kept = runtime.run(query.format("", "WHERE r.v > 0"), streams).rows("mine", "theirs")
    assert kept == [row for row in found if row[1]]
    assert runtime.verify(query.format("LEFT", ""), streams).sound


def test_without_a_key_the_latest_of_all_counts(runtime: Runtime) -> None:
    query = "SELECT a.v AS mine, b.v AS theirs FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) WITH DELAY 1 SECOND"
    streams = arrived({"v": INT}, ("b", 1, 5), ("b", 4, 6), ("a", 3, 1), ("a", 5, 2))
    assert runtime.run(query, streams).rows("mine", "theirs") == [(1, 5), (2, 6)]
    assert runtime.verify(query, streams).missing == 0


def test_a_late_tuple_is_a_version_of_those_that_the_watermark_has_not_passed(runtime: Runtime) -> None:
    streams = arrived(
        {"k": INT, "v": INT},
        ("b", 0, 1, 1), ("a", 3000, 1, 1), ("b", 3000, 9, 0), ("a", 5000, 1, 2), ("b", 5000, 9, 0),
        ("b", 2000, 1, 7), ("a", 2500, 1, 3), ("a", 6000, 1, 4), ("b", 6000, 9, 0),
    )  # fmt: skip
    query = QUERY.format("ASOF JOIN", ">=") + " WITH NO WAIT"
    epoch = runtime.offered("1", "1 s")[0]
    ran = runtime.run(query, streams, epoch)
    # The first of a was answered when the tuple of 2000 came, the second was not; the third is late itself.
    late = {name: table.num_rows for name, table in ran.late.items()}
    if epoch == "1":
        assert sorted(ran.rows("mine", "theirs")) == [(1, 1), (2, 7), (4, 7)]
        assert late == {"a": 1, "b": 1}
    verdict = runtime.verify(query, streams, epoch)
    assert verdict.sound


@pytest.mark.parametrize(("target", "form"), [(0.9, FORMS[0]), (0.97, FORMS[1]), (0.97, FORMS[3])], ids=str)
def test_a_target_is_kept_and_what_is_measured_is_true(
    runtime: Runtime, target: float, form: tuple[str, str, str]
) -> None:
    query = QUERY.format(*form[:2]) + form[2] + f" WITH RECALL {target} OVER 2 SECONDS"
    said, verdict = runtime.judged(query, trace(4000, seed=9), runtime.offered("50", "1")[0])
    assert verdict.sound
    assert verdict.recall_overall >= target - 0.01
    assert verdict.missing_late > 0, "the least slack that is enough loses some"
    measured = said["measured_quality"]
    assert measured["measured"] == pytest.approx(verdict.recall_overall, abs=1e-9)
    assert measured["precision"] == pytest.approx(verdict.precision, abs=1e-9)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form))
def test_corrections_make_rows_those_of_all_tuples(runtime: Runtime, form: tuple[str, str, str]) -> None:
    query = QUERY.format(*form[:2]) + form[2] + " WITH NO WAIT EMIT IN ORDER WITH CORRECTIONS FOR {}"
    streams, epoch = trace(400, seed=2), runtime.offered("7", "1")[0]
    for reach, exact in (("1 MINUTE", True), ("100 MS", False)):
        verdict = runtime.verify(query.format(reach), streams, epoch)
        assert verdict.sound
        assert verdict.missing_late > 0
        assert verdict.changed is not None
        corrected = verdict.changed.corrected
        assert corrected is not None
        assert (corrected.missing == 0) == exact
        assert verdict.changed.corrections > 10


@pytest.mark.parametrize("waiting", ["DELAY 1 MINUTE", "DELAY 100 MS"])
def test_others_read_an_as_of_join(runtime: Runtime, waiting: str) -> None:
    rows = "SELECT a.k, b.v, b.ts AS since FROM a LEFT ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"
    query = (
        f"SELECT k, COUNT(*) AS n, COUNT(v) AS found, SUM(v) AS total FROM ({rows}) j [1 SECOND] GROUP BY k"
        f" WITH {waiting}"
    )
    streams = trace(400, seed=6)
    verdict = runtime.verify(query, streams, runtime.offered("7", "1")[0])
    assert verdict.sound
    assert verdict.true_results > 20
    assert (verdict.missing == 0) == (waiting == "DELAY 1 MINUTE")
    united = f"SELECT k, v FROM ({rows}) j UNION ALL SELECT k, v FROM a WITH {waiting}"
    assert runtime.verify(united, streams, runtime.offered("7", "1")[0]).sound


def test_a_row_is_updated_by_a_version_that_comes_late(runtime: Runtime) -> None:
    streams = arrived(
        {"k": INT, "v": INT}, ("b", 0, 1, 1), ("a", 3000, 1, 1), ("b", 3000, 9, 0), ("a", 5000, 1, 2),
        ("b", 5000, 9, 0), ("b", 2000, 1, 7), ("a", 4000, 1, 3), ("a", 6000, 2, 4), ("b", 6000, 9, 0),
    )  # fmt: skip
    query = QUERY.format("LEFT ASOF JOIN", ">=") + " WITH NO WAIT EMIT IN ORDER WITH CORRECTIONS"
    rows = runtime.run(query, streams, runtime.offered("1", "1 s")[0]).rows("mine", "theirs", "_change", "_version")
    table: dict[Any, Any] = {}
    for mine, theirs, change, version in sorted(rows, key=lambda row: row[3]):
        assert change == ("update" if mine in table else "insert")
        assert version == (1 if mine in table else 0)
        table[mine] = theirs
    assert table == {1: 7, 2: 7, 3: 7, 4: None}


@pytest.mark.local_only("refused before a runtime is asked")
def test_results_are_not_counted(runtime: Runtime) -> None:
    streams = arrived({"k": INT, "v": INT}, ("b", 0, 1, 1), ("a", 0, 1, 1))
    with pytest.raises(UsageError, match="leave out ASOF"):
        runtime.run(QUERY.format("ASOF JOIN", ">="), streams, count_only=True)
