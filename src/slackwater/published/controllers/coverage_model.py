"""How complete a window will be under slack K: Eq. 3.6 and 4.2 for all K = 0, g, 2g, ... at once.

Invariant: entry k of every array is the model's answer for slack k g, equal to what the equations give when they are
evaluated for that K alone. With late(x) = delays beyond bin x, the tuples missing from a basic window are late(x) for
the x that slack, skew and the age of the basic window add up to; so the sum over the basic windows of all windows is
a difference of two suffix sums of `late`, taken in strides. All counts are integers, so nothing is lost on the way.

What the equations leave open:

- K_sync not a multiple of g: rounded down to bins (what it covers beyond them is not counted);
- b not a multiple of g: basic window l has received the delays up to (l-1) b / g bins, rounded down. With b / g = p / q
  in lowest terms there are q suffix sums of stride p to be taken, in place of one: cheap for 15 ms over 10 ms, and as
  slow as trial and error for 10.007 ms;
- no delays known yet: nothing is expected to be late;
- a window of length 0: what arrives in order.

References: 004 §3.4.1 (Eq. 3.4-3.6), §4.1.5 (Eq. 4.2, Alg. 4.4).
"""

from __future__ import annotations

from math import gcd

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import in_place, inner


@inner
def count_late(counts: Words, p: int, late: Words, chain: Words) -> int:
    """Fill in how many delays lie beyond each bin, and their sums in strides of p; returns how many there are."""
    top = len(counts) - 1
    beyond = 0
    for x in range(top, -1, -1):
        late[x] = beyond
        beyond += counts[x]
        chain[x] = late[x] + (chain[x + p] if x + p <= top else 0)
    return beyond


@inner
def shares_at(
    begin: int, top: int, total: int, window: int, basic: int, p: int, q: int, late: Words, chain: Words
) -> tuple[float, float]:
    """The share in order, and the coverage of a window, where slack and skew reach to bin `begin`."""
    whole = max(0, (window + basic - 1) // basic - 1)
    rest = window - whole * basic
    missing = 0
    for v in range(min(q, whole)):
        x = begin + v * p // q
        if x >= top:
            break
        end = x + ((whole - 1 - v) // q + 1) * p
        missing += chain[x] - (chain[end] if end <= top else 0)
    oldest = begin + whole * p // q
    missing_rest = late[oldest] if oldest < top else 0
    in_order = (total - late[begin]) / total if begin < top and late[begin] > 0 else 1.0
    if missing == 0 and missing_rest == 0:
        return in_order, 1.0
    if window == 0:
        return in_order, in_order
    held = float(basic) * float(whole * total - missing) + float(rest) * float(total - missing_rest)
    return in_order, held / (float(total) * float(window))


@in_place
def _shares(
    counts: Words, shift: int, window: int, basic: int, p: int, q: int, late: Words, chain: Words, shares: Floats
) -> None:
    """Fill row 0 of `shares` with the share in order, row 1 with the coverage; `late` and `chain` are scratch."""
    total = count_late(counts, p, late, chain)
    for k in range(shares.shape[1]):
        shares[0, k], shares[1, k] = shares_at(k + shift, len(counts) - 1, total, window, basic, p, q, late, chain)


def window_shares(
    counts: Words, window: int, basic: int, granularity: int, skew: float = 0.0, candidates: int | None = None
) -> Floats:
    """Row 0: the share of tuples in order, f(0) of D^K (Eq. 3.4); row 1: the coverage of a window (Eq. 3.6 / r W).

    `counts` is the delay histogram, window and skew (K_sync) are microseconds. Candidates are K = 0, g, ..., by default
    up to the largest delay in the histogram.

    >>> shares = window_shares(np.array([6, 2, 1, 1]), window=3, basic=1, granularity=1)
    >>> shares[0].tolist()
    [0.6, 0.8, 0.9, 1.0]
    >>> shares[1].round(4).tolist()
    [0.7667, 0.9, 0.9667, 1.0]
    """
    histogram = np.ascontiguousarray(counts, np.int64)
    shares = np.empty((2, len(histogram) if candidates is None else candidates))
    scratch = np.empty((2, len(histogram)), np.int64)
    common = gcd(basic, granularity)
    shift = min(max(0, int(skew)) // granularity, len(histogram))
    _shares(histogram, shift, window, basic, basic // common, granularity // common, scratch[0], scratch[1], shares)
    return shares


def coverages(counts: Words, window: int, basic: int, granularity: int) -> Floats:
    """Cvrg(w, K) of the next window of an aggregate, for K = 0, g, ... up to the largest delay (Eq. 4.2)."""
    return window_shares(counts, window, basic, granularity)[1]


def smallest_slack(quality: Floats, target: float, granularity: int) -> int:
    """The least K whose quality meets the target, or else the largest K there is (Alg. 4.4, and 4.7 for joins).

    >>> smallest_slack(np.array([0.6, 0.8, 0.95, 1.0]), target=0.9, granularity=10)
    20
    """
    met = quality >= target
    return int(np.argmax(met) if met.any() else len(quality) - 1) * granularity


class Calibration:
    """Corrects modelled coverages by how past ones turned out (004 §4.1.5 leaves the form open).

    What is corrected is the share that is *missing*, by the ratio of all measured to all estimated missing shares, with
    older pairs fading out. A factor on the coverage itself would put coverage 1 out of reach however long one waits,
    and a target close to 1 would then always end at the largest slack. The ratio stays within 1/8 and 8.

    >>> seen = Calibration()
    >>> seen.note(estimated=0.99, measured=0.98)
    >>> seen.apply(np.array([0.9, 0.99, 1.0])).round(3).tolist()
    [0.8, 0.98, 1.0]
    """

    BOUND = 8.0

    def __init__(self, memory: float = 100.0) -> None:
        self._keep = 1.0 - 1.0 / memory
        self.estimated_missing = 0.0
        self.measured_missing = 0.0

    def note(self, estimated: float, measured: float) -> None:
        """A window's coverage as it was estimated for the slack in force, uncorrected, and as it was measured."""
        self.estimated_missing = self._keep * self.estimated_missing + (1.0 - estimated)
        self.measured_missing = self._keep * self.measured_missing + (1.0 - measured)

    @property
    def ratio(self) -> float:
        """How many times more is missing than estimated."""
        if self.estimated_missing <= 0.0:
            return self.BOUND if self.measured_missing > 0.0 else 1.0
        return min(max(self.measured_missing / self.estimated_missing, 1.0 / self.BOUND), self.BOUND)

    def apply(self, coverage: Floats) -> Floats:
        """Coverages as experience says they will be."""
        return np.maximum(0.0, 1.0 - (1.0 - coverage) * self.ratio)
