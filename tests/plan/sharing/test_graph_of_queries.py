"""The graph of several queries: what they share, what is their own, and how EXPLAIN tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.core.time import SECOND
from slackwater.figures.plan import draw_plan, placed
from slackwater.language.bind import Bound, bind
from slackwater.language.query_file import read_query_file
from slackwater.operators.pipeline import Epochs
from slackwater.plan.explain import JSON, explain_queries
from slackwater.plan.graph import NodeKind, PlanGraph
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.plan.sharing.graph_of_queries import graph_of_queries
from slackwater.runtime.local.queries import LocalQueries
from slackwater.sources.files import schema_of

TABLE = pa.table({"ts": [1], "k": [1], "x": [0.5], "w": [1]})
SCHEMAS = {name: schema_of(name, TABLE, "ts") for name in "abc"}
CASES = sorted((Path(__file__).parent / "golden").glob("*.sql"))
COMMON = (Path(__file__).parent / "golden" / "filters_in_common.sql").read_text()


def bound(text: str) -> dict[str, Bound]:
    return read_query_file(text).of_each(lambda query: bind(query.text, SCHEMAS))


def planned(text: str) -> dict[str, PhysicalPlan]:
    return {name: plan(one.query) for name, one in bound(text).items()}


def shared(graph: PlanGraph) -> list[str]:
    """The nodes that belong to no single query, each with what it reads."""
    return [f"{node.id} <- {' '.join(node.inputs)}".rstrip(" <-") for node in graph if "query" not in node.attributes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_explain_of_a_file_prints_what_its_golden_says(case: Path) -> None:
    queries = bound(case.read_text())
    stated = {name: one.quality_stated for name, one in queries.items()}
    reported = explain_queries({name: plan(one.query) for name, one in queries.items()}, stated)
    assert reported + "\n" == case.with_suffix(".expected").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_behind_slack_every_query_has_the_nodes_that_it_has_alone(case: Path) -> None:
    plans = planned(case.read_text())
    graph = graph_of_queries(plans)
    assert [node.attributes["query"] for node in graph.outputs] == list(plans)
    for name, one in plans.items():
        alone = graph_of(one)
        before_slack = {node.id for node in alone.of_kind(NodeKind.SLACK)}
        pending = list(before_slack)
        while pending:
            inputs = alone[pending.pop()].inputs
            before_slack.update(inputs)
            pending += inputs
        own = [node.id for node in graph if node.attributes.get("query") == name]
        assert own == [f"{name}/{node.id}" for node in alone if node.id not in before_slack]
        assert [detail.text for detail in graph.notes if detail.text == f"query {name}"] == [f"query {name}"]


def test_sources_and_filters_are_shared_by_all_and_slack_by_those_of_one_clock_domain() -> None:
    graph = graph_of_queries(planned(COMMON))
    assert shared(graph) == [
        "source.a",
        "filter.a.1 <- source.a",
        "filter.a.2 <- filter.a.1",
        "slack.a <- filter.a.1",
        "slack.a.2 <- filter.a.1 filter.a.2",
        "source.b",
        "filter.b.1 <- source.b",
        "slack.b <- filter.b.1",
    ]
    assert graph["filter.a.1"].attributes["queries"] == ["pairs", "all of it", "high"]
    assert graph["filter.a.2"].attributes["conditions"] == ["x > 5.0"]
    cursors = graph["slack.a.2"].attributes["cursors"]
    assert [(one["query"], one["reads"]) for one in cursors] == [("high", "filter.a.2"), ("all of it", "filter.a.1")]
    plans = planned(COMMON)
    assert [one["quality"] for one in cursors] == [str(plans[name].quality) for name in ("high", "all of it")]
    assert [node.id for node in graph.readers("slack.a")] == ["pairs/synchronizer.1"]
    assert [node.id for node in graph.readers("slack.a.2")] == ["high/operator.1", "all of it/operator.1"]


def test_who_waits_together_is_what_a_run_says() -> None:
    """Other terms for clocks, and an operator that brings streams into order itself, take a log of their own."""
    graph = graph_of_queries(
        planned(
            """
            CREATE QUERY one AS SELECT w FROM a WITH NO WAIT;
            CREATE QUERY two AS SELECT w FROM a WHERE k = 1;
            CREATE QUERY near AS SELECT w FROM a OPTIONS (max_ahead = 1 MINUTE);
            CREATE QUERY inside AS SELECT COUNT(*) AS n FROM (SELECT w FROM a) t [RANGE 1 s];
            """
        )
    )
    logs = {node.id: node.attributes["queries"] for node in graph.of_kind(NodeKind.SLACK)}
    assert logs == {"slack.a": ["one", "two"], "slack.a.2": ["near"], "slack.a.3": ["inside"]}
    domains = [node.attributes["clock_domain"] for node in graph.of_kind(NodeKind.SLACK)]
    assert domains[0] == domains[2] != domains[1]


def test_the_graph_as_json_has_every_node() -> None:
    data = json.loads(explain_queries(planned(COMMON), form=JSON))
    assert [node["id"] for node in data["nodes"]] == [node.id for node in graph_of_queries(planned(COMMON))]
    assert data["outputs"] == ["pairs/output", "high/output", "all of it/output"]


def test_the_graph_can_be_drawn(tmp_path: Path) -> None:
    graph = graph_of_queries(planned(COMMON))
    places = [(one.x, one.depth) for one in placed(graph).values()]
    assert len(set(places)) == len(places)
    draw_plan(graph, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_who_shares_panes_is_what_a_run_says() -> None:
    text = (Path(__file__).parent / "golden" / "panes_in_common.sql").read_text()
    data = json.loads(explain_queries(planned(text), form=JSON))
    panes = {node["attributes"]["query"]: node["attributes"]["panes"] for node in data["nodes"] if "panes" in
             node["attributes"]}  # fmt: skip
    assert "lonely" not in panes, "nobody else is over its stream"
    assert {name for name, one in panes.items() if one["own_because"] is None} == {"low", "high"}
    domains = LocalQueries(planned(text), {"a": TABLE, "b": TABLE}, "ms", Epochs(span=SECOND)).kernel.domains
    stores = [[member.name for member in group.members] for one in domains.values() for group in one.groups.values()]
    alone = [name for name in planned(text) if not any(name in store for store in stores)]
    assert alone == ["middle", "fine"], "they have panes of their own, the others a store"
    for store in stores:
        for name in store:
            shared_with = panes.get(name, {"shared_with": []})["shared_with"]
            assert sorted([name, *shared_with]) == sorted(store)
