"""The graph of a plan: which nodes read which, for every kind of query; several queries in one; and EXPLAIN."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.quality import Delay, Recall
from slackwater.core.results import ADAPTIVE, FILTER, SYNC
from slackwater.core.time import MINUTE, SECOND
from slackwater.figures.plan import draw_plan, placed
from slackwater.language.bind import Bound, bind
from slackwater.operators.description import Detail
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.plan.explain import JSON, as_json, as_tree, explain
from slackwater.plan.graph import ROW, NodeKind, PlanGraph, PlanNode
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.grid import Grid
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.plan.rate_model import Expected
from slackwater.plan.tiling import Tiling
from slackwater.sources.files import schema_of

TABLE = pa.table({"ts": [1], "k": [1], "x": [0.5], "w": [1]})
SCHEMAS = {name: schema_of(name, TABLE, "ts") for name in "abc"}
CASES = sorted((Path(__file__).parent / "golden").glob("*.sql"))
JOIN = "SELECT a.w FROM a [5 s], b [2 s] WHERE a.k = b.k AND a.x > 0"
THREE = "SELECT a.w FROM a [5 s], b [2 s], c [1 s] WHERE a.k = b.k AND b.k = c.k"


def planned(query: str) -> PhysicalPlan:
    return plan(bind(query, SCHEMAS).query)


def edges(query: str) -> list[str]:
    """Every node with what it reads."""
    return [f"{node.id} <- {' '.join(node.inputs)}".strip() for node in graph_of(planned(query)) if node.inputs]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_explain_prints_what_its_file_says(case: Path) -> None:
    bound: Bound = bind(case.read_text(), SCHEMAS)
    reported = explain(plan(bound.query), bound.quality_stated, bound.explain or "TEXT")
    assert reported + "\n" == case.with_suffix(".expected").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_tree_and_data_tell_the_same(case: Path) -> None:
    bound = bind(case.read_text(), SCHEMAS)
    graph = graph_of(plan(bound.query))
    reported = [re.sub(r"^[ │├└─]*", "", line).lstrip("· ") for line in as_tree(graph).splitlines()]
    data = json.loads(as_json(graph))

    def texts(one: dict[str, object]) -> list[str]:
        below = one["details"]
        assert isinstance(below, list)
        head = one.get("label", one.get("text"))
        return [str(head), *chain.from_iterable(map(texts, below))]

    assert sorted(reported) == sorted(chain.from_iterable(map(texts, data["nodes"] + data["notes"])))
    assert data["outputs"] == ["output"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_plan_can_be_drawn_without_a_box_over_another(case: Path, tmp_path: Path) -> None:
    graph = graph_of(plan(bind(case.read_text(), SCHEMAS).query))
    check_places(graph)
    draw_plan(graph, tmp_path / "plan.svg")
    drawn = (tmp_path / "plan.svg").read_text()
    assert drawn.count('id="patch_') > len(graph.nodes)


def check_places(graph: PlanGraph) -> None:
    """Boxes of one row are a box apart, and whoever reads is above what it reads."""
    places = placed(graph)
    assert set(places) == {node.id for node in graph}
    for one in places.values():
        assert all(places[read].depth > one.depth for read in one.node.inputs)
        assert all(abs(other.x - one.x) >= 1 for other in places.values() if other.depth == one.depth and other != one)


def test_a_join_is_a_small_graph() -> None:
    assert edges(JOIN) == [
        "filter.a <- source.a",
        "slack.a <- filter.a",
        "slack.b <- source.b",
        "synchronizer.1 <- slack.a slack.b",
        "operator.1 <- synchronizer.1",
        "relation_to_stream <- operator.1",
        "output <- relation_to_stream",
    ]


def test_what_is_joined_before_its_turn_is_brought_into_order_behind_the_join() -> None:
    assert edges(JOIN + " OPTIONS (ordering = 'filter')")[2:] == [
        "slack.b <- source.b",
        "operator.1 <- slack.a slack.b",
        "synchronizer.1 <- operator.1",
        "relation_to_stream <- synchronizer.1",
        "output <- relation_to_stream",
    ]


def test_every_join_of_a_tree_has_its_synchronizer() -> None:
    assert edges(THREE + " OPTIONS (shape = 'binary')")[3:-2] == [
        "synchronizer.1 <- slack.a slack.b",
        "operator.1 <- synchronizer.1",
        "synchronizer.2 <- operator.1 slack.c",
        "operator.2 <- synchronizer.2",
    ]
    assert edges(THREE + " OPTIONS (shape = 'binary', ordering = 'filter')")[3:-2] == [
        "operator.1 <- slack.a slack.b",
        "synchronizer.1 <- operator.1",
        "operator.2 <- synchronizer.1 slack.c",
        "synchronizer.2 <- operator.2",
    ]


def test_what_an_operator_gives_needs_no_slack() -> None:
    query = f"SELECT j.w FROM ({JOIN}) j [1 s], (SELECT k FROM c) s [1 s] WHERE j.w = s.k AND j.w > 3"
    assert edges(query) == [
        "filter.a <- source.a",
        "slack.a <- filter.a",
        "slack.b <- source.b",
        "synchronizer.1 <- slack.a slack.b",
        "operator.1 <- synchronizer.1",
        "slack.c <- source.c",
        "operator.2 <- slack.c",
        "filter.operator.1 <- operator.1",
        "synchronizer.3 <- filter.operator.1 operator.2",
        "operator.3 <- synchronizer.3",
        "relation_to_stream <- operator.3",
        "output <- relation_to_stream",
    ]


def test_streams_named_like_nodes_are_told_apart() -> None:
    schemas = {"a": SCHEMAS["a"], "operator.1": SCHEMAS["b"]}
    query = 'SELECT j.k FROM (SELECT k FROM a) j [1 s], "operator.1" o [1 s] WHERE j.k > 1 AND o.k > 2'
    text = query.replace(" o ", ' "operator.1" ').replace("o.k", '"operator.1".k')
    graph = graph_of(plan(bind(text, schemas).query))
    assert [node.id for node in graph.of_kind(NodeKind.FILTER)] == ["filter.operator.1", "filter.operator.1'"]


def test_attributes_are_what_the_query_says() -> None:
    graph = graph_of(planned(f"{JOIN} WITH RECALL 95% OVER 1 MINUTE OPTIONS (clock_by = 'k', max_behind = 2 h)"))
    assert graph["source.a"].attributes == {
        "stream": "a", "source": "a", "time": "ts", "columns": ["ts", "k", "w"], "clock_by": "k",
    }  # fmt: skip
    assert graph["filter.a"].attributes["conditions"] == ["x > 0.0"]
    assert graph["slack.b"].attributes["max_behind_us"] == 120 * MINUTE
    assert graph["slack.b"].attributes["quality"] == "RECALL 0.95 OVER 1 min"
    assert graph["synchronizer.1"].attributes["strategy"] == ADAPTIVE
    join = graph["operator.1"].attributes
    assert (join["operator"], join["algorithm"], join["equalities"]) == ("join", "by hash", ["a.k = b.k"])
    assert [join["windows"][alias]["range_us"] for alias in "ab"] == [5 * SECOND, 2 * SECOND]
    assert join["probe_order"] == {"a": ["b by hash on k, from a"], "b": ["a by hash on k, from b"]}
    assert graph["output"].attributes["shard_keys"] == {"a": ["k"], "b": ["k"]}
    assert {node.engine for node in graph} == {ROW}


def test_the_engine_of_a_node_is_an_attribute_of_it() -> None:
    physical = planned(f"SELECT w, COUNT(*) AS n FROM ({JOIN}) j [1 s] GROUP BY w")
    below, above = physical.nodes
    mixed = replace(physical, nodes=(below, replace(above, engine="column")))
    graph = graph_of(mixed)
    assert [node.engine for node in graph.of_kind(NodeKind.OPERATOR)] == [ROW, "column"]
    assert "1 group key [column engine]" in as_tree(graph)
    assert json.loads(explain(mixed, form=JSON))["nodes"][-3]["engine"] == "column"


def shared() -> PlanGraph:
    """Two queries that read one stream behind one filter; the second waits longer, behind the slack of the first."""

    def node(kind: NodeKind, name: str, *inputs: str) -> PlanNode:
        return PlanNode(name, kind, name, inputs, details=(Detail(f"about {name}"),))

    return PlanGraph(
        (
            node(NodeKind.SOURCE, "source a"),
            node(NodeKind.SOURCE, "source b"),
            node(NodeKind.FILTER, "filter v > 0", "source a"),
            node(NodeKind.SLACK, "slack 1 s", "filter v > 0"),
            node(NodeKind.SLACK, "slack 2 s more", "slack 1 s"),
            node(NodeKind.SLACK, "slack of b", "source b"),
            node(NodeKind.OPERATOR, "aggregate", "slack 1 s"),
            node(NodeKind.SYNCHRONIZER, "synchronizer", "slack 2 s more", "slack of b"),
            node(NodeKind.OPERATOR, "join", "synchronizer"),
            node(NodeKind.OUTPUT, "first", "aggregate"),
            node(NodeKind.OUTPUT, "second", "join"),
        )
    )


def test_queries_may_share_nodes() -> None:
    graph = shared()
    assert [node.id for node in graph.outputs] == ["first", "second"]
    assert [node.id for node in graph.readers("slack 1 s")] == ["slack 2 s more", "aggregate"]
    assert (
        as_tree(graph)
        == """\
