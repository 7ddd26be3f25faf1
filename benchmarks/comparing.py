"""When one of two trees is slower: ratios of runs taken in turns, and a rule that knows how noisy they are.

A ratio is the CPU time of a run in this tree over that of the run of the base beside it. Whatever else the machine does
slows both, or one of them at random, so the median of the ratios is that of the trees; and the interval for it
asks nothing of how the noise is distributed: it ends at two of the sorted ratios, those with which a fair coin would go
wrong once in a hundred times.

Invariant: a kernel is judged when that interval lies on one side of what is allowed, or, if it does not after `MOST`
ratios, by the median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

ALLOWED = 1.05
"""How much more CPU time a kernel may take than at the base."""
WRONG = 0.01
"""How often the interval may miss the median."""
FEWEST, MOST = 8, 40
"""Ratios before anything is decided, and at most."""


@dataclass(frozen=True)
class Judgement:
    """What is known of a ratio, and whether it is decided."""

    ratio: float
    low: float
    high: float
    decided: bool

    @property
    def slower(self) -> bool:
        return self.ratio > ALLOWED


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Where the median of all ratios that there could be lies.

    >>> interval([1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.0])
    (0.8, 1.2)
    """
    n, outside, missed = len(ratios), 0, 0.0
    while outside < n // 2 and missed + 2 * comb(n, outside) / 2**n <= WRONG:
        missed += 2 * comb(n, outside) / 2**n
        outside += 1
    ordered = sorted(ratios)
    return (ordered[outside - 1], ordered[-outside]) if outside else (0.0, float("inf"))


def judge(ratios: Sequence[float]) -> Judgement:
    """What so many ratios say.

    >>> judge([1.0, 1.01] * 4)
    Judgement(ratio=1.005, low=1.0, high=1.01, decided=True)
    """
    low, high = interval(ratios)
    clear = len(ratios) >= FEWEST and (high <= ALLOWED or low > ALLOWED)
    return Judgement(median(ratios), low, high, clear or len(ratios) >= MOST)


def measured(base: Callable[[], float], now: Callable[[], float]) -> tuple[Judgement, list[float], list[float]]:
    """Run both in turns until it is decided; the judgement, and the seconds of either."""
    of_base: list[float] = []
    of_now: list[float] = []
    while True:
        # First the one, then the other: who runs second finds warmer caches, or a busier machine.
        turn = ((base, of_base), (now, of_now))
        for run, seconds in turn if len(of_now) % 2 else turn[::-1]:
            seconds.append(run())
        ratios = [after / before for before, after in zip(of_base, of_now, strict=True)]
        judged = judge(ratios)
        if judged.decided:
            return judged, of_base, of_now
