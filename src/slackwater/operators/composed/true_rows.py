"""What would reach the top operator if nothing were ever late: every true row once, when its last raw tuple arrives.

The nodes below the top are run a second time, in the order of arrival and without waiting. Each row comes with the
slack it *needs*: the least K with which the query itself makes it.

    a raw tuple that a union or a selection reads     C - ts, where C is the clock of its node as it arrives: the
                                                      smallest clock of all raw streams under the node
    a result of a join, with event time T             C - T for each raw member, C as that one arrived; and what every
                                                      member needs that comes from a node below
    a tuple's share in a window of an inner aggregate C - (end - 1): it counts until the watermark is at the end

and never less than 0. A late member of a join still enters its window, so it costs a result only if it comes behind the
result's own time; a row that a node below did not make is missing whatever comes later.

Invariant: the rows are those of the query on sorted input. That a row is made iff K >= its need holds for a slack that
stays the same; what really was made is told by the query itself, to a meter: what the top emits and what it is given,
as they are, but not what became of raw tuples further down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Words
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.controllers import DelayObservations
from slackwater.disorder.release.synchronizer import with_rows
from slackwater.operators.aggregate.operator import AggregateOperator, WindowAggregate
from slackwater.operators.composed.join_node import JoinNode
from slackwater.operators.contract import Operator, OperatorSpec
from slackwater.operators.graph_operator import GraphOperator, Vertex
from slackwater.operators.inputs import node_of, reads_node
from slackwater.operators.join.operator import JoinOperator
from slackwater.operators.union import UnionOperator


@dataclass(frozen=True)
class Rows:
    """Rows in the order in which they became complete: words, the slack each needs, and the place of its arrival."""

    words: Words
    need: Words
    place: Words

    @property
    def ts(self) -> Words:
        return np.asarray(self.words[TS])

    def __len__(self) -> int:
        return int(self.words.shape[1])


@dataclass(frozen=True)
class _Input:
    """What one input of a node is given: of raw tuples `mark` is the node's clock, of rows from below their need."""

    words: Words
    mark: Words
    place: Words
    raw: bool

    @property
    def need(self) -> Words:
        """What a row needs to pass a node that looks at each by itself."""
        return np.maximum(0, self.mark - self.words[TS]) if self.raw else self.mark


