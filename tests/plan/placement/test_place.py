"""A placed plan, what is told of it, and what is told of one that cannot keep up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slackwater.expressions.relational import operators
from slackwater.plan.placement.costs import FILE, Costs, save_costs
from slackwater.plan.placement.explain import infeasible, operator_nodes, placement_notes
from slackwater.plan.placement.place import Placed, operator_costs, place
from slackwater.plan.placement.plan_cost import cost_of, parts_of
from slackwater.plan.placement.statistics import Statistics
from tests.plan.placement.trees import MINUTE, SECOND, above, aggregate, joined, projected, window

KEYS = {(stream, "k"): 2000.0 for stream in range(2)}
TREE = projected(joined(aggregate(above(window(0))), aggregate(above(window(1, 5 * MINUTE)))))
CORRELATED = aggregate(joined(window(0, 5 * MINUTE), aggregate(window(1, 5 * MINUTE), "MAX")), "MAX")


def statistics(rate: float) -> Statistics:
    return Statistics(SECOND, {0: rate, 1: rate}, KEYS)


def told(placed: Placed) -> str:
    (note,) = placement_notes(placed)
    return "\n".join([note.text, *(line.text for line in note.under)])


def test_a_plan_says_what_it_is_and_why() -> None:
    placed = place(TREE, statistics(1000.0), Costs())
    assert len(placed.placement) == len(operators(placed.relation)) == 6
    assert placed.cost == pytest.approx(cost_of(placed.parts))
    assert placed.feasible
    assert placed.holds > 1
    text = told(placed)
    assert "engines: all by compiled kernels (row)" in text
    assert "runner-up: " in text
    assert "all column: " in text
    assert "11 placements compared; the best of all" in text
    assert "costs: shipped with slackwater" in text
    assert placed.feasible


def test_large_windows_that_are_read_again_at_every_slide_go_to_the_database() -> None:
    """A correlated aggregate, as Q1 of the paper: filters stay, the rest goes."""
    tree = aggregate(joined(above(window(0, 5 * MINUTE)), aggregate(above(window(1, 5 * MINUTE)), "MAX")), "COUNT")
    placed = place(tree, statistics(20_000.0), Costs(row_probe=2e-7, row_hash=2e-7), reorder=False)
    assert placed.placement[0] == "row"
    assert placed.placement[-2:] == ("column", "column")
    assert "in the database (column)" in told(placed)


@pytest.mark.parametrize("one_core", [True, False])
def test_a_query_that_cannot_keep_up_says_so_with_the_rate_it_holds(one_core: bool) -> None:
    placed = place(CORRELATED, statistics(10_000_000.0), Costs(), one_core=one_core, reorder=False)
    assert not placed.feasible
    assert 0 < placed.holds < 1
    sentence = infeasible(placed)
    assert "no plan keeps up with 20,000,000 tuples/s; this one holds " in sentence
    assert sentence in told(placed)
    at_that_rate = operator_costs(placed.relation, statistics(10_000_000.0 * placed.holds), Costs())
    cost = cost_of(parts_of(at_that_rate, placed.placement))
    assert placed.objective.load(cost) == pytest.approx(1, rel=1e-6)


def test_an_instant_that_takes_longer_than_a_slide_is_told() -> None:
    placed = place(TREE, replace(statistics(1000.0), slide=1), Costs())
    assert placed.holds == 0
    assert "at any rate" in infeasible(placed)


def test_a_plan_says_for_which_rates_it_is_good() -> None:
    """Few rows are cheaper by kernels; at higher rates the database is, here."""
    tree = aggregate(joined(window(0), aggregate(window(1), "MAX")), "COUNT")
    costs = Costs(row_total=1e-6)
    placed = place(tree, statistics(10.0), costs, reorder=False)
    assert set(placed.placement) == {"row"}
    low, high = placed.good_between
    assert low < 1 <= high < 1000
    assert placed.still_good(statistics(10.0 * high))
    assert not placed.still_good(statistics(10.0 * high * 1.2))
    assert place(tree, statistics(10.0 * high * 1.2), costs, reorder=False).placement != placed.placement


def test_feasibility_may_be_left_aside() -> None:
    """A plan of less utilisation in one dear part, and one of more in many small ones."""
    costs = Costs(column_statement=1.2, column_input=0.0)
    kept = place(CORRELATED, statistics(30_000.0), costs, one_core=False)
    free = place(CORRELATED, statistics(30_000.0), costs, feasibility=False, one_core=False)
    assert free.cost.utilisation <= kept.cost.utilisation
    assert kept.cost.bottleneck <= max(1.0, free.cost.bottleneck)


def test_operators_are_nodes_of_a_plan_graph() -> None:
    placed = place(TREE, statistics(1000.0), Costs())
    nodes = operator_nodes(placed, {0: "slack.a", 1: "slack.b"}, ["a", "b"])
    assert [node.engine for node in nodes] == list(placed.placement)
    assert nodes[0].inputs == ("slack.a",)
    assert nodes[0].label == "select v > 0"
    assert sum(node.attributes.get("cost", 0.0) for node in nodes) == pytest.approx(placed.cost.utilisation)
    assert json.dumps([node.as_json() for node in nodes])


def test_costs_are_those_of_this_machine(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "costs.json"  # type: ignore[operator]
    save_costs(replace(Costs(), measured="here and now"), path)
    monkeypatch.setenv(FILE, str(path))
    assert "costs: here and now" in told(place(TREE, statistics(10.0)))
