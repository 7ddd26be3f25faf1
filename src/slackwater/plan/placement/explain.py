"""What EXPLAIN tells of a placed plan: engines, costs, the runner-up, and whether it keeps up.

Invariant: what is told is what was compared; nothing is estimated again here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from slackwater.core.time import format_duration
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Join,
    Placement,
    Project,
    Relation,
    Scan,
    Select,
    scans,
)
from slackwater.expressions.render import render
from slackwater.operators.description import Detail
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.plan.graph import NodeKind, PlanNode
from slackwater.plan.placement.place import Placed
from slackwater.plan.placement.plan_cost import Cost

TRANSFER = "rows to and from the database"


def described(node: Relation) -> str:
    """An operator in one line.

    >>> from slackwater.core.schema import Kind
    >>> from slackwater.expressions.tree import Call, Column, Literal
    >>> described(Select(Scan(0, 5, ()), Call(">", (Column(0, "v", Kind.INT), Literal(1, Kind.INT)), Kind.BOOL)))
    'select v > 1'
    """
    if isinstance(node, Scan):
        return f"window {format_duration(node.range)} of stream {node.stream + 1}"
    if isinstance(node, Select):
        return f"select {render(node.condition)}"
    if isinstance(node, Project):
        return f"project {', '.join(column.name for column in node.columns)}"
    if isinstance(node, Aggregate):
        calls = ", ".join(map(_call, node.calls)) or "groups"
        return f"aggregate {calls}{' by ' if node.keys else ''}{', '.join(map(render, node.keys))}"
    if isinstance(node, Join):
        keys = ", ".join(f"{render(a)} = {render(b)}" for a, b in node.keys)
        kind = "join" if node.kind == "inner" else f"{node.kind} join"
        also = [] if node.condition is None else [render(node.condition, ("left", "right"))]
        return " ".join([kind, *(["by", keys] if keys else []), *(["where", *also] if also else [])])
    return "distinct" if isinstance(node, Distinct) else "given rows"


def _call(call: AggregateCall) -> str:
    return f"{call.function}({'*' if call.argument is None else render(call.argument)})"


def placement_notes(placed: Placed, aliases: Sequence[str] = (), adapts: bool = False) -> tuple[Detail, ...]:
    """Lines about the plan as a whole, for the notes of a plan graph; `adapts`: it may change while the query runs."""
    n = len(placed.placement)
    by_column, asked = placed.placement.count(COLUMN), placed.examined == 1 and not placed.exact
    what = {0: "all by compiled kernels (row)", n: "all in the database (column)"}.get(
        by_column, f"{n - by_column} of {n} operators by compiled kernels (row), {by_column} in the database (column)"
    )
    lines = [_rates(placed, aliases), f"{_cost(placed.cost)}; {_held(placed)}"]
    if adapts:
        low, high = placed.good_between
        lines.append(
            f"about the best between {_times(low)} and {_times(high)} times these rates; beyond, or where there are"
            " more or fewer rows than expected, it changes while the query runs, and results stay the same"
        )
    if placed.runner_up is not None:
        lines.append(f"runner-up: {_differs(placed, placed.runner_up[0])}: {_cost(placed.runner_up[1])}")
    elif not asked and n:
        lines.append("no other placement keeps up")
    pure = {ROW: placed.all_row, COLUMN: placed.all_column}
    lines += [
        f"all {engine}: {_cost(cost)}" for engine, cost in pure.items() if placed.placement != (engine,) * n
    ]  # fmt: skip
    found = "the best of all placements" if placed.exact else "large parts were placed for themselves"
    lines.append("as asked for" if asked else f"{placed.examined:,} placements compared; {found}")
    lines.append(f"costs: {placed.costs.measured}")
    if not placed.feasible:
        lines.insert(0, infeasible(placed))
    return (Detail.headed(f"engines: {what}", lines),)


def _rates(placed: Placed, aliases: Sequence[str]) -> str:
    """For which rates the plan was made, and where they come from."""
    streams = sorted({window.stream for window in scans(placed.relation)})
    names = [aliases[stream] if stream < len(aliases) else f"stream {stream + 1}" for stream in streams]
    rates = [
        f"{placed.statistics.rate(stream):,.0f} tuples/s of {name}" for stream, name in zip(streams, names, strict=True)
    ]
    return f"made for {', '.join(rates)} ({placed.statistics.source})"


def _times(factor: float) -> str:
    return f"{float(f'{factor:.2g}'):,g}"


def infeasible(placed: Placed) -> str:
    """The sentence on a query with which no plan keeps up."""
    rate = sum(placed.statistics.rate(stream) for stream in {window.stream for window in scans(placed.relation)})
    if not placed.holds:
        return "no plan keeps up: computing this query once a slide takes longer than the slide, at any rate"
    held = placed.holds * rate
    return (
        f"no plan keeps up with {rate:,.0f} tuples/s; this one holds {held:,.0f} tuples/s. No tuples are dropped:"
        " results come later and later. Choose a longer SLIDE, a shorter RANGE, or more shards"
    )


def _held(placed: Placed) -> str:
    if not placed.feasible:
        return "too much"
    times = float(f"{placed.holds:.2g}")
    return f"it keeps up with {times:,.10g} times the rates" if times < 1e5 else "it keeps up with any rate"


def _cost(cost: Cost) -> str:
    if cost.utilisation == inf:
        return "not all of it can be computed there exactly"
    return f"{cost.utilisation:.2%} of a core, {cost.bottleneck:.2%} for the costliest part"


def _differs(placed: Placed, other: Placement) -> str:
    """Another placement, by the operators that it places differently."""
    names = [described(one.node) for one in placed.operators.tree if one.is_operator]
    moved = [
        f"{name} by {engine}" for name, engine, ours in zip(names, other, placed.placement, strict=True)
        if engine != ours
    ]  # fmt: skip
    return f"{', '.join(moved[:3])}{f' and {len(moved) - 3} more' if len(moved) > 3 else ''}"


def operator_nodes(placed: Placed, windows: Mapping[int, str], aliases: Sequence[str]) -> tuple[PlanNode, ...]:
    """The operators of a plan as nodes of a plan graph. `windows` are the ids of the nodes that give the tuples of each
    stream, `aliases` the names of the streams. The cost of a fragment stands at its topmost operator."""
    cost = {part.operators[-1]: part for part in placed.parts}
    engines = iter(placed.placement)
    ids: dict[int, str] = {}
    found = []
    for number, one in enumerate(placed.operators.tree):
        if isinstance(one.node, Scan):
            ids[number] = windows[one.node.stream]
            continue
        rows, engine = placed.operators.sizes[number], next(engines)
        attributes: dict[str, Any] = {"rows": rows.rows, "rows_a_second": rows.rate}
        over = [placed.operators.tree[below].node for below in one.inputs]
        read = {aliases[scan.stream]: scan.range for scan in over if isinstance(scan, Scan)}
        attributes["windows"] = {
            alias: {"range_us": size, "slide_us": placed.statistics.slide} for alias, size in read.items()
        }
        every = format_duration(placed.statistics.slide)
        details = [
            Detail(f"over the last {format_duration(size)} of {name}, every {every}") for name, size in read.items()
        ]
        details.append(Detail(f"{_rows(rows.rows)} at an instant"))
        if number in cost:
            part = cost[number]
            attributes["cost"] = part.cost
            crossing = part.transfer_in + part.transfer_out
            for_it = f", {crossing / part.cost:.0%} of it for {TRANSFER}" if part.engine == COLUMN and part.cost else ""
            details.append(Detail(f"{part.cost:.2%} of a core{for_it}"))
        ids[number] = f"relation.{number}"
        inputs = tuple(ids[below] for below in one.inputs)
        found.append(
            PlanNode(
                ids[number], NodeKind.OPERATOR, described(one.node), inputs, attributes, tuple(details), engine=engine
            )
        )
    return tuple(found)


def _rows(rows: float) -> str:
    return f"{rows:,.0f} rows" if rows >= 10 else f"{rows:.2g} rows"
