"""What an event weighs, planned: who says so, what combinations carry of their members, what windows are called.

Invariant: the events of a combination are known above iff everything it is put together from is an event of a source;
what the node below emits behind its columns then stands, in the same order, in the hidden rows of the one above.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.batch import FIRST_COLUMN
from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.language.bound import BoundQuery, raw_streams
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.inputs import node_of, reads_node
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.projection import Carried
from slackwater.operators.state_size import Member, NodeSpec, OfInput, Weights
from slackwater.plan.physical import InputPlan, PhysicalPlan


def check_sizes(query: BoundQuery) -> None:
    """Refuse a column of sizes that no stream has, or that is no number."""
    column, streams = query.options.size_by, raw_streams(query)
    if column is None:
        return
    having = [stream for stream in streams if column in stream.schema]
    if not having:
        names = ", ".join(stream.alias for stream in streams)
        raise UsageError(f"option size_by = '{column}': there is no column of that name in {names}")
    for stream in having:
        kind = stream.schema[column].kind
        if kind not in (Kind.INT, Kind.FLOAT):
            raise UsageError(
                f"option size_by = '{column}': in {stream.alias} it is {kind.value}; name a column with the bytes of an"
                " event, as a number"
            )


def explain_sizes(plan: PhysicalPlan) -> str:
    """In words; the option is set."""
    column = plan.options.size_by
    without = [s.alias for s in raw_streams(plan.query) if column not in s.schema]
    reported = f"memory is counted by {column}, the bytes of an event"
    return f"{reported}; of {', '.join(without)} by the words kept" if without else reported


def kept_places(inputs: tuple[InputPlan, ...]) -> tuple[tuple[int, int], ...]:
    """(stream, row) of what combinations must carry, so that their members are known."""
    return tuple((at, row) for at, one in enumerate(inputs) for member in one.members for row in member.rows)


def carrying(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan of a join whose results carry, behind their columns, which events they are made of."""
    operator = plan.operator
    assert isinstance(operator, WindowJoin), "only a join puts events together"
    return replace(plan, operator=replace(operator, emit=operator.emit + kept_places(plan.inputs)))


def members_carried(behind: int, above: InputPlan) -> tuple[Carried, ...]:
    """How the members that results carry behind so many columns come into the hidden rows of the input above."""
    rows = [row for member in above.members for row in member.rows] if above.stream.query is not None else []
    return tuple(Carried(f"\0member {at}", row, behind + at) for at, row in enumerate(rows))


def weights_of(plan: PhysicalPlan) -> Weights:
    """What the windows of a plan are called, and what their tuples are made of."""
    operator = plan.operator
    if isinstance(operator, OperatorGraph):
        return _of_graph(plan, operator)
    if isinstance(operator, JoinTree):
        return _of_tree(plan, operator)
    return (NodeSpec(_joined(plan), tuple(OfInput(one.stream.alias, _raw(one), one.rows) for one in plan.inputs)),)


def _raw(one: InputPlan) -> tuple[Member, ...]:
    return tuple(replace(member, words=one.rows) for member in one.members)


def _joined(plan: PhysicalPlan) -> str:
    return " ⨝ ".join(one.stream.alias for one in plan.inputs)


def _of_graph(plan: PhysicalPlan, graph: OperatorGraph) -> Weights:
    """Nodes by the way to them from the last one; a window by that of its node and its alias there."""
    paths: dict[int, tuple[str, ...]] = {len(graph.nodes) - 1: ()}
    for number in reversed(range(len(graph.nodes))):
        for one, read in zip(plan.nodes[number].inputs, graph.nodes[number].inputs, strict=True):
            if reads_node(read):
                paths[node_of(read)] = (*paths[number], one.stream.alias)
    weights: list[NodeSpec] = []
    for number, node in enumerate(plan.nodes):
        inputs = []
        for one, read in zip(node.inputs, graph.nodes[number].inputs, strict=True):
            members = _raw(one)
            if reads_node(read):
                below = [member for given in weights[node_of(read)].inputs for member in given.members]
                members = tuple(replace(m, words=b.words) for m, b in zip(one.members, below, strict=False))
            inputs.append(OfInput(".".join((*paths[number], one.stream.alias)), members, one.rows))
        weights.append(NodeSpec(".".join(paths[number]) or _joined(node), tuple(inputs)))
    return tuple(weights)


def _of_tree(plan: PhysicalPlan, tree: JoinTree) -> Weights:
    aliases = [one.stream.alias for one in plan.inputs]
    raw = [OfInput(one.stream.alias, _raw(one), one.rows) for one in plan.inputs]
    nodes, shown, left = [], aliases[0], raw[0]
    for number in range(len(tree.nodes)):
        if number:
            members = _carried(tree, number, [one.members for one in raw])
            left = OfInput(shown, members, FIRST_COLUMN + len(tree.carried[number]))
        right = aliases[number + 1]
        inputs = (left, raw[number + 1])
        shown = f"{shown} ⨝ {right}" if number == 0 else f"({shown}) ⨝ {right}"
        nodes.append(NodeSpec(shown, inputs))
    return tuple(nodes)


def _carried(tree: JoinTree, number: int, members: list[tuple[Member, ...]]) -> tuple[Member, ...]:
    """The members of the combinations that a node reads, where all of them are carried."""
    found = []
    for stream in range(number + 1):
        for member in members[stream]:
            row = tree.row_in(number, (stream, member.row))
            size = None if member.size is None else tree.row_in(number, (stream, member.size))
            if row is None or (size is None and member.size is not None):
                return ()
            found.append(replace(member, row=row, size=size))
    return tuple(found)
