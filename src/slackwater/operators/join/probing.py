"""The plan of a join in compiled form: for every arriving stream, in which order and by which access the others are
probed.

Equalities are closed into classes (a.k = b.k and b.k = c.k put a, b, c into one class), so any member can be reached
from any other. A step reaches one stream: by a hash index where a class links it to a stream bound before it; by the
cells of such an index where bands do (`bands.py`); else by scanning its window. Further classes become checks, and
every residual condition is evaluated at the first step that binds its last stream. A step is ready as soon as the
streams it asks about are bound, and is taken then: what has no partner in the last stream is not joined with all the
others first.

When results are only counted, a stream that nothing else depends on is a leaf: its step is a factor, the number of
its tuples in the window under one key, and is never enumerated. All streams but the arriving one are leaves when one
class joins them all; so D_syn x3 counts 27 billion results by products. Where windows are stated between pairs of
streams, two leaves may not be bound to each other more closely than they are by the arriving tuple already.

Invariant: every class and every condition is applied exactly once on the way to a result, whatever the route.

References: 003 Alg. 2 line 7; Viglas, Naughton, Burger: MJoin, VLDB 2003.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.window_graph import WindowGraph
from slackwater.operators.join.bands import Band, axes_between
from slackwater.operators.join.cells import ANY_KEY, AXES, AXIS_FIELDS, HashIndex, axis_of, probe_line

# Columns of a step. READY: how many enumerated steps must be bound before it. NEAR: where it says which cells to look
# into, of an index that has them.
STREAM, INDEX, FROM_STREAM, FROM_ROW, CHECK_BEGIN, CHECK_END, COND_BEGIN, COND_END, READY, NEAR = range(10)
STEP_FIELDS = 10
SCAN = -1
NOT_BY_CELLS = -1
PER_BAND = 2
"""How many cells make up the width of a band: more of them are looked into, and fewer tuples found beside the band."""


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
    indexes: tuple[HashIndex, ...]
    near: Words
    """Per step by cells, and per axis of its index, what to look for: fields as `cells.py` has them."""
    agenda: Words
    """Per arriving stream its steps, by when they are ready; of those that are ready together factors go first."""
    due: Words
    """Per arriving stream, where in the agenda the steps begin that are ready with 0, 1, ... streams bound."""
    unasked: Words
    """Per arriving stream, whether no step asks about the stream that is enumerated last: its tuples are as good as
    their number."""


class ProbeOrder(NamedTuple):
    """A way from an arriving tuple through the other streams: those that are enumerated, then the leaves."""

    streams: tuple[int, ...]
    by: tuple[int, ...] = ()
    """Per stream, the class whose hash index is used where several link it; none stated: the first one."""
    urgent: tuple[int, ...] = ()
    """Streams whose steps go first among those that are ready: where something is most often missing."""


def classes_of(equalities: tuple[Equality, ...]) -> list[set[tuple[int, int]]]:
    """Equalities closed under transitivity, as sets of (stream, row).

    >>> sorted(map(sorted, classes_of((Equality(0, 2, 1, 2), Equality(1, 2, 2, 3)))))
    [[(0, 2), (1, 2), (2, 3)]]
    """
    classes: list[set[tuple[int, int]]] = []
    for eq in equalities:
        merged = {(eq.left, eq.left_row), (eq.right, eq.right_row)}
        separate = []
        for known in classes:
            if known & merged:
                merged |= known
            else:
                separate.append(known)
        classes = [*separate, merged]
    return classes


def first_plan(linkage: Linkage) -> ProbePlan:
    """The steps of every arriving stream where nothing is known about what will be found."""
    return plan_probes(linkage, [linkage.probe_order(root) for root in range(linkage.streams)])


def plan_probes(linkage: Linkage, probe_orders: Sequence[ProbeOrder], indexes: Collection[HashIndex] = ()) -> ProbePlan:
    """The steps of given routes, one per arriving stream; `indexes` that are there already keep their numbers."""
    streams = linkage.streams
    compiling = _Compiling(linkage, indexes)
    steps = np.zeros((streams, max(0, streams - 1), STEP_FIELDS), np.int64)
    agenda = np.zeros((streams, max(0, streams - 1)), np.int64)
    due = np.zeros((streams, streams + 1), np.int64)
    leaves = np.zeros(streams, np.int64)
    for root, probe_order in enumerate(probe_orders):
        leaves[root] = streams - 1 - len(linkage.leaves(root))
        lines = compiling.steps_from(root, probe_order)
        if lines:
            steps[root] = lines
        urgent = {s: place for place, s in enumerate(probe_order.urgent)}
        agenda[root] = sorted(
            range(streams - 1),
            key=lambda d: (lines[d][READY], d < leaves[root], urgent.get(lines[d][STREAM], streams), d),
        )
        due[root] = np.searchsorted(steps[root, agenda[root], READY], range(streams + 1))
    return ProbePlan(
        steps,
        leaves,
        np.array(compiling.checks, np.int64).reshape(-1, 3),
        np.array(compiling.order, np.int64),
        tuple(compiling.indexes),
        np.array(compiling.near, np.int64).reshape(-1, AXES, AXIS_FIELDS),
        agenda,
        due,
        np.array([np.all(steps[root, :, READY] < leaves[root]) for root in range(streams)], np.bool_),
    )


class Linkage:
    """What links the streams of a join to each other: classes of equal rows, conditions, bounds in time.

    `conditions` names the streams that each residual condition reads; `graph` has bounds that are not one window per
    stream. `in_order`: the arriving tuple is the newest of its results. `bands` are what some conditions say.
    """

    def __init__(
        self,
        streams: int,
        equalities: tuple[Equality, ...],
        conditions: tuple[frozenset[int], ...],
        count_only: bool,
        graph: WindowGraph | None = None,
        in_order: bool = True,
        bands: tuple[Band, ...] = (),
    ) -> None:
        self.streams, self.classes, self.conditions = streams, classes_of(equalities), conditions
        self.graph, self.in_order, self.bands = graph, in_order, bands
        self._joined = [frozenset(s for s, _ in members) for members in self.classes]
        self._leaves = [self._find_leaves(root) if count_only else [] for root in range(streams)]

    def leaves(self, root: int) -> list[int]:
        """Streams that no condition reads and that one class, or none, links to streams that are enumerated."""
        return self._leaves[root]

    def probe_order(self, root: int) -> ProbeOrder:
        """The way to go where nothing is known about what will be found."""
        bound, leaves = [root], self.leaves(root)
        while len(bound) < self.streams - len(leaves):
            rest = [s for s in range(self.streams) if s not in bound and s not in leaves]
            bound.append(min(rest, key=lambda s: self._rank(s, bound)))
        return ProbeOrder((*bound[1:], *leaves))

    def links(self, c: int, stream: int, bound: Sequence[int]) -> list[tuple[int, int, int]]:
        """(row of the stream, bound stream, its row) for all that class c asks of the stream."""
        members = self.classes[c]
        own = sorted(row for s, row in members if s == stream)
        there = [(s, row) for b in bound for s, row in sorted(members) if s == b]
        if not own or not there:
            return []
        links = [(row, *there[0]) for row in own]
        # A stream that the class has bound agrees with itself in all its rows of the class; the first one of the class
        # was not asked.
        return links + [(own[0], s, row) for s, row in there[1:] if s == there[0][0]]

    def linking(self, stream: int, bound: Sequence[int]) -> list[int]:
        """The classes that link a stream to those bound."""
        return [c for c, there in enumerate(self._joined) if stream in there and not there.isdisjoint(bound)]

    def newly_decidable(self, stream: int, bound: Sequence[int]) -> list[int]:
        """The conditions that can be asked once a stream is bound, and could not before."""
        return [c for c, reads in enumerate(self.conditions) if stream in reads and reads <= {*bound, stream}]

    def near(self, stream: int, bound: Sequence[int]) -> list[Band]:
        """The bands, seen from a stream, by which its cells are looked into: all that one of the streams bound has with
        it, of the one that has most."""
        found = [axes_between(stream, b, self.bands)[:AXES] for b in bound]
        return max(found, key=len)

    def ready(self, stream: int, bound: Sequence[int]) -> int:
        """How many streams must be bound, after the arriving one, before a step to this one can be taken."""
        if self.graph is not None and stream not in self.leaves(bound[0]):
            return len(bound) - 1
        # A class asks about the first stream of it that is bound, a condition about all of its streams.
        first = (min(bound.index(s) for s in self._joined[c] if s in bound) for c in self.linking(stream, bound))
        read = (bound.index(s) for c in self.newly_decidable(stream, bound) for s in self.conditions[c] if s != stream)
        return max((0, *first, *read))

    def time_left(self, stream: int, bound: Sequence[int]) -> float:
        """The share of a stream's window in which partners of the tuples bound may lie, on average."""
        if self.graph is None:
            return 1.0
        most, size = self.graph.widest, self.graph.windows[stream]
        left = min(most[bound[0]][stream], *(most[b][stream] + most[stream][b] for b in bound[1:]), size)
        return left / size if size else 1.0

    def _rank(self, stream: int, bound: list[int]) -> tuple[int, int, int, int, int]:
        """Streams that equalities reach come first, then those of bands, then those of other conditions, then those
        with little time to be in."""
        most = None if self.graph is None else self.graph.widest
        period = 0 if most is None else min(most[b][stream] + most[stream][b] for b in bound)
        links = sum(len(self.links(c, stream, bound)) for c in range(len(self.classes)))
        return -links, -len(self.near(stream, bound)), -len(self.newly_decidable(stream, bound)), period, stream

    def _find_leaves(self, root: int) -> list[int]:
        candidates = [
            s for s in range(self.streams) if s != root and self._depends_on_one(s) and self._is_free(s, root)
        ]
        for joined in self._joined:
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


