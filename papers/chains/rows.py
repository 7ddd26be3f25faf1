"""Tuples by their numbers in arrival order, and the rows in which they wait: a heap by event time each.

Invariant: tuples of one event time leave a row in arrival order. A row's number says what it is for (`wiring.py`), its
place where it lies: two rows exchange their contents by exchanging their places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections import heap
from slackwater.core.collections.heap import Heap
from slackwater.core.jit import inner


class Tuples(NamedTuple):
    """Every arrival."""

    ts: Words
    passes: Words
    """A bit for every filter whose condition is true for it."""
    had: Words
    """A bit for every operator that has had it, or to which it is committed."""
    counter: Words
    """How many adaptations had been made when it arrived (n_ac)."""


class BufferRows(NamedTuple):
    """All buffers of a subplan."""

    ts: Words
    position: Words
    sizes: Words
    """By place, as the two above."""
    place: Words
    reach: Words
    """By row, as the one above: the slack that a tuple has had once it leaves the row."""
    scalars: Words
    """The source's clock, and how many adaptations have been made."""

    @staticmethod
    def empty(rows: int, capacity: int) -> BufferRows:
        """So many rows with nothing in them."""
        ts, position = np.zeros((2, rows, capacity), np.int64)
        sizes, reach = np.zeros((2, rows), np.int64)
        return BufferRows(ts, position, sizes, np.arange(rows, dtype=np.int64), reach, np.zeros(2, np.int64))

    def with_capacity(self, capacity: int) -> BufferRows:
        """These rows, where they are long enough, or longer ones."""
        rows, now = self.ts.shape
        if capacity <= now:
            return self
        more = np.zeros((rows, 2 * capacity - now), np.int64)
        return self._replace(ts=np.hstack((self.ts, more)), position=np.hstack((self.position, more)))

    def contents(self, row: int) -> Words:
        """The tuples of a row, in no order."""
        place = self.place[row]
        return self.position[place, : self.sizes[place]]


@inner
def hold(rows: BufferRows, row: int, ts: int, i: int) -> None:
    """Put a tuple into a row."""
    place = rows.place[row]
    heap.push(Heap(rows.ts[place], rows.position[place], rows.position[place]), rows.sizes[place], ts, i, i)
    rows.sizes[place] += 1
