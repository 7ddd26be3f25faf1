"""What the planner knows from table statistics, and plans that are made again while a query runs.

Table statistics are rows counted of the tree that the query states. What they say of conditions, keys and groups is put
down by their meaning, so that it holds for every tree with the same rows. They are used twice: on a recording before a
plan is made, and in the windows of a query that runs.

Invariant: the same table statistics and costs give the same plan, so a plan can be found again after a restart from
those that it was made by.

References: 004 §6.3.2; §6.1 names plans that change while running as what comes after static optimization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slackwater.expressions.relational import Aggregate, Distinct, Join, Placement, Relation, Select
from slackwater.expressions.tree import Column, Expr, conjuncts
from slackwater.operators.instant.adapting import TableStatistics
from slackwater.plan.placement.costs import Costs
from slackwater.plan.placement.place import TOLERANCE, Placed, operator_costs, place
from slackwater.plan.placement.plan_cost import Objective, cost_of, parts_of
from slackwater.plan.placement.sizes import Size, meaning_of, numbered, partnered, size_of
from slackwater.plan.placement.statistics import LEARNED, Statistics

WORTH = 0.001
"""A change must save at least this share of a core; below that any plan is as good as another."""


def statistics_of(
    relation: Relation,
    statistics: TableStatistics,
    slide: int,
    source: str = LEARNED,
    rates: Mapping[int, float] | None = None,
) -> Statistics:
    """What table statistics say; `rates`, where they are known better, take the place of those in its windows."""
    known = Statistics(slide, dict(enumerate(statistics.rates)) if rates is None else rates, source=source)
    sizes: list[Size] = []
    for number, one in enumerate(numbered(relation)):
        below = [sizes[at] for at in one.inputs]
        known = _with_node(known, one.node, below, statistics, number, one.inputs)
        sizes.append(size_of(one.node, below, known))
    return known


def _with_node(
    known: Statistics,
    node: Relation,
    below: list[Size],
    statistics: TableStatistics,
    number: int,
    inputs: Sequence[int],
) -> Statistics:
    """What is known, with what was counted at one node."""
    meanings = [size.meanings for size in below]
    rows = statistics.rows[number]
    if isinstance(node, Select):
        return _with_share(known, meaning_of(node.condition, *meanings), rows, statistics.rows[inputs[0]])
    if isinstance(node, Aggregate):
        return _with_groups(known, [meaning_of(key, *meanings) for key in node.keys], rows)
    if isinstance(node, Distinct):
        return _with_groups(known, list(below[0].meanings.values()), rows)
    if not isinstance(node, Join):
        return known
    keys = [(meaning_of(a, meanings[0]), meaning_of(b, meanings[1])) for a, b in node.keys]
    for side in (0, 1):
        known = _with_groups(known, [pair[side] for pair in keys], statistics.keys[number][side])
    condition = None if node.condition is None else meaning_of(node.condition, *meanings)
    if node.kind == "inner":
        return known if condition is None else _with_share(known, condition, rows, statistics.pairs[number])
    left = statistics.rows[inputs[0]]
    met = rows if node.kind == "semi" else left - rows
    return _with_share(known, partnered(keys, [] if condition is None else [condition]), met, left)


def _with_share(known: Statistics, condition: Expr, rows: float, of: float) -> Statistics:
    if of < 1:
        return known
    # Half a row keeps what was not seen from being impossible.
    share = min(1.0, (rows + 0.5) / (of + 1.0))
    parts = conjuncts(condition)
    found = {condition: share} | {part: share ** (1 / len(parts)) for part in parts}
    return replace(known, selectivities={**known.selectivities, **found})


def _with_groups(known: Statistics, keys: list[Expr], groups: float) -> Statistics:
    """Windows of several lengths have several numbers of groups; the largest is kept."""
    if not keys or groups < 1:
        return known
    found = max(groups, known.groups.get(frozenset(keys), 0.0))
    distinct = dict(known.distinct)
    if len(set(keys)) == 1 and isinstance(keys[0], Column):
        distinct[keys[0].stream, keys[0].name] = found
    return replace(known, groups={**known.groups, frozenset(keys): found}, distinct=distinct)


@dataclass(frozen=True)
class CostBased:
    """Chooses the plan that a running query should go on with."""

    costs: Costs
    objective: Objective = field(default_factory=Objective)

    def best(self, stated: Relation, slide: int, statistics: TableStatistics) -> Placed:
        """The plan that is best for what was counted."""
        known, wanted = statistics_of(stated, statistics, slide), self.objective
        return place(stated, known, self.costs, wanted.feasibility, wanted.one_core)

    def plan_for(self, stated: Relation, slide: int, statistics: TableStatistics) -> tuple[Relation, Placement]:
        """The tree and placement that are best for what was counted."""
        found = self.best(stated, slide, statistics)
        return found.relation, found.placement

    def better_plan(
        self, stated: Relation, slide: int, running: tuple[Relation, Placement], statistics: TableStatistics
    ) -> tuple[Relation, Placement] | None:
        """The same where it pays to change what runs; None where that is about the best already."""
        best = self.best(stated, slide, statistics)
        operators = operator_costs(running[0], best.statistics, self.costs)
        now = cost_of(parts_of(operators, running[1]))
        over, value = self.objective.rank(now)
        best_over, least = self.objective.rank(best.cost)
        worth = now.utilisation - best.cost.utilisation >= WORTH
        if (over == best_over and value <= least * TOLERANCE) or not worth:
            return None
        return best.relation, best.placement
