"""The plan of one query or of many as a graph of nodes: what EXPLAIN prints, and what is shared or placed node by node.

A tuple goes source -> filter -> slack -> synchronizer -> operator -> relation-to-stream -> output. Nodes that would do
nothing are left out: a filter without conditions, a synchronizer of one input. A graph of several queries has an
output for each of them, and a node that they share has several readers.

Invariant: ids are unique and every node stands behind those it reads, so a graph has no cycle; what is no output is
read by somebody. Attributes are plain data with stable keys, `details` are words for people and may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from slackwater.operators.description import Detail


class NodeKind(StrEnum):
    """What a node does with the tuples that come to it."""

    SOURCE = "source"
    """Reads a stream, in the order of arrival."""
    FILTER = "filter"
    """Drops tuples that fail conditions on one stream."""
    SLACK = "slack"
    """Holds the tuples of one stream back for the slack K, and releases them in event-time order."""
    SYNCHRONIZER = "synchronizer"
    """Merges inputs into one event-time order; behind an operator, the results of tuples joined before their turn."""
    OPERATOR = "operator"
    """Joins, aggregates, selects or unites."""
    RELATION_TO_STREAM = "relation_to_stream"
    """Says when a result is emitted: as it comes into force, as it leaves it, or again and again while it is in it."""
    OUTPUT = "output"
    """What a query gives."""


ROW = "row"
"""The engine that takes tuple by tuple."""


@dataclass(frozen=True)
class PlanNode:
    """One step on the way of a tuple."""

    id: str
    kind: NodeKind
    label: str
    """The node in one line."""
    inputs: tuple[str, ...] = ()
    """The ids of the nodes it reads, in the order in which it numbers them."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts, lists and mappings, as JSON knows them; durations are microseconds, under names in `_us`."""
    details: tuple[Detail, ...] = ()
    engine: str = ROW
    """What runs it."""

    def as_json(self) -> dict[str, Any]:
        """The node as data."""
        return {
            "id": self.id,
            "kind": str(self.kind),
            "label": self.label,
            "engine": self.engine,
            "inputs": list(self.inputs),
            "attributes": dict(self.attributes),
            "details": [detail.as_json() for detail in self.details],
        }


@dataclass(frozen=True)
class PlanGraph:
    """Nodes, each behind those it reads, and what is said of the whole.

    >>> source = PlanNode("source.s", NodeKind.SOURCE, "source s")
    >>> graph = PlanGraph((source, PlanNode("output", NodeKind.OUTPUT, "output: v", ("source.s",))))
    >>> [node.id for node in graph.outputs], [node.id for node in graph.readers("source.s")]
    (['output'], ['output'])
    """

    nodes: tuple[PlanNode, ...]
    notes: tuple[Detail, ...] = ()
    """What belongs to no single node: how long all inputs wait, how the query is cut into shards."""

    def __post_init__(self) -> None:
        known: set[str] = set()
        for node in self.nodes:
            assert node.id not in known, f"two nodes are called {node.id}"
            assert known.issuperset(node.inputs), f"{node.id} stands before what it reads"
            known.add(node.id)
        read = {one for node in self.nodes for one in node.inputs}
        for node in self.nodes:
            assert (node.kind is NodeKind.OUTPUT) == (node.id not in read), f"{node.id}: an output, and only it, ends"
            assert (node.kind is NodeKind.SOURCE) == (not node.inputs), f"{node.id}: a source, and only it, begins"

    def __getitem__(self, id_: str) -> PlanNode:
        return self._by_id[id_]

    def __iter__(self) -> Iterator[PlanNode]:
        return iter(self.nodes)

    @cached_property
    def _by_id(self) -> dict[str, PlanNode]:
        return {node.id: node for node in self.nodes}

    @property
    def outputs(self) -> tuple[PlanNode, ...]:
        """Where results leave, one for each query."""
        return self.of_kind(NodeKind.OUTPUT)

    def of_kind(self, kind: NodeKind) -> tuple[PlanNode, ...]:
        """All nodes of a kind."""
        return tuple(node for node in self.nodes if node.kind is kind)

    def inputs_of(self, node: PlanNode) -> tuple[PlanNode, ...]:
        """The nodes that a node reads."""
        return tuple(self[one] for one in node.inputs)

    def readers(self, id_: str) -> tuple[PlanNode, ...]:
        """The nodes that read a node."""
        return tuple(node for node in self.nodes if id_ in node.inputs)

    def as_json(self) -> dict[str, Any]:
        """The graph as data: `EXPLAIN (FORMAT JSON)`."""
        return {
            "version": JSON_VERSION,
            "outputs": [node.id for node in self.outputs],
            "nodes": [node.as_json() for node in self.nodes],
            "notes": [note.as_json() for note in self.notes],
        }


JSON_VERSION = 1
"""Raised when a key of `as_json`, or of the attributes of a kind of node, gets another name or meaning."""
