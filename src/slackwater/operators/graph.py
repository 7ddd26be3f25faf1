"""A query of several operators: nodes fed by raw streams and by nodes below, the last of which makes the results.

Slack is dealt with once, in front of all nodes. What a node makes is in order and behind its watermark, so the one
above never finds it late; a result of a join stands at the event time of its newest member, a row of an aggregate at
the last instant of its window, a row of a union at its own.

Invariant: every raw stream and every node but the last is read by exactly one node.

References: 000 §1 (ordered output makes operators composable), 004 §2.1.2, §4.2.6.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.contract import PLAIN, BuildContext
from slackwater.operators.graph_operator import GraphOperator, Vertex
from slackwater.operators.handing import Handing
from slackwater.operators.inputs import from_node
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.projection import Projection
from slackwater.operators.union import StreamUnion

NodeSpec = WindowJoin | WindowAggregate | StreamUnion | Handing


@dataclass(frozen=True)
class GraphNode:
    """One operator. `inputs` are raw streams, or nodes below (`operators.inputs`)."""

    operator: NodeSpec
    inputs: tuple[int, ...]
    outlet: Projection | None = None
    """How its results become tuples of the node that reads them; None for the last node."""


@dataclass(frozen=True)
class OperatorGraph:
    """Spec of a graph; its output columns are those of its last node."""

    nodes: tuple[GraphNode, ...]
    """Each behind those it reads."""
    streams: int
    rows: int
    """Word rows of a raw tuple."""

    def __post_init__(self) -> None:
        read = [one for node in self.nodes for one in node.inputs]
        wanted = [*range(self.streams), *(from_node(n) for n in range(len(self.nodes) - 1))]
        assert sorted(read) == sorted(wanted), "every stream and every node is read once"

    @property
    def top(self) -> NodeSpec:
        """The operator that makes the results."""
        return self.nodes[-1].operator

    @property
    def count_only(self) -> bool:
        return False

    @property
    def needs_order(self) -> bool:
        return True

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
