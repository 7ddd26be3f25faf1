"""Delays that fade: a histogram per stream in which what is older counts less.

Invariant: a delay heard of t ago counts exp(-t / memory). Nothing is kept but the histogram, however long it remembers.
"""

from __future__ import annotations

import numpy as np

from slackwater.compiled import in_place
from slackwater.model.batch import Floats, Words

WHOLE = 64.0
"""What a fresh delay counts: models count in whole numbers."""
FIRST_BINS = 64
MOST_BINS = 2**16


@in_place
def _count(counts: Floats, stream: Words, delay: Words, granularity: int) -> None:
    last = counts.shape[1] - 1
    for i in range(len(stream)):
        counts[stream[i], min((delay[i] + granularity - 1) // granularity, last)] += WHOLE


class FadingDelays:
    """Delays of the streams of one query; bins as in `DelayHistogram`.

    >>> seen = FadingDelays(granularity=10, streams=1, memory=100)
    >>> seen.absorb(np.array([0, 0]), np.array([0, 11]))
    >>> seen.fade(100)
    >>> seen.histograms()[0].tolist()
    [24, 0, 24]
    """

    def __init__(self, granularity: int, streams: int, memory: int) -> None:
        self._granularity, self._memory = granularity, memory
        self._counts: Floats = np.zeros((streams, FIRST_BINS))

    def absorb(self, stream: Words, delay: Words) -> None:
        """Take tuples with their delays."""
        largest = min(int(delay.max(initial=0)) // self._granularity + 1, MOST_BINS)
        streams, bins = self._counts.shape
        if largest >= bins:
            wider = np.zeros((streams, 1 << largest.bit_length()))
            wider[:, :bins] = self._counts
            self._counts = wider
        _count(self._counts, stream, delay, self._granularity)

    def fade(self, time: int) -> None:
        """Some time has passed."""
        self._counts *= np.exp(-time / self._memory)

    def histograms(self) -> list[Words]:
        """What the models read: whole numbers, up to the largest delay that still counts."""
        whole = np.rint(self._counts).astype(np.int64)
        top = np.flatnonzero(whole.any(axis=0))
        return list(whole[:, : int(top[-1]) + 1 if len(top) else 1])

    def as_array(self) -> Floats:
        """All state, without the bins that were never reached."""
        reached = np.flatnonzero(self._counts.any(axis=0))
        return self._counts[:, : int(reached[-1]) + 1 if len(reached) else 1].copy()

    def restore(self, counts: Floats) -> None:
        """Take over what `as_array` gave."""
        streams, bins = counts.shape
        self._counts = np.zeros((streams, max(FIRST_BINS, 1 << bins.bit_length())))
        self._counts[:, :bins] = counts
