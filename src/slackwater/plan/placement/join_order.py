"""The best order of a join of many relations, all on the row engine.

For every set of leaves the best plan is found from the best plans of its parts, bushy ones included, as in System R.
That is sound because the size of a joined set does not depend on the order inside it, so the join on top costs the same
over any plan of its parts, and keeps its cost whatever is put above (principle of optimality, 004 §6.3.3). An equality
that is no key of a set (it reads three leaves or more) costs at the join where it is asked, which is a matter of that
join alone.

Above `MOST_LEAVES` leaves the pair that is joined at least cost is joined first, again and again.

Invariant: up to `MOST_LEAVES` leaves the order has the rank of the best of all orders. Of equals the order in which the
query was written is preferred.

References: 004 §6.3.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from math import prod
from operator import or_

from slackwater.expressions.tree import Expr
from slackwater.plan.placement.costs import Costs
from slackwater.plan.placement.join_block import Block, Order, leaves_of
from slackwater.plan.placement.operator_costs import row_join_cost
from slackwater.plan.placement.plan_cost import Cost, Objective
from slackwater.plan.placement.sizes import Size, joined_size, meaning_of
from slackwater.plan.placement.statistics import Statistics

MOST_LEAVES = 10
_SAME = 1e-12
"""Costs that differ by less, relatively, are the same sum in another order."""


@dataclass(frozen=True)
class Ordered:
    """The best plan of a set of leaves."""

    order: Order
    cost: Cost


class JoinOrder:
    """The search for one block. Sets of leaves are bits of an integer, leaf 0 the lowest."""

    def __init__(
        self, block: Block, leaves: list[tuple[Size, Cost]], statistics: Statistics, costs: Costs, objective: Objective
    ) -> None:
        self._block, self._statistics, self._costs, self._objective = block, statistics, costs, objective
        self._meanings = [size.meanings for size, _ in leaves]
        self._sizes = {1 << at: size for at, (size, _) in enumerate(leaves)}
        self._best = {1 << at: Ordered(at, cost) for at, (_, cost) in enumerate(leaves)}
        self._n = len(leaves)
        self._classes = [reduce(or_, map(leaves_of, members)) for members in block.classes]
        self._asks = bool(block.conditions or block.equalities or block.last)

    def run(self) -> Ordered:
        """The best order of all leaves."""
        if self._n > MOST_LEAVES:
            return self._greedy()
        every = (1 << self._n) - 1
        for both in sorted(range(1, every + 1), key=int.bit_count):
            if both.bit_count() > 1:
                self._best[both] = self._best_of_set(both)
        return self._best[every]

    def _best_of_set(self, both: int) -> Ordered:
        best: Ordered | None = None
        # The last leaf alone on the right comes first: where all are equal, the order is that of the query.
        for right in sorted(_parts(both), key=lambda part: (part.bit_count(), -part)):
            made = self._joined(both ^ right, right)
            if best is None or self._is_better(made.cost, best.cost):
                best = made
        assert best is not None
        return best

    def _greedy(self) -> Ordered:
        parts = [1 << at for at in range(self._n)]
        while len(parts) > 1:
            one, other = min(permutations(parts, 2), key=lambda pair: self._join_cost(*pair))
            self._best[one | other] = self._joined(one, other)
            parts = [part for part in parts if part not in (one, other)] + [one | other]
        return self._best[parts[0]]

    def _is_better(self, cost: Cost, than: Cost) -> bool:
        (over, value), (other_over, other) = self._objective.rank(cost), self._objective.rank(than)
        if over != other_over:
            return over < other_over
        if abs(value - other) > _SAME * max(value, other):
            return value < other
        return cost.utilisation < than.utilisation * (1 - _SAME)

    def _joined(self, left: int, right: int) -> Ordered:
        one, other = self._best[left], self._best[right]
        cost = self._join_cost(left, right)
        bottleneck = max(one.cost.bottleneck, other.cost.bottleneck, cost)
        total = one.cost.utilisation + other.cost.utilisation + cost
        return Ordered((one.order, other.order), Cost(bottleneck, total))

    def _join_cost(self, left: int, right: int) -> float:
        one, other = self._size(left), self._size(right)
        pairs = one.rows * other.rows
        if self._has_keys(left, right):
            # Of all pairs, those with equal keys: the rows of the set before the conditions of this join are asked.
            share = self._share_asked(left, right)
            pairs = self._size(left | right).rows / share if share else self._joined_size(left, right).pairs
        made = self._size(left | right).rows
        return row_join_cost(one.rows, other.rows, pairs, made, self._statistics.slides, self._costs)

    def _has_keys(self, left: int, right: int) -> bool:
        if any(mask & left and mask & right for mask in self._classes):
            return True
        return bool(self._block.equalities) and bool(self._block.keys(left, right))

    def _share_asked(self, left: int, right: int) -> float:
        if not self._asks:
            return 1.0
        return prod(self._statistics.selectivity(self._meaning(one)) for one in self._block.asked(left, right))

    def _size(self, both: int) -> Size:
        """The size of a joined set, which is the same by whatever join it is reached."""
        if both not in self._sizes:
            lowest = both & -both
            self._sizes[both] = self._joined_size(both ^ lowest, lowest)
        return self._sizes[both]

    def _joined_size(self, left: int, right: int) -> Size:
        keys = [(self._meaning(a), self._meaning(b)) for a, b in self._block.keys(left, right)]
        conditions = [self._meaning(one) for one in self._block.asked(left, right)]
        return joined_size(self._size(left), self._size(right), keys, conditions, {}, self._statistics)

    def _meaning(self, expr: Expr) -> Expr:
        return meaning_of(expr, *self._meanings)


def _parts(both: int) -> Iterator[int]:
    """All parts of a set but none and all."""
    part = (both - 1) & both
    while part:
        yield part
        part = (part - 1) & both
