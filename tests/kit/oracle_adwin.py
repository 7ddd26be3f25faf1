"""ADWIN, slow and obvious: buckets that hold their values, means and variances from the values each time.

Invariant: shares no code with the kernel.

References: Bifet & Gavaldà 2007; the constants are those of MOA and river.
"""

from __future__ import annotations

from math import log, sqrt
from statistics import fmean, pvariance


class OracleAdwin:
    """One adaptive window that keeps all its values.

    >>> oracle = OracleAdwin()
    >>> for _ in range(64):
    ...     oracle.add(1.0)
    >>> oracle.width
    64
    """

    def __init__(self, delta: float = 0.002, most: int = 2**40) -> None:
        self._delta = delta
        self._most = most
        self._seen = 0
        self._buckets: list[list[float]] = []
        """Oldest first; their sizes are powers of two and never grow towards the newest."""

    @property
    def values(self) -> list[float]:
        """The values in the window, oldest first."""
        return [value for bucket in self._buckets for value in bucket]

    @property
    def width(self) -> int:
        """How many values the window has."""
        return len(self.values)

    def add(self, value: float) -> None:
        """Take one value in; drop the oldest buckets while two parts of the window differ."""
        self._buckets.append([value])
        self._merge()
        if self.width > self._most:
            del self._buckets[0]
        self._seen += 1
        if self._seen % 32 == 0 and self.width > 10:
            while self._differs():
                del self._buckets[0]

    def _merge(self) -> None:
        size = 1
        while len(same := [i for i, bucket in enumerate(self._buckets) if len(bucket) == size]) == 6:
            first, second = same[:2]
            self._buckets[first : second + 1] = [self._buckets[first] + self._buckets[second]]
            size *= 2

    def _differs(self) -> bool:
        values = self.values
        n = len(values)
        evidence = log(2 * log(n) / self._delta)
        variance = pvariance(values)
        cut = 0
        for bucket in self._buckets[:-1]:
            cut += len(bucket)
            if cut >= 5 and n - cut >= 5:
                m = 1 / (1 / (cut - 4) + 1 / (n - cut - 4))
                bound = sqrt(2 / m * variance * evidence) + 2 / (3 * m) * evidence
                if abs(fmean(values[:cut]) - fmean(values[cut:])) > bound:
                    return True
        return False
