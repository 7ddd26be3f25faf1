"""Nodes as one operator: a run passes them one after the other, and the last one makes the results.

When an epoch ends, the watermark may pass all the tuples that came in it, and a join of them may have many more results
than there are tuples. So the watermark goes there in steps, and the results of one step have passed all nodes before
those of the next one are made.

Invariant: a raw tuple has its fate at the node that reads it; the pieces a run is cut into, and the steps of a
watermark, change nothing, for every node takes what comes in the order in which it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from slackwater.core.batch import TS, Flags
from slackwater.core.state import StateUpdate, by_part, under
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.synchronizer import Inflow, Synchronized
from slackwater.disorder.release.watermarks import are_watermarks
from slackwater.operators.contract import Operator, ResizeLog
from slackwater.operators.inputs import node_of, raw_streams, reads_node
from slackwater.operators.node import Node, as_one_run, emit_position
from slackwater.operators.output import Output
from slackwater.operators.projection import ProjectionMaker
from slackwater.operators.stages import Stages, Tells
from slackwater.operators.state_size import WindowContents

PIECE = 2048
"""Tuples that pass the nodes together: enough that the way costs little, few enough that combinations do not pile
up."""


@dataclass(frozen=True)
class Vertex:
    """An operator, what it reads (see `inputs`), and how its results become tuples above."""

    operator: Operator
    inputs: tuple[int, ...]
    outlet: ProjectionMaker | None = None

    @property
    def raw(self) -> tuple[int, ...]:
        """The inputs with BELOW in the place of nodes."""
        return raw_streams(self.inputs)

    def below(self) -> list[tuple[int, int]]:
        """(input, node) of the inputs that are nodes."""
        return [(at, node_of(one)) for at, one in enumerate(self.inputs) if reads_node(one)]


class GraphOperator(Operator, Stages):
    """The mutable half of `OperatorGraph`: its nodes are the stages behind a release."""

    def __init__(self, spec: Any, vertices: Iterable[Vertex]) -> None:
        self.spec, self._vertices = spec, tuple(vertices)
        self._nodes: list[Node] = []
        self._in_epochs = False
        self._release: Release | None = None
        self._top: Synchronized | None = None

    @property
    def several_nodes(self) -> bool:
        return True

    def attach(self, release: Release) -> Stages:
        """Give every node its synchronizer, to follow the release of the raw streams."""
        self._nodes = [self._node(vertex, release.spec) for vertex in self._vertices]
        self._in_epochs = release.spec.discipline == "epoch"
        self._release = release
        return self

    def _node(self, vertex: Vertex, raw: ReleaseSpec) -> Node:
        return Node(vertex.operator, vertex.raw, max(raw.rows, vertex.operator.spec.rows), raw, vertex.outlet)

    def run_stage(self, run: OrderedBatch) -> Iterator[tuple[OrderedBatch, OrderedBatch]]:
        """Raw tuples come with the watermark they met at their own nodes."""
        if run.ended or not self._in_epochs:
            size = max(1, len(run)) if run.ended else PIECE
            for begin in range(0, max(1, len(run)), size):
                yield self._run_nodes(run, begin, min(begin + size, len(run)))
            return
        marks = are_watermarks(run.stream)
        for begin, end in segments(marks):
            if end > begin and marks[begin]:
                for step in self._steps(run, begin, end):
                    yield self._run_nodes(step, 0, len(step))
                yield self._run_nodes(run, begin, end)
            else:
                for first in range(begin, max(begin + 1, end), PIECE):
                    yield self._run_nodes(run, first, min(first + PIECE, end))

    def _steps(self, run: OrderedBatch, begin: int, end: int) -> Iterator[OrderedBatch]:
        """The watermark events at the end of an epoch, as they would be at times on the way there: between two of them
        lie about as many held tuples as pass the nodes together."""
        events = np.arange(begin, end)
        reached = run.words[TS, events]
        held = np.sort(np.concatenate([node.synchronizer.held_times() for node in self._nodes]))
        passed = held[: np.searchsorted(held, reached.max(), "right")]
        for step in np.unique(passed[PIECE - 1 : -1 : PIECE]).tolist():
            tuples = run.tuples.take(events)
            tuples.words[TS] = np.minimum(reached, step)
            yield replace(run, tuples=tuples)

    def _run_nodes(self, run: OrderedBatch, begin: int, end: int) -> tuple[OrderedBatch, OrderedBatch]:
        made: list[Inflow] = []
        raw = []
        for vertex, node in zip(self._vertices, self._nodes, strict=True):
            below = [made[n].as_input(at) for at, n in vertex.below()]
            synchronized = node.admit(run, begin, end, below)
            raw.append(node.raw_part(synchronized.run))
            if node is not self._nodes[-1]:
                made.append(node.made_of(synchronized))
        top = replace(synchronized.run, max_ts=run.max_ts, now=run.now)
        self._top = replace(synchronized, run=top)
        return top, replace(as_one_run(raw), max_ts=run.max_ts, now=run.now)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """What the last node makes of a run that has just reached it."""
        assert self._top is not None, "nothing has reached the last node"
        for output in self._vertices[-1].operator.process(run, ordered):
            if output.at_watermark or output.by_at_latest:
                _, clock, emit_time = emit_position(self._top, output)
                output = replace(output, clock=clock, emit_time=emit_time)
            yield output

    @property
    def vertices(self) -> tuple[Vertex, ...]:
        """All nodes, each behind those it reads."""
        return self._vertices

    def resize_logs(self) -> list[tuple[int, ResizeLog]]:
        return [(n, log) for n, vertex in enumerate(self._vertices) for _, log in vertex.operator.resize_logs()]

    @property
    def watermark(self) -> int:
        """Where the last node stands."""
        return self._nodes[-1].synchronizer.watermark

    @property
    def reached(self) -> int:
        return self._nodes[-1].synchronizer.state.reached

    @property
    def heading(self) -> int:
        """In epochs the watermark goes in steps to where the release already is."""
        return self._release.watermark if self._in_epochs and self._release is not None else self.watermark

    def pending(self, tells: Tells | None = None) -> int:
        """Raw tuples in the synchronizers."""
        return sum(node.held(tells) for node in self._nodes)

    @property
    def state_rows(self) -> int:
        """What the operators of all nodes keep."""
        return sum(vertex.operator.state_rows for vertex in self._vertices)

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """What every node reads."""
        return [vertex.inputs for vertex in self._vertices]

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What stands in the windows of every node, by its own watermark."""
        for number, node in enumerate(self._nodes):
            for one in node.operator.window_contents(node.synchronizer.watermark):
                yield replace(one, node=number)

    def snapshot_delta(self) -> list[StateUpdate]:
        """The changes of every node, under its number."""
        return [one for n, node in enumerate(self._nodes, 1) for one in under(str(n), node.snapshot_delta())]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        parts = by_part(entries)
        for n, node in enumerate(self._nodes, 1):
            if str(n) in parts:
                node.restore(parts[str(n)])


def segments(marks: Flags) -> list[tuple[int, int]]:
    """Where the segments of equal marks begin and end.

    >>> segments(np.array([False, False, True, False]))
    [(0, 2), (2, 3), (3, 4)]
    """
    edges = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(marks)]
    return [(begin, end) for begin, end in pairwise(edges) if begin < end] or [(0, 0)]
