"""What an operator does, in words and as attributes of its node: a join, a tree of joins, an aggregate, a union.

Invariant: whatever is decided about an operator before it runs is told of it: its windows, what it compares, by which
algorithm and in which order it probes, and what it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.expressions.render import render
from slackwater.language.bound import RESULT_TIME, JoinQuery
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.contract import PlannedSpec
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.join.cells import ANY_KEY, HashIndex
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import (
    COND_BEGIN,
    COND_END,
    FROM_STREAM,
    INDEX,
    SCAN,
    STREAM,
    ProbePlan,
)
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.union import StreamUnion
from slackwater.plan.choice import choice_of
from slackwater.plan.explain_rates import explain_match
from slackwater.plan.explain_windows import aggregated_by, explain_windows, window_attributes, window_of
from slackwater.plan.graph import Detail
from slackwater.plan.physical import InputPlan, PhysicalPlan

LATER = "this is the order at first; later it is that which costs least by what probes find"


@dataclass(frozen=True)
class Described:
    """What a node tells of itself."""

    label: str
    attributes: dict[str, Any]
    details: tuple[Detail, ...]


def describe_operator(plan: PhysicalPlan) -> Described:
    """One operator: of a whole plan, or of a node of a graph; of a tree, the last of its joins."""
    described = _described(plan)
    return replace(described, attributes=described.attributes | {"columns": columns_given(plan)})


def _described(plan: PhysicalPlan) -> Described:
    operator = plan.operator
    if isinstance(operator, WindowAggregate):
        return _aggregate(plan, operator)
    if isinstance(operator, StreamUnion):
        label = f"union of {operator.streams} queries, in event-time order"
        return Described(label, {"operator": "union", "streams": aliases_of(plan)}, ())
    if isinstance(operator, PlannedSpec):
        aliases = aliases_of(plan)
        label, attributes = operator.described(aliases, lambda stream, row: row_name(plan, stream, row))
        return Described(label, {"streams": aliases, "needs_order": operator.needs_order} | attributes, ())
    assert not isinstance(operator, OperatorGraph), "a graph is described node by node"
    if isinstance(operator, JoinTree):
        return describe_node(plan, operator, len(operator.nodes) - 1)
    return _selection(plan) if operator.streams == 1 else _join(plan, operator)


def aliases_of(plan: PhysicalPlan) -> list[str]:
    """What the inputs of an operator are called."""
    return [one.stream.alias for one in plan.inputs]


def columns_given(plan: PhysicalPlan) -> list[str]:
    """The columns of results, none where they are only counted; those that have no window have a time of their own."""
    names = [column.name for column in plan.outputs]
    return [*names, RESULT_TIME] if plan.joins and not plan.count_only else names


def columns_shipped(one: InputPlan) -> list[str]:
    """What an operator is given of an input: its event time, columns, and what is computed from them."""
    shipped = [name for name, _, row in one.columns if row < one.rows]
    return [one.stream.schema.time, *shipped, *(render(computed.expr) for computed in one.computed)]


def row_name(plan: PhysicalPlan, stream: int, row: int) -> str:
    """What stands in a row of an input, in words."""
    one = plan.inputs[stream]
    for name, _, at in one.columns:
        if at == row:
            return name
    for computed in one.computed:
        if computed.row == row:
            return render(computed.expr)
    return one.stream.schema.time


def _aggregate(plan: PhysicalPlan, operator: WindowAggregate) -> Described:
    (one,) = plan.inputs
    keys = f", {len(operator.keys)} group key{'s' if len(operator.keys) > 1 else ''}" if operator.keys else ""
    names = [row_name(plan, 0, row) for row in operator.keys]
    attributes = {
        "operator": "aggregate",
        "streams": aliases_of(plan),
        "windows": {one.stream.alias: window_attributes(one.stream)},
        "keys": names,
        "aggregates": [aggregate.function for aggregate in operator.aggregates],
        "needs_order": operator.needs_order,
    }
    details = [Detail(f"group by {', '.join(names)}")] if names else []
    details += _own_windows(plan.inputs) if one.stream.window is not None else []
    details += [Detail(f"{one.function}: {one.algebra.slides_by}") for one in operator.aggregates]
    computed = [f"{column.name} = {render(column.expr)}" for column in plan.outputs if column.expr is not None]
    details += [Detail(f"computes {one}") for one in computed]
    if operator.having is not None:
        having = [render(condition) for condition in operator.having.conditions]
        attributes["having"] = having
        details.append(Detail(f"emits groups having {' and '.join(having)}"))
    return Described(f"aggregate: {aggregated_by(operator)}{keys}", attributes, tuple(details))


def _selection(plan: PhysicalPlan) -> Described:
    (one,) = plan.inputs
    attributes = {"operator": "selection", "streams": aliases_of(plan), "needs_order": plan.operator.needs_order}
    return Described(
        f"selection from {one.stream.alias}, in event-time order", attributes, tuple(_own_windows(plan.inputs))
    )


def _join(plan: PhysicalPlan, operator: WindowJoin) -> Described:
    aliases = aliases_of(plan)
    shape = " (multiway: one operator for all)" if operator.streams > 2 else ""
    choice = choice_of(operator, aliases)
    details = [*_windows(plan), Detail(f"joined {choice}")]
    attributes = _of_join(plan, operator) | {"shape": "multiway", "algorithm": choice.way, "because": choice.why}
    if operator.algorithm_asked_for is not None:
        details += [Detail(line) for line in operator.explain(aliases)]
        details.append(Detail(_joined_where(plan, operator)))
    else:
        probes = operator.probes()
        orders = {
            alias: [_step(plan, operator, probes, root, d) for d in range(operator.streams - 1)]
            for root, alias in enumerate(aliases)
        }
        attributes["probe_order"] = orders
        details += [Detail.headed(f"a tuple of {alias} probes", steps) for alias, steps in orders.items()]
        details += [Detail(LATER)] if operator.streams > 2 else []
    label = f"window join of {operator.streams} streams: {', '.join(aliases)}{shape}"
    return Described(label, attributes, tuple(details))


def describe_node(plan: PhysicalPlan, tree: JoinTree, number: int) -> Described:
    """A join of two in a left-deep tree, counted from 0; the last one speaks for the whole."""
    aliases = aliases_of(plan)
    shown = aliases[0]
    for alias in aliases[1 : number + 2]:
        shown = f"({shown} ⨝ {alias})"
    lines = [Detail(text) for text in _tree_node(plan, tree, number)]
    attributes: dict[str, Any] = {
        "operator": "join",
        "streams": aliases[: number + 2],
        "shape": "binary",
        "equalities": [_equality(plan, left, right) for left, right in tree.keys_of(number)],
        "conditions": [render(condition, aliases) for condition in tree.conditions_of(number)],
        "counted": tree.nodes[number].count_only,
        "needs_order": True,
    }
    if number + 1 < len(tree.nodes):
        return Described(f"node {shown}", attributes, tuple(lines))
    label = f"window join of {tree.streams} streams as a tree of binary joins: {shown}"
    windows = {"windows": _window_attributes(plan, tree.windows), "between": _between(plan)}
    return Described(label, attributes | windows, (*_windows(plan), *lines))


def _of_join(plan: PhysicalPlan, operator: WindowJoin) -> dict[str, Any]:
    aliases = aliases_of(plan)
    return {
        "operator": "join",
        "streams": aliases,
        "windows": _window_attributes(plan, operator.windows),
        "between": _between(plan),
        "equalities": [_equality(plan, (e.left, e.left_row), (e.right, e.right_row)) for e in operator.equalities],
        "conditions": [render(condition, aliases) for condition in operator.conditions],
        "counted": operator.count_only,
        "needs_order": operator.needs_order,
    }


def _window_attributes(plan: PhysicalPlan, sizes: Sequence[int]) -> dict[str, Any]:
    """Of windows between streams, the largest that each stream has."""
    return {
        one.stream.alias: window_attributes(one.stream) or {"range_us": size}
        for one, size in zip(plan.inputs, sizes, strict=True)
    }


def _between(plan: PhysicalPlan) -> list[list[str]]:
    """How far apart every two streams may be, one list for each alternative."""
    if not isinstance(plan.query, JoinQuery):
        return []
    return [[line.text for line in detail.under] for detail in explain_windows(plan.query)]


def _windows(plan: PhysicalPlan) -> list[Detail]:
    """The windows in brackets after streams, those between streams, and how near in time members must be."""
    own = _own_windows(plan.inputs)
    if not isinstance(plan.query, JoinQuery):
        return own
    return [*own, *explain_windows(plan.query), *explain_match(plan.query)]


def _own_windows(inputs: Sequence[InputPlan]) -> list[Detail]:
    """Windows of time stand together, others say more and have a line each."""
    timed = [f"{one.stream.alias} {window_of(one.stream)}" for one in inputs if one.stream.range is not None]
    others = [one.stream for one in inputs if one.stream.window is not None]
    lines = [f"windows of time: {', '.join(timed)}"] if timed else []
    return [Detail(line) for line in (*lines, *(f"window of {s.alias}: {window_of(s)}" for s in others))]


def _equality(plan: PhysicalPlan, left: tuple[int, int], right: tuple[int, int]) -> str:
    aliases = aliases_of(plan)
    return " = ".join(f"{aliases[stream]}.{row_name(plan, stream, row)}" for stream, row in (left, right))


def _joined_where(plan: PhysicalPlan, operator: WindowJoin) -> str:
    asked = [_equality(plan, (e.left, e.left_row), (e.right, e.right_row)) for e in operator.equalities]
    asked += [render(condition, aliases_of(plan)) for condition in operator.conditions]
    return "where " + " and ".join(asked) if asked else "every combination"


def _tree_node(plan: PhysicalPlan, tree: JoinTree, number: int) -> list[str]:
    keys = [_equality(plan, left, right) for left, right in tree.keys_of(number)]
    by_band = "by cells" if tree.nodes[number].bands else "by scanning the other window"
    lines = [f"by hash on {keys[0]}" if keys else by_band]
    rest = keys[1:] + [render(condition, aliases_of(plan)) for condition in tree.conditions_of(number)]
    if rest:
        lines.append("where " + " and ".join(rest))
    if number > 0:
        own = "its own window of the newest" if tree.whole.graph is None else "the windows between it and the newest"
        lines.append(f"every member inside {own}")
    if tree.nodes[number].count_only:
        lines.append("results are counted")
    return lines


def _step(plan: PhysicalPlan, operator: WindowJoin, probes: ProbePlan, root: int, d: int) -> str:
    step = probes.steps[root, d]
    aliases = aliases_of(plan)
    alias, index = aliases[step[STREAM]], int(step[INDEX])
    row = probes.indexes[index].row if index != SCAN else SCAN
    if index == SCAN:
        how = f"{alias} by scanning its window"
    elif probes.indexes[index].cells:
        how = f"{alias} by {_cells(plan, probes.indexes[index])}, around {aliases[step[FROM_STREAM]]}"
    elif row == ANY_KEY:
        how = f"{alias} as a whole"
    else:
        how = f"{alias} by hash on {row_name(plan, int(step[STREAM]), row)}, from {aliases[step[FROM_STREAM]]}"
    conditions = [
        render(operator.conditions[c], aliases)
        if c < len(operator.conditions)
        else "one of the windows is kept in whole"
        for c in probes.conditions[step[COND_BEGIN] : step[COND_END]]
    ]
    if conditions:
        how += ", where " + " and ".join(conditions)
    if d >= probes.leaves[root] and operator.count_only:
        how += ", as a factor of the count"
    return how


def _cells(plan: PhysicalPlan, index: HashIndex) -> str:
    """The cells that tuples of a stream are found by: one width where all have it, else one for each column."""
    named = [(row_name(plan, index.stream, axis.row), f"{axis.width:.6g}") for axis in index.cells]
    if len({width for _, width in named}) == 1:
        return f"cells of {named[0][1]} on {', '.join(name for name, _ in named)}"
    return "cells of " + " and ".join(f"{width} on {name}" for name, width in named)
