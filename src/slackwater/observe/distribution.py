"""A weighted distribution of whole numbers: exact while it has few distinct values, to four digits beyond.

Invariant: weight and sum are always exact; quantiles are exact until more than MOST_VALUES distinct values were seen,
as far as a float can tell weights apart. Memory is bounded by MOST_VALUES and MOST_PENDING, however much is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words

MOST_VALUES = 1 << 16
MOST_PENDING = 1 << 18
_SAFE = 2**62
"""Sums below this cannot have wrapped."""

Weights = npt.NDArray[np.float64]


class Distribution:
    """How often each value was seen.

    >>> seen = Distribution()
    >>> seen.add(np.array([10, 10, 30]), np.array([1, 2, 1]))
    >>> seen.mean, seen.quantile(0.5), seen.quantile(1.0), seen.weight
    (15.0, 10, 30, 4)
    """

    def __init__(self) -> None:
        self.weight = 0
        self._sum = 0
        self._values: Words = np.zeros(0, np.int64)
        self._weights: Weights = np.zeros(0)
        self._pending: list[tuple[Words, Weights]] = []
        self._entries = 0

    def add(self, values: Words, weights: Words | None = None) -> None:
        """Count values, each as often as its weight says."""
        if len(values) == 0:
            return
        weight, total = exact_sums(values, weights)
        self.weight += weight
        self._sum += total
        # Runs of equal values may be long, and are cheaper to shorten than to sort.
        edges = _edges(values)
        counts = _lengths(edges, values).astype(np.float64)
        self._pending.append((values[edges], counts if weights is None else np.add.reduceat(weights * 1.0, edges)))
        self._entries += len(edges)
        if self._entries >= MOST_PENDING:
            self._settle()

    def count(self, value: int, weight: int = 1) -> None:
        """Count one value."""
        self.add(np.array([value]), np.array([weight]))

    def _settle(self) -> None:
        """Merge what is pending into the sorted values."""
        if not self._pending:
            return
        values = np.concatenate([self._values, *(part for part, _ in self._pending)])
        weights = np.concatenate([self._weights, *(part for _, part in self._pending)])
        self._pending, self._entries = [], 0
        self._values, self._weights = _merged(values, weights)
        if len(self._values) > MOST_VALUES:
            self._values, self._weights = _merged(_four_digits(self._values), self._weights)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data, for another process to `merge`."""
        self._settle()
        return {
            "weight": self.weight,
            "sum": self._sum,
            "values": self._values.tolist(),
            "weights": self._weights.tolist(),
        }

    def merge(self, other: dict[str, Any]) -> None:
        """Count what another one has counted.

        >>> seen, elsewhere = Distribution(), Distribution()
        >>> elsewhere.add(np.array([10, 30]), np.array([3, 1]))
        >>> seen.merge(elsewhere.as_json())
        >>> seen.mean, seen.quantile(0.5)
        (15.0, 10)
        """
        if other["weight"]:
            self.weight += other["weight"]
            self._sum += other["sum"]
            self._pending.append((np.array(other["values"], np.int64), np.array(other["weights"], np.float64)))
            self._entries += len(other["values"])
            if self._entries >= MOST_PENDING:
                self._settle()

    @property
    def mean(self) -> float | None:
        return self._sum / self.weight if self.weight else None

    def quantile(self, p: float) -> int | None:
        """The smallest value that at least this share of the weight does not exceed."""
        self._settle()
        if not len(self._values):
            return None
        below = np.cumsum(self._weights)
        at = int(np.searchsorted(below, p * below[-1], side="left"))
        return int(self._values[min(at, len(self._values) - 1)])


def in_runs(values: Words, weights: Words | None) -> tuple[Words, Words]:
    """Runs of equal values as one value each, with its weight.

    >>> [part.tolist() for part in in_runs(np.array([7, 7, 9, 7]), None)]
    [[7, 9, 7], [2, 1, 1]]
    """
    if weights is not None:
        # Their sums may be beyond a word.
        return values, weights
    edges = _edges(values)
    return values[edges], _lengths(edges, values)


def _edges(values: Words) -> Words:
    return np.concatenate([np.zeros(min(1, len(values)), np.int64), np.flatnonzero(np.diff(values)) + 1])


def _lengths(edges: Words, values: Words) -> Words:
    return np.append(edges[1:], len(values)) - edges


def exact_sums(values: Words, weights: Words | None) -> tuple[int, int]:
    """The sum of the weights and of the weighted values, in Python's integers where a word could wrap."""
    largest = max(abs(int(values.max())), abs(int(values.min())))
    if weights is None:
        count = len(values)
        return count, int(values.sum()) if largest * count < _SAFE else sum(values.tolist())
    heaviest = int(weights.max()) * len(weights)
    if heaviest < _SAFE and heaviest * largest < _SAFE:
        return int(weights.sum()), int(np.dot(values, weights))
    pairs = list(zip(values.tolist(), weights.tolist(), strict=True))
    return sum(weight for _, weight in pairs), sum(value * weight for value, weight in pairs)


def _merged(values: Words, weights: Weights) -> tuple[Words, Weights]:
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    return values[edges], np.add.reduceat(weights, edges)


def _four_digits(values: Words) -> Words:
    """Round to four significant digits.

    >>> _four_digits(np.array([0, 9999, 123456, -123456])).tolist()
    [0, 9999, 123500, -123500]
    """
    digits = np.floor(np.log10(np.maximum(np.abs(values), 1))).astype(np.int64) + 1
    step = 10 ** np.maximum(0, digits - 4)
    return np.rint(values / step).astype(np.int64) * step
