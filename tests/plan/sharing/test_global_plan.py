"""The tree of shared filters passes to every query what its own filter passes, and tests nothing twice."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pyarrow as pa
import pytest

from slackwater.expressions.render import render
from slackwater.expressions.tree import Expr
from slackwater.plan.planner import plan
from slackwater.plan.sharing.conjuncts import conjuncts_of
from slackwater.plan.sharing.global_plan import ROOT, FilterTree, Reader, filter_tree, global_plan
from slackwater.plan.sharing.implication import implied
from slackwater.sources.binding import bind_to_tables
from tests.effort import tries
from tests.kit.evaluate import Row

from .conditions import VALUES, F, T, X, Y, condition, passes, rows_over
from .test_conjuncts import said


def tree_of(*filters: Sequence[Expr]) -> FilterTree:
    return filter_tree("s", {Reader(f"q{at}", 0): conjuncts_of(own) for at, own in enumerate(filters)})


def taken(tree: FilterTree, row: Row) -> dict[Reader, bool]:
    """Which readers a row comes to, from the source on down; the slow and obvious way."""
    found: dict[Reader, bool] = {}

    def go(number: int, alive: bool) -> None:
        node = tree.nodes[number]
        alive = alive and passes([one.expr for one in node.predicate], row)
        found.update(dict.fromkeys(node.readers, alive))
        for child in tree.children(number):
            go(child.number, alive)

    go(ROOT, True)
    return found


def drawn(tree: FilterTree, number: int = ROOT) -> list[str]:
    """The tree in lines: what a node tests, and who reads it."""
    node = tree.nodes[number]
    own = " and ".join(render(one.expr) for one in node.predicate) or tree.source
    readers = "".join(f" >{reader.query}" for reader in node.readers)
    return [own + readers, *(f"  {line}" for child in tree.children(number) for line in drawn(tree, child.number))]


def check_shape(tree: FilterTree) -> None:
    """What the docstring of the module promises of every tree."""
    assert (tree.nodes[ROOT].parent, tree.nodes[ROOT].predicate) == (None, ())
    for node in tree.nodes:
        assert tree.nodes[node.number] is node
        if node.parent is None:
            assert node.number == ROOT
            continue
        assert node.parent < node.number
        assert node.predicate
        assert tree.below(node.number), "a filter that nobody reads"
        children = tree.children(node.number)
        assert tree.branches(node.number) or not children, "a filter behind one that does not branch"
        path = [one for above in tree.path(node.number) for one in above.predicate]
        assert len({one.key for one in path}) == len(path), "a conjunct twice on a path"
        for at, one in enumerate(path):
            assert not implied(path[:at], one) or one in node.predicate, "tested above already"


@pytest.mark.parametrize("seed", range(tries(60)))
def test_every_query_gets_the_rows_that_its_own_filter_passes(seed: int) -> None:
    rng = random.Random(seed)
    columns = rng.sample(list(VALUES), 2)
    pool = [condition(rng, columns, rng.randint(0, 2)) for _ in range(6)]
    filters = [
        [rng.choice(pool) if rng.random() < 0.7 else condition(rng, columns, 1) for _ in range(rng.randint(0, 3))]
        for _ in range(rng.randint(1, 7))
    ]
    tree = tree_of(*filters)
    check_shape(tree)
    assert sorted(tree.node_of) == [Reader(f"q{at}", 0) for at in range(len(filters))]
    for row in rows_over(*dict.fromkeys((*columns, X, Y))):
        alone = {Reader(f"q{at}", 0): passes(own, row) for at, own in enumerate(filters)}
        assert taken(tree, row) == alone, (drawn(tree), row)


def test_a_tree_is_never_larger_than_the_filters_apart() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        pool = [condition(rng, [X, T], 0) for _ in range(5)]
        filters = [rng.sample(pool, rng.randint(1, 3)) for _ in range(6)]
        assert tree_of(*filters).tests <= sum(len(conjuncts_of(own)) for own in filters)


def test_what_all_have_in_common_is_tested_once_and_fused() -> None:
    common = [said(">", X, 1), said("=", T, "a")]
    tree = tree_of([*common, said("=", Y, 0)], [*common, said("=", Y, 2)], common)
    assert drawn(tree) == ["s", "  x > 1 and t = 'a' >q2", "    y = 0 >q0", "    y = 2 >q1"]
    assert [tree.branches(number) for number in range(4)] == [False, True, False, False]
    assert tree.below(1) == (Reader("q2", 0), Reader("q0", 0), Reader("q1", 0))


def test_a_stronger_filter_stands_below_a_weaker_one() -> None:
    tree = tree_of([said(">", X, 3)], [said("<", 1, X)], [said("in", X, 4, 5), said("=", Y, 2)], [said("=", Y, 2)])
    assert drawn(tree) == ["s", "  x > 1 >q1", "    x > 3 >q0", "      x IN (4, 5) and y = 2 >q2", "  y = 2 >q3"]


def test_queries_without_filters_read_the_source_and_own_filters_are_fused() -> None:
    assert drawn(tree_of([], [said(">", X, 3), said("=", T, "a")], [])) == ["s >q0 >q2", "  x > 3 and t = 'a' >q1"]
    assert drawn(tree_of([])) == ["s >q0"]


def test_equal_filters_are_one_node() -> None:
    tree = tree_of([said(">", X, 3), said("=", Y, 2)], [said("=", 2, Y), said(">=", X, 4)])
    assert drawn(tree) == ["s", "  x > 3 and y = 2 >q0 >q1"]


def test_text_is_asked_last_in_a_filter() -> None:
    tree = tree_of([said("like", T, "a%"), said(">", X, 1)])
    assert drawn(tree) == ["s", "  x > 1 and t LIKE 'a%' >q0"]


def test_what_can_fail_is_asked_only_of_rows_that_all_its_queries_have_left() -> None:
    overflow = said(">", said("*", X, X), 3)
    guarded = [said("<", X, 3), overflow]
    tree = tree_of(guarded, [overflow, said("=", Y, 2)], [overflow])
    for reader, number in tree.node_of.items():
        path = [one for node in tree.path(number) for one in node.predicate]
        at = next(i for i, one in enumerate(path) if one.can_fail)
        assert not any(not one.can_fail for one in path[at:]), (reader, drawn(tree))
    assert drawn(tree) == ["s", "  x < 3 and x * x > 3 >q0", "  y = 2 and x * x > 3 >q1", "  x * x > 3 >q2"]
    both = tree_of(guarded, [*guarded, said("=", Y, 2)], guarded)
    assert drawn(both) == ["s", "  x < 3", "    x * x > 3 >q0 >q2", "    y = 2 and x * x > 3 >q1"]


def test_a_filter_that_never_passes_is_a_node_like_any_other() -> None:
    tree = tree_of([said(">", X, 3), said("<", X, 2)], [said(">", X, 3)])
    assert drawn(tree) == ["s", "  x > 3 >q1", "    FALSE >q0"]


def test_a_plan_of_queries_has_a_tree_for_every_source() -> None:
    tables = {name: pa.table({"ts": [1], "k": [1], "v": [0.5]}) for name in ("a", "b")}
    texts = {
        "pairs": "SELECT a.v FROM a [5 s], b [5 s] WHERE a.k = b.k AND a.v > 2 AND b.k IN (1, 2)",
        "self": "SELECT x.v FROM a x [5 s], a y [5 s] WHERE x.k = y.k AND 2 < y.v AND x.v > 2 AND x.k <> 7",
        "sums": "SELECT SUM(v) AS total FROM a [1 s] WHERE v > 2.0",
        "inside": "SELECT COUNT(*) AS n FROM (SELECT v FROM a WHERE v > 3) t [1 s] WHERE v < 9",
    }
    plans = {name: plan(bind_to_tables(text, tables, "ts").query) for name, text in texts.items()}
    made = global_plan(plans)
    assert [tree.source for tree in made.trees] == ["a", "b"]
    assert drawn(made["a"]) == ["a", "  v > 2.0 >pairs >self >sums", "    k <> 7 >self", "    v > 3.0 >inside"]
    assert drawn(made["b"]) == ["b", "  k IN (1, 2) >pairs"]
    assert made["a"].node_of[Reader("self", 1)] == 1


def test_hundreds_of_queries_are_planned_quickly() -> None:
    filters = [
        [said(">", X, at % 20), said("=", Y, at % 7), said("<", F, float(at % 3)), said("=", T, f"name {at}")]
        for at in range(200)
    ]
    begun = time.process_time()
    tree = tree_of(*filters)
    assert time.process_time() - begun < 20
    check_shape(tree)
    assert tree.tests < 4 * 200
