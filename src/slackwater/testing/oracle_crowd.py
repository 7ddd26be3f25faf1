"""The vote about clocks, arrival by arrival, in plain Python: the twin of `disorder.crowd` in tuple release."""

from __future__ import annotations

SECOND = 1_000_000


class OracleCrowd:
    """One stream, without arrival times."""

    def __init__(self, max_ahead: int) -> None:
        self.max_ahead, self.tolerance = max_ahead, min(SECOND, max_ahead)
        self.arrivals: list[tuple[int, int | None]] = []
        """Event times, and the clock when they came."""
        self.clock: int | None = None
        self.limit: int | None = None

    def hear(self, t: int) -> None:
        """A tuple has come."""
        self.arrivals.append((t, self.clock))
        if self.limit is None or t > self.limit or len(self.arrivals) % 256 == 0:
            self._vote()
        if self.limit is not None and t <= self.limit:
            self._reach(t)

    def _reach(self, t: int) -> None:
        self.clock = t if self.clock is None else max(self.clock, t)

    def _asked(self) -> list[int]:
        heard = min(len(self.arrivals), 63)
        for n in (9, 15, 31):
            if heard <= n:
                return [t for t, _ in self.arrivals[-n:]]
            before = self.arrivals[-n][1]
            if before is not None and self.clock is not None and self.clock - before >= self.tolerance:
                return [t for t, _ in self.arrivals[-n:]]
        return [t for t, _ in self.arrivals[-63:]]

    def _vote(self) -> None:
        lately = sorted(self._asked(), reverse=True)
        n = len(lately)
        if n < 3:
            return
        k = (n + 1) // 2 if n <= 15 else 11 if n <= 31 else 16
        u, w = lately[k - 1], lately[min(2 * k, n) - 1]
        if self.clock is None and n < 9 and u - w > self.max_ahead:
            return
        self.limit = u + max(self.tolerance, 3 * (u - w))
        self._reach(max(t for t in lately if t <= self.limit))
