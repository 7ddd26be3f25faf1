"""Results by the least slack that finds them, counted on a grid of slacks.

Invariant: a result with least slack k is lost at every K < k. A grid rises, and begins with 0; at its points counts are
exact, and between two points recall lies between theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import inner
from slackwater.core.time import MILLISECOND

HOURS = 24
STEPS_PER_OCTAVE = 48
"""Points of a grid are about 1.5 % apart."""


def grid_of(most: int, fine: bool, further: Iterable[int] = ()) -> Words:
    """Slacks from 0 to one with which nothing is lost, and some further ones.

    Where event times are whole milliseconds so are slacks, unless they are `fine`.

    >>> grid_of(4001, fine=False).tolist()
    [0, 1000, 2000, 3000, 4000, 5000]
    """
    unit = 1 if fine else MILLISECOND
    count = -(-most // unit)
    octaves = np.log2(max(count, 2))
    steps = np.rint(2.0 ** np.linspace(0, octaves, int(octaves * STEPS_PER_OCTAVE) + 2)).astype(np.int64)
    points = np.concatenate([[0, 1, count], steps[steps <= count]]) * unit
    return np.unique(np.concatenate([points, np.fromiter(further, np.int64)]))


@dataclass(frozen=True)
class Tally:
    """What is lost at every slack of a grid."""

    grid: Words
    by_stream: Words
    """Shape (streams, points + 1): results by the last of their members to be released, and by how many points of the
    grid lose them."""
    by_hour: Words
    """The same by the hour of day of the result."""
    true_by_hour: Words
    made: Words
    """Per arrival, how many true results have it as their newest member."""

    @staticmethod
    def of(grid: Words, streams: int, arrivals: int) -> Tally:
        """Nothing counted yet."""
        points = len(grid) + 1
        return Tally(
            grid,
            np.zeros((streams, points), np.int64),
            np.zeros((HOURS, points), np.int64),
            np.zeros(HOURS, np.int64),
            np.zeros(arrivals, np.int64),
        )

    @property
    def true(self) -> int:
        """All true results."""
        return int(self.true_by_hour.sum())

    def note(self, least: Words, stream: Words, hour: Words) -> None:
        """Results that are lost with less than these slacks."""
        some = np.flatnonzero(least > 0)
        points = np.searchsorted(self.grid, least[some], "left")
        width = len(self.grid) + 1
        for into, by in ((self.by_stream, stream[some]), (self.by_hour, hour[some])):
            into += np.bincount(by * width + points, minlength=into.size).reshape(into.shape)


def lost_at(counted: Words) -> Words:
    """Counts by how many points of the grid lose them, as what is lost at each point.

    >>> lost_at(np.array([5, 2, 1])).tolist()
    [3, 1]
    """
    behind = np.cumsum(counted[..., ::-1], axis=-1)[..., ::-1]
    return behind[..., 1:]


@inner
def points_below(grid: Words, least: int) -> int:
    """How many points of a grid lose a result."""
    low, high = 0, len(grid)
    while low < high:
        middle = (low + high) >> 1
        if grid[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


def numbered(columns: Sequence[Words], count: int) -> Words:
    """One number a tuple, from 0 on unless there is just one column, whose values are used.

    >>> numbered([np.array([5, 5, 7]), np.array([1, 2, 1])], 3).tolist()
    [0, 1, 2]
    """
    if len(columns) == 1:
        return columns[0]
    found = np.zeros(count, np.int64)
    for column in columns:
        distinct, number = np.unique(column, return_inverse=True)
        found = np.unique(found * len(distinct) + number, return_inverse=True)[1]
    return found
