"""ADWIN: how many of the newest values still look as if drawn from one distribution.

Invariant: the window is a chain of buckets, oldest in the highest row; a bucket of row r stands for 2^r values by their
sum and their sum of squared distances from their mean. No row has more than five buckets once a value is in, so a
window of n values takes about 5 log2(n / 5) buckets. Where two halves of the window, cut between buckets, have means
further apart than chance explains, the oldest bucket goes, until no such cut is left.

The bound on the distance of means is the paper's second one, with the variance of the window. A cut is looked for at
every 32nd value only and needs five values on either side, four of which do not count as evidence; that is how the
implementations in MOA and river have it. The bound is meant for values whose unit is near their spread; it lets through
too many cuts rather than too few where single values are much larger.

References: Bifet & Gavaldà, Learning from Time-Changing Data with Adaptive Windowing, SDM 2007 ([BG07] of 004 §3.4.1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import in_place, inner

BUCKETS = 5
"""M of the paper: the most buckets of one size."""
CLOCK = 32
SHORTEST_SIDE = 5
SHORTEST_WINDOW = 10
UNBOUNDED = 2**40
DELTA = 0.002
_ROWS = 42


class Adwins(NamedTuple):
    """One adaptive window a stream. Arrays over (stream), (stream, row) and (stream, row, bucket from the oldest)."""

    width: Words
    seen: Words
    total: Floats
    spread: Floats
    """Sum of squared distances from the window's mean."""
    rows: Words
    """Rows in use."""
    buckets: Words
    sums: Floats
    spreads: Floats


def adwins(streams: int) -> Adwins:
    """Empty windows."""
    none = np.zeros(streams, np.int64)
    inside = np.zeros((streams, _ROWS, BUCKETS + 1))
    return Adwins(
        none,
        none.copy(),
        np.zeros(streams),
        np.zeros(streams),
        none.copy(),
        np.zeros((streams, _ROWS), np.int64),
        inside,
        inside.copy(),
    )


@inner
def push(a: Adwins, s: int, value: float, delta: float, most: int) -> int:
    """Take one value into the window of stream s. Returns how many of the oldest values left."""
    _insert(a, s, value)
    left = 0
    if a.width[s] > most:
        left += _drop_oldest(a, s)
    a.seen[s] += 1
    if a.seen[s] % CLOCK == 0 and a.width[s] > SHORTEST_WINDOW:
        while _has_changed(a, s, delta):
            left += _drop_oldest(a, s)
    return left


@inner
def _insert(a: Adwins, s: int, value: float) -> None:
    width = a.width[s]
    if width > 0:
        distance = value - a.total[s] / width
        a.spread[s] += distance * distance * width / (width + 1)
    a.width[s] = width + 1
    a.total[s] += value
    a.rows[s] = max(a.rows[s], 1)
    a.sums[s, 0, a.buckets[s, 0]] = value
    a.spreads[s, 0, a.buckets[s, 0]] = 0.0
    a.buckets[s, 0] += 1
    row = 0
    size = 1.0
    while a.buckets[s, row] > BUCKETS:
        at = a.buckets[s, row + 1]
        apart = a.sums[s, row, 0] - a.sums[s, row, 1]
        a.sums[s, row + 1, at] = a.sums[s, row, 0] + a.sums[s, row, 1]
        # n n (u/n - v/n)^2 / (n + n), with sums u and v of n values each.
        a.spreads[s, row + 1, at] = a.spreads[s, row, 0] + a.spreads[s, row, 1] + apart * apart / (2.0 * size)
        a.buckets[s, row + 1] += 1
        _forget_buckets(a, s, row, 2)
        row += 1
        size *= 2.0
        a.rows[s] = max(a.rows[s], row + 1)


@inner
def _forget_buckets(a: Adwins, s: int, row: int, n: int) -> None:
    for k in range(n, a.buckets[s, row]):
        a.sums[s, row, k - n] = a.sums[s, row, k]
        a.spreads[s, row, k - n] = a.spreads[s, row, k]
    a.buckets[s, row] -= n


@inner
def _drop_oldest(a: Adwins, s: int) -> int:
    row = a.rows[s] - 1
    size = 1 << row
    rest = a.width[s] - size
    a.total[s] -= a.sums[s, row, 0]
    if rest > 0:
        distance = a.sums[s, row, 0] / size - a.total[s] / rest
        lost = a.spreads[s, row, 0] + distance * distance * size * rest / (size + rest)
        a.spread[s] = max(0.0, a.spread[s] - lost)
    else:
        a.spread[s] = 0.0
    a.width[s] = rest
    _forget_buckets(a, s, row, 1)
    while a.rows[s] > 0 and a.buckets[s, a.rows[s] - 1] == 0:
        a.rows[s] -= 1
    return size


@inner
def _has_changed(a: Adwins, s: int, delta: float) -> bool:
    if a.spread[s] == 0.0:
        return False
    width = a.width[s]
    evidence = math.log(2.0 * math.log(width) / delta)
    wide = 2.0 * evidence * a.spread[s] / width
    older = 0
    older_sum = 0.0
    for row in range(a.rows[s] - 1, -1, -1):
        for k in range(a.buckets[s, row]):
            older += 1 << row
            older_sum += a.sums[s, row, k]
            newer = width - older
            if newer < SHORTEST_SIDE:
                return False
            if older >= SHORTEST_SIDE:
                m = 1.0 / (older - SHORTEST_SIDE + 1) + 1.0 / (newer - SHORTEST_SIDE + 1)
                apart = abs(older_sum / older - (a.total[s] - older_sum) / newer)
                if apart > math.sqrt(wide * m) + 2.0 / 3.0 * evidence * m:
                    return True
    return False


@in_place
def _update(a: Adwins, s: int, values: Floats, delta: float, most: int) -> None:
    for i in range(len(values)):
        push(a, s, values[i], delta, most)


class Adwin:
    """One adaptive window over a stream of values.

    >>> window = Adwin()
    >>> window.update(np.zeros(1000))
    1000
    >>> window.update(np.ones(200)) < 300
    True
    """

    def __init__(self, delta: float = DELTA, most: int = UNBOUNDED) -> None:
        self._delta = delta
        self._most = most
        self._state = adwins(1)

    @property
    def width(self) -> int:
        """How many of the newest values the window has."""
        return int(self._state.width[0])

    @property
    def mean(self) -> float:
        """Mean of the values in the window; 0 where there are none."""
        return float(self._state.total[0]) / max(1, self.width)

    def update(self, values: Floats) -> int:
        """Take values in, oldest first. Returns the width after them."""
        _update(self._state, 0, np.ascontiguousarray(values, np.float64), self._delta, self._most)
        return self.width
