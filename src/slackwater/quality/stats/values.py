"""What the values of recent tuples look like: moments, and a sample.

Invariant: both depend on the values and their order only, never on how the stream was cut into batches.

Moments fade out exponentially, rather than being those of one window: they need no values kept and none subtracted
(which loses digits), say something while a window is still empty, and the threshold they are for is about windows to
come. `memory` is how many values they speak for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats
from slackwater.core.jit import in_place

WEIGHT, MEAN, SECOND, THIRD, FOURTH = range(5)


@in_place
def _fade_in(state: Floats, values: Floats, keep: float) -> None:
    for i in range(len(values)):
        value = values[i]
        if np.isnan(value):
            continue
        before = state[WEIGHT] * keep
        after = before + 1.0
        second, third = state[SECOND] * keep, state[THIRD] * keep
        distance = value - state[MEAN]
        step = distance / after
        square = distance * step * before
        state[WEIGHT] = after
        state[MEAN] += step
        state[FOURTH] = (
            state[FOURTH] * keep
            + square * step * step * (after * after - 3.0 * after + 3.0)
            + 6.0 * step * step * second
            - 4.0 * step * third
        )
        state[THIRD] = third + square * step * (after - 2.0) - 3.0 * step * second
        state[SECOND] = second + square


class ValueMoments:
    """Mean, variance and fourth moment of the values that came lately; NaN and nulls are not counted.

    >>> moments = ValueMoments()
    >>> moments.absorb(np.array([1.0, 3.0, np.nan, 1.0, 3.0]))
    >>> round(moments.mean, 3), round(moments.variance, 3), round(moments.kurtosis, 3)
    (2.0, 1.0, 1.0)
    """

    def __init__(self, memory: float = 10_000.0) -> None:
        self._keep = 1.0 - 1.0 / memory
        self._state = np.zeros(5)

    def absorb(self, values: Floats) -> None:
        """Take values in arrival order."""
        _fade_in(self._state, np.ascontiguousarray(values, np.float64), self._keep)

    @property
    def weight(self) -> float:
        """How many values the moments speak for."""
        return float(self._state[WEIGHT])

    @property
    def mean(self) -> float:
        return float(self._state[MEAN])

    @property
    def variance(self) -> float:
        """Mean squared distance from the mean (divided by n, not n - 1)."""
        return float(self._state[SECOND]) / max(self.weight, 1.0)

    @property
    def kurtosis(self) -> float:
        """Fourth central moment over the squared variance; 1, its least value, where all values are equal."""
        if self._state[SECOND] <= 0.0:
            return 1.0
        return max(1.0, float(self._state[FOURTH] * self._state[WEIGHT] / self._state[SECOND] ** 2))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        return {"moments": self._state.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self._state = np.array(arrays["moments"])


class RecentValues:
    """The newest values, as a sample of what values are like now.

    >>> recent = RecentValues(keep=3)
    >>> recent.absorb(np.array([4.0, 9.0, 1.0, 5.0]))
    >>> recent.ordered().tolist()
    [1.0, 5.0, 9.0]
    """

    def __init__(self, keep: int = 4096) -> None:
        self._keep = keep
        self._values: Floats = np.zeros(0)

    def absorb(self, values: Floats) -> None:
        """Take values in arrival order; NaN is not kept."""
        newest = np.asarray(values, np.float64)
        newest = newest[~np.isnan(newest)][-self._keep :]
        self._values = np.concatenate([self._values, newest])[-self._keep :]

    def ordered(self) -> Floats:
        """The values kept, ascending."""
        return np.sort(self._values)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        return {"recent": self._values.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self._values = np.array(arrays["recent"])
