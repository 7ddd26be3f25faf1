"""A join as a left-deep tree of binary joins, ((a ⨝ b) ⨝ c) ⨝ d, in the order in which the streams are written.

Node n joins what the node below makes, the combinations of streams 0 to n-1, with stream n. A combination stands at the
event time of its newest member; what later nodes and the output need of its members is carried in its words, in the
order of `emit` of the node that made it, from FIRST_COLUMN on.

A combination may live as long as any of its members could; so its window is the largest of theirs, and that every
member is inside its own window, or inside the bounds of the window graph, is asked as a condition on the time that each
member carries along. Equalities are closed under transitivity, and each is applied at the lowest node that knows both
sides; so are conditions.

As an operator it is a graph of nodes that keeps a ledger of the whole join.

Invariant: with enough slack the results are those of the m-way join. With less, a tree may lose more of them: a node
does not wait for the streams above it, so what comes late is late for the node below already.

References: 004 §4.2.6, 003 §V; Golab, Özsu: Processing sliding window multi-joins, VLDB 2003.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import FIRST_COLUMN, TS, Words
from slackwater.core.schema import Kind
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.meters import LedgerTerms
from slackwater.expressions.tree import Column, Expr, columns_of, streams_of, with_columns
from slackwater.operators.contract import PLAIN, BuildContext, GraphNode, OperatorSpec
from slackwater.operators.description import Described, Shown
from slackwater.operators.graph_operator import GraphOperator, Vertex
from slackwater.operators.inputs import BELOW, from_node
from slackwater.operators.join.description import describe_node, joined_name
from slackwater.operators.join.ledger import JoinLedger
from slackwater.operators.join.operator import TIME, JoinOperator, WindowJoin, at_most
from slackwater.operators.join.probing import Equality, classes_of
from slackwater.operators.state_size import Member, NodeSpec, OfInput, Weights

Place = tuple[int, int]
"""(raw stream, row)."""


@dataclass(frozen=True)
class JoinTree(OperatorSpec):
    """Spec of a tree: the m-way join it stands for, and the binary joins it is made of, lowest first."""

    whole: WindowJoin
    nodes: tuple[WindowJoin, ...]
    carried: tuple[tuple[Place, ...], ...]
    """Per node, what its combinations hold from FIRST_COLUMN on; the lowest one reads raw tuples as they are."""

    def keys_of(self, node: int) -> list[tuple[Place, Place]]:
        """The equalities of a node, counted from 0, as places of raw streams: in the combination, in what joins it."""
        place = {row: place for place, row in _left_rows(node + 1, self.carried[node]).items()}
        return [(place[eq.left_row], (node + 1, eq.right_row)) for eq in self.nodes[node].equalities]

    def row_in(self, node: int, place: Place) -> int | None:
        """The row in which the combinations that a node reads, counted from 0, hold a place; None if they do not."""
        return _left_rows(node + 1, self.carried[node]).get(place)

    def conditions_of(self, node: int) -> tuple[Expr, ...]:
        """The conditions of a node, counted from 0, as the m-way join has them."""
        return _at(self.whole.conditions, node + 1)

    @property
    def streams(self) -> int:
        return self.whole.streams

    @property
    def rows(self) -> int:
        return self.whole.rows

    @property
    def all_nodes(self) -> tuple[GraphNode, ...]:
        return tuple(GraphNode(join, _inputs(n)) for n, join in enumerate(self.nodes))

    @property
    def external_sync(self) -> bool:
        return True

    @property
    def windows(self) -> tuple[int, ...]:
        return self.whole.windows

    @property
    def windows_joined(self) -> tuple[int, ...]:
        return self.windows

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        return self.whole.shard_rows

    @property
    def equalities(self) -> tuple[Equality, ...]:
        return self.whole.equalities

    @property
    def count_only(self) -> bool:
        return self.whole.count_only

    def describe(self, shown: Shown) -> Described:
        return describe_node(self, shown, len(self.nodes) - 1)

    def describe_node(self, shown: Shown, number: int) -> tuple[Described, tuple[str, ...]]:
        reads = (joined_name(shown.aliases, number - 1), shown.aliases[number + 1])
        return describe_node(self, shown, number), reads

    def weights(self, inputs: Sequence[Sequence[OfInput]]) -> Weights:
        (raw,) = inputs
        nodes, name, left = [], raw[0].label, raw[0]
        for number, right in enumerate(raw[1:]):
            if number:
                members = self._members(number, [one.members for one in raw])
                left = OfInput(name, members, FIRST_COLUMN + len(self.carried[number]))
            name = f"{name} ⨝ {right.label}" if number == 0 else f"({name}) ⨝ {right.label}"
            nodes.append(NodeSpec(name, (left, right)))
        return tuple(nodes)

    def _members(self, number: int, members: list[tuple[Member, ...]]) -> tuple[Member, ...]:
        """The members of the combinations that a node reads, where all of them are carried."""
        found = []
        for stream in range(number + 1):
            for member in members[stream]:
                row = self.row_in(number, (stream, member.row))
                size = None if member.size is None else self.row_in(number, (stream, member.size))
                if row is None or (size is None and member.size is not None):
                    return ()
                found.append(replace(member, row=row, size=size))
        return tuple(found)

    def build(self, context: BuildContext = PLAIN) -> TreeOperator:
        joins = [node.build(context) for node in self.nodes]
        return TreeOperator(self.whole, joins, context.encode_text)


def left_deep(whole: WindowJoin, kept: tuple[Place, ...] = ()) -> JoinTree:
    """The tree of a join of two streams or more; combinations carry what is `kept`, whether it is read or not.

    >>> three = WindowJoin((5, 5, 5), (Equality(0, 2, 1, 2), Equality(1, 2, 2, 2)), (), (), ((0, 1), (2, 1)), 3)
    >>> lower, upper = left_deep(three).nodes
    >>> lower.emit, upper.equalities, upper.emit
    (((0, 0), (0, 1), (0, 2), (1, 0)), (Equality(left=0, left_row=4, right=1, right_row=2),), ((0, 3), (1, 1)))
    """
    last = whole.streams - 1
    keys = _keys(whole)
    times = {n: {(i, TS) for i in range(n)} if n > 1 else set() for n in range(1, last + 1)}
    carried: dict[int, tuple[Place, ...]] = {last + 1: whole.emit}
    for n in range(last, 0, -1):
        read = {left for left, _ in keys[n]} | times[n]
        read |= {(s, row) for s, name, row in whole.columns if _is_read((s, name), whole, n)}
        carried[n] = tuple(sorted(place for place in {*read, *kept, *carried[n + 1]} if place[0] < n))
    nodes = range(1, last + 1)
    return JoinTree(whole, tuple(_node(whole, n, keys[n], carried) for n in nodes), tuple(carried[n] for n in nodes))


def _keys(whole: WindowJoin) -> dict[int, list[tuple[Place, int]]]:
    """For every node, which place of a combination equals which row of the stream that joins it."""
    keys: dict[int, list[tuple[Place, int]]] = {n: [] for n in range(1, whole.streams)}
    for members in classes_of(whole.equalities):
        # Places known to be equal stand in one group; a node needs to ask for one of each group.
        groups = [[(0, row)] for stream, row in sorted(members) if stream == 0]
        for n in range(1, whole.streams):
            own = sorted(row for stream, row in members if stream == n)
            if own and groups:
                keys[n] += [(group[0], own[0]) for group in groups] + [(groups[0][0], row) for row in own[1:]]
                groups = [groups[0]]
            else:
                groups += [[(n, row)] for row in own]
    return keys


def _at(conditions: tuple[Expr, ...], n: int) -> tuple[Expr, ...]:
    """The conditions that node n is the first to know all streams of."""
    return tuple(condition for condition in conditions if max(1, *streams_of(condition)) == n)


def _is_read(column: tuple[int, str], whole: WindowJoin, n: int) -> bool:
    return any(column in columns_of(condition) for condition in _at(whole.conditions, n))


def _node(
    whole: WindowJoin, n: int, keys: list[tuple[Place, int]], carried: dict[int, tuple[Place, ...]]
) -> WindowJoin:
    left_row = _left_rows(n, carried[n])
    times = [(0, _name(member, TIME), left_row[member, TS] if n > 1 else TS) for member in range(n)]
    columns = [*times, (1, TIME, TS)]
    top = n == whole.streams - 1
    asked = _at(whole.conditions, n) + (whole.residuals[len(whole.conditions) :] if top else ())
    read = {pair for condition in asked for pair in columns_of(condition)}
    for stream, name, row in whole.columns:
        if (stream, name) in read:
            columns.append((1, name, row) if stream == n else (0, _name(stream, name), left_row[stream, row]))
    emit = tuple((1, row) if stream == n else (0, left_row[stream, row]) for stream, row in carried[n + 1])
    return WindowJoin(
        (max(whole.windows[:n]), whole.windows[n]),
        tuple(Equality(0, left_row[place], 1, row) for place, row in keys),
        tuple(_renamed(condition, n) for condition in asked) + _inside(whole, n),
        tuple(columns),
        emit,
        max(whole.rows, FIRST_COLUMN + len(carried[n]) if n > 1 else 0),
        top and whole.count_only,
    )


def _left_rows(n: int, carried: tuple[Place, ...]) -> dict[Place, int]:
    """The row in which the left input of node n has each place."""
    return {place: place[1] if n == 1 else FIRST_COLUMN + at for at, place in enumerate(carried)}


def _inside(whole: WindowJoin, n: int) -> tuple[Expr, ...]:
    """That the tuple of stream n and every member of a combination are near enough, where windows do not see to it.

    The window of a combination is the largest of its members', so how much newer stream n may be than each is asked.
    That stream n is not too old its own window sees to, unless a pair of streams has a narrower one.
    """
    sizes, own = whole.windows, Column(1, TIME, Kind.TIME)
    most = None if whole.graph is None else whole.graph.widest
    asked = []
    for member in range(n):
        time = Column(0, _name(member, TIME), Kind.TIME)
        newer, older = (sizes[member], sizes[n]) if most is None else (most[n][member], most[member][n])
        if n > 1 or newer < sizes[member]:
            asked.append(at_most(own, time, newer))
        if older < sizes[n]:
            asked.append(at_most(time, own, older))
    return tuple(asked)


def _renamed(expr: Expr, n: int) -> Expr:
    """A condition of the m-way join over the two inputs of node n."""

    def renamed(column: Column) -> Column:
        if column.stream == n:
            return replace(column, stream=1)
        return replace(column, stream=0, name=_name(column.stream, column.name))

    return with_columns(expr, renamed)


def _name(member: int, column: str) -> str:
    return f"{member}.{column}"


class TreeOperator(GraphOperator):
    """The mutable half of `JoinTree`."""

    def __init__(self, whole: WindowJoin, joins: Iterable[JoinOperator], encode_text: Callable[[str], int]) -> None:
        self._encode_text = encode_text
        self._operators = list(joins)
        super().__init__(whole, (Vertex(operator, _inputs(n)) for n, operator in enumerate(self._operators)))

    def ledger_for(self, terms: LedgerTerms) -> JoinLedger:
        return self.open_ledger(terms, *terms.buckets(self.spec.windows))

    def open_ledger(self, terms: LedgerTerms, width: int, buckets: int) -> JoinLedger:
        """The ledger of the whole tree. Its nodes persist their raw tuples for them, combinations need not be kept."""
        condition = JoinOperator(self.spec, self._encode_text).condition
        ledger = JoinLedger(self.spec, condition, terms, width, buckets, count_all_results=True)
        for vertex, operator in zip(self._vertices, self._operators, strict=True):
            operator.remember_for(_NodeMemory(ledger, vertex.raw, self.spec.rows))
        return ledger


class _NodeMemory:
    """What a node of the tree remembers for the ledger: raw tuples alone."""

    def __init__(self, ledger: JoinLedger, inputs: tuple[int, ...], raw_rows: int) -> None:
        self._ledger, self._inputs, self._raw_rows = ledger, inputs, raw_rows

    @property
    def kept_since(self) -> Words:
        inputs = np.array(self._inputs)
        return np.where(inputs == BELOW, AFTER_ALL, self._ledger.kept_since[np.maximum(inputs, 0)])

    def put_back(self, stream: int, words: Words) -> None:
        if self._inputs[stream] != BELOW:
            self._ledger.put_back(self._inputs[stream], words[: self._raw_rows])


def _inputs(n: int) -> tuple[int, int]:
    """What node n, counted from 0, joins: what the node below makes, or stream 0, and stream n + 1."""
    return (from_node(n - 1) if n else 0, n + 1)
