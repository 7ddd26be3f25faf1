"""The operators of a plan, told when results leave: on arrival, early, or with corrections.

Invariant: what is emitted once and in order is planned as if there were no EMIT.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.emitting import CHANGE, EARLY, EXPECTED_ERROR, VERSION
from slackwater.core.errors import UsageError
from slackwater.core.results import FILTER
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.contract import OperatorSpec
from slackwater.operators.join.leaving import Leaving
from slackwater.plan.physical import IN_TURN, PhysicalPlan


def emitting(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan whose operators emit as its query says."""
    emit = plan.emit
    if not (emit.changes or emit.on_arrival):
        return plan
    if emit.changes:
        _check_changes(plan)
    # Where a query is cut in two, the last node runs by itself.
    last = [replace(one, operator=_told(one.operator, plan)) for one in plan.nodes[-1:]]
    return replace(plan, operator=_told(plan.operator, plan), nodes=(*plan.nodes[:-1], *last))


def in_epochs(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan as epochs run it: tuples are joined in their turn, or, where `filter` is asked for, as they arrive."""
    join = plan.operator.as_join
    if plan.ordering.strategy != FILTER or join is None:
        return replace(plan, ordering=IN_TURN)
    return replace(plan, operator=replace(join, leaving=Leaving(on_arrival=True, held=True)))


def _check_changes(plan: PhysicalPlan) -> None:
    if plan.count_only:
        raise UsageError(f"--count counts results, and EMIT {plan.emit} gives rows that change; leave one of them out")
    added = (CHANGE, VERSION, *((EXPECTED_ERROR,) if plan.emit.kind == EARLY else ()))
    taken = [column.name for column in plan.outputs if column.name in added]
    if taken:
        raise UsageError(f"a query whose rows change has a column {taken[0]} of its own; name yours otherwise with AS")


def _told(operator: OperatorSpec, plan: PhysicalPlan) -> OperatorSpec:
    emit, correctable = plan.emit, plan.correctable
    told: OperatorSpec | None = None
    if emit.kind == EARLY and operator.as_panes is not None:
        told = Changing(operator.as_panes, correctable, emit.every, emit.error)
    elif correctable is not None:
        told = operator.corrected(correctable)
    elif emit.on_arrival:
        told = operator.arriving()
    if told is None:
        raise UsageError(f"EMIT {emit} is not offered for this query")
    return told