first
│  · about first
└─ aggregate
   │  · about aggregate
   └─ slack 1 s
      │  · about slack 1 s
      └─ filter v > 0
         │  · about filter v > 0
         └─ source a
            · about source a
second
│  · about second
└─ join
   │  · about join
   └─ synchronizer
      │  · about synchronizer
      ├─ slack 2 s more
      │  │  · about slack 2 s more
      │  └─ slack 1 s (shared, shown above)
      └─ slack of b
         │  · about slack of b
         └─ source b
            · about source b"""
    )
    assert json.loads(as_json(graph))["outputs"] == ["first", "second"]


def test_shared_nodes_are_drawn_once(tmp_path: Path) -> None:
    check_places(shared())
    draw_plan(shared(), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 1000


SOURCE = PlanNode("s", NodeKind.SOURCE, "s")
OUTPUT = PlanNode("o", NodeKind.OUTPUT, "o", ("s",))


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ((SOURCE, SOURCE, OUTPUT), "two nodes are called s"),
        ((OUTPUT, SOURCE), "o stands before what it reads"),
        ((SOURCE, OUTPUT, replace(SOURCE, id="t")), "t: an output, and only it, ends"),
        ((replace(SOURCE, kind=NodeKind.SLACK), OUTPUT), "s: a source, and only it, begins"),
    ],
)
def test_a_graph_that_is_none_is_refused(nodes: tuple[PlanNode, ...], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        PlanGraph(nodes)


def test_a_plan_says_how_its_results_are_ordered_emitted_and_spread() -> None:
    assert [planned(f"{JOIN} OPTIONS (ordering = '{one}')").ordering.strategy for one in (SYNC, FILTER, ADAPTIVE)] == [
        SYNC, FILTER, ADAPTIVE,
    ]  # fmt: skip
    assert planned(f"SELECT w FROM ({JOIN}) j").ordering.strategy == SYNC
    assert not planned(JOIN).operator.holds
    held = planned(JOIN.replace("SELECT", "SELECT DSTREAM")).operator
    assert isinstance(held, RelationToStream)
    assert held.made_by == planned(JOIN).operator
    spread = planned(JOIN).partitioning
    assert (spread.shards(8), [len(rows) for rows in spread.keys or ()]) == (8, [1, 1])
    other = JOIN.replace("a.k = b.k", "a.k < b.k")
    by_rows = planned(other).partitioning
    assert (by_rows.shards(8), by_rows.cut(8), by_rows.cut(1), spread.cut(8)) == (8, Grid((4, 2)), None, None)
    learned = planned(f"{other} WITH RECALL 0.9 OVER 1 MINUTE")
    assert learned.partitioning == planned(other).partitioning
    published = planned(f"{JOIN} WITH RECALL 0.9 OVER 1 MINUTE OPTIONS (controller = 'pd')").partitioning
    assert (published.shards(8), published.keys) == (1, None)
    assert "learns in one place" in published.why
    rates = {"a": Expected(1.0, 8.0), "b": Expected(20.0, 8.0)}
    assert plan(bind(other, SCHEMAS).query, expected=rates).partitioning.cut(8) == Grid((1, 8))
    assert [one.label for node in planned(JOIN).weights for one in node.inputs] == ["a", "b"]


@pytest.mark.parametrize(
    ("condition", "widths"),
    [
        ("dist(a.x, a.w, b.x, b.w) < 5", (40.0, 40.0)),
        ("abs(a.x - b.x) < 0.5", (2.0,)),
        ("abs(a.w - b.k) <= 3 AND b.x BETWEEN a.x - 1 AND a.x + 2", (24, 12.0)),
        ("abs(a.w - b.w) < 3 AND abs(a.x - b.x) < 1 AND abs(a.k - b.k) < 1", (24, 8.0)),
        ("a.k BETWEEN b.k AND b.k", (2,)),
    ],
)
def test_a_join_by_bands_is_cut_by_place(condition: str, widths: tuple[float, ...]) -> None:
    query = f"SELECT a.w FROM a [5 s], b [2 s] WHERE {condition}"
    by_place = planned(query).partitioning
    tiling = by_place.cut(4)
    assert isinstance(tiling, Tiling)
    assert tiling.widths == pytest.approx(widths)
    assert (tiling.home, by_place.cut(1)) == (0, None)
    rates = {"a": Expected(1.0, 8.0), "b": Expected(20.0, 8.0)}
    faster = plan(bind(query, SCHEMAS).query, expected=rates).partitioning.cut(4)
    assert isinstance(faster, Tiling)
    assert (faster.home, faster.widths) == (1, tiling.widths)


def test_tiles_are_there_as_data() -> None:
    data = json.loads(as_json(graph_of(planned("SELECT a.w FROM a [5 s], b [2 s] WHERE dist(a.x, a.k, b.w, b.x) < 5"))))
    (output,) = (node for node in data["nodes"] if node["id"] == "output")
    axes = [{"columns": {"a": "x", "b": "w"}, "width": 40.0}, {"columns": {"a": "k", "b": "x"}, "width": 40.0}]
    tiles = output["attributes"]["tiles"]
    assert tiles["home"] == "a"
    assert [{**axis, "width": round(axis["width"], 6)} for axis in tiles["axes"]] == axes
    assert "parts_by_rows" not in output["attributes"]


@pytest.mark.parametrize(
    ("condition", "parts"),
    [("abs(a.ts - b.ts) < INTERVAL 1 SECOND", (2, 2)), ("abs(a.x - b.x) < a.k", (2, 2)), ("a.x < b.x + 1", (2, 2))],
)
def test_a_join_by_times_or_by_no_band_is_cut_by_rows(condition: str, parts: tuple[int, ...]) -> None:
    """All tuples of a moment have nearly the same time, and so would be in the same tile."""
    assert planned(f"SELECT a.w FROM a [5 s], b [2 s] WHERE {condition}").partitioning.cut(4) == Grid(parts)


def test_by_what_a_join_is_cut_can_be_asked_for() -> None:
    near, by = "SELECT a.w FROM a [5 s], b [2 s] WHERE abs(a.x - b.x) < 1", " OPTIONS (shards_by = '{}')"
    assert planned(near + by.format("rows")).partitioning.cut(4) == Grid((2, 2))
    assert planned(near + by.format("place")).partitioning == planned(near).partitioning
    for query, why in {
        near + by.format("tiles"): "there is place and rows",
        near.replace("abs(a.x - b.x) < 1", "a.x < b.x") + by.format("place"): "a band or a distance joins",
        near.replace("a.x - b.x) < 1", "a.ts - b.ts) < INTERVAL 1 s") + by.format("place"): "a band or a distance",
        JOIN + by.format("rows"): "for joins without a key that run in many shards; here it has a key",
        near
        + " WITH RECALL 0.9 OVER 1 MINUTE"
        + by.format("rows', controller = 'pd"): "here controller = 'pd' learns in one place",
        "SELECT w FROM a" + by.format("rows"): "option shards_by is for joins",
    }.items():
        with pytest.raises(UsageError, match=why):
            planned(query)


def test_a_plan_says_how_tuples_are_released_but_for_epochs() -> None:
    release = planned(f"{JOIN} OPTIONS (idle_timeout = 3 s, idle_after = 20, max_behind = 1 h, clock_by = 'w')").release
    assert (release.streams, release.idle_timeout, release.idle_after) == (2, 3 * SECOND, 20)
    assert (release.max_behind, release.external_sync, len(release.partition_slots)) == (60 * MINUTE, False, 2)
    assert planned(f"SELECT w FROM ({JOIN}) j").release.external_sync
    assert planned(f"{THREE} OPTIONS (shape = 'binary')").release.external_sync


def test_what_was_learned_is_good_for_another_share_but_not_for_another_kind_of_target() -> None:
    physical = planned(f"{JOIN} WITH RECALL 95% OVER 1 MINUTE")
    other = replace(physical, quality=Recall(0.99, MINUTE))
    assert (other.learning_key, other.target) == (physical.learning_key, "RECALL 0.99 OVER 1 min")
    assert replace(physical, quality=Delay(SECOND)).learning_key != physical.learning_key
    composed = planned(f"SELECT w FROM ({JOIN}) j WITH RECALL 95% OVER 1 MINUTE")
    filtered = planned(f"SELECT w FROM ({JOIN}) j WHERE w > 1 WITH RECALL 95% OVER 1 MINUTE")
    assert composed.learning_key != filtered.learning_key, "rows are followed through all operators"
    sums = [planned(f"SELECT {one}(x) AS v FROM a [5 s] WITH ERROR 1%").learning_key for one in ("SUM", "AVG")]
    assert sums[0] != sums[1], "an error is learned of every aggregate by itself"
