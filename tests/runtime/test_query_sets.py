"""Sets of queries: every query of a set answers as it does alone, whatever runs beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import DataError, UsageError
from slackwater.core.quality import Complete
from slackwater.core.time import SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.queries import LocalQueries
from slackwater.runtime.local.run import BATCH, LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from tests.effort import more

QUERIES = {
    "sums": "SELECT k, SUM(v) AS s FROM a [2 SECONDS SLIDE 1 SECOND] GROUP BY k WITH DELAY 300 MS",
    "odd_sums": "SELECT k, SUM(v) AS s FROM a [2 SECONDS] WHERE k > 1 GROUP BY k WITH COMPLETE",
    "near": "SELECT COUNT(*) AS n FROM a [3 SECONDS] WHERE k > 1 WITH ERROR 5%",
    "halves": "SELECT k % 2 AS h, MAX(w) AS m FROM a [1 SECOND] GROUP BY k % 2 WITH NO WAIT",
    "pairs": "SELECT a.v, b.v AS w FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k WITH DELAY 500 MS",
    "some_pairs": "SELECT a.v, b.w FROM a [2 SECONDS], b [1 SECOND]"
    " WHERE a.k = b.k AND a.k > 1 AND b.v < 50 WITH NO WAIT",
    "good_pairs": "SELECT a.v, b.w FROM b [1 SECOND], a [1 SECOND] WHERE a.k = b.k WITH RECALL 0.9 OVER 5 SECONDS",
    "all_pairs": "SELECT a.v, b.w FROM a [1 SECOND], b [2 SECONDS] WHERE a.k = b.k AND b.v < 50 WITH COMPLETE",
    "self": "SELECT x.v, y.v AS u FROM a AS x [1 SECOND], a AS y [1 SECOND]"
    " WHERE x.k = y.k AND x.w < y.w WITH DELAY 1 SECOND",
    "chosen": "SELECT k, MAX_BY(w, v) AS m, MIN_BY(v, w) AS l FROM a [2 SECONDS] GROUP BY k WITH DELAY 300 MS",
    "chosen_by_time": "SELECT k, MAX_BY(w, ts) AS m, MIN_BY(v, ts) AS l FROM a [2 SECONDS] GROUP BY k"
    " WITH DELAY 300 MS",
    "chosen_too": "SELECT k, MAX_BY(w, v) AS m, MIN_BY(v, w) AS l FROM a [3 SECONDS SLIDE 1 SECOND] GROUP BY k"
    " WITH COMPLETE",
    "filtered": "SELECT v, w FROM a WHERE w > 40 WITH DELAY 200 MS",
    "texts": "SELECT t, COUNT(*) AS n FROM b [2 SECONDS] WHERE t <> 'x' GROUP BY t WITH DELAY 100 MS",
    "three": "SELECT a.v, b.v AS u, c.v AS w FROM a [1 SECOND], b [1 SECOND], c [1 SECOND]"
    " WHERE a.k = b.k AND b.k = c.k WITH DELAY 300 MS",
    "at_once": "SELECT a.v, b.w FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k EMIT ON ARRIVAL WITH DELAY 300 MS",
    "at_once_well": "SELECT a.v, b.w FROM b [1 SECOND], a [1 SECOND] WHERE a.k = b.k AND b.v < 50"
    " EMIT ON ARRIVAL WITH RECALL 0.9 OVER 5 SECONDS",
    "corrected": "SELECT a.v, b.w FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k"
    " EMIT IN ORDER WITH CORRECTIONS FOR 2 SECONDS WITH DELAY 100 MS",
    "absent": "SELECT a.v, b.w FROM a [1 SECOND] LEFT JOIN b [1 SECOND] ON a.k = b.k AND a.w < b.w"
    " WITH RECALL 0.9 PRECISION 0.99 OVER 5 SECONDS",
    "absent_graph": "SELECT a.v, b.w, c.v AS u FROM a [1 SECOND] LEFT JOIN b [1 SECOND] ON a.k = b.k AND a.w < b.w"
    " LEFT JOIN c [1 SECOND] ON b.k = c.k WITH DELAY 300 MS",
    "none": "SELECT v FROM a [1 SECOND] WHERE NOT EXISTS (SELECT 1 FROM b [1 SECOND] WHERE a.k = b.k AND a.w < b.w)"
    " EMIT IN ORDER WITH CORRECTIONS FOR 2 SECONDS WITH DELAY 100 MS",
    "latest": "SELECT a.v, b.w FROM a LEFT ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k AND b.w > 20"
    " WITHIN 1 SECOND WITH DELAY 200 MS",
    "by_partition": "SELECT t, SUM(v) AS s FROM a [2 SECONDS] WHERE w > 20 GROUP BY t WITH DELAY 100 MS"
    " OPTIONS (clock_by = 't, k')",
    "graph": "SELECT k, COUNT(*) AS n FROM"
    " (SELECT a.k FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k) AS q [2 SECONDS] GROUP BY k WITH DELAY 300 MS",
}


def streams(seed: int, rows: int = 3000) -> dict[str, pa.Table]:
    """Three streams that come together, each with its own disorder."""
    random = np.random.default_rng(seed)
    of = random.integers(0, 3, rows)
    now = np.cumsum(random.integers(0, 12, rows))
    late = random.random(rows) < 0.3
    ts = now - random.integers(0, 900, rows) * late
    tables = {}
    for number, name in enumerate("abc"):
        mine = np.flatnonzero(of == number)
        tables[name] = pa.table(
            {
                "arrival": mine,
                "ts": ts[mine],
                "k": random.integers(0, 5, len(mine)),
                "v": random.integers(0, 100, len(mine)),
                "w": np.round(random.normal(30, 20, len(mine)), 2),
                "t": pa.array(random.choice(["x", "y", "z"], len(mine)).tolist()),
            }
        )
    return tables


def planned(queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, PhysicalPlan]:
    return {name: plan(bind_to_tables(text, dict(tables), "ts").query) for name, text in queries.items()}


def rows_of(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """In the order in which they came; windows that end together have no order among their groups."""
    rows = pa.concat_tables(tables).to_pylist()
    if rows and "window_end" in rows[0]:
        ends = [row["window_end"] for row in rows]
        assert ends == sorted(ends)
        rows.sort(key=lambda row: (row["window_end"], str(row)))
    return rows


COUNTS = ("tuples", "in_time", "late", "filtered", "ahead", "held", "results", "epochs", "clocks", "slack", "watermark",
          "idle")  # fmt: skip


def assert_as_alone(
    run: LocalQueries, found: dict[str, list[pa.Table]], plans: Mapping[str, PhysicalPlan], tables: dict[str, pa.Table],
    epochs: Epochs, arrival_time: str | None = None,
) -> None:  # fmt: skip
    for name, one in plans.items():
        alone = LocalRun(one, replay(one, tables, "ms", arrival_time), epochs, batch=run._batch or BATCH)
        assert rows_of(found[name]) == rows_of(list(alone.tables())), name
        mine, theirs = run.runs[name].observe(), alone.observe()
        assert {n: getattr(mine, n) for n in COUNTS} == {n: getattr(theirs, n) for n in COUNTS}, name
        if run.kernel.domain_of(name).members[name].reader is None:
            # Who reads panes of a store counts what is needed of them (`test_shared_panes`).
            assert mine.state_rows == theirs.state_rows, name
        for position in range(len(one.inputs)):
            outputs = run.runs[name].side_outputs, alone.side_outputs
            late, late_alone = (each.late_rows(position) for each in outputs)
            assert late.equals(late_alone), name
            rejected, rejected_alone = (each.rejected_rows(position) for each in outputs)
            assert rejected.equals(rejected_alone), name
        report, report_alone = run.runs[name].report().as_json(), alone.report().as_json()
        assert report["slack_ms"] == report_alone["slack_ms"], name
        assert report["quality"] == report_alone["quality"], name


@pytest.mark.parametrize(
    "epochs",
    [Epochs(span=SECOND), Epochs(each_tuple=True), *more("epochs of a second, here", Epochs(tuples=100), Epochs())],
)
def test_every_query_of_a_set_answers_as_it_does_alone(epochs: Epochs) -> None:
    tables = streams(1)
    plans = planned(QUERIES, tables)
    run = LocalQueries(plans, tables, "ms", epochs, batch=700)
    found: dict[str, list[pa.Table]] = {name: [] for name in plans}
    for name, table in run.tables():
        found[name].append(table)
    assert_as_alone(run, found, plans, tables, epochs)


@pytest.mark.parametrize("seed", [0, 1, *more("another seed, here", 2)])
def test_it_holds_for_any_queries_and_any_cutting(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = random.choice(list(QUERIES), 4, replace=False).tolist()
    epochs = [Epochs(span=int(random.integers(1, 40)) * SECOND // 10), Epochs(tuples=int(random.integers(1, 300)))]
    tables = streams(20 + seed, int(random.integers(1, 1500)))
    plans = planned({name: QUERIES[name] for name in names}, tables)
    cut = epochs[seed % 2]
    run = LocalQueries(plans, tables, "ms", cut, batch=int(random.integers(1, 500)))
    found = taken(run)
    assert_as_alone(run, found, plans, tables, cut)


def taken(run: LocalQueries, changes: Mapping[int, Any] | None = None) -> dict[str, list[pa.Table]]:
    """All tables of a run by query; changes are made when so many tables have come."""
    found: dict[str, list[pa.Table]] = {}
    for number, (name, table) in enumerate(run.tables()):
        found.setdefault(name, []).append(table)
        if changes and number in changes:
            changes[number](run)
    return found


def test_a_query_is_given_another_target_while_a_set_runs() -> None:
    tables = streams(9)
    plans = planned({name: QUERIES[name] for name in ("sums", "pairs", "filtered")}, tables)
    run = LocalQueries(plans, tables, "ms", Epochs(span=SECOND), batch=300)
    found = taken(run, {4: lambda run: run.set_target("pairs", Complete())})
    assert run.runs["pairs"].report().as_json()["quality"] == "COMPLETE"
    others = {name: plans[name] for name in ("sums", "filtered")}
    assert_as_alone(run, found, others, tables, Epochs(span=SECOND))


def test_what_is_not_there_is_refused_by_name() -> None:
    tables = streams(10, 300)
    run = LocalQueries(planned({"sums": QUERIES["sums"]}, tables), tables, "ms", Epochs())
    with pytest.raises(UsageError, match="there is no query nobody; known are: sums"):
        run.status("nobody")


def test_a_query_fails_alone_by_its_filter_its_keys_or_what_it_selects() -> None:
    tables = streams(11, 1500)
    most = pa.array([2**62] * tables["a"].num_rows)
    tables["a"] = tables["a"].append_column("big", most)
    failing = {
        "by_filter": "SELECT v FROM a WHERE big + big + k > 0 WITH NO WAIT",
        "by_key": "SELECT SUM(v) AS s FROM a [1 SECOND] WHERE k > 1 GROUP BY big + big + k WITH NO WAIT",
        "by_result": "SELECT big + big + k AS much FROM a WITH NO WAIT",
    }
    good = {
        "sums": QUERIES["sums"],
        "same_key": "SELECT SUM(v) AS s FROM a [1 SECOND] WHERE k > 9 GROUP BY big + big + k WITH NO WAIT",
    }
    plans = planned({**failing, **good}, tables)
    run = LocalQueries(plans, tables, "ms", Epochs(span=SECOND), batch=300)
    found = taken(run)
    for name in failing:
        assert run.status(name).status == "failed", name
        assert "integer overflow in" in run.status(name).reason
        with pytest.raises(DataError, match="integer overflow in"):
            list(LocalRun(plans[name], replay(plans[name], tables, "ms"), Epochs(span=SECOND), batch=300).tables())
    assert_as_alone(run, found, {name: plans[name] for name in good}, tables, Epochs(span=SECOND))


def test_a_row_that_one_query_rejects_is_not_lost_to_the_others() -> None:
    tables = streams(12, 900)
    odd = np.where(np.arange(tables["a"].num_rows) % 7 == 3, 2**63 + 5, 1).astype(np.uint64)
    tables["a"] = (
        tables["a"]
        .append_column("odd", pa.array(odd))
        .set_column(
            1, "ts", pa.array([None if n == 5 else ts for n, ts in enumerate(tables["a"].column("ts").to_pylist())])
        )
    )
    texts = {
        "sums": QUERIES["sums"],
        "odd": "SELECT SUM(odd) AS s FROM a [1 SECOND] WITH DELAY 300 MS",
        "odd_pairs": "SELECT a.odd, b.v FROM a [1 SECOND], b [1 SECOND] WHERE a.k = b.k WITH DELAY 300 MS",
        "pairs": QUERIES["pairs"],
    }
    plans = planned(texts, tables)
    run = LocalQueries(plans, tables, "ms", Epochs(span=SECOND), batch=300)
    found = taken(run)
    assert (
        run.runs["odd"].side_outputs.rejected_rows(0).num_rows
        > run.runs["sums"].side_outputs.rejected_rows(0).num_rows
        == 1
    )
    assert_as_alone(run, found, plans, tables, Epochs(span=SECOND))
