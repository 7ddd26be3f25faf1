"""Phase two finds the best of all placements, and looks at no more plans than the paper says."""

from __future__ import annotations

import random
from functools import reduce

import numpy as np
import pytest

from slackwater.expressions.relational import operators
from slackwater.plan.placement import engine_search
from slackwater.plan.placement.costs import CONSTANTS, Costs
from slackwater.plan.placement.engine_search import best_engines, pure_costs, undominated
from slackwater.plan.placement.plan_cost import Objective, cost_of, parts_of
from slackwater.plan.placement.statistics import Statistics
from tests.effort import EXAMPLES
from tests.plan.placement.exhaustive import all_placements, best_of_all
from tests.plan.placement.trees import (
    SECOND,
    above,
    aggregate,
    average_of,
    costed,
    joined,
    projected,
    random_costs,
    random_tree,
    window,
)

OBJECTIVES = [Objective(feasibility, one_core) for feasibility in (True, False) for one_core in (True, False)]
LARGEST = 8


def close(one: tuple[int, float], other: tuple[int, float]) -> bool:
    return one[0] == other[0] and np.isclose(one[1], other[1], rtol=1e-9, atol=0)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize(("early", "most_plans"), [(True, 100_000), (False, 100_000), (False, 1)])
def test_the_search_finds_a_plan_as_good_as_the_best_of_all(objective: Objective, early: bool, most_plans: int) -> None:
    feasible = 0
    for seed in range(15 * EXAMPLES):
        chance = random.Random(seed)
        tree = random_tree(chance, LARGEST)
        costs = random_costs(chance, tree)
        found = best_engines(costs, objective, early, most_plans)
        _, best = best_of_all(costs, objective)
        again = cost_of(parts_of(costs, found.placement))
        assert close((0, found.cost.utilisation), (0, again.utilisation)), "its cost is that of the plan it names"
        assert close((0, found.cost.bottleneck), (0, again.bottleneck))
        if found.exact:
            assert close(objective.rank(found.cost), objective.rank(best)), seed
        feasible += objective.is_feasible(best)
    assert 0 < feasible < 15 * EXAMPLES


def test_a_dearer_plan_is_kept_if_what_stands_above_can_then_be_computed_by_tuple() -> None:
    """Filters are cheap in the database here; an aggregate is not, and needs its input tuple by tuple."""
    tree = aggregate(above(above(window(0)), 1))
    costs = Costs(**{**dict.fromkeys(CONSTANTS, 0.0), "row_judge": 1.0, "row_hash": 1.0, "column_hash": 1e3})
    operators_ = costed(tree, Statistics(SECOND, {0: 100.0}), costs)
    found = best_engines(operators_, Objective())
    assert found.placement == best_of_all(operators_, Objective())[0] == ("row", "row", "row")


def test_the_runner_up_is_another_plan_with_its_own_cost() -> None:
    for seed in range(3 * EXAMPLES):
        chance = random.Random(seed)
        tree = random_tree(chance, LARGEST)
        costs = random_costs(chance, tree)
        objective = Objective()
        found = best_engines(costs, objective, early=False)
        assert found.runner_up is not None
        placement, cost = found.runner_up
        assert placement != found.placement
        assert close((0, cost.utilisation), (0, cost_of(parts_of(costs, placement)).utilisation))
        assert objective.rank(found.cost) <= objective.rank(cost)


def ways(*streams: int) -> object:
    return reduce(joined, [average_of(stream) for stream in streams])


@pytest.mark.parametrize(
    ("tree", "n", "examined"),
    [
        (projected(ways(0, 1)), 6, 11),
        (projected(joined(ways(0, 1, 2), ways(3, 4))), 15, 312),
        (projected(reduce(joined, [joined(ways(0, 1, 2), ways(3, 4)), *map(average_of, (5, 6, 7))])), 24, 8411),
        (projected(ways(0, 1, 2, 3, 4)), 15, 284),
    ],
)
def test_as_many_plans_are_examined_as_in_table_6_1(tree: object, n: int, examined: int) -> None:
    assert len(operators(tree)) == n
    found = best_engines(costed(tree, Statistics(SECOND)), Objective(one_core=False), early=False)
    assert found.examined == examined
    assert found.exact


def test_a_chain_of_operators_has_one_plan_more_than_operators() -> None:
    tree = average_of(0)
    for n in range(2, 8):
        assert best_engines(costed(tree, Statistics(SECOND)), Objective(), early=False).examined == n + 1
        tree = projected(tree)


def test_early_pruning_leaves_only_plans_that_may_keep_up() -> None:
    tree = projected(ways(0, 1, 2))
    costs = costed(tree, Statistics(SECOND, {0: 3e6, 1: 3e6, 2: 3e6}, {(n, "k"): 2000.0 for n in range(3)}))
    objective = Objective(one_core=False)
    assert any(map(objective.is_feasible, pure_costs(costs)))
    every, some = best_engines(costs, objective, early=False), best_engines(costs, objective)
    assert some.built < every.built
    assert some.cost == every.cost


def test_too_many_plans_are_dropped_where_another_dominates_first() -> None:
    tree = projected(ways(*range(12)))
    costs = costed(tree, Statistics(SECOND, dict.fromkeys(range(12), 1e4), {(n, "k"): 2000.0 for n in range(12)}))
    for objective in OBJECTIVES:
        found = best_engines(costs, objective)
        assert found.examined <= 100_001
        assert found.exact


def test_a_subtree_that_is_taken_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_search, "KEPT_ALONE", 2)
    objective, inexact, worse = Objective(one_core=False), 0, 0
    for seed in range(10 * EXAMPLES):
        chance = random.Random(seed)
        costs = random_costs(chance, random_tree(chance, LARGEST))
        found = best_engines(costs, objective, early=False, most_plans=1)
        best, reached = (objective.rank(cost) for cost in (best_of_all(costs, objective)[1], found.cost))
        inexact += not found.exact
        worse += not close(best, reached)
        assert found.exact <= close(best, reached)
    assert worse < inexact


def test_dominance_is_by_all_three() -> None:
    chance = np.random.default_rng(1)
    for _ in range(20):
        triples = chance.integers(0, 6, (3, 40)).astype(np.float64)
        kept = undominated(*triples)
        for at in range(40):
            below = [k for k in kept if (triples[:, k] <= triples[:, at]).all()]
            assert below
            assert at not in kept or below == [at]


def test_all_placements_are_all() -> None:
    tree = ways(0, 1)
    placements = [placement for placement, _ in all_placements(costed(tree, Statistics(SECOND)))]
    assert len(set(placements)) == 2**5
