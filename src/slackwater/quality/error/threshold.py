"""Which coverage a window must have for its answer to be good enough, by what the values of late look like.

Invariant: the threshold is that of the most demanding aggregate (004 §4.1.3, and `coverage_threshold` for the others).
It is worked out anew every ten seconds of event time (I_recalc of Alg. 4.2), from N, the tuples that a window of one
group has lately had, and from the moments and a sample of recent values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.quality import RelativeError
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.disorder.meters import Asked
from slackwater.quality.error import coverage_threshold as by
from slackwater.quality.stats.values import RecentValues, ValueMoments

RECALCULATION = 10 * SECOND
BY_MOMENTS = frozenset(("SUM", "AVG", "VAR", "STDDEV"))
BY_SAMPLE = frozenset(("MEDIAN", "QUANTILE", "COUNT_DISTINCT"))


class Thresholds:
    """The coverage that each aggregate asks for."""

    def __init__(self, target: RelativeError, aggregates: tuple[Asked, ...]) -> None:
        self._target, self._aggregates = target, aggregates
        rows = dict.fromkeys((a.row, a.is_float) for a in aggregates if a.function in BY_MOMENTS and a.row >= 0)
        self._moments = {row: ValueMoments() for row in rows}
        rows = dict.fromkeys((a.row, a.is_float) for a in aggregates if a.function in BY_SAMPLE)
        self._recent = {row: RecentValues() for row in rows}
        self.shares = np.ones(len(aggregates))
        """The threshold of each aggregate, as last worked out."""
        self._due = BEFORE_ALL

    def absorb(self, words: Words) -> None:
        """Take tuples in arrival order."""
        for (row, is_float), moments in self._moments.items():
            moments.absorb(_values(words[row], is_float))
        for (row, is_float), recent in self._recent.items():
            recent.absorb(_values(words[row], is_float))

    def is_due(self, clock: int) -> bool:
        """Whether it is time to work the thresholds out."""
        return clock >= self._due

    def recalculate(self, clock: int, tuples: float) -> None:
        """Work the thresholds out for windows of so many tuples."""
        self._due = clock + RECALCULATION
        self.shares = np.array([self._of(asked, tuples) for asked in self._aggregates])

    @property
    def strictest(self) -> float:
        """The coverage that serves all aggregates."""
        return float(self.shares.max(initial=0.0))

    def _of(self, asked: Asked, tuples: float) -> float:
        error, delta = self._target.bound, 1.0 - self._target.confidence
        column = (asked.row, asked.is_float)
        match asked.function:
            case "COUNT":
                return by.count_threshold(error, delta, tuples)
            case "SUM" | "AVG":
                rule = by.sum_threshold if asked.function == "SUM" else by.mean_threshold
                return rule(error, delta, tuples, self._moments[column].mean, self._moments[column].variance)
            case "VAR" | "STDDEV":
                spread = by.variance_threshold if asked.function == "VAR" else by.deviation_threshold
                return spread(error, delta, tuples, self._moments[column].kurtosis)
            case "MEDIAN" | "QUANTILE":
                p = 0.5 if asked.parameter is None else asked.parameter
                return by.quantile_threshold(error, delta, tuples, p, self._recent[column].ordered())
            case "COUNT_DISTINCT":
                return by.distinct_threshold(error, delta, self._distinct(self._recent[column], tuples))
            case _:
                return by.extreme_threshold(delta)

    def _distinct(self, recent: RecentValues, tuples: float) -> float:
        """About how many different values a window has: those among as many of the newest ones."""
        newest = recent.as_arrays()["recent"][-max(1, int(tuples)) :]
        return max(1.0, float(len(np.unique(newest))))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        found: dict[str, npt.NDArray[Any]] = {"shares": self.shares.copy(), "due": np.array([self._due])}
        for name, kept in (("moments", self._moments), ("recent", self._recent)):
            for (row, is_float), one in kept.items():
                found[f"{name}_{row}_{int(is_float)}"] = one.as_arrays()[name]
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self.shares, self._due = np.array(arrays["shares"]), int(arrays["due"][0])
        for (row, is_float), moments in self._moments.items():
            moments.restore({"moments": arrays[f"moments_{row}_{int(is_float)}"]})
        for (row, is_float), recent in self._recent.items():
            recent.restore({"recent": arrays[f"recent_{row}_{int(is_float)}"]})


def _values(column: Words, is_float: bool) -> npt.NDArray[np.float64]:
    """A column as floats; a null becomes NaN."""
    if is_float:
        return np.ascontiguousarray(column).view(np.float64)
    return np.where(column == NULL_WORD, np.nan, column.astype(np.float64))
