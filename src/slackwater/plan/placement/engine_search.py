"""Phase two: an engine for every operator of a given tree.

Plans are built bottom-up. Of the plans of a sub-tree whose topmost operator is on the row engine only the best is kept:
that operator costs the same in all of them, and costs the same whatever is put above (004 §6.3.4). All plans whose
topmost operator is on the column engine are kept, because the cost of its fragment is only known where the fragment
ends. A chain of n operators has n + 1 plans, a join of sub-trees with l and r plans has 1 + lr.

One refinement: a row operator over a window costs by tuple if what is below it is kept by tuple, and else by instant.
So of selections and projections that stand on a window alone the plan in which all are row operators is kept beside the
best other one, as System R keeps plans of interesting orders. Elsewhere nothing above an operator depends on how it was
computed.

Where there are still too many, plans that another one dominates are dropped first: a plan with a larger bottleneck, a
larger utilisation and a dearer open fragment than another of the same sub-tree cannot become better. This loses
nothing. Only if that is not enough, a sub-tree is taken as a problem of its own, and its best plans are kept.

Plans of a sub-tree are columns of numbers, not objects: what is closed (bottleneck, utilisation), the cost of the
fragment that is still open, and from which plans of the inputs it was made.

Invariant: the plan found has the rank of the best of all 2^n plans, unless sub-trees had to be taken alone.

References: 004 §6.3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.expressions.relational import Placement
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.plan.placement.operator_costs import OperatorCosts, stays_by_tuple
from slackwater.plan.placement.plan_cost import Cost, Floats, Objective, cost_of, parts_of

MOST_PLANS = 100_000
"""Plans of one sub-tree that are kept before some are dropped."""
KEPT_ALONE = 16
"""Plans that are kept of a sub-tree that is taken as a problem of its own."""

Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PartialPlans:
    """Plans of a sub-tree, one an entry."""

    bottleneck: Floats
    """Of all parts that are complete; of a row operator at the top, with it."""
    utilisation: Floats
    open_cost: Floats
    """What the fragment at the top costs so far, without statement and output; 0 under a row operator."""
    by_column: Flags
    """Which engine the topmost operator is on."""
    by_tuple: Flags
    """Whether its rows are kept as tuples come and go."""
    made_of: tuple[Places, ...]
    """For each input, which of its plans."""

    def __len__(self) -> int:
        return len(self.bottleneck)

    def taken(self, places: Places) -> PartialPlans:
        """Some of them."""
        return PartialPlans(
            self.bottleneck[places], self.utilisation[places], self.open_cost[places], self.by_column[places],
            self.by_tuple[places], tuple(one[places] for one in self.made_of),
        )  # fmt: skip

    def and_those(self, others: PartialPlans) -> PartialPlans:
        """These and others of the same sub-tree."""
        return PartialPlans(
            np.concatenate((self.bottleneck, others.bottleneck)),
            np.concatenate((self.utilisation, others.utilisation)),
            np.concatenate((self.open_cost, others.open_cost)),
            np.concatenate((self.by_column, others.by_column)),
            np.concatenate((self.by_tuple, others.by_tuple)),
            tuple(np.concatenate(pair) for pair in zip(self.made_of, others.made_of, strict=True)),
        )

    def closed(self, ending: float) -> tuple[Floats, Floats]:
        """Bottleneck and utilisation if a row operator, or nothing, stands above; `ending` is what ends a fragment."""
        last = np.where(self.by_column, self.open_cost + ending, 0.0)
        return np.maximum(self.bottleneck, last), self.utilisation + last


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    placement: Placement
    cost: Cost
    runner_up: tuple[Placement, Cost] | None
    """The best of the other plans that were complete."""
    examined: int
    """Complete plans that were compared, in the words of Table 6.1."""
    built: int
    """Plans of all sub-trees that were built on the way."""
    exact: bool
    """Whether no sub-tree had to be taken as a problem of its own."""


_WINDOW = PartialPlans(
    np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1, np.bool_), np.ones(1, np.bool_), ()
)  # fmt: skip


class EngineSearch:
    """One search over the placements of a tree."""

    def __init__(
        self, operators: OperatorCosts, objective: Objective, early: bool = True, most_plans: int = MOST_PLANS
    ) -> None:
        self._operators, self._objective, self._most = operators, objective, most_plans
        # A plan that keeps up is known, so no other can be the best (004 §6.3.4, other pruning methods).
        self._early = early and objective.feasibility and any(map(objective.is_feasible, pure_costs(operators)))
        self._plans: list[PartialPlans] = []
        self._built, self._exact = 0, True

    def run(self) -> Found:
        """Search the whole tree."""
        for number, one in enumerate(self._operators.tree):
            made = self._extended(number) if one.is_operator else _WINDOW
            self._built += len(made) if one.is_operator else 0
            self._plans.append(made)
        top = len(self._plans) - 1
        bottleneck, utilisation = self._closed(top)
        order = self._objective.order(bottleneck, utilisation)
        costs = [Cost(float(bottleneck[place]), float(utilisation[place])) for place in order[:2]]
        plans = [self._placement(top, int(place)) for place in order[:2]]
        second = (plans[1], costs[1]) if len(plans) > 1 else None
        return Found(plans[0], costs[0], second, len(bottleneck), self._built, self._exact)

    def _closed(self, number: int) -> tuple[Floats, Floats]:
        ending = self._operators.transfer_out(number) if self._operators.tree[number].is_operator else 0.0
        return self._plans[number].closed(ending)

    def _extended(self, number: int) -> PartialPlans:
        """Plans up to an operator, by those of its inputs."""
        inputs = self._operators.tree[number].inputs
        self._make_room(inputs)
        on_rows, on_columns = self._by_row(number), self._by_column(number)
        both = on_rows.and_those(on_columns)
        if not self._early:
            return both
        load = both.utilisation + both.open_cost if self._objective.one_core else np.maximum(
            both.bottleneck, both.open_cost
        )  # fmt: skip
        # The plan that is known to keep up is among them by the same sums in another order; leave it some room.
        return both.taken(np.flatnonzero(load <= 1 + 1e-9))

    def _by_row(self, number: int) -> PartialPlans:
        """The best plan with a row operator on top; where it matters, the best of those kept by tuple as well."""
        one = self._operators.tree[number]
        closed = [self._closed(below) for below in one.inputs]
        if len(one.inputs) == 1:
            kept = self._plans[one.inputs[0]].by_tuple
            costs = np.where(kept, self._operators.by_row(number, True), self._operators.by_row(number, False))
            bottleneck, utilisation = np.maximum(closed[0][0], costs), closed[0][1] + costs
            kept = kept & stays_by_tuple(one.node)
            places = []
            for group in (np.flatnonzero(kept), np.flatnonzero(~kept)):
                if len(group):
                    places.append(group[self._objective.best(bottleneck[group], utilisation[group])])
            chosen = np.array(places, np.intp)
            return _rows(bottleneck[chosen], utilisation[chosen], kept[chosen], (chosen,))
        best = [self._objective.best(*pair) for pair in closed]
        cost = self._operators.by_row(number, False)
        bottlenecks = [cost, *(pair[0][place] for pair, place in zip(closed, best, strict=True))]
        total = cost + sum(pair[1][place] for pair, place in zip(closed, best, strict=True))
        made_of = tuple(np.array([place], np.intp) for place in best)
        return _rows(np.array([max(bottlenecks)]), np.array([total]), np.zeros(1, np.bool_), made_of)

    def _by_column(self, number: int) -> PartialPlans:
        """All plans with a column operator on top."""
        inputs = self._operators.tree[number].inputs
        below = [self._plans[one] for one in inputs]
        made_of: tuple[Places, ...]
        if len(below) == 1:
            made_of = (np.arange(len(below[0])),)
        else:
            left, right = len(below[0]), len(below[1])
            made_of = (np.repeat(np.arange(left), right), np.tile(np.arange(right), left))
        n = len(made_of[0])
        bottleneck, utilisation = np.zeros(n), np.zeros(n)
        open_cost = np.full(n, self._operators.by_column(number))
        for one, plans, places in zip(inputs, below, made_of, strict=True):
            crossing = np.where(
                plans.by_tuple, self._operators.transfer_in(one, True), self._operators.transfer_in(one, False)
            )
            open_cost += np.where(plans.by_column, plans.open_cost, crossing)[places]
            bottleneck = np.maximum(bottleneck, plans.bottleneck[places])
            utilisation += plans.utilisation[places]
        return PartialPlans(bottleneck, utilisation, open_cost, np.ones(n, np.bool_), np.zeros(n, np.bool_), made_of)

    def _make_room(self, inputs: tuple[int, ...]) -> None:
        """Drop plans of the inputs until their combinations are few enough."""
        for reduce in (self._without_dominated, self._best_alone):
            if np.prod([float(len(self._plans[one])) for one in inputs]) <= self._most:
                return
            for one in inputs:
                self._plans[one] = reduce(one)

    def _without_dominated(self, number: int) -> PartialPlans:
        plans = self._plans[number]
        columns = np.flatnonzero(plans.by_column)
        total = plans.utilisation + plans.open_cost
        bottleneck = np.zeros(len(plans)) if self._objective.one_core else plans.bottleneck
        opened = np.zeros(len(plans)) if self._objective.one_core else plans.open_cost
        kept = undominated(bottleneck[columns], opened[columns], total[columns])
        return plans.taken(np.concatenate((np.flatnonzero(~plans.by_column), columns[kept])))

    def _best_alone(self, number: int) -> PartialPlans:
        plans = self._plans[number]
        if len(plans) <= KEPT_ALONE:
            return plans
        self._exact = False
        order = self._objective.order(*self._closed(number))
        rows = np.flatnonzero(~plans.by_column)
        columns = order[plans.by_column[order]][: KEPT_ALONE - len(rows)]
        return plans.taken(np.concatenate((rows, columns)))

    def _placement(self, number: int, place: int) -> Placement:
        one, plans = self._operators.tree[number], self._plans[number]
        if not one.is_operator:
            return ()
        below: Placement = ()
        for which, made_of in zip(one.inputs, plans.made_of, strict=True):
            below += self._placement(which, int(made_of[place]))
        return (*below, COLUMN if plans.by_column[place] else ROW)


def _rows(bottleneck: Floats, utilisation: Floats, by_tuple: Flags, made_of: tuple[Places, ...]) -> PartialPlans:
    nothing = np.zeros(len(bottleneck))
    return PartialPlans(bottleneck, utilisation, nothing, np.zeros(len(nothing), np.bool_), by_tuple, made_of)


def undominated(first: Floats, second: Floats, third: Floats) -> Places:
    """Positions of triples that no other triple is below or equal to in all three; of equal ones, one.

    >>> undominated(np.array([1.0, 2, 2, 3]), np.array([5.0, 4, 6, 4]), np.array([1.0, 1, 0.5, 1])).tolist()
    [0, 1, 2]
    """
    kept: list[int] = []
    stairs: list[tuple[float, float]] = []
    # In this order a triple is only dominated by one that came before; those are a staircase in the other two.
    for place in np.lexsort((third, second, first)):
        b, c = float(second[place]), float(third[place])
        if any(other <= b and another <= c for other, another in stairs):
            continue
        stairs = [(other, another) for other, another in stairs if other < b or another < c]
        stairs.append((b, c))
        kept.append(int(place))
    return np.array(sorted(kept), np.intp)


def pure_costs(operators: OperatorCosts) -> tuple[Cost, Cost]:
    """All on the row engine, and all on the column engine."""
    n = sum(one.is_operator for one in operators.tree)
    row, column = (cost_of(parts_of(operators, (engine,) * n)) for engine in (ROW, COLUMN))
    return row, column


def best_engines(
    operators: OperatorCosts, objective: Objective, early: bool = True, most_plans: int = MOST_PLANS
) -> Found:
    """The best placement of a tree. `early` drops plans that cannot keep up as soon as one that can is known."""
    return EngineSearch(operators, objective, early, most_plans).run()
