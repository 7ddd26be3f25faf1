"""Recall over the last P of event time, measured on a regular grid.

Invariant: a measurement at t compares the true results with `t - P < T <= t` and those of them that were produced.
The grid is first + P, first + P + interval, ... up to the last event time; grid points whose period has no true
result are not measured, and are never even made, so a gap of years between two tuples costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Int64s = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class RecallPeriods:
    """Where recall is measured: from the first to the last event time of the input, over `period`, every `interval`."""

    first: int
    last: int
    period: int
    interval: int

    def recalls(self, times: Int64s, true: Int64s, produced: Int64s) -> tuple[tuple[int, float], ...]:
        """(t, recall) at each grid point; `times` rise, and `true` and `produced` count the results of each of them.

        >>> times, true, produced = np.array([1, 2, 9]), np.array([2, 2, 1]), np.array([2, 1, 1])
        >>> RecallPeriods(first=0, last=10, period=2, interval=1).recalls(times, true, produced)
        ((2, 0.75), (3, 0.5), (9, 1.0), (10, 1.0))
        """
        base, period, interval = self.first + self.period, self.period, self.interval
        if not len(times) or base > self.last:
            return ()
        grid = base + interval * _points(times - base, period, interval, (self.last - base) // interval)
        before, after = np.searchsorted(times, grid - period, "right"), np.searchsorted(times, grid, "right")
        all_true = _between(true, before, after)
        hit = _between(produced, before, after)
        return tuple(zip(grid.tolist(), (hit / all_true).tolist(), strict=True))

    def recalls_of(self, connection: Any, select: str) -> tuple[tuple[int, float], ...]:
        """The same of the rows of a SELECT: times, how many results are true, and how many of these were produced."""
        return self.recalls(*connection.execute(select).fetchnumpy().values())


def _points(offsets: Int64s, period: int, interval: int, most: int) -> Int64s:
    """The grid points k with some offset in (k * interval - period, k * interval], rising, each once."""
    lowest = np.maximum(-(-offsets // interval), 0)
    highest = np.minimum(-(-(offsets + period) // interval) - 1, most)
    lowest[1:] = np.maximum(lowest[1:], highest[:-1] + 1)
    lengths = np.maximum(highest - lowest + 1, 0)
    ends = np.cumsum(lengths)
    return np.repeat(lowest - (ends - lengths), lengths) + np.arange(ends[-1])


def _between(counts: Int64s, before: Int64s, after: Int64s) -> Int64s:
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
    return np.asarray(running[after] - running[before])
