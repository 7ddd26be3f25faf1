"""EXPLAIN: how results are brought into order."""

from __future__ import annotations

from slackwater.model.ordering import FILTER, SYNC
from slackwater.plan.ordering import in_turn, ordering_of
from slackwater.plan.physical import PhysicalPlan

EPOCHS = "in epochs, and so on Spark, an epoch joins what it lets out at once, in order: 'filter' changes nothing there"


def explain_ordering(plan: PhysicalPlan) -> tuple[str, list[str]] | None:
    """A heading and lines; None where there is nothing to tell, for one stream or by an algorithm that needs order."""
    streams = len(plan.inputs)
    ordering = ordering_of(plan.options, streams, in_turn(plan.query))
    if ordering.strategy == SYNC and plan.options.ordering is None:
        return None
    if ordering.strategy == SYNC:
        return "order: sync: a tuple is joined in its turn, when no other stream can bring an older one", []
    if ordering.strategy == FILTER:
        return "order: filter: a tuple is joined as it leaves its slack, and its results are held for their turn", [
            EPOCHS
        ]
    if plan.options.ordering is None and plan.options.alpha is None:
        return f"order: adaptive (the default): in turn, and from a load of {ordering.alpha:g} on before it", []
    overlap = ordering.alpha / (1 + ordering.alpha)
    return "order: adaptive: tuples are joined in their turn, or before it where that pays", [
        f"before it from alpha = {ordering.alpha:g} on: the share of time that joining takes for all streams but"
        f" the slowest, {streams - 1}/{streams} of the whole; that saves {overlap:.0%} of the response time or more",
        "the load is measured against arrival times; where these are not known, tuples are joined in their turn",
        EPOCHS,
    ]
