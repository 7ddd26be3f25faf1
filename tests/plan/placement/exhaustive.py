"""The slow twins of the search: all placements of a tree, and all orders of a join.

Invariant: nothing is left out, and costs are those of complete plans; there is no partial plan here.

References: 004 §6.3.1, Definition 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from slackwater.expressions.relational import Placement
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.plan.placement.operator_costs import OperatorCosts
from slackwater.plan.placement.plan_cost import Cost, Objective, cost_of, parts_of


def all_placements(operators: OperatorCosts) -> Iterator[tuple[Placement, Cost]]:
    """Every placement of a tree with its cost: 2^n of n operators."""
    n = sum(one.is_operator for one in operators.tree)
    for placement in product((ROW, COLUMN), repeat=n):
        yield placement, cost_of(parts_of(operators, placement))


def best_of_all(operators: OperatorCosts, objective: Objective) -> tuple[Placement, Cost]:
    """The best of all placements; the first of equals."""
    return min(all_placements(operators), key=lambda one: objective.rank(one[1]))


def all_orders(leaves: tuple[int, ...]) -> Iterator[object]:
    """Every binary tree over numbered leaves, as nested pairs; left and right are told apart.

    >>> len(list(all_orders((0, 1, 2)))), len(list(all_orders((0, 1, 2, 3))))
    (12, 120)
    """
    if len(leaves) == 1:
        yield leaves[0]
        return
    for chosen in range(1, 2 ** len(leaves) - 1):
        left = tuple(leaf for at, leaf in enumerate(leaves) if chosen >> at & 1)
        right = tuple(leaf for at, leaf in enumerate(leaves) if not chosen >> at & 1)
        for one in all_orders(left):
            for other in all_orders(right):
                yield one, other
