"""Windows that follow rates, slow and obvious: every tuple in time is kept, and every sample counted anew.

Invariant: shares no code with the kernel.

References: 001 §2.2, §2.3, Fig. 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from slackwater.core.rates import Resize
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import RateWindows
from tests.kit.oracle_release import Tuple

ENOUGH = 1 / 32
"""What changes by a smaller part is left as it is."""
FIRST_WITHIN = 30 * 60 * 1_000_000


class SlowRates:
    """Follows the tuples in time of a join, in order, and says what is in force. Intervals are event time."""

    def __init__(self, join: WindowJoin) -> None:
        spec = join.policy
        assert isinstance(spec, RateWindows), "windows that follow rates"
        assert not spec.by_arrival, "this twin knows no time but event time"
        self.spec = spec
        self.sizes = list(spec.last)
        self.within = FIRST_WITHIN if spec.within is None else spec.within
        self.slice = -(-max(spec.intervals) // spec.slices)
        self.resizes: list[Resize] = []
        self._times: list[list[int]] = [[] for _ in spec.intervals]
        self._begun: int | None = None
        self._next = 0
        self._peeks: list[int] = []
        self._now: int | None = None

    def before(self, ts: int) -> bool:
        """A tuple with this time comes next; tells whether time moves on."""
        if self._now is not None and ts <= self._now:
            return False
        self._now = ts
        before = (list(self.sizes), self.within)
        if self._begun is None:
            self._begun, self._next = ts, ts + self.slice
            self._peeks = [ts + max(1, self.slice // 32) * 2**n for n in range(64)]
        elif ts >= self._next:
            self._end_of_slices(ts)
        elif self.spec.slices > 1:
            self._peek(ts)
        if self.spec.slices > 1:
            self._grow(ts)
        if (self.sizes, self.within) != before:
            self.resizes.append(Resize(ts, tuple(self.sizes), self.within))
        return True

    def _end_of_slices(self, ts: int) -> None:
        assert self._begun is not None
        last = max(max(mine, default=self._begun) for mine in self._times)
        self._peeks = []
        end = self._next + (ts - self._next) // self.slice * self.slice
        self._next = end + self.slice
        if self.spec.slices == 1:
            # Each round is a sample; of several that are over, only the one with the last tuple has heard something.
            end = self._begun + ((last - self._begun) // self.slice + 1) * self.slice
            self._take(end - self.slice, end, None)
        else:
            # The first slice was made of guesses, and is left out as soon as there are two others.
            oldest = self._begun if end <= self._begun + 2 * self.slice else self._begun + self.slice
            begin = max(oldest, end - self.spec.slices * self.slice)
            self._take(begin, end, end - begin)

    def _take(self, begin: int, end: int, elapsed: int | None) -> None:
        sample = [[ts for ts in mine if begin <= ts < end] for mine in self._times]
        span = max((max(mine) - min(mine) for mine in sample if mine), default=0)
        if elapsed is not None:
            span = elapsed if any(sample) else 0
        if span == 0:
            return
        for i, (mine, interval) in enumerate(zip(sample, self.spec.intervals, strict=True)):
            wanted = max(1, math.ceil(min(len(mine) * (interval / span), 2**61)))
            if abs(wanted - self.sizes[i]) > ENOUGH * self.sizes[i]:
                self.sizes[i] = wanted
        self._new_distance(begin, end)

    def _peek(self, ts: int) -> None:
        """In the first slice epsilon is looked at early: after a 32nd of it, twice as much, and so on."""
        due = [peek for peek in self._peeks if peek <= ts]
        self._peeks = self._peeks[len(due) :]
        if due and self._begun is not None:
            self._new_distance(self._begun, due[-1])

    def _grow(self, ts: int) -> None:
        """A window never has less than what came in its interval, but for the first of the slices that make it; one
        shorter than what has gone by of a slice has its share of what came meanwhile."""
        begun = self._next - self.slice
        for i, (mine, interval) in enumerate(zip(self._times, self.spec.intervals, strict=True)):
            since = begun - (-(-interval // self.slice) - 1) * self.slice
            # What is older than the sample is forgotten, however long the interval.
            since = max(since, begun - (self.spec.slices - 1) * self.slice)
            needed = sum(ts >= since for ts in mine)
            if interval < ts - begun:
                needed = math.ceil(needed * (interval / (ts - begun)))
            if needed > self.sizes[i]:
                self.sizes[i] = needed + needed // 32

    def _new_distance(self, begin: int, end: int) -> None:
        sample = [[ts for ts in mine if begin <= ts < end] for mine in self._times]
        within = max(map(self._interval, sample, self._times, [end - begin] * 2)) // 2
        if self.spec.within is None and within > 0 and abs(within - self.within) > ENOUGH * self.within:
            self.within = within

    @staticmethod
    def _interval(mine: list[int], all_times: list[int], elapsed: int) -> int:
        if len(mine) > 1:
            return (mine[-1] - mine[0]) // (len(mine) - 1)
        return all_times[-1] - all_times[-2] if len(all_times) > 1 else elapsed

    def left_in(self, stream: int, window: list[Tuple]) -> list[Tuple]:
        """What a window holds when time has moved on: its newest tuples, and those of the time of the oldest."""
        return newest_of(window, self.sizes[stream])

    def after(self, e: Tuple) -> None:
        """A tuple has been processed."""
        self._times[e.stream].append(e.ts)

    def match(self, members: Iterable[Tuple]) -> bool:
        """Whether tuples are near enough in time."""
        times = [e.ts for e in members]
        return max(times) - min(times) <= self.within


def newest_of(window: list[Tuple], size: int) -> list[Tuple]:
    """The last tuples of a window, and all others of the time of the first of these."""
    return window if len(window) <= size else [e for e in window if e.ts >= window[-size].ts]


def resizes_of(spec: WindowJoin, tuples: Iterable[Tuple]) -> list[Resize]:
    """What comes into force while these tuples are processed in the order of their times."""
    rates = SlowRates(spec)
    for e in sorted(tuples, key=lambda e: e.ts):
        rates.before(e.ts)
        rates.after(e)
    return rates.resizes
