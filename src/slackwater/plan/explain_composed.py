"""EXPLAIN of a quality target on a query of several operators: what is measured, and how it is known."""

from __future__ import annotations

from slackwater.language.bound import AggregateQuery
from slackwater.model.quality import Recall, RelativeError
from slackwater.model.time import format_duration
from slackwater.operators.composed.registry import retention_of
from slackwater.plan.physical import PhysicalPlan


def explain_composed(plan: PhysicalPlan) -> list[str]:
    """How the target of a graph is served; nothing where only waiting is asked for."""
    if not isinstance(plan.quality, Recall | RelativeError):
        return []
    query = plan.query
    lines = []
    if isinstance(plan.quality, Recall):
        of = "the rows that reach the aggregate" if isinstance(query, AggregateQuery) else "the rows of the query"
        lines.append(f"recall is that of {of}, true rows against rows made")
    elif isinstance(query, AggregateQuery) and isinstance(query.stream.query, AggregateQuery):
        lines.append("the error is that of the sums above, by what late tuples would have added to the windows below")
    else:
        lines.append("the error is that of the aggregate above, by the rows that late tuples have cost it")
    joins = sum(len(node.inputs) > 1 and node.joins and bool(node.windows) for node in plan.nodes)
    again = f"; {'a join is' if joins == 1 else f'{joins} joins are'} run a second time for it" if joins else ""
    kept = format_duration(retention_of(plan.options))
    lines.append(f"true rows are found in the order of arrival, {kept} back{again}")
    return lines
