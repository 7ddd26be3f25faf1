"""From a tree and statistics to a plan: both phases, and what is to be told of the result.

Invariant: a placed plan is plain data that holds everything it was made from, so that it can be explained, and made
again when the statistics have changed.

References: 004 §6.3.3 (two-phase optimization), §6.3.1 (feasible and infeasible queries).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.expressions.relational import Placement, Relation, scans
from slackwater.expressions.relational import operators as tree_operators
from slackwater.operators.instant.fragments import ROW
from slackwater.operators.instant.sql import can_be_column
from slackwater.plan.placement.costs import Costs, load_costs
from slackwater.plan.placement.engine_search import best_engines, pure_costs
from slackwater.plan.placement.operator_costs import OperatorCosts
from slackwater.plan.placement.phase_one import best_tree
from slackwater.plan.placement.plan_cost import Cost, Objective, Part, cost_of, parts_of
from slackwater.plan.placement.sizes import numbered, sizes_of
from slackwater.plan.placement.statistics import Statistics

_SLOWEST, _FASTEST = 2.0**-40, 2.0**20
_STEPS = 60
_STEP = 2**0.25
TOLERANCE = 1.1
"""A placement is about the best if no other costs a tenth less."""


@dataclass(frozen=True)
class Placed:
    """A tree with an engine for each of its operators, and why."""

    relation: Relation
    """The tree that is run: the query's own, or one with the same rows that costs less."""
    placement: Placement
    cost: Cost
    runner_up: tuple[Placement, Cost] | None
    """The best of the other placements that were examined."""
    all_row: Cost
    all_column: Cost
    examined: int
    """Complete placements that were compared."""
    exact: bool
    """Whether the placement is the best of all; else large sub-trees were placed for themselves."""
    statistics: Statistics
    costs: Costs
    objective: Objective

    @cached_property
    def operators(self) -> OperatorCosts:
        """Sizes and costs of all nodes."""
        return operator_costs(self.relation, self.statistics, self.costs)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Row operators and fragments with their costs."""
        return parts_of(self.operators, self.placement)

    @property
    def feasible(self) -> bool:
        """Whether it is expected to keep up with the streams."""
        return self.objective.is_feasible(self.cost)

    @cached_property
    def holds(self) -> float:
        """The largest multiple of the rates with which this plan keeps up; 0 if it keeps up with none."""
        streams = {one.stream for one in scans(self.relation)}

        def keeps_up(factor: float) -> bool:
            faster = self.statistics.faster(factor, streams)
            operators = operator_costs(self.relation, faster, self.costs)
            return self.objective.is_feasible(cost_of(parts_of(operators, self.placement)))

        low, high = _SLOWEST, _FASTEST
        if not keeps_up(low):
            return 0.0
        if keeps_up(high):
            return high
        # Costs rise with rates, so there is one border; each step halves the doubt of its logarithm.
        for _ in range(_STEPS):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if keeps_up(middle) else (low, middle)
        return low

    def still_good(self, statistics: Statistics) -> bool:
        """Whether this placement is still about the best for other statistics of the same streams."""
        operators = operator_costs(self.relation, statistics, self.costs)
        over, value = self.objective.rank(cost_of(parts_of(operators, self.placement)))
        best_over, best = self.objective.rank(best_engines(operators, self.objective).cost)
        return over == best_over and value <= best * TOLERANCE

    @cached_property
    def good_between(self) -> tuple[float, float]:
        """The multiples of the rates, about, between which this placement is about the best: beyond, it pays to place
        anew. They are at most a thousandth and a thousand."""
        streams = {one.stream for one in scans(self.relation)}

        def last_good(step: float) -> float:
            factor = 1.0
            while 1e-3 < factor < 1e3 and self.still_good(self.statistics.faster(factor * step, streams)):
                factor *= step
            return factor

        return last_good(1 / _STEP), last_good(_STEP)


def operator_costs(relation: Relation, statistics: Statistics, costs: Costs) -> OperatorCosts:
    """Sizes and costs of the nodes of a tree."""
    tree = numbered(relation)
    return OperatorCosts(tree, sizes_of(tree, statistics), statistics.slides, costs)


def place(
    relation: Relation,
    statistics: Statistics,
    costs: Costs | None = None,
    feasibility: bool = True,
    one_core: bool = True,
    reorder: bool = True,
    only: str | None = None,
) -> Placed:
    """The best plan of a query. `costs` are those of this machine unless given; without `feasibility` the plan of least
    utilisation is taken whether or not it keeps up; `one_core` says that operators take turns on one core, as in a
    shard; `reorder` lets phase one change the tree; `only` is an engine that is asked for, and takes what it can."""
    objective = Objective(feasibility, one_core)
    unit = load_costs() if costs is None else costs
    tree = best_tree(relation, statistics, unit, objective) if reorder else relation
    operators = operator_costs(tree, statistics, unit)
    all_row, all_column = pure_costs(operators)
    if only is not None:
        asked = tuple(only if only == ROW or can_be_column(node) else ROW for node in tree_operators(tree))
        cost = cost_of(parts_of(operators, asked))
        return Placed(tree, asked, cost, None, all_row, all_column, 1, False, statistics, unit, objective)
    found = best_engines(operators, objective)
    return Placed(
        tree, found.placement, found.cost, found.runner_up, all_row, all_column, found.examined, found.exact,
        statistics, unit, objective,
    )  # fmt: skip
