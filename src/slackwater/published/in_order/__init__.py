"""`ordering = 'filter' | 'adaptive'`: joins that work before the wait for order, registered here by name.

Invariant: what has no operator here that takes tuples before their turn is given them in their turn, whatever is asked
for; a planner refuses to ask for more (`plan.ordering`). In epochs one join is eager, and no tree of them.
"""

from __future__ import annotations

from functools import singledispatch

from slackwater.core.results import ADAPTIVE, FILTER, Ordering
from slackwater.operators.contract import BuildContext, Operator, OperatorSpec
from slackwater.operators.join.algorithms import ORDERINGS
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.published.in_order.holding import HoldingJoin
from slackwater.published.in_order.join import OrderedJoin
from slackwater.published.in_order.operator import OrderedOperator, OrderedTree


@singledispatch
def eager(spec: OperatorSpec, context: BuildContext, ordering: Ordering) -> Operator:
    """The operator that may be given tuples before their turn."""
    return spec.build(context)


@eager.register
def _(spec: WindowJoin, context: BuildContext, ordering: Ordering) -> Operator:
    if spec.leaving.held:
        return HoldingJoin(spec, context.encode_text)
    return OrderedOperator(OrderedJoin(spec, context.encode_text), ordering)


@eager.register
def _(spec: JoinTree, context: BuildContext, ordering: Ordering) -> Operator:
    return OrderedTree(spec.whole, spec.nodes, context.encode_text, ordering)


for _name in (FILTER, ADAPTIVE):
    ORDERINGS.register(_name, eager)
