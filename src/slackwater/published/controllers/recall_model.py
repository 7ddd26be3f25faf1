"""The recall of a join under slack K: Eq. 4.6 for all K = 0, g, 2g, ... at once.

Invariant: entry k is gamma(L, k g), the model's recall over the next adaptation interval, equal to what trial and error
computes for that K alone. Rates and the interval's length cancel out; what is left of a stream is the share of its
tuples in order and the coverage of its window.

References: 004 §4.2.4 (Eq. 4.4-4.9, Alg. 4.7); 003 §IV.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.published.controllers.coverage_model import window_shares
from slackwater.quality.recall.loss_curves import trigger_weights


def recalls(
    histograms: Sequence[Words],
    windows: Sequence[int],
    skews: Sequence[float] | Floats,
    basic: int,
    granularity: int,
    ratio: Floats | None = None,
) -> Floats:
    """gamma(L, K) for K = 0, g, ... up to the largest delay in any histogram.

    Windows, skews (K_sync), basic window b and granularity g are microseconds. `ratio` is sel(K) / sel per candidate
    (NonEqSel), by default 1 (EqSel); beyond its end its last entry holds.

    >>> recalls([np.array([8, 2]), np.array([10])], [5, 5], [0, 0], basic=5, granularity=1).tolist()
    [0.8, 1.0]
    """
    candidates = max(len(counts) for counts in histograms)
    shares = [
        window_shares(counts, window, basic, granularity, skew, candidates)
        for counts, window, skew in zip(histograms, windows, skews, strict=True)
    ]
    weights = trigger_weights(tuple(windows))
    produced = np.zeros(candidates)
    for i, weight in enumerate(weights):
        term = weight * shares[i][0]
        for j, (_, coverage) in enumerate(shares):
            if j != i:
                term = term * coverage
        produced += term
    gamma = produced / sum(weights)
    return gamma if ratio is None else gamma * _stretched(ratio, candidates)


def _stretched(ratio: Floats, length: int) -> Floats:
    found = np.full(length, ratio[-1] if len(ratio) else 1.0)
    inside = min(length, len(ratio))
    found[:inside] = ratio[:inside]
    return found


def selectivity_ratio(join_counts: Words | Floats, cross_counts: Words | Floats) -> Floats:
    """sel(K) / sel for all K from the maps M-join and M-cross, arrays by delay bin (Eq. 4.8); 1 where undefined.

    >>> selectivity_ratio(np.array([1, 0, 3]), np.array([4, 4, 4])).tolist()
    [0.75, 0.375, 1.0]
    """
    join = np.cumsum(join_counts, dtype=np.float64)
    cross = np.cumsum(cross_counts, dtype=np.float64)
    if len(join) == 0:
        return np.ones(0)
    below = cross * join[-1]
    # Where both sums are whole, the two products are the same ones: the ratio ends at exactly 1.
    return np.divide(join * cross[-1], below, out=np.ones(len(join)), where=below > 0)


def instant_requirement(target: float, produced: float, true_before: float, true_next: float) -> float:
    """The recall the next interval must have for the period's recall to meet the target: Eq. 4.9, within 0 and 1.

    `produced` and `true_before` are results made and true results of the last P - L, `true_next` those expected in the
    next L. Where none are expected nothing can be made up for, and the target itself is returned.

    >>> round(instant_requirement(0.9, produced=830, true_before=900, true_next=100), 3)
    0.7
    >>> instant_requirement(0.9, produced=900, true_before=900, true_next=50)
    0.0
    """
    if true_next <= 0:
        return target
    return min(max((target * (true_before + true_next) - produced) / true_next, 0.0), 1.0)
