"""How many tuples of a stream can have stood together in a window: the most that one tuple can have been joined with.

Invariant: `most(j)` is no less than the number of tuples of stream j in any stretch of event time as long as a tuple's
partners can lie apart, of all tuples noted so far. So the product over the other streams bounds the results of any one
tuple, also of one that came after all its partners were forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.compiled import in_place
from slackwater.model.batch import Words
from slackwater.operators.join.ledger import NEVER


class Crowd(NamedTuple):
    """Tuples by stretch of event time and stream: a ring, as in the books."""

    number: Words
    counts: Words
    """(streams, stretches)."""
    beyond: Words
    """Per stream, tuples of stretches that were no longer there."""
    width: int


@in_place
def note(crowd: Crowd, stream: Words, ts: Words) -> None:
    """Count tuples."""
    for i in range(len(ts)):
        number = ts[i] // crowd.width
        at = number % len(crowd.number)
        if crowd.number[at] < number:
            crowd.number[at] = number
            for s in range(len(crowd.counts)):
                crowd.counts[s, at] = 0
        if crowd.number[at] == number:
            crowd.counts[stream[i], at] += 1
        else:
            crowd.beyond[stream[i]] += 1


class Crowding:
    """The densest windows of every stream.

    >>> crowding = Crowding(np.array([2, 2]), width=1, stretches=64)
    >>> crowding.note(np.array([0, 0, 1, 0]), np.array([10, 12, 12, 40]))
    >>> crowding.most_results(0), crowding.most_results(1)
    (1.0, 2.0)
    """

    def __init__(self, windows: Words, width: int, stretches: int) -> None:
        streams = len(windows)
        self._crowd = Crowd(
            np.full(stretches, NEVER, np.int64), np.zeros((streams, stretches), np.int64),
            np.zeros(streams, np.int64), width,
        )  # fmt: skip
        # A window may begin and end within a stretch.
        self._lengths = (windows + windows.max()) // width + 2
        self._densest = np.zeros(streams, np.int64)

    def note(self, stream: Words, ts: Words) -> None:
        """Tuples were processed."""
        note(self._crowd, stream, ts)
        known = np.flatnonzero(self._crowd.number != NEVER)
        order = known[np.argsort(self._crowd.number[known])]
        number = self._crowd.number[order]
        for s, length in enumerate(self._lengths.tolist()):
            running = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._crowd.counts[s, order])))
            together = running[np.searchsorted(number, number + length)] - running[:-1]
            self._densest[s] = max(int(self._densest[s]), int(together.max(initial=0)))

    def most_results(self, stream: int) -> float:
        """The most results that one tuple of a stream can be part of."""
        others = np.delete(self._densest + self._crowd.beyond, stream)
        return float(np.prod(others.astype(np.float64)))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        crowd = self._crowd
        return {"number": crowd.number, "counts": crowd.counts, "beyond": crowd.beyond, "densest": self._densest}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        for name, array in self.as_arrays().items():
            array[:] = arrays[name]
