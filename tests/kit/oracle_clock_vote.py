"""The vote about clocks, arrival by arrival, in plain Python: the twin of `disorder.clock_vote` in tuple release."""

from __future__ import annotations

import itertools

SECOND = 1_000_000


class OracleClockVote:
    """One stream, without arrival times."""

    def __init__(self, max_ahead: int) -> None:
        self.max_ahead, self.tolerance = max_ahead, min(SECOND, max_ahead)
        self.clock: int | None = None
        self.arrivals = 0
        self.run: list[int] = []
        self._begin_anew(None, 0)

    def _begin_anew(self, clock: int | None, step: int) -> None:
        if clock is not None:
            self.clock = clock if self.clock is None else max(self.clock, clock)
        self.run, self.stride, self.step, self.gap, self.delay = [], 1, step, max(1, step), 0
        self.lately = [0] * 8
        self.samples: list[tuple[int, int]] = []
        """How far ahead every so many-th arrival was, and the clock when it came."""

    @property
    def allowed(self) -> int:
        fast = 0 < self.step < self.tolerance
        if self.arrivals < 4 and not fast:
            return self.max_ahead
        if self.arrivals < 16:
            return max(10 * self.tolerance, 32 * self.step)
        return max(self.tolerance, 8 * self.step, 2 * self.delay, min(20 * self.gap, 5 * self.tolerance))

    def advance_clock(self, t: int) -> None:
        """A tuple has come."""
        self.arrivals += 1
        if self.clock is None:
            self.run.append(t)
            if len(self.run) >= 2:
                self._agree(self.run[-63:])
            return
        lead = t - self.clock
        if self.arrivals % self.stride == 0:
            self.samples.append((lead, self.clock))
            self._learn()
        behind = sorted(self.lately)[-2]
        fast = self.arrivals >= 16 and self.gap * 64 < self.tolerance
        at_once = lead * 8 <= self.tolerance or lead <= self.allowed + (min(0, behind) if fast else 0)
        self.lately = [*self.lately[1:], lead]
        if at_once:
            self.run = []
            self.clock = max(self.clock, t)
            fast = 0 < self.step < self.tolerance
            if self.arrivals < 16 and (not fast or lead <= 8 * self.step):
                self.step = max(self.step, lead)
            return
        self.run.append(t)
        asked = min(max(8 * self.tolerance // (5 * self.gap), 5), 1000)
        few = 5 if self.arrivals < 64 else 24
        near = self.arrivals < 64 and t - self.clock <= 10 * self.tolerance
        slow = len(self.run) >= few and (near or self.run[-1] - self.run[-few] >= 60 * self.tolerance)
        share = self._share()
        if len(self.run) >= asked or slow:
            self._agree(self.run[-63:])
        elif share is not None and lead <= share:
            self._begin_anew(t, self.step)

    def _agree(self, times: list[int]) -> None:
        times = sorted(times)
        n = len(times)
        middle = times[n // 2]
        apart = 10 * self.tolerance if n == 2 else self.max_ahead
        if self.clock is None and n < 9 and 2 * sum(abs(t - middle) <= apart for t in times) <= n:
            return
        low, high = n // 4, min(n - 1, n // 2 + max(1, n // 4))
        step = (middle - times[low]) // max(1, n // 2 - low)
        if n > 2:
            step = min(step, (times[high] - middle) // max(1, high - n // 2))
        if self.clock is None and n < 16:
            near = [(a, b) for a, b in itertools.pairwise(times) if max(abs(a - middle), abs(b - middle)) <= apart]
            longest = 8 * max(step, 10 * self.tolerance)
            step = max([step, *(b - a for a, b in near if b - a <= longest)])
        last = middle
        for t in times[n // 2 :]:
            if t - last <= max(self.tolerance, 8 * step):
                last = t
        self._begin_anew(last, step)

    def _share(self) -> int | None:
        leads = sorted(lead for lead, _ in self.samples[-63:])
        n = len(leads)
        if n < 9:
            return None
        return leads[n - ((n + 1) // 2 if n <= 15 else 11 if n <= 31 else 16)]

    def _learn(self) -> None:
        if len(self.samples) > 15 and len(self.samples) % 16:
            return
        assert self.clock is not None
        usual = self._share()
        if usual is not None and usual <= self.allowed:
            self.step = max(0, usual)
            leads = sorted(lead for lead, _ in self.samples[-63:])
            self.delay = max(0, -leads[len(leads) // 2])
        lately = self.samples[-64:]
        covered = self.clock - lately[0][1]
        self.gap = max(1, covered // (len(lately) * self.stride))
        if len(lately) < 64:
            return
        if covered < 5 * self.tolerance:
            self.samples = lately[1::2]
            self.stride *= 2
        elif covered > 20 * self.tolerance and self.stride > 1:
            self.stride //= 2
