"""Phase one changes no rows, finds the best of all join orders, and moves what may be moved."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from slackwater.core.schema import Kind
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    nodes,
    operators,
    scans,
)
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.plan.placement.costs import CONSTANTS, Costs
from slackwater.plan.placement.join_block import block_of
from slackwater.plan.placement.join_order import MOST_LEAVES
from slackwater.plan.placement.phase_one import best_tree
from slackwater.plan.placement.plan_cost import Cost, Objective, cost_of, parts_of
from slackwater.plan.placement.push_down import aggregated_below, pushed_down
from slackwater.plan.placement.statistics import Statistics
from tests.effort import EXAMPLES
from tests.plan.placement.evaluate import Row, bag
from tests.plan.placement.exhaustive import all_orders
from tests.plan.placement.trees import (
    KEY,
    MINUTE,
    SECOND,
    VALUE,
    above,
    aggregate,
    costed,
    integer,
    joined,
    projected,
    random_tree,
    window,
)

PARALLEL = Objective(one_core=False)


def column(name: str, stream: int = 0) -> Column:
    return Column(stream, name, Kind.INT)


def call(op: str, *args: Expr) -> Call:
    return Call(op, args, Kind.INT if op in "+*" else Kind.BOOL)


def windows_of(tree: Relation, chance: random.Random, rows: int = 6) -> dict[int, list[Row]]:
    def some(most: int) -> int | None:
        return None if chance.random() < 0.1 else chance.randrange(most)

    return {
        one.stream: [{column.name: some(4) for column in one.columns} for _ in range(chance.randint(0, rows))]
        for one in scans(tree)
    }


def random_statistics(chance: random.Random, streams: int) -> Statistics:
    return Statistics(
        SECOND,
        {stream: 10 ** chance.uniform(-1, 3) for stream in range(streams)},
        {(stream, name): 10 ** chance.uniform(0, 3) for stream in range(streams) for name in "kv"},
    )


def random_join(chance: random.Random, leaves: int) -> Relation:
    """A bushy join over k, with conditions over two sides and over one, and selections in between."""

    def made(streams: list[int]) -> Relation:
        if len(streams) == 1:
            leaf = window(streams[0])
            return aggregate(leaf, "MAX") if chance.random() < 0.3 else leaf
        cut = chance.randint(1, len(streams) - 1)
        left, right = made(streams[:cut]), made(streams[cut:])
        a, b = (chance.choice(side.columns).name for side in (left, right))
        keys = [(column(a), column(b))] if chance.random() < 0.8 else []
        if chance.random() < 0.2:
            keys.append((call("+", column("k"), column("v")), column("v")))
        condition = call(chance.choice((">", "<>")), column("v", 0), column("v", 1)) if chance.random() < 0.4 else None
        if condition is not None and chance.random() < 0.5:
            condition = call("and", condition, call(">", column(a, 0), Literal(0, Kind.INT)))
        plain = joined(left, right)
        made_join = Join(left, right, tuple(keys), condition, "inner", plain.columns)
        if chance.random() < 0.3:
            return Select(made_join, call("<", column(chance.choice(made_join.columns).name), Literal(3, Kind.INT)))
        return made_join

    streams = list(range(leaves))
    chance.shuffle(streams)
    return made(streams)


@pytest.mark.parametrize("make", [random_tree, lambda chance, _: random_join(chance, chance.randint(2, 4))])
def test_the_best_tree_has_the_same_rows_and_columns(make: Callable[[random.Random, int], Relation]) -> None:
    changed = 0
    for seed in range(40 * EXAMPLES):
        chance = random.Random(seed)
        tree = make(chance, 7)
        best = best_tree(tree, random_statistics(chance, 9), Costs(), Objective(one_core=seed % 2 == 0))
        windows = windows_of(tree, chance)
        assert best.columns == tree.columns
        assert bag(best, windows) == bag(tree, windows), seed
        changed += best != tree
    assert changed > 4 * EXAMPLES


def cost(tree: Relation, statistics: Statistics, costs: Costs) -> Cost:
    return cost_of(parts_of(costed(tree, statistics, costs), ("row",) * len(operators(tree))))


@pytest.mark.parametrize("objective", [Objective(), PARALLEL], ids=str)
def test_the_order_of_a_join_is_as_good_as_the_best_of_all(objective: Objective) -> None:
    tried = 0
    for seed in range(12 * EXAMPLES):
        chance = random.Random(seed)
        n = chance.randint(2, 4)
        tree = random_join(chance, n)
        block = block_of(tree, lambda leaf: leaf)
        # An equality over three leaves has the selectivity of a key at one join, and of a condition at another.
        if block is None or block.equalities:
            continue
        statistics = random_statistics(chance, n)
        costs = Costs(**{name: getattr(Costs(), name) * 10 ** chance.uniform(-2, 2) for name in CONSTANTS})
        found = best_tree(tree, statistics, costs, objective)
        reached = objective.rank(cost(_without_last_projection(found, tree), statistics, costs))
        best = min(objective.rank(cost(block.build(order), statistics, costs)) for order in all_orders(tuple(range(n))))
        # Pushing a condition into a leaf may cost less still.
        assert reached[0] <= best[0]
        assert reached[0] < best[0] or reached[1] <= best[1] * (1 + 1e-9), seed
        tried += 1
    assert tried > 5 * EXAMPLES


def _without_last_projection(found: Relation, tree: Relation) -> Relation:
    return found.input if isinstance(found, Project) and not isinstance(tree, Project) else found


def test_keys_are_inferred_from_classes_of_equal_columns() -> None:
    """b is large, and a meets c by way of b alone as it is written."""
    tree = joined(joined(window(0), window(1)), window(2))
    statistics = Statistics(SECOND, {0: 1.0, 1: 1000.0, 2: 1.0}, {(n, "k"): 50.0 for n in range(3)})
    found = _without_last_projection(best_tree(tree, statistics, Costs(), Objective()), tree)
    assert isinstance(found, Join)
    (inner,) = [one for one in found.inputs if isinstance(one, Join)]
    assert {one.stream for one in inner.inputs if isinstance(one, Scan)} == {0, 2}
    assert inner.keys == ((KEY, KEY),)


def test_equal_orders_stay_as_they_were_written() -> None:
    tree = joined(joined(joined(*map(aggregate, map(window, (0, 1)))), aggregate(window(2))), aggregate(window(3)))
    assert best_tree(tree, Statistics(SECOND), Costs(), PARALLEL) == tree


def test_a_large_join_is_ordered_pair_by_pair() -> None:
    n = MOST_LEAVES + 3
    tree = window(0)
    for stream in range(1, n):
        tree = joined(tree, window(stream))
    statistics = random_statistics(random.Random(3), n)
    found = best_tree(tree, statistics, Costs(), Objective())
    assert {one.stream for one in scans(found)} == set(range(n))
    assert found.columns == tree.columns
    found = _without_last_projection(found, tree)
    assert cost(found, statistics, Costs()).utilisation <= cost(tree, statistics, Costs()).utilisation


def test_a_key_that_can_fail_keeps_a_join_as_it_is() -> None:
    sums = call("+", column("k"), column("v"))
    tree = Join(window(0), window(1), ((sums, KEY),), None, "inner", joined(window(0), window(1)).columns)
    assert block_of(tree, lambda leaf: leaf) is None


def selected(below: Relation, name: str, bound: int = 1) -> Select:
    return Select(below, call(">", column(name), Literal(bound, Kind.INT)))


@pytest.mark.parametrize(
    ("tree", "goes_down"),
    [
        (selected(aggregate(window(0)), "k"), True),
        (selected(aggregate(window(0)), "v"), False),
        (selected(Distinct(window(0)), "v"), True),
        (selected(projected(window(0)), "k"), True),
        (selected(projected(window(0)), "v"), False),  # doubling an integer can fail
        (selected(joined(window(0), window(1), "anti"), "v"), True),
        (selected(above(window(0)), "k"), True),
        (Select(Distinct(window(0)), call(">", call("+", KEY, VALUE), Literal(1, Kind.INT))), False),
        (selected(window(0), "v"), False),
    ],
)  # fmt: skip
def test_a_condition_goes_down_where_that_changes_nothing(tree: Select, goes_down: bool) -> None:
    found = pushed_down(tree)
    assert (found is not None) == goes_down
    if found is not None:
        chance = random.Random(0)
        for _ in range(20):
            windows = windows_of(tree, chance)
            assert bag(found, windows) == bag(tree, windows)
        assert not isinstance(found, Select) or isinstance(found.input, Scan)


def correlated(keys: tuple[str, ...], argument: str | None, condition: Expr | None = None, side: int = 0) -> Aggregate:
    """Rows of a window with the greatest of their key, grouped again."""
    sides = (window(0), aggregate(window(1), "MAX"))
    plain = joined(*(sides if side == 0 else sides[::-1]))
    join = Join(plain.left, plain.right, plain.keys, condition, "inner", plain.columns)
    aggregate_call = AggregateCall("SUM" if argument else "COUNT", argument and column(argument), None, integer("n"))
    return Aggregate(join, tuple(map(column, keys)), tuple(integer(f"g_{key}") for key in keys), (aggregate_call,))


@pytest.mark.parametrize(
    ("tree", "goes_down"),
    [
        (correlated(("k",), "v"), True),
        (correlated(("k",), None), True),
        (correlated(("k", "v'"), "v"), True),
        (correlated(("k", "v"), None), True),
        (correlated(("k'", "v"), "v'", side=1), True),
        (correlated(("k",), "v", call(">", column("v", 1), column("k", 0))), True),
        (correlated(("k",), "v", call(">", column("v", 0), column("v", 1))), False),  # it reads more than keys
        (correlated(("k",), "v'"), False),
        (correlated(("v",), None), False),
        (correlated(("v'",), None), False),
        (aggregate(joined(window(0), window(1))), False),  # a row may have many partners
    ],
)  # fmt: skip
def test_an_aggregate_goes_below_a_join_where_that_changes_nothing(tree: Aggregate, goes_down: bool) -> None:
    found = aggregated_below(tree)
    assert (found is not None) == goes_down
    if found is not None:
        assert found.columns == tree.columns
        chance = random.Random(0)
        for _ in range(40):
            windows = windows_of(tree, chance)
            assert bag(found, windows) == bag(tree, windows)


def test_an_aggregate_below_a_join_is_chosen_where_it_costs_less() -> None:
    tree = correlated(("k", "v'"), "v")
    many = Statistics(SECOND, {0: 1000.0, 1: 1000.0}, {(n, "k"): 50.0 for n in range(2)})
    best = best_tree(tree, many, Costs(), Objective())
    assert cost(best, many, Costs()).utilisation < 0.5 * cost(tree, many, Costs()).utilisation
    assert sum(isinstance(one, Aggregate) and isinstance(one.input, Scan) for one in nodes(best)) == 2


def test_a_window_alone_stays_itself() -> None:
    tree = window(0, MINUTE)
    assert best_tree(tree, Statistics(SECOND), Costs(), Objective()) == tree
