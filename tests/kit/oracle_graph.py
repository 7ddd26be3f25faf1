"""Queries of several operators, slow and obvious: slack buffers, then one node after the other, tuple by tuple.

Invariant: shares no code with the kernels. Every tuple goes as far up as it can before the next one is looked at.

References: 004 §4.2.6, 003 §V; Alg. 3.1 and 4.6 at every node.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.core.batch import Batch
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.contract import GraphNode
from slackwater.operators.distinct import StreamDistinct
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.inputs import node_of, reads_node
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.union import StreamUnion
from tests.kit.oracle_absence import Lonely
from tests.kit.oracle_asof import Asking
from tests.kit.oracle_distinct import RowsThatLeft
from tests.kit.oracle_join import SlowWindows
from tests.kit.oracle_levels import above, joined_result, open_windows, united_row
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import NEVER, Released, SlackRule, Tuple, tuples_of


@dataclass
class GraphOutcome:
    """Results, each with the largest clock when it was made, and raw tuples in the order in which their fate was
    known."""

    results: list[tuple[Made, int]] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)


class _Node:
    """One operator, behind a synchronizer of its own."""

    def __init__(self, node: GraphNode, outcome: GraphOutcome) -> None:
        self.node, self.spec, self.outcome = node, node.operator, outcome
        self.above: tuple[_Node, int] | None = None
        self.clock = self.watermark = self.t_sync = NEVER
        self.watermarks = [NEVER for _ in node.inputs]
        self.waiting: list[list[Tuple]] = [[] for _ in node.inputs]
        self.windows = SlowWindows(node.operator) if isinstance(node.operator, WindowJoin) else None
        lonely = Lonely(node.operator) if isinstance(node.operator, OuterJoin) else None
        asking = Asking(node.operator) if isinstance(node.operator, AsOfJoin) else None
        self.open = lonely or asking or open_windows(node.operator)
        self.windows = self.windows if lonely is None else lonely.windows
        self.left = RowsThatLeft(node.operator) if isinstance(node.operator, StreamDistinct) else None

    def process(self, e: Tuple, met: int) -> None:
        raw = self.node.inputs[e.stream]
        if not reads_node(raw):
            self.outcome.released.append(Released(Tuple(raw, e.ts, e.words), met, self.clock))
        assert not reads_node(raw) or e.ts >= met, "what comes from below was late"
        if isinstance(self.open, Lonely):
            for made in self.open.take(e, met):
                self.make(made)
        elif self.open is not None:
            self.open.add(e, met)
        elif isinstance(self.spec, StreamUnion):
            if e.ts >= met:
                self.make(united_row(self.spec, e))
        elif self.left is not None:
            for made in self.left.made_of(e) if e.ts >= met else []:
                self.make(made)
        else:
            assert isinstance(self.spec, WindowJoin)
            assert self.windows is not None
            if e.ts >= met:
                for members in self.windows.results(e):
                    self.make(joined_result(self.spec, members))
            self.windows.enter(e, met)

    def close(self, watermark: int | None) -> None:
        """Emit the windows that the watermark has passed, and tuples that have waited for a partner until then."""
        if self.open is not None:
            for made in self.open.up_to(watermark):
                self.make(made)

    def make(self, made: Made) -> None:
        if self.above is None:
            self.outcome.results.append((made, self.clock))
            return
        node, number = self.above
        node.clock = self.clock
        for e in above(self.node, [made], number):
            node.take(e)

    def tell(self) -> None:
        """Promise the node above that nothing before the watermark will come."""
        if self.above is not None:
            node, number = self.above
            node.clock = self.clock
            node.advance_watermark(number, self.watermark)

    def take(self, e: Tuple) -> None:
        raise NotImplementedError

    def advance_watermark(self, number: int, ts: int) -> None:
        raise NotImplementedError


class _TupleNode(_Node):
    """Alg. 3.1; an input that has nothing here, but has a watermark behind which nothing comes, is not waited for."""

    ending = False

    def take(self, e: Tuple) -> None:
        if e.ts > self.t_sync:
            self.waiting[e.stream].append(e)
            self.synchronize()
        else:
            self.emit_to_synchronizer(e)

    def advance_watermark(self, number: int, ts: int) -> None:
        self.watermarks[number] = max(self.watermarks[number], ts)
        self.synchronize()

    def synchronize(self) -> None:
        while any(self.waiting) and not self.ending:
            first = min(e.ts for mine in self.waiting for e in mine)
            if any(not mine and self.watermarks[i] < first for i, mine in enumerate(self.waiting)):
                return
            self.emit(first)

    def emit(self, ts: int) -> None:
        self.t_sync = ts
        for mine in self.waiting:
            for e in [e for e in mine if e.ts == ts]:
                mine.remove(e)
                self.emit_to_synchronizer(e)

    def emit_to_synchronizer(self, e: Tuple) -> None:
        met, self.watermark = self.watermark, max(self.watermark, e.ts)
        self.process(e, met)
        self.close(self.watermark)
        if not self.ending:
            self.tell()

    def drain(self) -> None:
        while any(self.waiting):
            self.emit(min(e.ts for mine in self.waiting for e in mine))
        self.close(None)


class _EpochNode(_Node):
    """The watermark is the smallest watermark of the inputs."""

    def take(self, e: Tuple) -> None:
        if e.ts < self.watermark:
            self.process(e, self.watermark)
        else:
            self.waiting[e.stream].append(e)

    def advance_watermark(self, number: int, ts: int) -> None:
        self.watermarks[number] = max(self.watermarks[number], ts)
        met, self.watermark = self.watermark, max(self.watermark, min(self.watermarks))
        self.emit(self.watermark, met)
        self.close(self.watermark)
        self.tell()

    def emit(self, bound: int, met: int) -> None:
        ready = [e for mine in self.waiting for e in mine if e.ts <= bound]
        for e in sorted(ready, key=lambda e: e.ts):
            self.waiting[e.stream].remove(e)
            self.process(e, met)

    def drain(self) -> None:
        self.emit(-NEVER, self.watermark)
        self.close(None)


def _nodes(
    graph: OperatorGraph, kind: type[_Node], outcome: GraphOutcome
) -> tuple[list[_Node], list[tuple[_Node, int]]]:
    """All nodes, and for every raw stream the node that reads it and as which input."""
    nodes = [kind(node, outcome) for node in graph.nodes]
    doors: dict[int, tuple[_Node, int]] = {}
    for node in nodes:
        for number, one in enumerate(node.node.inputs):
            if reads_node(one):
                nodes[node_of(one)].above = (node, number)
            else:
                doors[one] = (node, number)
    return nodes, [doors[stream] for stream in range(graph.streams)]


def oracle_graph_by_tuple(graph: OperatorGraph, batch: Batch, rule: SlackRule) -> GraphOutcome:
    """A slack buffer per raw stream, one K; then Alg. 3.1 and the operator at every node."""
    outcome = GraphOutcome()
    nodes, doors = _nodes(graph, _TupleNode, outcome)
    buffers, clocks = _taken_in(doors, batch, rule)
    for one in nodes:
        assert isinstance(one, _TupleNode)
        one.ending, one.clock = True, max(clocks)
    for (node, _), buffer in zip(doors, buffers, strict=True):
        for _, _, e in sorted(buffer, key=lambda entry: entry[:2]):
            node.take(e)
    for one in nodes:
        assert isinstance(one, _TupleNode)
        one.drain()
    return outcome


def _taken_in(
    doors: list[tuple[_Node, int]], batch: Batch, rule: SlackRule
) -> tuple[list[list[tuple[int, int, Tuple]]], list[int]]:
    """All arrivals through slack buffers to their nodes; what the buffers still hold, and the clocks."""
    buffers: list[list[tuple[int, int, Tuple]]] = [[] for _ in doors]
    clocks = [NEVER for _ in doors]
    for place, e in enumerate(tuples_of(batch)):
        updated = e.ts > clocks[e.stream]
        clocks[e.stream] = max(clocks[e.stream], e.ts)
        node, number = doors[e.stream]
        buffer = buffers[e.stream]
        if e.passes:
            rule.saw(clocks[e.stream] - e.ts)
            heapq.heappush(buffer, (e.ts, place, Tuple(number, e.ts, e.words)))
        while updated and buffer and buffer[0][0] + rule.slack <= clocks[e.stream]:
            node.clock = max(clocks)
            node.take(heapq.heappop(buffer)[2])
    return buffers, clocks


def windows_of_graph(graph: OperatorGraph, batch: Batch, rule: SlackRule) -> list[list[list[Tuple]]]:
    """By tuple release, of every node and input the tuples in its window once all of these have come, and no more."""
    nodes, doors = _nodes(graph, _TupleNode, GraphOutcome())
    _taken_in(doors, batch, rule)
    return [
        [[] for _ in node.node.inputs] if node.windows is None else node.windows.standing(node.watermark)
        for node in nodes
    ]


def oracle_graph_by_epoch(graph: OperatorGraph, batch: Batch, cuts: Sequence[int], rule: SlackRule) -> GraphOutcome:
    """Epochs end at the positions in `cuts`: then every raw stream sends its clock, less K, to its node as a
    watermark."""
    outcome = GraphOutcome()
    nodes, doors = _nodes(graph, _EpochNode, outcome)
    clocks = [NEVER for _ in doors]
    tuples = tuples_of(batch)
    for begin, end in zip([0, *cuts], [*cuts, len(tuples)], strict=True):
        before = list(clocks)
        for e in tuples[begin:end]:
            clocks[e.stream] = max(clocks[e.stream], e.ts)
            if e.passes:
                rule.saw(before[e.stream] - e.ts)
                node, number = doors[e.stream]
                node.clock = max(clocks)
                node.take(Tuple(number, e.ts, e.words))
        if end in cuts:
            for (node, number), clock in zip(doors, clocks, strict=True):
                if clock != NEVER:
                    node.clock = max(clocks)
                    node.advance_watermark(number, clock - rule.slack)
    for one in nodes:
        assert isinstance(one, _EpochNode)
        one.clock = max(clocks)
        one.drain()
    return outcome
