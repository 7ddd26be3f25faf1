"""What a closed window is expected to come to: what has come, that scaled, and PECJ's product of rates and selectivity.

PECJ takes the count of a window join as a product: tuples of either stream times the share of pairs that join. Each of
the three is a latent number that moves slowly; its mean is followed by an exponential average whose weight adapts to
how far the last prediction was off, and what a window shows of it is weighed against that mean. This is the analytic
estimator as its abstract and talk describe it, without the learned one; weights are ours where none are public.

Invariant: none knows more than `closed.Estimator` tells it.

References: X. Zeng et al., PECJ: Stream Window Join on Disorder Data Streams with Proactive Error Compensation, SIGMOD
2024; D. W. Trigg, A. G. Leach, Exponential Smoothing with an Adaptive Response Rate, 1967.
"""

from __future__ import annotations

from collections.abc import Callable

from papers.estimators.closed import Estimator, Seen

FORGETTING = 0.98
"""How much a window counts beside the one after it, where windows are summed up."""
SMOOTHING = 0.2
"""How fast the tracking signal follows errors."""


class AsItIs:
    """What has come."""

    def estimate(self, closed: Seen) -> float:
        return float(closed.pairs)

    def learn(self, closed: Seen, whole: Seen) -> None:
        """There is nothing to learn."""


class Scaled:
    """What has come by the share of the pairs that had come of windows that have settled: what the engine does."""

    def __init__(self) -> None:
        self._came = self._all = 0.0

    def estimate(self, closed: Seen) -> float:
        return closed.pairs * (self._all / self._came if self._came else 1.0)

    def learn(self, closed: Seen, whole: Seen) -> None:
        self._came = FORGETTING * self._came + closed.pairs
        self._all = FORGETTING * self._all + whole.pairs


class Adaptive:
    """An exponential average whose weight is the tracking signal: how much of the recent errors has one sign."""

    def __init__(self) -> None:
        self.mean: float | None = None
        self._error, self._size = 0.0, 0.0
        self.variance = 0.0

    def follow(self, value: float) -> None:
        """One more value."""
        if self.mean is None:
            self.mean = value
            return
        off = value - self.mean
        self._error += SMOOTHING * (off - self._error)
        self._size += SMOOTHING * (abs(off) - self._size)
        self.variance += SMOOTHING * (off * off - self.variance)
        self.mean += (abs(self._error) / self._size if self._size else SMOOTHING) * off


class Pecj:
    """Rates of both streams, the share of them that arrives in time, and selectivity, each by an adaptive average; the
    rate that a window shows is weighed against the average by how far either has been off."""

    def __init__(self) -> None:
        self._rates = Adaptive(), Adaptive()
        self._came = Adaptive(), Adaptive()
        self._shown = Adaptive(), Adaptive()
        self._selectivity = Adaptive()

    def estimate(self, closed: Seen) -> float:
        found = [self._tuples(side, count) for side, count in enumerate((closed.left, closed.right))]
        tried = closed.left * closed.right
        # Pairs that have come tell of the selectivity of those that have not.
        mean = self._selectivity.mean
        share = closed.pairs / tried if tried else (mean or 0.0)
        if mean is not None and tried:
            trust = tried / (tried + self._pairs_of_mean())
            share = trust * share + (1 - trust) * mean
        return found[0] * found[1] * share

    def _pairs_of_mean(self) -> float:
        """As many pairs as tell of selectivity what the average does: the variance of one by that of the average."""
        mean, variance = self._selectivity.mean or 0.0, self._selectivity.variance
        return mean * (1 - mean) / variance if variance > 0 else 0.0

    def _tuples(self, side: int, count: int) -> float:
        rate, came = self._rates[side], self._came[side]
        if rate.mean is None or came.mean is None:
            return float(count)
        shown = count / max(came.mean, 1 / 64)
        of_shown, of_mean = self._shown[side].variance + 1e-9, rate.variance + 1e-9
        return (shown / of_shown + rate.mean / of_mean) / (1 / of_shown + 1 / of_mean)

    def learn(self, closed: Seen, whole: Seen) -> None:
        for side, (had, has) in enumerate(((closed.left, whole.left), (closed.right, whole.right))):
            if has:
                came = self._came[side]
                self._shown[side].follow(had / max(came.mean or 1.0, 1 / 64) - has)
                came.follow(had / has)
            self._rates[side].follow(float(has))
        if whole.left and whole.right:
            self._selectivity.follow(whole.pairs / (whole.left * whole.right))


ESTIMATORS: dict[str, Callable[[], Estimator]] = {"as it is": AsItIs, "scaled": Scaled, "PECJ": Pecj}
