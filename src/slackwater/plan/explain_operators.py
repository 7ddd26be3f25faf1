"""What EXPLAIN shows an operator of its query: what inputs, rows, windows and results are called.

Invariant: an operator describes itself (`OperatorSpec.describe`); here is only what its spec cannot know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.expressions.render import render
from slackwater.language.bound import RESULT_TIME, JoinQuery
from slackwater.operators.description import Described, Detail, Shown
from slackwater.plan.explain_rates import explain_match
from slackwater.plan.explain_windows import explain_windows, window_attributes, window_of
from slackwater.plan.physical import InputPlan, PhysicalPlan


def describe_node(plan: PhysicalPlan, number: int) -> tuple[Described, tuple[str, ...]]:
    """One of the operators of a plan, and what it calls its inputs. What gives columns that a query names, and not what
    goes on inside of one, tells them."""
    own = plan.nodes[number] if plan.nodes else plan
    at = 0 if plan.nodes else number
    described, reads = own.operator.describe_node(_shown(own), at)
    if at + 1 == len(own.operator.all_nodes):
        described = replace(described, attributes=described.attributes | {"columns": columns_given(own)})
    return described, reads


def _shown(plan: PhysicalPlan) -> Shown:
    between = explain_windows(plan.query) if isinstance(plan.query, JoinQuery) else []
    match = explain_match(plan.query) if isinstance(plan.query, JoinQuery) else []
    return Shown(
        tuple(aliases_of(plan)),
        lambda stream, row: row_name(plan, stream, row),
        (*_own_windows(plan.inputs), *between, *match),
        tuple(window_attributes(one.stream) for one in plan.inputs),
        tuple(tuple(line.text for line in detail.under) for detail in between),
        tuple(f"{column.name} = {render(column.expr)}" for column in plan.outputs if column.expr is not None),
    )


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


def _own_windows(inputs: Sequence[InputPlan]) -> list[Detail]:
    """Windows of time stand together, others say more and have a line each."""
    timed = [f"{one.stream.alias} {window_of(one.stream)}" for one in inputs if one.stream.range is not None]
    others = [one.stream for one in inputs if one.stream.window is not None]
    lines = [f"windows of time: {', '.join(timed)}"] if timed else []
    return [Detail(line) for line in (*lines, *(f"window of {s.alias}: {window_of(s)}" for s in others))]
