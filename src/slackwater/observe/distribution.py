"""A weighted distribution of whole numbers: exact while it has few distinct values, to four digits beyond.

Invariant: the sum is always exact; quantiles are exact until more than MOST_VALUES distinct values were seen.
"""

from __future__ import annotations

import numpy as np

from slackwater.model.batch import Words

MOST_VALUES = 1 << 16


class Distribution:
    """How often each value was seen.

    >>> seen = Distribution()
    >>> seen.add(np.array([10, 10, 30]), np.array([1, 2, 1]))
    >>> seen.mean, seen.quantile(0.5), seen.quantile(1.0), seen.weight
    (15.0, 10, 30, 4)
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._sum = 0
        self.weight = 0

    def add(self, values: Words, weights: Words | None = None) -> None:
        """Count values, each as often as its weight says."""
        if len(values) == 0:
            return
        # Results of one tuple share one value, so runs of equal values are long; sorting runs beats sorting values.
        edges = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
        ends = np.concatenate([edges[1:], [len(values)]])
        totals = ends - edges if weights is None else np.add.reduceat(weights, edges)
        for value, total in zip(values[edges].tolist(), totals.tolist(), strict=True):
            self.count(value, total)

    def count(self, value: int, weight: int = 1) -> None:
        """Count one value."""
        if len(self._counts) >= MOST_VALUES:
            self._coarsen()
        self._counts[value] = self._counts.get(value, 0) + weight
        self._sum += value * weight
        self.weight += weight

    def _coarsen(self) -> None:
        """Round to four significant digits."""
        rounded: dict[int, int] = {}
        for value, weight in self._counts.items():
            step = 10 ** max(0, len(str(abs(value))) - 4)
            rounded[round(value / step) * step] = rounded.get(round(value / step) * step, 0) + weight
        self._counts = rounded

    @property
    def mean(self) -> float | None:
        return self._sum / self.weight if self.weight else None

    def quantile(self, p: float) -> int | None:
        """The smallest value that at least this share of the weight does not exceed."""
        if not self.weight:
            return None
        below = 0
        for value in sorted(self._counts):
            below += self._counts[value]
            if below >= p * self.weight:
                return value
        return max(self._counts)
