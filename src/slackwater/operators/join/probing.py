"""The plan of a join in compiled form: for every arriving stream, in which order and by which access the others are
probed.

Equalities are closed into classes (a.k = b.k and b.k = c.k put a, b, c into one class), so any member can be reached
from any other. A step reaches one stream: by a hash index where a class links it to a stream bound before it, else by
scanning its window. Further classes become checks, and every residual condition is evaluated at the first step that
binds its last stream.

When results are only counted, a stream that nothing else depends on is a leaf: its step is a factor, the number of
its tuples in the window under one key, and is never enumerated. All streams but the arriving one are leaves when one
class joins them all; so D_syn x3 counts 27 billion results by products. Where windows are stated between pairs of
streams, two leaves may not be bound to each other more closely than they are by the arriving tuple already.

Invariant: every class and every condition is applied exactly once on the way to a result.

References: 003 Alg. 2 line 7; Viglas, Naughton, Burger: MJoin, VLDB 2003.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.model.batch import Words
from slackwater.windows.graph import WindowGraph

# Columns of a step.
STREAM, INDEX, FROM_STREAM, FROM_ROW, CHECK_BEGIN, CHECK_END, COND_BEGIN, COND_END = range(8)
STEP_FIELDS = 8
SCAN = -1
ANY_KEY = -1
"""The row of an index whose single key is shared by all tuples of its stream."""


@dataclass(frozen=True)
class Equality:
    """Word row `left_row` of stream `left` equals `right_row` of `right`."""

    left: int
    left_row: int
    right: int
    right_row: int


@dataclass(frozen=True)
class ProbePlan:
    """Steps per arriving stream; from `leaves[r]` on they are factors of a count."""

    steps: Words
    """Shape (streams, streams - 1, STEP_FIELDS)."""
    leaves: Words
    checks: Words
    """(row of the candidate, bound stream, its row) triples."""
    conditions: Words
    indexes: tuple[tuple[int, int], ...]
    """(stream, key row) of every hash index."""


def classes_of(equalities: tuple[Equality, ...]) -> list[set[tuple[int, int]]]:
    """Equalities closed under transitivity, as sets of (stream, row).

    >>> sorted(map(sorted, classes_of((Equality(0, 2, 1, 2), Equality(1, 2, 2, 3)))))
    [[(0, 2), (1, 2), (2, 3)]]
    """
    classes: list[set[tuple[int, int]]] = []
    for eq in equalities:
        merged = {(eq.left, eq.left_row), (eq.right, eq.right_row)}
        apart = []
        for known in classes:
            if known & merged:
                merged |= known
            else:
                apart.append(known)
        classes = [*apart, merged]
    return classes


def plan_probes(
    streams: int,
    equalities: tuple[Equality, ...],
    conditions: tuple[frozenset[int], ...],
    counted: bool,
    graph: WindowGraph | None = None,
    in_order: bool = True,
) -> ProbePlan:
    """Choose steps for every arriving stream; `conditions` names the streams that each residual condition reads.

    `graph` has bounds that are not one window per stream. `in_order`: the arriving tuple is the newest of its results.
    """
    planner = _Planner(streams, classes_of(equalities), conditions, counted, graph, in_order)
    steps = np.zeros((streams, max(0, streams - 1), STEP_FIELDS), np.int64)
    leaves = np.zeros(streams, np.int64)
    for root in range(streams):
        lines, leaves[root] = planner.steps_from(root)
        if lines:
            steps[root] = lines
    return ProbePlan(
        steps,
        leaves,
        np.array(planner.checks, np.int64).reshape(-1, 3),
        np.array(planner.order, np.int64),
        tuple(planner.indexes),
    )


class _Planner:
    def __init__(
        self,
        streams: int,
        classes: list[set[tuple[int, int]]],
        conditions: tuple[frozenset[int], ...],
        counted: bool,
        graph: WindowGraph | None,
        in_order: bool,
    ) -> None:
        self.streams, self.classes, self.conditions, self.counted = streams, classes, conditions, counted
        self.graph, self.in_order = graph, in_order
        self.indexes: list[tuple[int, int]] = []
        self.checks: list[tuple[int, int, int]] = []
        self.order: list[int] = []

    def steps_from(self, root: int) -> tuple[list[list[int]], int]:
        """The steps when a tuple of `root` arrives, and how many of them are enumerated."""
        leaves = self._leaves(root) if self.counted else []
        bound = [root]
        lines = []
        while len(bound) < self.streams - len(leaves):
            rest = [s for s in range(self.streams) if s not in bound and s not in leaves]
            stream = min(rest, key=lambda s: self._rank(s, bound))
            lines.append(self._step(stream, bound))
            bound.append(stream)
        enumerated = len(lines)
        for stream in leaves:
            lines.append(self._step(stream, bound, leaf=True))
        return lines, enumerated

    def _rank(self, stream: int, bound: list[int]) -> tuple[int, int, int, int]:
        """Streams that equalities reach come first, then those of conditions, then those with little time to be in."""
        most = None if self.graph is None else self.graph.widest
        period = 0 if most is None else min(most[b][stream] + most[stream][b] for b in bound)
        return -len(self._links(stream, bound)), -self._decided(stream, bound), period, stream

    def _leaves(self, root: int) -> list[int]:
        """Streams that no condition reads and that one class, or none, links to streams that are enumerated."""
        candidates = [
            s for s in range(self.streams) if s != root and self._depends_on_one(s) and self._is_free(s, root)
        ]
        for members in self.classes:
            joined = {s for s, _ in members}
            if joined <= set(candidates):
                candidates.remove(min(joined))
        return candidates

    def _depends_on_one(self, stream: int) -> bool:
        classes = [members for members in self.classes if any(s == stream for s, _ in members)]
        # A factor asks for one key. Where a stream has two rows in the class, a second question may be left.
        one_row_each = all(len({s for s, _ in members}) == len(members) for members in classes)
        return len(classes) <= 1 and one_row_each and not any(stream in reads for reads in self.conditions)

    def _is_free(self, stream: int, root: int) -> bool:
        """Whether a tuple of a stream fits to the others as far as time goes, once it fits to the arriving one.

        With the arriving tuple at T the others lie in [T - most[root][s], T], so they cannot be further apart than
        that. Where any member may be the newest, only one window for all others lets a stream be counted by itself.
        """
        if self.graph is None:
            return True
        most, sizes = self.graph.widest, self.graph.windows
        others = [s for s in range(self.streams) if s not in (stream, root if self.in_order else stream)]
        known = most[root] if self.in_order else sizes
        return all(most[s][stream] >= known[stream] and most[stream][s] >= known[s] for s in others)

    def _links(self, stream: int, bound: list[int]) -> list[tuple[int, int, int]]:
        """(row of the stream, bound stream, its row) for every class that links them."""
        links = []
        for members in self.classes:
            own = sorted(row for s, row in members if s == stream)
            there = [(s, row) for b in bound for s, row in sorted(members) if s == b]
            if own and there:
                links += [(row, *there[0]) for row in own]
                # A stream that the class has bound agrees with itself in all its rows of the class; the first one of
                # the class was not asked.
                links += [(own[0], s, row) for s, row in there[1:] if s == there[0][0]]
        return links

    def _decided(self, stream: int, bound: list[int]) -> int:
        return sum(stream in reads and reads <= {*bound, stream} for reads in self.conditions)

    def _step(self, stream: int, bound: list[int], leaf: bool = False) -> list[int]:
        links = self._links(stream, bound)
        line = [stream, SCAN, 0, 0, len(self.checks), 0, len(self.order), 0]
        if links:
            row, line[FROM_STREAM], line[FROM_ROW] = links[0]
            line[INDEX] = self._index(stream, row)
            self.checks += links[1:]
        elif leaf:
            line[INDEX], line[FROM_ROW] = self._index(stream, ANY_KEY), ANY_KEY
        line[CHECK_END] = len(self.checks)
        self.order += [c for c, reads in enumerate(self.conditions) if stream in reads and reads <= {*bound, stream}]
        line[COND_END] = len(self.order)
        return line

    def _index(self, stream: int, row: int) -> int:
        if (stream, row) not in self.indexes:
            self.indexes.append((stream, row))
        return self.indexes.index((stream, row))
