"""A query of several operators: nodes fed by raw streams and by nodes below, the last of which makes the results.

Slack is dealt with once, in front of all nodes. What a node makes is in order and behind its watermark, so the one
above never finds it late; a result of a join stands at the event time of its newest member, or where a member has none
at the end of its window, a row of an aggregate at the last instant of its window, a row of a union at its own.

Invariant: every raw stream and every node but the last is read by exactly one node.

References: 000 §1 (ordered output makes operators composable), 004 §2.1.2, §4.2.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product

from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.operators.contract import PLAIN, BuildContext, GraphNode, NullKeys, OperatorSpec
from slackwater.operators.description import Described, Shown
from slackwater.operators.graph_operator import GraphOperator, Vertex
from slackwater.operators.inputs import from_node, node_of, reads_node
from slackwater.operators.projection import Projection
from slackwater.operators.state_size import NodeSpec, OfInput, Weights


@dataclass(frozen=True)
class OperatorGraph(OperatorSpec):
    """Spec of a graph; its output columns are those of its last node."""

    nodes: tuple[GraphNode, ...]
    """Each behind those it reads."""
    rows: int
    """Word rows of a raw tuple."""

    def __post_init__(self) -> None:
        read = [one for node in self.nodes for one in node.inputs]
        wanted = [*range(self.streams), *(from_node(n) for n in range(len(self.nodes) - 1))]
        assert sorted(read) == sorted(wanted), "every stream and every node is read once"

    @property
    def streams(self) -> int:
        return sum(not reads_node(one) for node in self.nodes for one in node.inputs)

    @property
    def all_nodes(self) -> tuple[GraphNode, ...]:
        return self.nodes

    @property
    def top(self) -> OperatorSpec:
        """The operator that makes the results."""
        return self.nodes[-1].operator

    @property
    def external_sync(self) -> bool:
        return True

    @property
    def windowed(self) -> bool:
        return self.top.windowed

    def learning_key(self, quality: Quality) -> str:
        # Rows are followed through all operators, so all of them must be what they were.
        followed = isinstance(quality, Recall | RelativeError)
        return sha256(repr(self).encode()).hexdigest() if followed else ""

    @property
    def one_shard(self) -> str | None:
        return next((node.operator.one_shard for node in self.nodes if node.operator.one_shard), None)

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        keys = keys_of_nodes(self.nodes)[-1]
        if self.one_shard or not keys:
            return None
        return tuple((keys[0].rows[stream],) for stream in range(self.streams))

    def corrected(self, reach: int) -> OperatorGraph | None:
        """Every node is told, those below for so much longer as the nodes above look back: what they correct comes to
        these as late tuples."""
        reaches = {len(self.nodes) - 1: reach}
        nodes = []
        for number, node in reversed(tuple(enumerate(self.nodes))):
            told = node.operator.corrected(reaches[number])
            if told is None:
                return None
            nodes.append(replace(node, operator=told))
            below = reaches[number] + node.operator.looks_back
            reaches |= {node_of(one): below for one in node.inputs if reads_node(one)}
        return replace(self, nodes=tuple(reversed(nodes)))

    def describe(self, shown: Shown) -> Described:
        return self.top.describe(shown)

    def weights(self, inputs: Sequence[Sequence[OfInput]]) -> Weights:
        """Nodes by the way to them from the last one; a window by that of its node and its alias there."""
        paths: dict[int, tuple[str, ...]] = {len(self.nodes) - 1: ()}
        for number in reversed(range(len(self.nodes))):
            for one, read in zip(inputs[number], self.nodes[number].inputs, strict=True):
                if reads_node(read):
                    paths[node_of(read)] = (*paths[number], one.label)
        weights: list[NodeSpec] = []
        for number, node in enumerate(self.nodes):
            own = []
            for one, read in zip(inputs[number], node.inputs, strict=True):
                members = one.members
                if reads_node(read):
                    below = [member for given in weights[node_of(read)].inputs for member in given.members]
                    members = tuple(replace(m, words=b.words) for m, b in zip(members, below, strict=False))
                own.append(OfInput(".".join((*paths[number], one.label)), members, one.words))
            label = ".".join(paths[number]) or " ⨝ ".join(one.label for one in inputs[number])
            weights.append(NodeSpec(label, tuple(own)))
        return tuple(weights)

    def build(self, context: BuildContext = PLAIN) -> GraphOperator:
        return GraphOperator(
            self,
            [
                Vertex(
                    node.operator.build(context),
                    node.inputs,
                    None if node.outlet is None else node.outlet.build(context.encode_text),
                )
                for node in self.nodes
            ],
        )


@dataclass(frozen=True)
class Key:
    """A key that everything under a node can be told apart by: its row in each raw stream, and the result columns of
    the node that hold it; and those that hold it or are null."""

    rows: dict[int, int]
    columns: frozenset[int] = field(default_factory=frozenset)
    or_null: frozenset[int] = field(default_factory=frozenset)


def keys_of_nodes(nodes: Sequence[GraphNode]) -> list[list[Key]]:
    """Of every node of a graph the keys of all that is under it."""
    keys: list[list[Key]] = []
    for node in nodes:
        keys.append([])
        nulls, absent = node.operator.null_keys, node.operator.absent_columns
        for rows, columns in node.operator.key_classes:
            per_input = [
                _at_input(one, rows[at], keys, nodes[node_of(one)].outlet if reads_node(one) else None)
                for at, one in enumerate(node.inputs)
            ]
            for chosen in product(*per_input):
                known = all(there for _, there in chosen)
                if not known and nulls is NullKeys.MEET:
                    continue
                of_streams = {stream: row for key, _ in chosen for stream, row in key.rows.items()}
                held = frozenset(columns) - absent if known or nulls is NullKeys.DROP else frozenset[int]()
                keys[-1].append(Key(of_streams, held, frozenset(columns) - held))
                break
    return keys


def _at_input(one: int, row: int, keys: list[list[Key]], projection: Projection | None) -> list[tuple[Key, bool]]:
    """The keys that stand in a row of an input, and whether they do in all of it: of a raw stream, or of a node whose
    results carry one there."""
    if projection is None:
        return [(Key({one: row}), True)]
    sources = {carried.source for carried in projection.carried if carried.row == row and carried.source is not None}
    below = keys[node_of(one)]
    return [(key, True) for key in below if key.columns & sources] + [
        (key, False) for key in below if key.or_null & sources
    ]
