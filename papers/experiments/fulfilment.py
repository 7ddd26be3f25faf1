"""How well an answer met its target, and the best constant slack with hindsight, which controllers are held against.

An answer is measured by recall per period for joins, by relative error per window for aggregates.

Invariant: both are told against the truth. A period without true results is skipped, as is the first one; a window
that was never emitted has an infinite error, because fulfilment divides by the number of true results. The slack that
`least_slack` returns has been tried and meets the target in at least 97 of 100 measurements, and one granularity less
has been tried and does not. More slack is taken to be never worse; where fulfilment is not monotone this is a constant
that is good enough, not the least of all.

References: 004 §4.3.1, Eq. 4.10 and 4.11.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

ENOUGH = 0.97
LONGEST_MS = 120_000
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


def least_slack(meets: Callable[[int], bool], granularity_ms: int = 10) -> int | None:
    """The least slack (ms, a multiple of the granularity) that meets; None where two minutes do not.

    >>> least_slack(lambda slack: slack >= 333), least_slack(lambda slack: True), least_slack(lambda slack: False)
    (340, 0, None)
    """
    if meets(0):
        return 0
    low, high = 0, 1
    while not meets(high * granularity_ms):
        if high * granularity_ms > LONGEST_MS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle * granularity_ms):
            high = middle
        else:
            low = middle
    return high * granularity_ms
