"""What the strategies cost in theory: the response time of a tuple of the fast stream, and what Filter-Order saves.

Two streams of λ1 < λ2 tuples a second, a window of |w| seconds on both, c seconds to compare two tuples. In the 1/λ1
seconds between two tuples of the slow stream n = λ2/λ1 tuples of the fast one wait. Each takes C = c|w|λ1, for it is
compared with the window of the slow stream (the paper calls this C_S in places and C_T in others).

References: 000 §4.1, §5.1, §5.2 (Eq. 1 to 8), §6.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = 0.5
"""The upper bound of the relative improvement (Eq. 8)."""


@dataclass(frozen=True)
class Setting:
    """A join of a slow and a fast stream: seconds, and tuples a second.

    >>> paper = Setting(c=0.0005, window=60.0, slow=1.0, fast=10.0)
    >>> round(paper.load, 3), round(paper.improvement, 3), round(paper.busy, 3)
    (0.3, 0.231, 0.6)
    """

    c: float
    window: float
    slow: float
    fast: float

    @property
    def load(self) -> float:
        """c|w|λ1λ2: the share of time that goes into tuples of the fast stream. Below 1 by Eq. 1."""
        return self.c * self.window * self.slow * self.fast

    @property
    def busy(self) -> float:
        """The share of time that goes into all tuples. A server with nothing else to do keeps up while it is below 1,
        which is sooner at its end than Eq. 1 says."""
        return 2 * self.load

    @property
    def waiting(self) -> float:
        """n, the tuples of the fast stream that wait for one of the slow stream."""
        return self.fast / self.slow

    @property
    def cost(self) -> float:
        """Seconds that a tuple of the fast stream takes."""
        return self.c * self.window * self.slow

    @property
    def sync_total(self) -> float:
        """The response times of the n tuples by Sync-Filter, added up (Eq. 2)."""
        n = self.waiting
        return self.filter_total + n * (n + 1) / 2 * self.cost

    @property
    def sync(self) -> float:
        """Their average (Eq. 3)."""
        return self.filter + (self.waiting + 1) / 2 * self.cost

    @property
    def filter_total(self) -> float:
        """The response times of the n tuples by Filter-Order, added up (Eq. 4)."""
        n = self.waiting
        return n / self.slow - (n**2 - n) / (2 * self.fast)

    @property
    def filter(self) -> float:
        """Their average (Eq. 5): the work is done while they wait."""
        return 1 / self.slow - (self.waiting - 1) / (2 * self.fast)

    @property
    def improvement(self) -> float:
        """What Filter-Order saves of the response time by Sync-Filter (Eq. 6)."""
        return (self.sync - self.filter) / self.sync


def improvement_at(load: float) -> float:
    """The same from c|w|λ1λ2 alone (Eq. 7); at the threshold α of Adaptive, what is saved at least.

    >>> round(improvement_at(0.9), 2), improvement_at(1.0)
    (0.47, 0.5)
    """
    return load / (1 + load)
