"""Delays that fade: a histogram per stream in which what is older counts less.

Invariant: a delay heard of t ago counts exp(-t / memory). Nothing is kept but the histogram, however long it remembers.
"""

from __future__ import annotations

import numpy as np

from slackwater.model.batch import Floats, Words

WHOLE = 64.0
"""What a fresh delay counts: models count in whole numbers."""
MOST_BINS = 2**16


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
        self.counts: list[Floats] = [np.zeros(1) for _ in range(streams)]

    def absorb(self, stream: Words, delay: Words) -> None:
        """Take tuples with their delays."""
        bins = np.minimum((delay + self._granularity - 1) // self._granularity, MOST_BINS)
        for s, known in enumerate(self.counts):
            fresh = (np.bincount(bins[stream == s], minlength=len(known)) * WHOLE).astype(np.float64)
            fresh[: len(known)] += known
            self.counts[s] = fresh

    def fade(self, time: int) -> None:
        """Some time has passed."""
        left = np.exp(-time / self._memory)
        for known in self.counts:
            known *= left

    def histograms(self) -> list[Words]:
        """What the models read."""
        return [np.rint(known).astype(np.int64) for known in self.counts]