class KnownRows:
    """What is known of true rows, whoever finds them."""

    def __init__(self, reach: int) -> None:
        self.reach = reach
        """How far the event time of a row can be from that of its oldest member."""
        self.known_from = BEFORE_ALL
        """Rows before this event time may have members that arrived while nobody looked."""
        self.unknown = 0
        """Raw tuples that came when some of what they could have met was forgotten."""
        self.most = 0
        """The most rows that one of them has completed."""

    def begin_at(self, clock: int) -> None:
        """Begin in the middle of a run: what has arrived so far is not known."""
        self.known_from = clock + self.reach + 1

    def take(self, arrived: DelayObservations, slack: int) -> Rows:
        """Raw tuples in the order in which they arrived, under this slack; the rows that they complete."""
        raise NotImplementedError("they are found elsewhere")

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        return {"known": np.array([self.known_from, self.unknown, self.most], np.int64)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self.known_from, self.unknown, self.most = arrays["known"].tolist()


class TrueRows(KnownRows):
    """The shadow of a graph. `whole`: rows are what the top gives; else what it is given, in its own layout."""

    def __init__(self, graph: GraphOperator, streams: int, whole: bool, retention: int) -> None:
        super().__init__(reach_of(graph.spec, whole))
        self._vertices, self._whole, self._retention = graph.vertices, whole, retention
        nodes = self._vertices if whole else self._vertices[:-1]
        self._nodes = [_shadow_of(vertex.operator) for vertex in nodes]
        self._under = [_raw_under(self._vertices, n) for n in range(len(nodes))]
        self.clocks: Words = np.full(streams, BEFORE_ALL, np.int64)
        """Of every raw stream the largest event time that has arrived."""
        self._slack = 0

    def take(self, arrived: DelayObservations, slack: int) -> Rows:
        clocks = self._clocks_before(arrived)
        self._slack = slack
        made: list[Rows] = []
        for vertex, node, under in zip(self._vertices, self._nodes, self._under, strict=False):
            since = self._since(under)
            at = self._node_clock(arrived, under, clocks)
            inputs = []
            for one in vertex.inputs:
                if reads_node(one):
                    below = made[node_of(one)]
                    inputs.append(_Input(below.words, below.need, below.place, raw=False))
                else:
                    place = np.flatnonzero(arrived.stream == one)
                    inputs.append(_Input(arrived.words[:, place], at[place], place, raw=True))
                    self.unknown += int(
                        np.count_nonzero(arrived.words[TS, place] < at[place] - slack - self._retention)
                    )
            ts, columns, need, place = node.take(inputs, since)
            if vertex.outlet is None or (node is self._nodes[-1] and self._whole):
                made.append(Rows(ts[np.newaxis], need, place))
            else:
                words, kept = vertex.outlet.take(ts, columns)
                made.append(Rows(words, need[kept], place[kept]))
        rows = made[-1]
        if len(rows):
            self.most = max(self.most, int(np.bincount(rows.place).max()))
            if self.known_from != BEFORE_ALL:
                known = np.flatnonzero(rows.ts >= self.known_from)
                rows = Rows(rows.words[:, known], rows.need[known], rows.place[known])
        return rows

    def _clocks_before(self, arrived: DelayObservations) -> Words:
        """A line per raw stream: its clock as each tuple arrived, as far as it can be told; moves the clocks on."""
        arrival_time = arrived.words[TS] + arrived.behind
        lines = np.empty((len(self.clocks), len(arrival_time)), np.int64)
        for stream in range(len(self.clocks)):
            lines[stream] = np.where(arrived.stream == stream, arrival_time, BEFORE_ALL)
        if lines.shape[1]:
            lines[:, 0] = np.maximum(lines[:, 0], self.clocks)
            np.maximum.accumulate(lines, axis=1, out=lines)
            self.clocks = lines[:, -1].copy()
        return lines

    def _node_clock(self, arrived: DelayObservations, under: tuple[int, ...], clocks: Words) -> Words:
        """The smallest clock of the streams under a node as each tuple arrived."""
        ts = arrived.words[TS]
        if len(under) == 1:
            return np.asarray(ts + arrived.behind)
        if len(under) == len(self.clocks):
            return np.asarray(ts + arrived.needed)
        # Between that of the slowest stream of all and its own; told by the tuples that have come.
        return np.asarray(ts + np.clip(clocks[list(under)].min(axis=0) - ts, arrived.needed, arrived.behind))

    def _since(self, under: Sequence[int]) -> int:
        """What lies before may be forgotten, but for the windows."""
        return max(int(self.clocks[list(under)].min()) - self._slack - self._retention, BEFORE_ALL)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        found = super().as_arrays() | {"clocks": self.clocks.copy(), "slack": np.array([self._slack])}
        for number, (node, under) in enumerate(zip(self._nodes, self._under, strict=True)):
            if isinstance(node, _Joining):
                kept = node.join.as_arrays(self._since(under))
                found |= {f"met_{number}_{name}": array for name, array in kept.items()}
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self.clocks, self._slack = np.array(arrays["clocks"]), int(arrays["slack"][0])
        for number, node in enumerate(self._nodes):
            if isinstance(node, _Joining):
                prefix = f"met_{number}_"
                node.join.restore({n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)})


def reach_of(graph: OperatorSpec, whole: bool) -> int:
    """How far the rows that the last node of a graph gives, or is given, can be from their oldest member."""
    nodes = [node.operator for node in (graph.all_nodes if whole else graph.all_nodes[:-1])]
    return sum(one.looks_back for one in nodes if one.streams > 1 or one.windowed)


Made = tuple[Words, list[Words], Words, Words]
"""Of rows: event times, kernel columns, needs, places."""


