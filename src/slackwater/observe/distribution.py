"""A weighted distribution of whole numbers: exact while it has few distinct values, to four digits beyond.

Invariant: weight and sum are always exact; quantiles are exact until more than MOST_VALUES distinct values were seen,
as far as a float can distinguish weights. Memory is bounded by MOST_VALUES and MOST_PENDING, however much is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.jit import in_place

MOST_VALUES = 1 << 16
MOST_PENDING = 1 << 18
_CARRY = 2**61
"""Two numbers below this can be added in a word."""

Weights = npt.NDArray[np.float64]
NO_WEIGHTS: Words = np.zeros(0, np.int64)


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
        self._counted: list[tuple[int, int]] = []
        self._entries = 0

    def add(self, values: Words, weights: Words | None = None) -> None:
        """Count values, each as often as its weight says."""
        if len(values) == 0:
            return
        weight, total = exact_sums(values, weights)
        self.weight += weight
        self._sum += total
        if weights is None:
            # Runs of equal values may be long, and are cheaper to shorten than to sort.
            values, weights = in_runs(values, None)
        self._keep(values, weights)

    def _keep(self, values: Words, weights: Words) -> None:
        self._pending.append((values, weights.astype(np.float64)))
        self._entries += len(values)
        if self._entries >= MOST_PENDING:
            self._settle()

    def count(self, value: int, weight: int = 1) -> None:
        """Count one value."""
        self.weight += weight
        self._sum += value * weight
        self._counted.append((value, weight))
        self._entries += 1
        if self._entries >= MOST_PENDING:
            self._settle()

    def _settle(self) -> None:
        """Merge what is pending into the sorted values."""
        if self._counted:
            values, weights = zip(*self._counted, strict=True)
            self._pending.append((np.array(values, np.int64), np.array(weights, np.float64)))
            self._counted = []
        if not self._pending:
            return
        all_values = np.concatenate([self._values, *(part for part, _ in self._pending)])
        all_weights = np.concatenate([self._weights, *(part for _, part in self._pending)])
        self._pending, self._entries = [], 0
        self._values, self._weights = _merged(all_values, all_weights)
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
    found = np.empty((2, len(values)), np.int64)
    runs = write_runs(values, found[0], found[1])
    return found[0, :runs].copy(), found[1, :runs].copy()


@in_place
def write_runs(values: Words, value: Words, length: Words) -> int:
    """Write every run of equal values and how long it is; returns how many there are."""
    n = 0
    for i in range(len(values)):
        if i == 0 or values[i] != values[i - 1]:
            value[n], length[n] = values[i], 0
            n += 1
        length[n - 1] += 1
    return n


def exact_sums(values: Words, weights: Words | None) -> tuple[int, int]:
    """The sum of the weights and of the weighted values, in Python's integers where words are too short."""
    each = NO_WEIGHTS if weights is None else weights
    weight, weight_high, total, total_high, largest, heaviest = words_summed(values, each)
    if int(heaviest) * max(1, int(largest)) < _CARRY:
        return int(weight_high) * _CARRY + int(weight), int(total_high) * _CARRY + int(total)
    pairs = [(value, 1) for value in values.tolist()]
    if weights is not None:
        pairs = list(zip(values.tolist(), weights.tolist(), strict=True))
    return sum(weight for _, weight in pairs), sum(value * weight for value, weight in pairs)


@in_place
def words_summed(values: Words, weights: Words) -> tuple[int, int, int, int, int, int]:
    """The sum of the weights and that of the weighted values, each as what is left and how often it was carried; the
    largest value, by its size, and the largest weight. Without weights each value counts once.

    Sums are right where the largest value times the largest weight is below what is carried.
    """
    weight, weight_high, total, total_high, largest, heaviest = 0, 0, 0, 0, 0, 1
    for i in range(len(values)):
        each = 1 if len(weights) == 0 else weights[i]
        weight += each
        if weight >= _CARRY:
            weight, weight_high = weight - _CARRY, weight_high + 1
        total += each * values[i]
        if total >= _CARRY:
            total, total_high = total - _CARRY, total_high + 1
        elif total <= -_CARRY:
            total, total_high = total + _CARRY, total_high - 1
        largest = max(largest, values[i], ~values[i])
        heaviest = max(heaviest, each)
    return weight, weight_high, total, total_high, largest, heaviest


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
