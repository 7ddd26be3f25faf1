"""How an aggregate describes itself to EXPLAIN: its window and how it moves, its groups, how each answer is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.expressions.render import render
from slackwater.operators.description import Described, Detail, Shown

if TYPE_CHECKING:
    from slackwater.operators.aggregate.operator import WindowAggregate


def describe_aggregate(aggregate: WindowAggregate, shown: Shown) -> Described:
    """An aggregate over any window."""
    (alias,), keys = shown.aliases, aggregate.keys
    counted = f", {len(keys)} group key{'s' if len(keys) > 1 else ''}" if keys else ""
    names = [shown.name(0, row) for row in keys]
    attributes = {
        "operator": "aggregate",
        "streams": [alias],
        "windows": {alias: shown.window_attributes[0]},
        "keys": names,
        "aggregates": [one.function for one in aggregate.aggregates],
        "needs_order": aggregate.needs_order,
    }
    details = [Detail(f"group by {', '.join(names)}")] if names else []
    # The window of time stands in the label.
    details += [] if "range_us" in shown.window_attributes[0] else shown.windows
    details += [Detail(f"{one.function}: {aggregate.kept_as(one)}") for one in aggregate.aggregates]
    details += [Detail(f"computes {one}") for one in shown.computed]
    if aggregate.estimated:
        attributes["estimated"] = True
        details.append(Detail("COUNT and SUM are scaled by what is expected to be missing; groups share its share"))
    if aggregate.having is not None:
        having = [render(condition) for condition in aggregate.having.conditions]
        attributes["having"] = having
        details.append(Detail(f"emits groups having {' and '.join(having)}"))
    return Described(f"aggregate: {aggregate.moves}{counted}", attributes, tuple(details))


def moving(size: str, step: str) -> str:
    """How a window of this size moves, in words.

    >>> moving("100", "10"), moving("1 s", "1 s")
    ('sliding by 10', 'tumbling')
    """
    return "tumbling" if size == step else f"sliding by {step}"
