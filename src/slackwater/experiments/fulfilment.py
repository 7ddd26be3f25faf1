"""How well an answer met its target: recall per period for joins, relative error per window for aggregates.

Invariant: both are told against the truth. A period without true results is skipped, as is the first one; a window
that was never emitted has an infinite error, because fulfilment divides by the number of true results.

References: 004 §4.3.1, Eq. 4.10 and 4.11.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
EDGE = 1e-12


def recalls(made: dict[int, float], true: dict[int, float], period: int) -> tuple[Floats, Floats]:
    """Ends of periods (seconds) and the recall over each, one a second; counts are by second, `period` in seconds.

    >>> ends, recall = recalls({0: 1, 1: 1, 2: 0, 3: 2}, {0: 1, 1: 2, 2: 2, 3: 2}, period=2)
    >>> ends.tolist(), recall.tolist()
    ([3.0, 4.0], [0.25, 0.5])
    """
    if not true:
        return np.zeros(0), np.zeros(0)
    first, last = min(true), max(true)
    seconds = range(first, last + 1)
    of_truth = np.cumsum([0.0, *(true.get(second, 0.0) for second in seconds)])
    of_made = np.cumsum([0.0, *(made.get(second, 0.0) for second in seconds)])
    if len(of_truth) <= period + 1:
        return np.zeros(0), np.zeros(0)
    should = (of_truth[period:] - of_truth[:-period])[1:]
    did = (of_made[period:] - of_made[:-period])[1:]
    known = should > 0
    ends = first + period + 1 + np.flatnonzero(known)
    return ends.astype(np.float64), did[known] / should[known]


def errors(made: dict[int, float], true: dict[int, float]) -> Floats:
    """The relative error of every true window; absolute where the true value is 0.

    >>> errors({1: 9.0, 2: 0.5}, {1: 10.0, 2: 0.0, 3: 1.0}).tolist()
    [0.1, 0.5, inf]
    """
    ends = sorted(true)
    should = np.array([true[end] for end in ends], np.float64)
    did = np.array([made.get(end, np.inf) for end in ends], np.float64)
    return np.abs(did - should) / np.where(should == 0, 1.0, np.abs(should))


def share_at_least(values: Floats, level: float) -> float:
    """The share of recalls that reach a level; NaN where nothing was measured."""
    return float(np.mean(values >= level - EDGE)) if len(values) else float("nan")


def share_at_most(values: Floats, level: float) -> float:
    """The share of errors within a bound; NaN where nothing was measured."""
    return float(np.mean(values <= level + EDGE)) if len(values) else float("nan")