class _Compiling:
    """The orders of probing on their way to steps."""

    def __init__(self, linkage: Linkage, indexes: Collection[HashIndex]) -> None:
        self.linkage = linkage
        self.indexes = list(indexes)
        self.checks: list[tuple[int, int, int]] = []
        self.near: list[Words] = []
        self.order: list[int] = []

    def steps_from(self, root: int, probe_order: ProbeOrder) -> list[list[int]]:
        """The steps when a tuple of `root` arrives; leaves, which come last, are bound to nothing."""
        leaves, bound, lines = self.linkage.leaves(root), [root], []
        for stream, by in zip(probe_order.streams, probe_order.by or (0,) * len(probe_order.streams), strict=True):
            lines.append(self._step(stream, bound, by, stream in leaves))
            if stream not in leaves:
                bound.append(stream)
        return lines

    def _step(self, stream: int, bound: list[int], by: int, leaf: bool) -> list[int]:
        linkage = self.linkage
        ranked = sorted(linkage.linking(stream, bound), key=lambda c: c != by)
        links = [link for c in ranked for link in linkage.links(c, stream, bound)]
        ready = linkage.ready(stream, bound)
        line = [stream, SCAN, 0, 0, len(self.checks), 0, len(self.order), 0, ready, NOT_BY_CELLS]
        near = linkage.near(stream, bound)
        if links:
            row, line[FROM_STREAM], line[FROM_ROW] = links[0]
            line[INDEX] = self._index(HashIndex(stream, row))
            self.checks += links[1:]
        elif leaf:
            line[INDEX], line[FROM_ROW] = self._index(HashIndex(stream, ANY_KEY)), ANY_KEY
        elif near:
            cells = tuple(axis_of(band, PER_BAND) for band in near)
            line[INDEX], line[FROM_ROW] = self._index(HashIndex(stream, ANY_KEY, cells)), ANY_KEY
            line[FROM_STREAM], line[NEAR] = near[0].right.stream, len(self.near)
            self.near.append(self._looked_into(near))
        line[CHECK_END] = len(self.checks)
        self.order += linkage.newly_decidable(stream, bound)
        line[COND_END] = len(self.order)
        return line

    def _looked_into(self, near: Sequence[Band]) -> Words:
        lines = np.zeros((AXES, AXIS_FIELDS), np.int64)
        for line, band in zip(lines, near, strict=False):
            line[:] = probe_line(band.right, band.low, band.high)
        return lines

    def _index(self, index: HashIndex) -> int:
        if index not in self.indexes:
            self.indexes.append(index)
        return self.indexes.index(index)
