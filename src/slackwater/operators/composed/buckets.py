"""Rows by buckets of event time, and the recall of whole periods of them.

Invariant: a period is measured once, when all of it is settled. Periods are whole buckets; the first begins with the
first row. One without rows is not measured, and one that the ring has already lost sight of is neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring as rings
from slackwater.core.collections.ring import NEVER
from slackwater.core.jit import in_place, inner


class Buckets(NamedTuple):
    """A ring of buckets of equal width."""

    number: Words
    """Which bucket stands in each place of the ring."""
    made: Floats
    lost: Floats
    width: int


@inner
def turn_to(ring: Buckets, ts: int) -> int:
    """The place of the bucket that an event time belongs to, emptied if an older one stood there; -1 if too old."""
    return rings.turn_to(empty, ring.number, ring, ts // ring.width)


@inner
def empty(ring: Buckets, at: int) -> None:
    """Another bucket begins at this place."""
    ring.made[at], ring.lost[at] = 0.0, 0.0


@in_place
def note_true(ring: Buckets, ts: Words) -> None:
    """Write true rows down; each is lost until it turns out to have been made."""
    for i in range(len(ts)):
        at = turn_to(ring, ts[i])
        if at >= 0:
            ring.lost[at] += 1.0


@in_place
def note_made(ring: Buckets, ts: Words) -> None:
    """Write rows down that were made."""
    for i in range(len(ts)):
        at = turn_to(ring, ts[i])
        if at >= 0:
            ring.made[at] += 1.0
            ring.lost[at] -= 1.0


class RowMeter:
    """Counts the periods that meet a target.

    >>> ring = Buckets(np.arange(8), np.array([9.0, 9, 9, 5, 9, 9, 0, 0]), np.array([1.0, 1, 1, 5, 1, 1, 0, 0]), 10)
    >>> meter = RowMeter(0.8, 20, ring)
    >>> meter.begin(0)
    >>> meter.measure(settled=65)
    >>> meter.periods, meter.met, meter.latest
    (5, 3, (18.0, 2.0))
    """

    def __init__(self, target: float, over: int, ring: Buckets) -> None:
        self._target, self._ring = target, ring
        self._length = max(1, round(over / ring.width))
        self._next = NEVER
        """The bucket before which the next period ends."""
        self.periods, self.met = 0, 0
        self.latest = (0.0, 0.0)
        """Results made and lost in the latest period that was measured."""

    def begin(self, first: int) -> None:
        """The first tuple has this event time; later calls change nothing."""
        if self._next == NEVER:
            self._next = first // self._ring.width + self._length

    def measure(self, settled: int) -> None:
        """Measure all periods that end up to this event time."""
        last = settled // self._ring.width
        if self._next == NEVER or last < self._next:
            return
        known = self._ring.number[self._ring.number != NEVER]
        if len(known):
            # Buckets wholly before or after what the ledger has hold nothing; there may be years of them.
            oldest = max(int(known.min()), self._next - self._length)
            ends = np.arange(max(self._next, oldest + 1), min(last, int(known.max()) + self._length) + 1)
            made, lost = (self._sums(part, oldest, ends) for part in (self._ring.made, self._ring.lost))
            self._note(made, lost)
        self._next = last + 1

    def _sums(self, part: Floats, oldest: int, ends: Words) -> Floats:
        """What stands in the ledger for the periods before these buckets."""
        if not len(ends):
            return np.zeros(0)
        numbers = np.arange(oldest, int(ends[-1]))
        place = numbers % len(self._ring.number)
        there = np.where(self._ring.number[place] == numbers, part[place], 0.0)
        running = np.concatenate((np.zeros(1), np.cumsum(there)))
        return np.asarray(running[ends - oldest] - running[np.maximum(0, ends - self._length - oldest)])

    def _note(self, made: Floats, lost: Floats) -> None:
        filled = np.flatnonzero(made + lost > 0)
        if not len(filled):
            return
        recall = made[filled] / (made[filled] + lost[filled])
        self.periods += len(filled)
        self.met += int(np.count_nonzero(recall >= self._target))
        self.latest = float(made[filled[-1]]), float(lost[filled[-1]])

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        return {"meter": np.array([self._next, self.periods, self.met]), "latest": np.array(self.latest)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self._next, self.periods, self.met = arrays["meter"].tolist()
        made, lost = arrays["latest"].tolist()
        self.latest = made, lost
