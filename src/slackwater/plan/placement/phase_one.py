"""Phase one: the best tree of a query if all of it ran on the row engine.

Joins of many relations are put into their best order (`join_order`); conditions move towards windows and aggregates
below joins where that gives the same rows (`push_down`) and costs less.

Invariant: the tree gives the same bag of rows, with the same columns in the same order.

References: 004 §6.3.3.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.expressions.relational import Aggregate, Join, Project, Relation, Select
from slackwater.expressions.tree import Column
from slackwater.operators.instant.fragments import all_placed, reading
from slackwater.plan.placement.costs import Costs
from slackwater.plan.placement.join_block import Block, block_of, is_block
from slackwater.plan.placement.join_order import JoinOrder
from slackwater.plan.placement.operator_costs import OperatorCosts
from slackwater.plan.placement.plan_cost import Cost, Objective, cost_of, parts_of
from slackwater.plan.placement.push_down import aggregated_below, pushed_down
from slackwater.plan.placement.sizes import Size, numbered, sizes_of
from slackwater.plan.placement.statistics import Statistics


def best_tree(relation: Relation, statistics: Statistics, costs: Costs, objective: Objective) -> Relation:
    """The best tree for a query."""
    best = PhaseOne(statistics, costs, objective).improved(relation)
    if best.columns == relation.columns:
        return best
    same = tuple(Column(0, one.name, one.kind, one.scale) for one in relation.columns)
    return Project(best, same, relation.columns)


class PhaseOne:
    """The rewriting of one query."""

    def __init__(self, statistics: Statistics, costs: Costs, objective: Objective) -> None:
        self._statistics, self._costs, self._objective = statistics, costs, objective

    def improved(self, relation: Relation) -> Relation:
        """A tree with the same rows and names of columns; the order of columns may differ."""
        if is_block(relation):
            block = block_of(relation, self.improved)
            if block is not None:
                return self._ordered(block)
        plain = self._over_improved(relation)
        other: Relation | None = None
        if isinstance(relation, Select):
            other = pushed_down(relation)
        elif isinstance(relation, Aggregate):
            other = aggregated_below(relation)
        if other is None:
            return plain
        other = self.improved(other)
        better = self._objective.is_better(self._sized(other)[1], self._sized(plain)[1])
        return other if better else plain

    def _over_improved(self, relation: Relation) -> Relation:
        """The same operator over better inputs."""
        if not relation.inputs:
            return relation
        inputs = [self.improved(one) for one in relation.inputs]
        if isinstance(relation, Join):
            # Its columns are those of its inputs in their order, which may be another one now.
            before = [column.name for one in relation.inputs for column in one.columns]
            after = [column.name for one in inputs for column in one.columns]
            width = len(relation.left.columns)
            named = {(at >= width, name): relation.columns[at] for at, name in enumerate(before)
                     if at < len(relation.columns)}  # fmt: skip
            columns = tuple(named[at >= width, name] for at, name in enumerate(after) if at < len(relation.columns))
            relation = replace(relation, columns=columns)
        return reading(relation, *inputs)

    def _ordered(self, block: Block) -> Relation:
        leaves = [self._sized(leaf) for leaf in block.leaves]
        found = JoinOrder(block, leaves, self._statistics, self._costs, self._objective).run()
        return block.build(found.order)

    def _sized(self, relation: Relation) -> tuple[Size, Cost]:
        """The size of a tree, and its cost on the row engine."""
        tree = numbered(relation)
        sizes = sizes_of(tree, self._statistics)
        operators = OperatorCosts(tree, sizes, self._statistics.slides, self._costs)
        return sizes[-1], cost_of(parts_of(operators, all_placed(relation, "row")))
