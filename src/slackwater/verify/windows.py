"""How far apart in time the members of a result may be, said a second time.

Invariant: no code of the engine is used. `widest[i][j]` bounds `ts_i - ts_j` in every result: no way from i to j
through other streams allows less, in the most generous alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.core.errors import UsageError
from slackwater.language.bound import JoinQuery

Matrix = list[list[int]]


@dataclass(frozen=True)
class Windows:
    """The bounds of every alternative, and the largest of each."""

    alternatives: tuple[Matrix, ...]
    widest: Matrix

    @classmethod
    def of(cls, query: JoinQuery) -> Windows:
        """The windows of a join."""
        streams = range(len(query.streams))
        found = tuple(_closed(stated) for stated in _stated(query))
        return cls(found, [[max(one[i][j] for one in found) for j in streams] for i in streams])

    @property
    def undecided(self) -> bool:
        """Whether a combination that keeps the widest bounds may still keep no alternative."""
        return len(self.alternatives) > 1

    @property
    def of_streams(self) -> list[int] | None:
        """One window per stream, where that is all there is to say."""
        streams = range(len(self.widest))
        most = [max(self.widest[i][j] for i in streams) for j in streams]
        plain = all(self.widest[i][j] == most[j] for i in streams for j in streams if i != j)
        return most if plain and not self.undecided else None

    def one_of(self, streams: Sequence[int]) -> str:
        """In SQL: the event times of these streams keep all bounds of one alternative."""
        kept = []
        for one in self.alternatives:
            bounds = [f"ts_{i} - ts_{j} <= {one[i][j]}" for i in streams for j in streams if i != j]
            kept.append(f"({' AND '.join(bounds) or 'true'})")
        return f"({' OR '.join(kept)})"


def _stated(query: JoinQuery) -> list[Matrix]:
    """What the query says, per alternative."""
    streams = range(len(query.streams))
    unsaid = 1 << 60
    if not query.bounds:
        for stream in query.streams:
            if stream.range is None and len(streams) > 1:
                raise UsageError(f"stream {stream.alias} of a join has no window")
        return [[[query.streams[j].range or 0 if i != j else 0 for j in streams] for i in streams]]
    found = []
    for bounds in query.bounds:
        most = [[0 if i == j else unsaid for j in streams] for i in streams]
        for bound in bounds:
            most[bound.newer][bound.older] = min(most[bound.newer][bound.older], bound.most)
        found.append(most)
    return found


def _closed(most: Matrix) -> Matrix:
    """Ways through one other stream are tried until none is shorter."""
    streams = range(len(most))
    while True:
        better = [[min(most[i][k] + most[k][j] for k in streams) for j in streams] for i in streams]
        if better == most:
            return most
        most = better
