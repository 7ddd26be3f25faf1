"""Emissions by choice, on the local runtime and in shards: what leaves, when, and what is refused."""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import QueryError, UsageError
from tests.runtime.streams import Runtime
from tests.runtime.test_query_sets import streams

JOIN = "SELECT a.v, b.w FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k"
IN_EPOCHS = (sw.Epochs(tuples=50), sw.Epochs(span=500_000))


def rows(answer: sw.Answer, first: bool | None = None) -> Counter[tuple[object, ...]]:
    found = answer.results.select(["v", "w", "_ts"]).to_pylist()
    return Counter(tuple(row.values()) for row in found)


def truth(tables: dict[str, pa.Table]) -> int:
    a, b = tables["a"], tables["b"]  # noqa: F841 - DuckDB reads them by name
    pairs = "SELECT count(*) FROM a JOIN b ON a.k = b.k AND abs(a.ts - b.ts) <= 1000"
    return int(duckdb.sql(pairs).fetchall()[0][0])


@pytest.mark.parametrize("target", ["NO WAIT", "DELAY 200 MS", "COMPLETE", "RECALL 0.9 OVER 5 SECONDS"])
@pytest.mark.parametrize("epochs", IN_EPOCHS, ids=["tuples", "span"])
def test_what_leaves_on_arrival_is_what_leaves_in_order_and_its_recall_is_known(target: str, epochs: sw.Epochs) -> None:
    tables = streams(31)
    in_order = sw.replay(f"{JOIN} WITH {target}", tables, epochs=epochs)
    arrived = sw.replay(f"{JOIN} EMIT ON ARRIVAL WITH {target}", tables, epochs=epochs)
    assert rows(arrived) == rows(in_order)
    assert arrived.report["late"] == in_order.report["late"]
    assert arrived.report["latency_ms"]["avg"] < in_order.report["latency_ms"]["avg"]
    if target.startswith("RECALL"):
        measured = arrived.report["measured_quality"]
        assert measured["measured"] == pytest.approx(arrived.results.num_rows / truth(tables))
        assert measured["low"] == measured["high"] == measured["measured"]


@pytest.mark.parametrize("epochs", [None, *IN_EPOCHS], ids=["tuple by tuple", "tuples", "span"])
def test_corrections_complete_the_first_answer_and_both_are_measured(epochs: sw.Epochs | None) -> None:
    tables = streams(32)
    words = {} if epochs is None else {"epochs": epochs}
    text = f"{JOIN} {{}} WITH RECALL 0.5 OVER 5 SECONDS"
    in_order = sw.replay(text.format(""), tables, **words)
    corrected = sw.replay(text.format("EMIT IN ORDER WITH CORRECTIONS"), tables, **words)
    assert corrected.results.num_rows == truth(tables) == corrected.report["results"] + corrected.report["amended"]
    assert set(corrected.results["_change"].to_pylist()) == {"insert"}
    assert set(corrected.results["_version"].to_pylist()) == {0}
    assert not rows(in_order) - rows(corrected), "a first answer is missing"
    assert corrected.report["results"] == in_order.report["results"] < truth(tables)
    assert corrected.report["latency_ms"] == in_order.report["latency_ms"], "the first answer waits as it did"
    shares = [one.report["measured_quality"]["measured"] for one in (in_order, corrected)]
    assert shares[0] == shares[1] == pytest.approx(in_order.results.num_rows / truth(tables))


MANY = {
    "keyed": JOIN,
    "keyless, a band": "SELECT a.v, b.w FROM a [300 MS], b [300 MS] WHERE abs(a.v - b.v) < 3",
    "keyless, nothing": "SELECT a.v, b.w FROM a [40 MS], b [40 MS] WHERE a.v > b.w",
    "three": "SELECT a.v, c.w FROM a [1 SECOND], b [500 MS], c [1 SECOND] WHERE a.k = b.k AND b.k = c.k",
    "a path": "SELECT a.v, b.w FROM a, b WHERE a.k = b.k PATH a -> b WITHIN 1 SECOND",
    "a self-join": "SELECT x.v, y.w FROM a AS x [1 SECOND], a AS y [1 SECOND] WHERE x.k = y.k AND x.w < y.w",
    "a selection": "SELECT v, w FROM a WHERE w > 20",
}


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", MANY)
def test_every_join_leaves_on_arrival_and_with_corrections_on_every_runtime(runtime: Runtime, name: str) -> None:
    text, epoch = MANY[name], "500 ms"
    tables = {name: table for name, table in streams(35, 1500).items() if f" {name} " in text.replace(",", " ")}
    ran = [
        runtime.run(f"{text} {emit} WITH DELAY 200 MS", tables, epoch)
        for emit in ("", "EMIT ON ARRIVAL", "EMIT IN ORDER WITH CORRECTIONS")
    ]
    (whole,) = (runtime.run(f"{text} WITH DELAY 1 HOUR", tables, epoch).results,)
    first, arrived, corrected = (Counter(map(str, one.results.select(whole.column_names).to_pylist())) for one in ran)
    everything = Counter(map(str, whole.to_pylist()))
    assert arrived == (everything if name == "a selection" else first)
    assert not first - corrected
    assert corrected == everything != first
    assert ran[2].report["amended"] == everything.total() - first.total()
    assert ran[0].report["late"] == ran[1].report["late"] == ran[2].report["late"]


def test_corrections_end_where_it_is_said() -> None:
    tables = streams(33)
    most = [sw.replay(f"{JOIN} EMIT IN ORDER WITH CORRECTIONS FOR {d} WITH NO WAIT", tables).report["amended"]
            for d in ("50 MS", "300 MS", "1 DAY")]  # fmt: skip
    assert 0 < most[0] < most[1] < most[2]


def test_a_selection_on_arrival_loses_nothing() -> None:
    tables = streams(34)
    answer = sw.replay("SELECT v FROM a WHERE w > 20 EMIT ON ARRIVAL WITH NO WAIT", tables)
    kept = [v for v, w in zip(tables["a"]["v"].to_pylist(), tables["a"]["w"].to_pylist(), strict=True) if w > 20]
    assert answer.results["v"].to_pylist() == kept, "in the order in which they came"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT COUNT(*) AS n FROM a [1 SECOND] EMIT ON ARRIVAL", "EMIT ON ARRIVAL is for joins"),
        (f"{JOIN} EMIT EARLY EVERY 1 SECOND", "EMIT EARLY is for aggregates"),
        (f"{JOIN} EMIT IN ORDER WITH CORRECTIONS FOR 2 DAYS", "corrections are possible for at most 1 d"),
        (f"{JOIN} EMIT ON ARRIVAL OPTIONS (join = 'hash')", "does not go with option join = 'hash'"),
        (f"{JOIN} EMIT SOMETIMES", "EMIT needs a way to leave"),
        ("SELECT v FROM (SELECT v FROM a EMIT ON ARRIVAL) j [1 SECOND]", "EMIT stands once"),
        (
            "SELECT a.v FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k EMIT ON ARRIVAL",
            "EMIT ON ARRIVAL needs windows of time",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(query: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        sw.replay(query, streams(1, 30))


def test_counts_and_time_steps_do_not_change() -> None:
    with pytest.raises(UsageError, match="is for queries with sinks"):
        sw.live(f"{JOIN} EMIT ON ARRIVAL", streams(1, 30))
