"""Which aggregates read one pane store: those over one stream with the same keys and the same accumulators.

Windows and targets may differ. Filters may differ where they are all conditions on one and the same value: n of them
cut its values into at most 2n + 1 stretches, so a pane has few fragments, whatever the tuples. Of filters on several
values there may be as many combinations as tuples, and then a query would have to look at them one by one; such queries
share with those of equal filters.

Invariant: what a query shares, and under which name its panes are persisted, follows from the query alone, whoever else
there is. So queries may come and go without any state being moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from math import gcd

from slackwater.core.schema import Kind
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.shared.store import SharedSpec
from slackwater.operators.query_set.places import PanesPlace
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.sharing.conjuncts import conjuncts_of
from slackwater.plan.sharing.implication import value_compared
from slackwater.plan.sharing.normal_form import key_of

MOST_PANES = 16
"""A window of more panes is made more cheaply by who slides alone: a reader combines all panes of every window."""


def why_alone(plan: PhysicalPlan) -> str | None:
    """Why an aggregate keeps its panes for itself; None where it shares them, or is no aggregate of one stream.

    The text ends the sentence "has panes of its own: ".
    """
    spec = plan.operator
    if type(spec) is not WindowAggregate or plan.relation_to_stream is not None:
        return None
    kept = [one.function for one in spec.aggregates if one.holistic]
    if kept:
        return f"{kept[0]} keeps all values of a window"
    if any(one.function in ("MIN", "MAX") and one.kind is Kind.TEXT for one in spec.aggregates):
        return "MIN and MAX of text look texts up"
    count = spec.range // gcd(spec.range, spec.grid.slide)
    if count > MOST_PANES:
        return f"a window has {count} panes, and more than {MOST_PANES} are combined more cheaply alone"
    return None


def shared_panes(plan: PhysicalPlan, row_of: Callable[[int], int]) -> PanesPlace | None:
    """What a query reads of a pane store, given the row of its domain for each of its own; None where it reads none."""
    spec = plan.operator
    if type(spec) is not WindowAggregate or plan.relation_to_stream is not None or why_alone(plan) is not None:
        return None
    (one,) = plan.inputs
    named = _names(one)

    def moved(aggregate: AggregateSpec) -> AggregateSpec:
        return replace(aggregate, row=aggregate.row if aggregate.row < 0 else row_of(aggregate.row))

    aggregates = tuple(map(moved, spec.aggregates))
    accumulators = [(int(c.op), "" if c.row < 0 else named[c.row], c.float_argument) for c in spec.layout.components]
    common = ([named[row] for row in spec.keys], accumulators, _filtered_by(one))
    key = sha256(repr(common).encode()).hexdigest()[:16]
    shared = SharedSpec(tuple(map(row_of, spec.keys)), Layout.of(aggregates))
    return PanesPlace(key, shared, aggregates, spec.range, spec.grid.slide)


def _names(one: InputPlan) -> dict[int, str]:
    """What stands in each row of a stream, whatever its alias is."""
    names = {row: f"column {name}" for name, _, row in one.columns}
    return names | {each.row: f"{each.role} {key_of(each.expr)}" for each in one.computed}


def _filtered_by(one: InputPlan) -> tuple[str, ...]:
    """What the filters of queries must have in common: the one value that they compare, or else everything."""
    conjuncts = conjuncts_of(one.stream.filters)
    values = {value_compared(each) for each in conjuncts}
    if len(values) == 1 and None not in values:
        return ("on", *(value for value in values if value is not None))
    return tuple(sorted(each.key for each in conjuncts))
