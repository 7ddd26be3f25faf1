"""How a W-join goes about windows that differ from pair to pair: it filters by wider ones, and refines what is left.

*Global* (gca): the largest window of all serves every stream. *Local* (lca): each stream has the largest window of its
own pairs. Both let combinations through that some pair does not allow, so a whole combination is asked for every pair.
*Pairwise*: where the windows form a tree, as those of a path do, a step goes from a stream to one beside it, and the
period is that of this one window; what comes through needs no refining. A path both ways is the union of two such
joins, and what both have found is given by the first.

Windows are those that were stated; a pair without one has what follows from the others by the shortest way. What is
stated is left as wide as it is even where the others would narrow it, for that is what the report compares.

Invariant: no combination that keeps the windows is filtered out.

References: 002 §5.1 (GCA, LCA), §5.2 (missing windows), §5.2.1 (paths).
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.errors import UsageError
from slackwater.core.time import Bounds
from slackwater.core.window_graph import Matrix, WindowGraph

LCA, GCA, PAIRWISE = "lca", "gca", "pairwise"
APPROACHES = (LCA, GCA, PAIRWISE)
ALL = -1
"""In place of a stream: the period is that of all tuples bound so far."""


@dataclass(frozen=True)
class Period:
    """Where a step looks for partners: so much before and after a tuple that is bound, or all of them."""

    earlier: int
    later: int
    beside: int = ALL


@dataclass(frozen=True)
class Filter:
    """By which windows partners are looked for, and which pairs a whole combination is asked for."""

    earlier: tuple[int, ...]
    """Per stream, how much older than the others its tuples may be: how long they are kept."""
    later: tuple[int, ...]
    """Per stream, how much newer than the others its tuples may be."""
    refined: tuple[Matrix, ...] = ()
    """The windows of every alternative, for whole combinations; none where there is nothing to refine."""
    legs: tuple[frozenset[tuple[int, int]], ...] = ()
    """Pairwise: the pairs along which each alternative is joined."""

    @property
    def ways(self) -> int:
        """How many joins there are whose results are put together."""
        return max(1, len(self.legs))

    def next_stream(self, way: int, waiting: list[int], bound: list[int]) -> int:
        """The stream to bind next: the first that waits, or pairwise the first that has a window to a bound one."""
        if not self.legs:
            return waiting[0]
        return next(s for s in waiting if self._beside(way, s, bound) is not None)

    def period(self, way: int, stream: int, bound: list[int]) -> Period:
        """Where tuples of a stream are looked for."""
        beside = self._beside(way, stream, bound) if self.legs else None
        if beside is None:
            return Period(self.earlier[stream], self.later[stream])
        most = self.refined[way]
        return Period(most[beside][stream], most[stream][beside], beside)

    def _beside(self, way: int, stream: int, bound: list[int]) -> int | None:
        return next((s for s in bound if (min(s, stream), max(s, stream)) in self.legs[way]), None)


def filter_of(graph: WindowGraph, approach: str) -> Filter:
    """How an approach filters by the windows of a graph, and what it refines.

    >>> from slackwater.core.time import within
    >>> pairs = WindowGraph(3, ((*within(0, 1, 5), *within(1, 2, 2), *within(0, 2, 3)),))
    >>> filter_of(pairs, LCA).earlier, filter_of(pairs, GCA).earlier
    ((5, 5, 3), (5, 5, 5))
    """
    every = range(graph.streams)
    stated = [_stated(graph.streams, *both) for both in zip(graph.alternatives, graph.closed, strict=True)]
    widest = [[max(one[i][j] for one in stated) for j in every] for i in every]
    earlier = tuple(max(widest[i][j] for i in every) for j in every)
    later = tuple(max(widest[j]) for j in every)
    common = (max(earlier),) * graph.streams
    if approach == PAIRWISE:
        return Filter(earlier, later, graph.closed, tuple(_tree(graph.streams, one) for one in graph.alternatives))
    if all(one[i][j] == common[0] for one in stated for i in every for j in every if i != j):
        return Filter(common, common)
    return Filter(earlier, later, graph.closed) if approach == LCA else Filter(common, common, graph.closed)


def _stated(streams: int, bounds: Bounds, closed: Matrix) -> Matrix:
    """What was stated of each pair, or what follows where nothing was."""
    most: dict[tuple[int, int], int] = {}
    for bound in bounds:
        pair = bound.newer, bound.older
        most[pair] = min(bound.most, most.get(pair, bound.most))
    return tuple(tuple(most.get((i, j), closed[i][j]) for j in range(streams)) for i in range(streams))


def _tree(streams: int, bounds: Bounds) -> frozenset[tuple[int, int]]:
    legs = frozenset((min(b.newer, b.older), max(b.newer, b.older)) for b in bounds)
    if len(legs) != streams - 1:
        raise UsageError(
            f"option windows = '{PAIRWISE}' needs windows that lead from stream to stream in one way only, as PATH"
            f" does; '{LCA}' and '{GCA}' do without"
        )
    return legs
