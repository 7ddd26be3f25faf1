"""Delays of the interval at hand, and of the past, in which what is older counts less.

Invariant: `fresh` counts the delays since the last call of `fade`, bins as in `DelayHistogram`; in `faded` a delay
heard of t ago counts exp(-t / memory). Nothing is kept but the two histograms, however long they remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.compiled import in_place
from slackwater.model.batch import Floats, Words

FIRST_BINS = 64
MOST_BINS = 2**16


@in_place
def _count(counts: Words, stream: Words, delay: Words, granularity: int) -> None:
    last = counts.shape[1] - 1
    for i in range(len(stream)):
        late = delay[i]
        counts[stream[i], min((late - 1) // granularity + 1, last) if late > 0 else 0] += 1


class FadingDelays:
    """Delays of the streams of one query.

    >>> seen = FadingDelays(granularity=10, streams=1, memory=100)
    >>> seen.absorb(np.array([0, 0]), np.array([0, 11]))
    >>> seen.fresh.tolist()
    [[1, 0, 1]]
    >>> seen.fade(100)
    >>> seen.fade(100)
    >>> seen.faded[0, :3].round(2).tolist(), seen.fresh.tolist()
    ([0.37, 0.0, 0.37], [[0]])
    """

    def __init__(self, granularity: int, streams: int, memory: int) -> None:
        self._granularity, self._memory = granularity, memory
        self._counts: Words = np.zeros((streams, FIRST_BINS), np.int64)
        self._top = 0
        self.faded: Floats = np.zeros((streams, FIRST_BINS))
        self.largest = 0
        """The largest delay ever, in microseconds."""

    def absorb(self, stream: Words, delay: Words) -> None:
        """Take tuples with their delays."""
        largest = int(delay.max(initial=0))
        self.largest = max(self.largest, largest)
        self._top = max(self._top, min(-(-largest // self._granularity), MOST_BINS - 1))
        bins = self._counts.shape[1]
        if self._top >= bins:
            more = ((0, 0), (0, (1 << self._top.bit_length()) - bins))
            self._counts, self.faded = np.pad(self._counts, more), np.pad(self.faded, more)
        _count(self._counts, stream, delay, self._granularity)

    @property
    def fresh(self) -> Words:
        """A histogram a stream, up to the largest delay in any of them; a view."""
        return self._counts[:, : self._top + 1]

    def fade(self, time: int) -> None:
        """Some time has passed."""
        self.faded *= np.exp(-time / self._memory)
        self.faded[:, : self._top + 1] += self.fresh
        self.fresh[:] = 0
        self._top = 0

    def quantile(self, share: float) -> int:
        """The delay that this share of the tuples of every stream does not exceed, in microseconds."""
        upto = np.cumsum(self.faded, axis=1)
        beyond = upto < share * upto[:, -1:]
        return int(beyond.sum(axis=1).max()) * self._granularity

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, without the bins that were never reached."""
        reached = np.flatnonzero(self.faded.any(axis=0))
        return {
            "fresh": self.fresh.copy(),
            "faded": self.faded[:, : int(reached[-1]) + 1 if len(reached) else 1].copy(),
            "largest": np.array([self.largest]),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        fresh, faded = arrays["fresh"], arrays["faded"]
        self.largest, self._top = int(arrays["largest"][0]), fresh.shape[1] - 1
        bins = max(FIRST_BINS, 1 << max(fresh.shape[1], faded.shape[1]).bit_length())
        self._counts, self.faded = (np.pad(a, ((0, 0), (0, bins - a.shape[1]))) for a in (fresh, faded))
