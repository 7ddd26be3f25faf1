"""The results that may still be asked for.

Invariant: of all results before the watermark, which are final, only those of the freshest event time are kept; of the
others all, and those stand at the watermark. So what is kept is the results of two event times, however long the query
runs and however seldom it is asked. What is let go without having been given is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import Emission
from slackwater.core.time import BEFORE_ALL

Rows = TypeVar("Rows")


class Fresh(Generic[Rows]):
    """Results of a running query; `take` picks lines of a piece of them.

    >>> fresh = Fresh(lambda rows, index: rows[index])
    >>> fresh.add(np.array([1, 2, 2, 3]), np.array([10, 20, 21, 30]))
    >>> fresh.settle(3)
    >>> fresh.time, [rows.tolist() for rows in fresh.rows()], fresh.passed_over
    (2, [[20, 21]], 1)
    """

    def __init__(self, take: Callable[[Rows, Words], Rows]) -> None:
        self._take = take
        self._open: list[tuple[Words, Rows]] = []
        self._final: list[Rows] = []
        self._count = 0
        self._given = False
        self.time = BEFORE_ALL
        """The event time of the freshest final results."""
        self.passed_over = 0
        """Result rows that fresher ones replaced before anybody asked for them."""

    def add(self, ts: Words, rows: Rows) -> None:
        """Results with their event times."""
        if len(ts):
            self._open.append((ts, rows))

    def settle(self, watermark: int) -> None:
        """No result before the watermark can come any more."""
        freshest = max((int(ts[ts < watermark].max(initial=BEFORE_ALL)) for ts, _ in self._open), default=BEFORE_ALL)
        if freshest == BEFORE_ALL:
            return
        if not self._given:
            self.passed_over += self._count
        waiting, self._final, self._count = self._open, [], 0
        self._open, self._given, self.time = [], False, freshest
        for ts, rows in waiting:
            mine, later = np.flatnonzero(ts == freshest), np.flatnonzero(ts >= watermark)
            self.passed_over += len(ts) - len(mine) - len(later)
            self._count += len(mine)
            if len(mine):
                self._final.append(self._take(rows, mine))
            if len(later):
                self._open.append((ts[later], self._take(rows, later)))

    def rows(self) -> list[Rows]:
        """The freshest final results."""
        return self._final

    def give(self) -> None:
        """They are handed out."""
        self._given = True


def lines_of(emission: Emission, index: Words) -> Emission:
    """Some results of an emission."""
    columns = tuple(column[index] for column in emission.columns)
    multiplicity = None if emission.multiplicity is None else emission.multiplicity[index]
    return Emission(emission.ts[index], columns, emission.clock[index], multiplicity, emission.late, emission.flushed)
