"""Coverage and recall under slack, slow and obvious: the documents' equations, for one K at a time.

Invariant: shares no code with the models. Times are in one unit, and K = k g for a candidate k.

References: 004 Eq. 3.4-3.6, 4.2, 4.4-4.6, Alg. 4.4, 4.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def delays_after(counts: Sequence[int], shift: int) -> list[float]:
    """Eq. 3.4: the distribution of coarse delays once slack and skew have covered so many bins.

    >>> delays_after([6, 2, 1, 1], 1)
    [0.8, 0.1, 0.1]
    """
    total = sum(counts)
    if total == 0:
        return [1.0]
    covered = sum(counts[: shift + 1]) / total
    return [covered] + [count / total for count in counts[shift + 1 :]]


def held_time(after: Sequence[float], window: int, basic: int, granularity: int) -> float:
    """Eq. 3.6 without the rate: the length of window whose tuples are there."""
    n = max(1, -(-window // basic))
    held = 0.0
    for number in range(1, n + 1):
        length = basic if number < n else window - (n - 1) * basic
        received = (number - 1) * basic // granularity
        held += length * sum(after[: received + 1])
    return held


def coverage_by_trial(counts: Sequence[int], window: int, basic: int, granularity: int, k: int) -> float:
    """Eq. 4.2.

    >>> round(coverage_by_trial([6, 2, 1, 1], window=3, basic=1, granularity=1, k=0), 4)
    0.7667
    """
    return held_time(delays_after(counts, k), window, basic, granularity) / window


def gamma_by_trial(
    histograms: Sequence[Sequence[int]],
    windows: Sequence[int],
    skews: Sequence[int],
    basic: int,
    granularity: int,
    k: int,
    ratio: float = 1.0,
) -> float:
    """Eq. 4.6 for K = k g; `ratio` is sel(K) / sel.

    >>> gamma_by_trial([[8, 2], [10]], [5, 5], [0, 0], basic=5, granularity=1, k=0)
    0.8
    """
    after = [delays_after(c, k + skew // granularity) for c, skew in zip(histograms, skews, strict=True)]
    produced = true = 0.0
    for i in range(len(windows)):
        made, wanted = after[i][0], 1.0
        for j, window in enumerate(windows):
            if j != i:
                made *= held_time(after[j], window, basic, granularity)
                wanted *= window
        produced += made
        true += wanted
    return ratio * produced / true


def slack_by_trial(quality: Callable[[int], float], target: float, granularity: int, largest: int) -> int:
    """Alg. 4.4 and 4.7: the first of 0, g, 2g, ... that meets the target; `largest` is the largest bin of a delay."""
    k = 0
    while k < largest and quality(k) < target:
        k += 1
    return k * granularity
