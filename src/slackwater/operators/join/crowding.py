"""How many tuples of a stream can have stood together in a window: the most that one tuple can have been joined with.

Invariant: a stream never had more tuples near one event time than are counted here, of all tuples noted so far. So the
product over the other streams bounds the results of any one tuple, also of one that came after all its partners were
forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.compiled import in_place
from slackwater.model.batch import Words
from slackwater.operators.join.ledger import NEVER

MOST_STRETCHES = 1024


class Crowd(NamedTuple):
    """Tuples by stream and stretch of event time, in a ring of stretches.

    A stretch is at least as long as partners can lie apart, so all possible partners of a tuple lie in two of them.
    """

    number: Words
    counts: Words
    """(streams, stretches)."""
    largest: Words
    """Per stream, the most tuples that a stretch has had."""
    beyond: Words
    """Per stream, tuples of stretches that were no longer there."""
    width: int


@in_place
def note(crowd: Crowd, stream: Words, ts: Words) -> None:
    """Count tuples."""
    for i in range(len(ts)):
        s, number = stream[i], ts[i] // crowd.width
        at = number % len(crowd.number)
        if crowd.number[at] < number:
            crowd.number[at] = number
            for other in range(len(crowd.counts)):
                crowd.counts[other, at] = 0
        if crowd.number[at] == number:
            crowd.counts[s, at] += 1
            crowd.largest[s] = max(crowd.largest[s], crowd.counts[s, at])
        else:
            crowd.beyond[s] += 1


class Crowding:
    """The densest windows of every stream, told apart as far back as `memory` reaches.

    >>> crowding = Crowding(np.array([2, 2]), memory=60)
    >>> crowding.note(np.array([0, 0, 1, 0]), np.array([10, 12, 12, 40]))
    >>> crowding.most_results(0), crowding.most_results(1)
    (2.0, 4.0)
    """

    def __init__(self, windows: Words, memory: int) -> None:
        # With short windows the stretches are longer than they need be, and the bound is looser: state stays small.
        streams, width = len(windows), max(2 * int(windows.max()) + 1, memory // MOST_STRETCHES)
        stretches = memory // width + 2
        self._crowd = Crowd(
            np.full(stretches, NEVER, np.int64), np.zeros((streams, stretches), np.int64),
            np.zeros(streams, np.int64), np.zeros(streams, np.int64), width,
        )  # fmt: skip

    def note(self, stream: Words, ts: Words) -> None:
        """Tuples were processed."""
        note(self._crowd, stream, ts)

    def most_results(self, stream: int) -> float:
        """The most results that one tuple of a stream can be part of."""
        others = np.delete(2 * self._crowd.largest + self._crowd.beyond, stream)
        return float(np.prod(others.astype(np.float64)))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        crowd = self._crowd
        return {"number": crowd.number, "counts": crowd.counts, "largest": crowd.largest, "beyond": crowd.beyond}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        for name, array in self.as_arrays().items():
            array[:] = arrays[name]