class _Passing:
    """A union or a selection: rows pass, each with its own columns."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = rows

    def take(self, inputs: Sequence[_Input], since: int) -> Made:
        place = np.concatenate([one.place for one in inputs])
        order = np.argsort(place, kind="stable")

        def all_of(parts: list[Words]) -> Words:
            return np.concatenate(parts)[order]

        columns = [all_of([one.words[row] for one in inputs]) for row in self._rows]
        return all_of([one.words[TS] for one in inputs]), columns, all_of([one.need for one in inputs]), place[order]


class _Joining:
    """A join of two inputs or more."""

    def __init__(self, operator: JoinOperator) -> None:
        self.join = JoinNode(operator.spec, operator.condition)

    def take(self, inputs: Sequence[_Input], since: int) -> Made:
        rows = self.join.spec.rows
        place = np.concatenate([one.place for one in inputs])
        order = np.argsort(place, kind="stable")
        stream = np.repeat(np.arange(len(inputs)), [len(one.place) for one in inputs])[order]
        words = np.concatenate(
            [np.vstack([with_rows(one.words[:rows], rows), one.mark]) for one in inputs], axis=1
        )[:, order]  # fmt: skip
        ts, by, slots = self.join.take(stream, words, since)
        need = np.zeros(len(ts), np.int64)
        for number, one in enumerate(inputs):
            mark = self.join.of(number, rows, slots)
            need = np.maximum(need, mark - ts if one.raw else mark)
        columns = [self.join.of(number, row, slots) for number, row in self.join.spec.emit]
        return ts, columns, need, place[order][by]


class _Adding:
    """An inner aggregate of counts and sums: every tuple as what it adds to each of its windows, a row a window."""

    def __init__(self, spec: WindowAggregate) -> None:
        self.spec = spec

    def take(self, inputs: Sequence[_Input], since: int) -> Made:
        (one,) = inputs
        spec, slide = self.spec, self.spec.grid.slide
        ts, clock = one.words[TS], one.mark
        parts = []
        for back in range(-(-spec.range // slide)):
            start = (ts // slide - back) * slide
            inside = np.flatnonzero(start + spec.range > ts)
            parts.append((inside, start[inside]))
        index = np.concatenate([inside for inside, _ in parts])
        start = np.concatenate([part for _, part in parts])
        order = np.argsort(index, kind="stable")
        index, start = index[order], start[order]
        last = start + spec.range - 1
        need = np.maximum(0, clock[index] - last) if one.raw else one.mark[index]
        words = one.words[:, index]
        columns = [start, last + 1, *(words[row] for row in spec.keys)]
        columns += [_added(call.function, call.kind, words, call.row) for call in spec.aggregates]
        return last, columns, need, one.place[index]


def _added(function: str, kind: Kind | None, words: Words, row: int) -> Words:
    """What every tuple adds to an aggregate; of one that does not add up, nothing."""
    if function == "COUNT" and row < 0:
        return np.ones(words.shape[1], np.int64)
    if function == "SUM":
        return np.asarray(words[row])
    if function == "COUNT":
        is_null = words[row] == (NULL_FLOAT if kind is Kind.FLOAT else NULL_WORD)
        return np.where(is_null, 0, 1)
    return np.full(words.shape[1], NULL_WORD)


@singledispatch
def _shadow_of(operator: Operator) -> _Passing | _Joining | _Adding:
    """What an operator makes of rows in the order of arrival; one that is not registered has no place in a graph."""
    raise AssertionError(f"nobody has said what {type(operator).__name__} would make if nothing were late")


@_shadow_of.register
def _(operator: UnionOperator) -> _Passing:
    return _Passing(operator.spec.rows_of_columns())


@_shadow_of.register
def _(operator: AggregateOperator) -> _Adding:
    return _Adding(operator.spec)


@_shadow_of.register
def _(operator: JoinOperator) -> _Passing | _Joining:
    one_stream = operator.spec.streams == 1
    return _Passing([row for _, row in operator.spec.emit]) if one_stream else _Joining(operator)


def _raw_under(vertices: Sequence[Vertex], number: int) -> tuple[int, ...]:
    """The raw streams that a node reads, itself or through nodes below."""
    found: set[int] = set()
    for one in vertices[number].inputs:
        found |= set(_raw_under(vertices, node_of(one))) if reads_node(one) else {one}
    return tuple(sorted(found))
