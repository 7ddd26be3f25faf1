"""Plans of several operators: which nodes, by what they are cut into shards, what is refused, and EXPLAIN."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from slackwater.language.bind import bind
from slackwater.operators.graph import OperatorGraph
from slackwater.plan.explain import explain
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.sources.files import schema_of

TABLE = pa.table({"ts": [1], "k": [1], "x": [0.5], "w": [1], "name": ["u"]})
SCHEMAS = {name: schema_of(name, TABLE, "ts") for name in "abc"}
PAIR = "SELECT a.k AS k, a.x AS x, b.w AS w FROM a [5 s], b [5 s] WHERE a.k = b.k"
COUNTS = "SELECT k, COUNT(*) AS n FROM c [1 s] GROUP BY k"


def planned(query: str, **options: bool) -> PhysicalPlan:
    return plan(bind(query, SCHEMAS).query, **options)


def key_of(query: str) -> list[str] | None:
    """The column of every input that a query is cut by."""
    physical = planned(query)
    routes = physical.operator.shard_rows
    if routes is None:
        return None
    names = [{row: name for name, _, row in one.columns} for one in physical.inputs]
    return [names[at][row] for at, (row,) in enumerate(routes)]


def test_every_query_is_a_node_behind_those_it_reads() -> None:
    physical = planned(f"SELECT j.w, t.n FROM ({PAIR}) j [1 s], ({COUNTS}) t [1 s] WHERE j.k = t.k AND t.n > 1")
    graph = physical.operator
    assert isinstance(graph, OperatorGraph)
    assert [node.inputs for node in graph.nodes] == [(0, 1), (2,), (~0, ~1)]
    assert [one.stream.alias for one in physical.inputs] == ["a", "b", "c"]
    assert [one.position for one in physical.inputs] == [0, 1, 2]
    assert graph.nodes[1].outlet is not None
    assert len(graph.nodes[1].outlet.filters) == 1, "what reads a sub-query alone filters its results"


def test_streams_of_one_name_are_told_apart_by_the_way_to_them() -> None:
    physical = planned("SELECT x.k FROM (SELECT k FROM a) x [1 s], (SELECT k FROM a UNION ALL SELECT k FROM b) y [1 s]")
    assert [one.stream.alias for one in physical.inputs] == ["x.a", "y.1.a", "b"]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (f"SELECT k, COUNT(*) FROM ({PAIR}) j [1 s] GROUP BY k", ["k", "k"]),
        (f"SELECT w, k, COUNT(*) FROM ({PAIR}) j [1 s] GROUP BY w, k", ["k", "k"]),
        (f"SELECT k, w FROM ({PAIR}) j", ["k", "k"]),
        (f"SELECT j.w FROM ({PAIR}) j [1 s], ({COUNTS}) t [1 s] WHERE j.k = t.k", ["k", "k", "k"]),
        ("SELECT name, k FROM a UNION ALL SELECT name, w FROM b", ["name", "name"]),
        (
            "SELECT k, MAX(n) AS n FROM (SELECT k, w, COUNT(*) AS n FROM a [1 s] GROUP BY k, w) t [1 s] GROUP BY k",
            ["k"],
        ),
        (f"SELECT w, COUNT(*) FROM ({PAIR}) j [1 s] GROUP BY w", None),
        (f"SELECT x, COUNT(*) FROM ({PAIR}) j [1 s] GROUP BY x", None),
        (f"SELECT j.w FROM ({PAIR}) j [1 s], ({COUNTS}) t [1 s] WHERE j.k = t.n", None),
        (f"SELECT COUNT(*) FROM ({PAIR}) j [1 s]", None),
        ("SELECT COUNT(DISTINCT a.k) FROM a, b WHERE a.k = b.k WINDOW 1 s", None),
        ("SELECT k + 1 AS k FROM (SELECT k + 1 AS k FROM a) t", None),
    ],
)
def test_a_chain_is_cut_by_a_key_that_holds_everywhere_or_not_at_all(query: str, keys: list[str] | None) -> None:
    assert key_of(query) == keys


def test_results_of_a_chain_cannot_be_counted_instead() -> None:
    with pytest.raises(UsageError, match=r"write SELECT COUNT\(\*\)"):
        planned(f"SELECT k FROM ({PAIR}) j", count_only=True)


@pytest.mark.parametrize("option", ["shape = 'binary'", "join = 'hash'"])
def test_how_one_join_is_made_is_not_asked_of_a_chain(option: str) -> None:
    with pytest.raises(UsageError, match="for one join of streams"):
        planned(f"SELECT k FROM ({PAIR}) j OPTIONS ({option})")


def test_parts_of_a_clock_belong_to_raw_streams() -> None:
    physical = planned(f"SELECT k FROM ({PAIR}) j OPTIONS (clock_by = 'w')")
    assert [name for one, row in zip(physical.inputs, physical.partition_slots, strict=True)
            for name, _, at in one.columns if at == row] == ["w", "w"]  # fmt: skip
    with pytest.raises(UsageError, match="no column of that name in a, b"):
        planned(f"SELECT k AS part FROM ({PAIR}) j OPTIONS (clock_by = 'part')")


def test_explain_shows_what_every_operator_reads_and_how_spark_cuts_it() -> None:
    reported = explain(planned(f"SELECT k, COUNT(*) FROM ({PAIR}) j [1 min] WHERE w > 3 GROUP BY k"))
    for line in (
        "aggregate: window 1 min",
        "· takes of j: _ts, k",
        "└─ filter w > 3",
        "   └─ window join of 2 streams: a, b",
        "· windows of time: a 5 s, b 5 s",
        "every operator waits for its own inputs",
        "\non Spark: in shards by a.k, b.k",
    ):
        assert line in reported
    above = explain(planned(f"SELECT COUNT(*) FROM ({PAIR}) j [1 s]"))
    assert (
        "on Spark: in two steps; the first in shards by a.k, b.k; the last operator in one shard, because all rows meet"
        " in every window"
    ) in above
    target = explain(planned(f"SELECT COUNT(*) FROM ({PAIR}) j [1 s] WITH ERROR 5%"))
    assert "the last operator in one shard, because the target is judged by all rows" in target
    estimated = explain(planned(f"SELECT COUNT(*) FROM ({PAIR}) j [1 s] WITH ERROR 5% ESTIMATED"))
    assert "on Spark: in one shard, because no key is common" in estimated
    assert "and what ERROR must know is known where all rows meet" in estimated


def test_a_key_that_may_be_null_cuts_joins_above_it_and_no_groups() -> None:
    left = "SELECT b.k AS k, b.w AS w FROM a [5 s] LEFT JOIN b [5 s] ON a.k = b.k"
    above = f"SELECT j.w, c.w AS x FROM ({left}) j [5 s] LEFT JOIN c [5 s] ON c.k = j.k"
    assert "on Spark: in shards by a.k, b.k, c.k" in explain(planned(above))
    assert "on Spark: in two steps" in explain(planned(f"SELECT k, COUNT(*) FROM ({left}) j [1 min] GROUP BY k"))
    inner = f"SELECT c.k AS k FROM ({left}) j [5 s] JOIN c [5 s] ON c.k = j.k"
    grouped = f"SELECT k, COUNT(*) FROM ({inner}) i [1 min] GROUP BY k"
    assert "on Spark: in shards by a.k, b.k, c.k" in explain(planned(grouped))


def test_a_row_that_may_lack_a_member_is_an_event_of_its_own() -> None:
    left = "SELECT a.w AS w, c.w AS x FROM a [5 s] LEFT JOIN b [5 s] ON a.k = b.k JOIN c [5 s] ON c.k = a.k"
    physical = planned(f"{left} OPTIONS (size_by = 'w')")
    assert [[member.source for member in one.members] for one in physical.nodes[-1].inputs] == [[], ["c"]]
