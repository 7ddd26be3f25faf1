"""The window graph of a join: how far apart the event times of every two streams may be, closed by shortest paths.

Invariant: `closed[i][j]` is the least bound on `ts_i - ts_j` that follows from what was stated; so a combination keeps
all that was stated iff it keeps all of `closed`, and no bound of `closed` can be lowered. A graph may have several
alternatives, as a path that may be walked in either direction has; then a combination keeps at least one of them.

A bound between i and j also holds for tuples that meet the bounds along any way from i to j, added up; this is why the
shortest way counts. One window per stream, `W_j`, is the graph in which every `closed[i][j]` is `W_j`: the plain form.

References: 002 §1 (Forms 1 to 3), §5.2 (missing windows), §5.2.1 (paths).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.core.time import Bounds, window_of

Matrix = tuple[tuple[int, ...], ...]
"""[i][j]: stream i may be so much newer than stream j."""
UNBOUNDED = 1 << 62


def close(streams: int, bounds: Bounds) -> Matrix:
    """The least bounds that follow; UNBOUNDED where none does (Floyd, Warshall).

    >>> from slackwater.core.time import before, within
    >>> close(3, (*within(0, 1, 5), *within(1, 2, 3)))
    ((0, 5, 8), (5, 0, 3), (8, 3, 0))
    >>> close(3, (*before(0, 1, 5), *before(1, 2, 3)))
    ((0, 0, 0), (5, 0, 0), (8, 3, 0))
    """
    most = [[0 if i == j else UNBOUNDED for j in range(streams)] for i in range(streams)]
    for bound in bounds:
        most[bound.newer][bound.older] = min(most[bound.newer][bound.older], bound.most)
    for by in range(streams):
        for i in range(streams):
            for j in range(streams):
                most[i][j] = min(most[i][j], most[i][by] + most[by][j])
    return tuple(tuple(line) for line in most)


@dataclass(frozen=True)
class WindowGraph:
    """Bounds as they were stated, one set per alternative; what follows from them is worked out when asked for.

    >>> from slackwater.core.time import before
    >>> path = WindowGraph(3, ((*before(0, 1, 5), *before(1, 2, 3)),))
    >>> path.windows, path.plain
    ((8, 3, 0), False)
    >>> path.keeps((10, 14, 17)), path.keeps((10, 16, 17))
    (True, False)
    """

    streams: int
    alternatives: tuple[Bounds, ...]

    @classmethod
    def of_windows(cls, windows: tuple[int, ...]) -> WindowGraph:
        """The graph of one window per stream.

        >>> WindowGraph.of_windows((5, 2)).widest
        ((0, 2), (5, 0))
        """
        streams = len(windows)
        bounds = (bound for s, size in enumerate(windows) for bound in window_of(s, size, streams))
        return cls(streams, (tuple(bounds),))

    @cached_property
    def closed(self) -> tuple[Matrix, ...]:
        """Every alternative closed."""
        return tuple(close(self.streams, bounds) for bounds in self.alternatives)

    @cached_property
    def widest(self) -> Matrix:
        """What every alternative keeps: the bounds by which partners are looked for."""
        every = range(self.streams)
        return tuple(tuple(max(one[i][j] for one in self.closed) for j in every) for i in every)

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Per stream, how much newer than one of its tuples a partner may be: how long the tuple is needed."""
        return tuple(max(line[j] for line in self.widest) for j in range(self.streams))

    @cached_property
    def plain(self) -> bool:
        """Whether one window per stream says all there is to say."""
        every = range(self.streams)
        equal = all(self.widest[i][j] == self.windows[j] for i in every for j in every if i != j)
        return equal and not self.undecided

    @cached_property
    def undecided(self) -> bool:
        """Whether what every alternative keeps may keep none of them: then the whole combination must be asked."""
        return self.widest not in self.closed

    @cached_property
    def apart(self) -> tuple[int, int] | None:
        """Two streams, newer and older, that nothing keeps near each other; None in a graph that can be joined.

        >>> from slackwater.core.time import within
        >>> WindowGraph(3, (within(0, 1, 5),)).apart
        (0, 2)
        """
        for i, line in enumerate(self.widest):
            for j, most in enumerate(line):
                if most >= UNBOUNDED:
                    return i, j
        return None

    def keeps(self, times: tuple[int, ...]) -> bool:
        """Whether tuples of these event times, one of each stream, may be joined."""
        every = range(self.streams)
        return any(all(times[i] - times[j] <= one[i][j] for i in every for j in every) for one in self.closed)
