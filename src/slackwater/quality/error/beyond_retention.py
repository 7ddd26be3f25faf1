"""Windows that are counted already, in few words, and what tuples cost that come for them nevertheless.

A bucket has 64 windows, a bit each: which of them had tuples, which were off, and for which something came later still.
A window that had no tuples and gets one was never emitted: that is certain. Whether one that was within the bound is
off now depends on how many tuples it is missing and how many it had; both are known by bucket, on average.

Invariant: what is estimated lies between none and all of the windows that something came for, so the truth lies within
`unsure` of the estimate. Where an answer may hang on a single tuple (`cautious`), all of them count as off, and may be
good (`doubtful`). `MOST_BUCKETS` are kept; of windows older than that only sums are left, and a tuple for them
costs what others have cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import erfc, exp, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Flags, Words
from slackwater.quality.error.answers import DOUBTFUL, WITHIN

# Rows of what is told of counted windows.
VERDICT, TUPLES_THERE, GROUPS_THERE = range(3)
BITS = 64
MOST_BUCKETS = 4096
BUCKETS_A_CHUNK = 64
"""Buckets that are persisted together."""
# Places in a bucket: three sets of windows as bits, tuples and groups (summed over windows, of their first slide), and
# how often a late tuple met a window that had tuples.
FILLED, SPOILED, TOUCHED, TUPLES, GROUPS, MET = range(6)
ALL = (1 << BITS) - 1


class LostWindows(NamedTuple):
    """What late tuples have done to counted windows, as far as is known."""

    spoiled: float
    """Windows that were within the bound and are off."""
    never: float
    """Windows that were never emitted."""
    unsure: float
    """How far from that the truth may be, in windows."""
    doubtful: float
    """How many more windows may be good, beyond that."""


class OldWindows:
    """The counted windows of a query."""

    def __init__(self, cautious: bool = False) -> None:
        self._cautious = cautious
        self._buckets: dict[int, list[int]] = {}
        self.filled, self.off, self.late, self.doubtful = 0, 0, 0, 0
        """Windows with tuples, those of them that were off when they were counted, tuples that came later still, and
        windows among those off that were doubtful."""
        self._oldest = -(2**62)
        """Buckets before this one are forgotten."""
        self._lost = 0
        """How often a tuple met a window of a forgotten bucket."""
        self._settled = [0.0, 0.0, 0.0, 0.0]
        """Of forgotten buckets: spoiled, never emitted, how many fewer and how many more could be good."""

    def add(self, first: int, verdicts: Words) -> None:
        """Windows from a number on are counted."""
        last = first + verdicts.shape[1] - 1
        self.doubtful += int((verdicts[VERDICT] == DOUBTFUL).sum())
        for number in range(first // BITS, last // BITS + 1):
            begin, end = max(first, BITS * number), min(last, BITS * number + BITS - 1)
            some = verdicts[:, begin - first : end + 1 - first]
            filled, off = (_as_bits(some[VERDICT] >= least) << begin % BITS for least in (WITHIN, DOUBTFUL))
            bucket = self._of(number) if filled else None
            self.filled += filled.bit_count()
            self.off += off.bit_count()
            if bucket is not None:
                bucket[FILLED] |= filled
                bucket[SPOILED] |= off
                bucket[TUPLES] += int(some[TUPLES_THERE].sum())
                bucket[GROUPS] += int(some[GROUPS_THERE].sum())

    def touch(self, beyond: Words) -> None:
        """Tuples have come for counted windows, each for those from a first to a last."""
        self.late += beyond.shape[1]
        # Late tuples of one moment mostly belong to the same windows.
        spans, times = np.unique(beyond, axis=1, return_counts=True)
        for (first, last), count in zip(spans.T.tolist(), times.tolist(), strict=True):
            for number in range(first // BITS, last // BITS + 1):
                begin, end = max(first, BITS * number) - BITS * number, min(last, BITS * number + 63) - BITS * number
                bits = (ALL >> (BITS - 1 - end)) & (ALL << begin)
                bucket = self._of(number)
                if bucket is None:
                    self._lost += count * (end - begin + 1)
                    continue
                bucket[TOUCHED] |= bits
                bucket[MET] += count * (bucket[FILLED] & bits).bit_count()

    def _of(self, number: int) -> list[int] | None:
        if number < self._oldest:
            return None
        if number not in self._buckets:
            self._buckets[number] = [0] * 6
            if len(self._buckets) > MOST_BUCKETS:
                self._forget(min(self._buckets))
        return self._buckets.get(number)

    def _forget(self, number: int) -> None:
        self._oldest = number + 1
        for place, cost in enumerate(self._cost(self._buckets.pop(number))):
            self._settled[place] += cost

    _judged_by = (1.0, 1.0)
    """The share that may be missing and the slides in a range, as last asked for."""

    def lost_windows(self, allowed: float, overlap: float) -> LostWindows:
        """What late tuples have cost, where a share of a window may be missing."""
        self._judged_by = (allowed, overlap)
        spoiled, never, fewer, more = self._settled
        for bucket in self._buckets.values():
            if bucket[TOUCHED]:
                cost = self._cost(bucket)
                spoiled, never, fewer, more = spoiled + cost[0], never + cost[1], fewer + cost[2], more + cost[3]
        if self._lost:
            met = sum(bucket[MET] for bucket in self._buckets.values())
            by_experience = min(float(self._lost), self._lost * spoiled / met if met else 0.5 * self._lost)
            spoiled, fewer = spoiled + (self._lost if self._cautious else by_experience), fewer + self._lost
            more += self._lost
        if self._cautious:
            return LostWindows(min(spoiled, self.filled - self.off), never, 0.0, spoiled + more)
        return LostWindows(spoiled, never, max(fewer - spoiled, spoiled + more) if self.late else 0, 0.0)

    def _cost(self, bucket: list[int]) -> tuple[float, int, int, int]:
        allowed, overlap = self._judged_by
        return _cost(bucket, 0.0 if self._cautious else allowed, overlap)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, buckets by chunks of neighbours."""
        found: dict[str, npt.NDArray[Any]] = {
            "counts": np.array([self.filled, self.off, self.late, self._oldest, self._lost]),
            "doubtful": np.array([self.doubtful]),
            "settled": np.array([*self._settled, *self._judged_by]),
        }
        chunks: dict[int, list[list[int]]] = {}
        for number in sorted(self._buckets):
            chunks.setdefault(number // BUCKETS_A_CHUNK, []).append([number, *self._buckets[number]])
        for number, rows in chunks.items():
            found[f"buckets_{number}"] = np.array([[x & ALL for x in row] for row in rows], np.uint64).view(np.int64)
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self.filled, self.off, self.late, self._oldest, self._lost = arrays["counts"].tolist()
        self.doubtful = int(arrays["doubtful"][0])
        *self._settled, allowed, overlap = arrays["settled"].tolist()
        self._judged_by = (allowed, overlap)
        self._buckets = {}
        for name, rows in arrays.items():
            if name.startswith("buckets_"):
                for number, *bucket in rows.tolist():
                    self._buckets[number] = [bits & ALL for bits in bucket[:TUPLES]] + bucket[TUPLES:]


def _as_bits(flags: Flags) -> int:
    """Flags as the bits of a number, the first one lowest."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _cost(bucket: list[int], allowed: float, overlap: float) -> tuple[float, int, int, int]:
    """Spoiled (estimated) and never emitted; how many could be spoiled at most, and how many could have become good."""
    filled, touched = bucket[FILLED], bucket[TOUCHED]
    never = (touched & ~filled).bit_count()
    open_to = (touched & filled & ~bucket[SPOILED]).bit_count()
    again = (touched & bucket[SPOILED]).bit_count()
    if not open_to:
        return 0.0, never, 0, again
    windows = filled.bit_count()
    groups = max(1.0, bucket[GROUPS] / windows)
    had = overlap * bucket[TUPLES] / windows / groups
    missing = bucket[MET] / (open_to + again)
    # The tuples of a window may be spread over its groups, or be of one: most devices that come late come alone.
    return open_to * _more_than(missing - 1.0, int(allowed * had)), never, open_to, again


def _more_than(mean: float, most: int) -> float:
    """The chance that a window misses more tuples than it may: one, and others that come independently.

    >>> _more_than(0.0, 0), _more_than(0.0, 1), round(_more_than(3.0, 1), 2)
    (1.0, 0.0, 0.95)
    """
    if most == 0:
        return 1.0
    if most > 30:
        return 0.5 * erfc((most - 0.5 - mean) / sqrt(2.0 * max(mean, 1e-9)))
    term, below = exp(-mean), 0.0
    for k in range(most):
        below += term
        term *= mean / (k + 1)
    return max(0.0, 1.0 - below)
