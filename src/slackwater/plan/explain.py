"""EXPLAIN: the physical plan as a tree, in words a user can check against the query."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.disorder.registry import controller_for
from slackwater.expressions.render import render
from slackwater.language.bound import JoinQuery
from slackwater.model.errors import UsageError
from slackwater.model.quality import NoWait
from slackwater.model.time import format_duration
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import (
    ANY_KEY,
    COND_BEGIN,
    COND_END,
    FROM_STREAM,
    INDEX,
    SCAN,
    STREAM,
    ProbePlan,
)
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.join.wjoin.spec import WJoin
from slackwater.operators.union import StreamUnion
from slackwater.plan.choice import choice_of
from slackwater.plan.explain_composed import explain_composed
from slackwater.plan.explain_ordering import explain_ordering
from slackwater.plan.explain_rates import explain_match, explain_order
from slackwater.plan.explain_waiting import explain_cap, explain_clocks, explain_idle
from slackwater.plan.explain_windows import aggregated_by, explain_windows, window_of
from slackwater.plan.explain_wjoin import explain_wjoin
from slackwater.plan.one_shard_reasons import one_shard
from slackwater.plan.partitioning import shard_keys_of
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.relation_to_stream import explain_relation_to_stream
from slackwater.plan.sizes import explain_sizes


@dataclass
class Line:
    """One line of the tree and what hangs under it."""

    text: str
    under: list[Line] = field(default_factory=list)

    def render(self) -> str:
        """The tree as text.

        >>> print(Line("top", [Line("first"), Line("last")]).render())
        top
        ├─ first
        └─ last
        """
        lines = [self.text]
        for position, child in enumerate(self.under):
            last = position == len(self.under) - 1
            head, *rest = child.render().split("\n")
            lines.append(("└─ " if last else "├─ ") + head)
            lines += [("   " if last else "│  ") + line for line in rest]
        return "\n".join(lines)


def explain(plan: PhysicalPlan, quality_stated: bool = True) -> str:
    """The plan of a query as a tree."""
    graph = plan.operator if isinstance(plan.operator, OperatorGraph) else None
    head = _operator(plan, alone=True) if graph is None else _fed(plan, graph, len(graph.nodes) - 1)
    waiting = Line(f"waiting: WITH {plan.quality}" + ("" if quality_stated else " (the default)"))
    waiting.under += [Line(text) for text in _waiting(plan)]
    order = explain_ordering(plan) if plan.joins and graph is None else None
    if order is not None:
        head.under.insert(0, Line(order[0], [Line(text) for text in order[1]]))
    orders = [Line(text, [Line(more) for more in under]) for text, under in map(explain_order, plan.orders)]
    head.under = [waiting, *orders, *map(Line, explain_relation_to_stream(plan)), *head.under]
    if graph is None:
        head.under += [_input(one) for one in plan.inputs]
    else:
        head.under.append(Line(_sharded(plan)))
    return head.render()


def _operator(plan: PhysicalPlan, alone: bool = False) -> Line:
    """What an operator does; `alone`, it is the whole query."""
    operator = plan.operator
    if isinstance(operator, WindowAggregate):
        return _aggregate(plan, operator)
    if isinstance(operator, StreamUnion):
        return Line(f"union of {operator.streams} queries, in event-time order", [_joined(plan)])
    assert not isinstance(operator, OperatorGraph), "a graph is explained node by node"
    return _tree(plan, operator) if isinstance(operator, JoinTree) else _join(plan, operator, alone)


def _fed(plan: PhysicalPlan, graph: OperatorGraph, number: int) -> Line:
    """A node with what it reads under it, nodes below and all."""
    line = _operator(plan.nodes[number])
    for own, read in zip(plan.nodes[number].inputs, graph.nodes[number].inputs, strict=True):
        one = _input(own if read < 0 else plan.inputs[read])
        if read < 0:
            one.under.append(_fed(plan, graph, ~read))
        line.under.append(one)
    return line


def _sharded(plan: PhysicalPlan) -> str:
    routes = shard_keys_of(plan)
    single = [why for node in plan.nodes for why in one_shard(node.operator)]
    if single:
        return f"on Spark: in one shard, because {single[0].split(', so ')[0]}"
    if routes is None:
        return "on Spark: in one shard, because no key is common to all that its operators bring together"
    named = (
        f"{one.stream.alias}.{_row_name(plan, at, row)}"
        for at, (one, rows) in enumerate(zip(plan.inputs, routes, strict=True))
        for row in rows
    )
    return f"on Spark: in shards by {', '.join(named)}"


def _waiting(plan: PhysicalPlan) -> list[str]:
    options = plan.options
    try:
        controller = controller_for(plan.quality, options, plan.windows)
        lines = [controller.describe(), *explain_cap(plan, controller)]
    except UsageError as error:
        lines = [str(error)]
    if len(plan.inputs) > 1 and not isinstance(plan.quality, NoWait):
        lines.append("the slowest stream is waited for, and one slack serves all streams (Same-K)")
    if isinstance(plan.operator, OperatorGraph):
        lines.append("every operator waits for its own inputs, not for those above; what one lets out is in order,")
        lines[-1] += " so the next never finds it late"
        lines += explain_composed(plan)
    if isinstance(plan.operator, JoinTree):
        lines.append("every node waits for its own streams and for the node below, not for streams above")
    if options.initial_slack:
        lines.append(f"slack begins at {format_duration(options.initial_slack)}")
    lines += [explain_clocks(options), *explain_idle(options)]
    if options.clock_by is not None:
        lines.append(f"the clock of a stream is the smallest among its parts, told apart by {options.clock_by}")
    if options.size_by is not None:
        lines.append(explain_sizes(plan))
    return lines


def _aggregate(plan: PhysicalPlan, operator: WindowAggregate) -> Line:
    names = [column.name for column in plan.outputs]
    keys = f", {len(operator.keys)} group key{'s' if len(operator.keys) > 1 else ''}" if operator.keys else ""
    line = Line(f"aggregate: {aggregated_by(operator)}{keys}")
    line.under += [Line(f"output: {', '.join(names)}"), *map(Line, one_shard(operator))]
    for aggregate in operator.aggregates:
        line.under.append(Line(f"{aggregate.function}: {aggregate.algebra.slides_by}"))
    return line


def _join(plan: PhysicalPlan, operator: WindowJoin, alone: bool) -> Line:
    aliases = [one.stream.alias for one in plan.inputs]
    if operator.streams == 1:
        line = Line(f"selection from {aliases[0]}, in event-time order")
    else:
        shape = " (multiway: one operator for all)" if operator.streams > 2 else ""
        line = Line(f"window join of {operator.streams} streams: {', '.join(aliases)}{shape}")
    line.under += [_joined(plan), *_windows(plan), *map(Line, one_shard(operator) if alone else ())]
    if operator.streams > 1:
        line.under.append(Line(f"joined {choice_of(operator, aliases)}"))
    if isinstance(operator, WJoin):
        line.under += [*map(Line, explain_wjoin(operator, aliases)), Line(_joined_where(plan, operator))]
        return line
    probes = operator.probes()
    for root in range(operator.streams if operator.streams > 1 else 0):
        steps = [_step(plan, operator, probes, root, d) for d in range(operator.streams - 1)]
        line.under.append(Line(f"a tuple of {aliases[root]} probes", [Line(step) for step in steps]))
    if operator.streams > 2:
        line.under.append(Line("this is the order at first; later it is that which costs least by what probes find"))
    return line


def _joined_where(plan: PhysicalPlan, operator: WindowJoin) -> str:
    aliases = [one.stream.alias for one in plan.inputs]

    def named(stream: int, row: int) -> str:
        return f"{aliases[stream]}.{_row_name(plan, stream, row)}"

    asked = [f"{named(e.left, e.left_row)} = {named(e.right, e.right_row)}" for e in operator.equalities]
    asked += [render(condition, aliases) for condition in operator.conditions]
    return "where " + " and ".join(asked) if asked else "every combination"


def _tree(plan: PhysicalPlan, tree: JoinTree) -> Line:
    aliases = [one.stream.alias for one in plan.inputs]
    shown = aliases[0]
    nodes = []
    for number, alias in enumerate(aliases[1:]):
        shown = f"({shown} ⨝ {alias})"
        nodes.append(Line(f"node {shown}", [Line(text) for text in _node(plan, tree, number)]))
    return Line(
        f"window join of {tree.streams} streams as a tree of binary joins: {shown}",
        [_joined(plan), *_windows(plan), *nodes],
    )


def _node(plan: PhysicalPlan, tree: JoinTree, number: int) -> list[str]:
    aliases = [one.stream.alias for one in plan.inputs]

    def named(stream: int, row: int) -> str:
        return f"{aliases[stream]}.{_row_name(plan, stream, row)}"

    keys = [f"{named(*left)} = {named(*right)}" for left, right in tree.keys_of(number)]
    lines = [f"by hash on {keys[0]}" if keys else "by scanning the other window"]
    rest = keys[1:] + [render(condition, aliases) for condition in tree.conditions_of(number)]
    if rest:
        lines.append("where " + " and ".join(rest))
    if number > 0:
        own = "its own window of the newest" if tree.whole.graph is None else "the windows between it and the newest"
        lines.append(f"every member inside {own}")
    if tree.nodes[number].count_only:
        lines.append("results are counted")
    return lines


def _windows(plan: PhysicalPlan) -> list[Line]:
    if not isinstance(plan.query, JoinQuery):
        return []
    windows = [*explain_windows(plan.query), *explain_match(plan.query)]
    return [Line(head, [Line(text) for text in under]) for head, under in windows]


def _joined(plan: PhysicalPlan) -> Line:
    names = [column.name for column in plan.outputs]
    return Line("output: counted by second" if plan.count_only else f"output: {', '.join([*names, '_ts'])}")


def _step(plan: PhysicalPlan, operator: WindowJoin, probes: ProbePlan, root: int, d: int) -> str:
    step = probes.steps[root, d]
    aliases = [one.stream.alias for one in plan.inputs]
    alias, index = aliases[step[STREAM]], int(step[INDEX])
    row = probes.indexes[index][1] if index != SCAN else SCAN
    if index == SCAN:
        how = f"{alias} by scanning its window"
    elif row == ANY_KEY:
        how = f"{alias} as a whole"
    else:
        how = f"{alias} by hash on {_row_name(plan, int(step[STREAM]), row)}, from {aliases[step[FROM_STREAM]]}"
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


def _row_name(plan: PhysicalPlan, stream: int, row: int) -> str:
    one = plan.inputs[stream]
    for name, _, at in one.columns:
        if at == row:
            return name
    for computed in one.computed:
        if computed.row == row:
            return render(computed.expr)
    return one.stream.schema.time


def _input(one: InputPlan) -> Line:
    stream = one.stream
    source = "" if stream.source in (stream.alias, "") else f", reading {stream.source}"
    line = Line(f"input {stream.alias}{source}{window_of(stream)}")
    if stream.filters:
        line.under.append(Line("filter " + " and ".join(render(condition) for condition in stream.filters)))
    shipped = [name for name, _, row in one.columns if row < one.rows]
    shipped += [render(computed.expr) for computed in one.computed]
    does = "ships" if stream.query is None else "takes"
    line.under.append(Line(f"{does} {', '.join([stream.schema.time, *shipped])}"))
    return line
