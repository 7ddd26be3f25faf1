"""EXPLAIN: the physical plan as a tree, in words a user can check against the query."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.disorder.chosen import controller_for
from slackwater.expressions.render import render
from slackwater.language.bound import JoinQuery
from slackwater.model.errors import UsageError
from slackwater.model.quality import NoWait
from slackwater.model.time import format_duration
from slackwater.operators.aggregate import WindowAggregate
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
from slackwater.plan.explain_windows import aggregated_by, explain_windows, window_of
from slackwater.plan.one_shard import one_shard
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.ways_out import explain_way_out

WAYS = {
    "nested_loop": "by nested loop (NLW-join): a tuple goes through the other buffers one inside the other, in turn",
    "hash": "by hash (HW-join): as the nested loop, through the buckets of the tuple's key alone",
    "merge": "by merge (MW-join): buffers hold one window; a tuple is joined with all of it, no window is asked for",
}
"""How the algorithms of the W-join report are told."""


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
    operator = plan.operator
    if isinstance(operator, WindowAggregate):
        head = _aggregate(plan, operator)
    else:
        head = _tree(plan, operator) if isinstance(operator, JoinTree) else _join(plan, operator)
    waiting = Line(f"waiting: WITH {plan.quality}" + ("" if quality_stated else " (the default)"))
    waiting.under += [Line(text) for text in _waiting(plan)]
    head.under = [waiting, *map(Line, explain_way_out(plan)), *head.under, *(_input(one) for one in plan.inputs)]
    return head.render()


def _waiting(plan: PhysicalPlan) -> list[str]:
    options = plan.options
    try:
        lines = [controller_for(plan.quality, options, plan.windows).describe()]
    except UsageError as error:
        lines = [str(error)]
    if len(plan.inputs) > 1 and not isinstance(plan.quality, NoWait):
        lines.append("the slowest stream is waited for, and one slack serves all streams (Same-K)")
    if isinstance(plan.operator, JoinTree):
        lines.append("every node waits for its own streams and for the node below, not for streams above")
    if options.initial_slack:
        lines.append(f"slack begins at {format_duration(options.initial_slack)}")
    lines.append(
        f"a tuple more than {format_duration(options.max_ahead)} ahead of its stream waits for three that confirm it"
    )
    if options.idle_timeout is not None:
        lines.append(f"a stream silent for {format_duration(options.idle_timeout)} no longer holds the others back")
    if options.clock_by is not None:
        lines.append(f"the clock of a stream is the smallest among its parts, told apart by {options.clock_by}")
    return lines


def _aggregate(plan: PhysicalPlan, operator: WindowAggregate) -> Line:
    names = [column.name for column in plan.outputs]
    keys = f", {len(operator.keys)} group key{'s' if len(operator.keys) > 1 else ''}" if operator.keys else ""
    line = Line(f"aggregate: {aggregated_by(operator)}{keys}")
    line.under += [Line(f"output: {', '.join(names)}"), *map(Line, one_shard(operator))]
    for aggregate in operator.aggregates:
        line.under.append(Line(f"{aggregate.function}: {aggregate.algebra.slides_by}"))
    return line


def _join(plan: PhysicalPlan, operator: WindowJoin) -> Line:
    aliases = [one.stream.alias for one in plan.inputs]
    if operator.streams == 1:
        line = Line(f"selection from {aliases[0]}, in event-time order")
    else:
        shape = " (multiway: one operator for all)" if operator.streams > 2 else ""
        line = Line(f"window join of {operator.streams} streams: {', '.join(aliases)}{shape}")
    line.under += [_joined(plan), *_windows(plan), *map(Line, one_shard(plan.operator))]
    if isinstance(operator, WJoin):
        line.under += [Line(WAYS[operator.algorithm]), Line(_joined_where(plan, operator))]
        return line
    probes = operator.probes()
    for root in range(operator.streams if operator.streams > 1 else 0):
        steps = [_step(plan, operator, probes, root, d) for d in range(operator.streams - 1)]
        line.under.append(Line(f"a tuple of {aliases[root]} probes", [Line(step) for step in steps]))
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
    if tree.nodes[number].counted:
        lines.append("results are counted")
    return lines


def _windows(plan: PhysicalPlan) -> list[Line]:
    if not isinstance(plan.query, JoinQuery):
        return []
    return [Line(head, [Line(text) for text in under]) for head, under in explain_windows(plan.query)]


def _joined(plan: PhysicalPlan) -> Line:
    names = [column.name for column in plan.outputs]
    return Line("output: counted by second" if plan.counted else f"output: {', '.join([*names, '_ts'])}")


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
    if d >= probes.leaves[root] and operator.counted:
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
    source = "" if stream.source == stream.alias else f", reading {stream.source}"
    line = Line(f"input {stream.alias}{source}{window_of(stream)}")
    if stream.filters:
        line.under.append(Line("filter " + " and ".join(render(condition) for condition in stream.filters)))
    shipped = [name for name, _, row in one.columns if row < one.rows]
    shipped += [render(computed.expr) for computed in one.computed]
    line.under.append(Line(f"ships {', '.join([stream.schema.time, *shipped])}"))
    return line
