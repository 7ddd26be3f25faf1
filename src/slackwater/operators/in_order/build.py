"""Which operators can take tuples before their turn, and how they are built for it.

Invariant: a registry by the type of the spec. What is not in it takes tuples in their turn, whatever is asked for; a
planner refuses to ask for more (`plan.ordering`).
"""

from __future__ import annotations

from functools import singledispatch

from slackwater.core.results import SYNC, Ordering
from slackwater.operators.contract import BuildContext, Operator, OperatorSpec
from slackwater.operators.in_order.join import OrderedJoin
from slackwater.operators.in_order.operator import OrderedOperator
from slackwater.operators.in_order.tree import OrderedTree
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree

IN_TURN = Ordering(SYNC)


def build_ordered(spec: OperatorSpec, context: BuildContext, ordering: Ordering) -> Operator:
    """The operator of a spec, with this strategy for order. Tuple release alone."""
    return spec.build(context) if ordering.strategy == SYNC else eager(spec, context, ordering)


def may_be_eager(spec: OperatorSpec) -> bool:
    """Whether there is an operator for this spec that may be given tuples before their turn."""
    return eager.dispatch(type(spec)) is not eager.dispatch(object)


@singledispatch
def eager(spec: OperatorSpec, context: BuildContext, ordering: Ordering) -> Operator:
    """The operator that may be given tuples before their turn."""
    return spec.build(context)


@eager.register
def _(spec: WindowJoin, context: BuildContext, ordering: Ordering) -> Operator:
    return OrderedOperator(OrderedJoin(spec, context.encode_text), ordering)


@eager.register
def _(spec: JoinTree, context: BuildContext, ordering: Ordering) -> Operator:
    return OrderedTree(spec.whole, spec.nodes, context.encode_text, ordering)
