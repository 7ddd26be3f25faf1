"""How productive the tuples of the last interval were, by their delays (the maps M-cross and M-join).

Invariant: a tuple in time counts with what it met and made: n-cross, the product of the numbers of tuples in the other
windows at that moment, and n-join, its results. A late tuple makes nothing, so as published it counts with the most
that any tuple in time of the same interval met and made. Bin 0 holds the tuples without a delay, bin d those with a
delay in ((d-1)g, dg].

So the sum of M-join is the estimate of the interval's true results. It errs on the high side: the late tuples are
ordinary ones, and are taken for the best. Whoever needs the truth asks the ledger; this is for the published methods.

What is in a window is known by event times alone, a heap of them for every stream: tuples in time come in order and
stay where they are put, late ones find their place, and the oldest is at hand when it expires.

References: 004 §4.2.4 (Alg. 4.6, Eq. 4.7), 003 §IV-B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.heap import Heap, pop, push
from slackwater.core.jit import in_place, inner
from slackwater.disorder.ordered_batch import OrderedBatch

CROSS, JOIN = 0, 1
FIRST_CAPACITY = 1024
FIRST_BINS = 64
MOST_BINS = 2**16


class Inside(NamedTuple):
    """Event times in the window of each stream, as min-heaps."""

    ts: Words
    size: Words


class Maps(NamedTuple):
    """What the interval has shown so far."""

    in_time: Floats
    """(CROSS and JOIN, bin): sums over the tuples in time."""
    most: Floats
    """(CROSS and JOIN): the largest of a single tuple in time."""
    late: Words
    """(bin): how many tuples were late."""


class Profile(NamedTuple):
    """The maps of a whole interval by bin, and what the interval really made."""

    cross: Floats
    join: Floats
    made: float

    @property
    def true(self) -> float:
        """The true results there would have been, as estimated."""
        return float(self.join.sum())


class Profiler(Protocol):
    """Watches what a join takes in and makes, one interval after another."""

    windows: Words
    granularity: int

    def note(self, run: OrderedBatch, made: Floats, raw: OrderedBatch | None = None) -> None:
        """A run, how many results each of its tuples has made, and the raw tuples, where these are
        others."""

    def take(self) -> Profile:
        """The interval that ends here; the next one begins."""

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, to go on from elsewhere."""

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""


@in_place
def note(
    w: Inside,
    maps: Maps,
    stream: Words,
    ts: Words,
    watermark_at_arrival: Words,
    bins: Words,
    made: Floats,
    windows: Words,
) -> None:
    """Take tuples in processing order; `made` says how many results each has made."""
    for i in range(len(ts)):
        s, t = stream[i], ts[i]
        if t < watermark_at_arrival[i]:
            maps.late[bins[i]] += 1
            if t >= watermark_at_arrival[i] - windows[s]:
                enter(w, s, t)
            continue
        cross = 1.0
        for j in range(len(windows)):
            while w.size[j] > 0 and w.ts[j, 0] < t - windows[j]:
                drop_oldest(w, j)
            if j != s:
                cross *= w.size[j]
        maps.in_time[CROSS, bins[i]] += cross
        maps.in_time[JOIN, bins[i]] += made[i]
        maps.most[CROSS] = max(maps.most[CROSS], cross)
        maps.most[JOIN] = max(maps.most[JOIN], made[i])
        enter(w, s, t)


@inner
def enter(w: Inside, s: int, t: int) -> None:
    """Put an event time into the window of stream s."""
    ts = w.ts[s]
    push(Heap(ts, ts, ts), w.size[s], t, t, t)
    w.size[s] += 1


@inner
def drop_oldest(w: Inside, s: int) -> None:
    """Take the smallest event time out of the window of stream s."""
    ts = w.ts[s]
    pop(Heap(ts, ts, ts), w.size[s])
    w.size[s] -= 1


class ProductivityProfiler:
    """Watches what a join takes in and makes, one interval after another."""

    def __init__(self, windows: Sequence[int], granularity: int) -> None:
        streams = len(windows)
        self.windows, self.granularity = np.array(windows, np.int64), granularity
        self._inside = Inside(np.zeros((streams, FIRST_CAPACITY), np.int64), np.zeros(streams, np.int64))
        self._maps = _no_maps(FIRST_BINS)

    def note(self, run: OrderedBatch, made: Floats, raw: OrderedBatch | None = None) -> None:
        """A run that the join has processed, and how many results each of its tuples has made."""
        if len(run) == 0:
            return
        bins = bins_of(run.delay, self.granularity)
        self._reserve(int(np.bincount(run.stream).max()), int(bins.max()))
        ts = np.ascontiguousarray(run.ts)
        note(self._inside, self._maps, run.stream, ts, run.watermark_at_arrival, bins, made, self.windows)

    def _reserve(self, arriving: int, largest_bin: int) -> None:
        w, maps = self._inside, self._maps
        needed = int(w.size.max()) + arriving
        if needed > w.ts.shape[1]:
            self._inside = w._replace(ts=widened(w.ts, needed))
        if largest_bin >= len(maps.late):
            self._maps = Maps(widened(maps.in_time, largest_bin + 1), maps.most, widened(maps.late, largest_bin + 1))

    def take(self) -> Profile:
        """The interval that ends here; the next one begins."""
        maps, self._maps = self._maps, _no_maps(FIRST_BINS)
        made = float(maps.in_time[JOIN].sum())
        cross, join = maps.in_time + maps.most[:, None] * maps.late
        seen = np.flatnonzero(cross + join + maps.late)
        end = int(seen[-1]) + 1 if len(seen) else 0
        return Profile(cross[:end], join[:end], made)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, to go on from elsewhere."""
        w, maps = self._inside, self._maps
        return {
            "inside": np.concatenate([w.ts[s, :size] for s, size in enumerate(w.size)]), "size": w.size.copy(),
            "in_time": maps.in_time.copy(), "most": maps.most.copy(), "late": maps.late.copy(),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        self._maps = Maps(*(np.array(arrays[name]) for name in Maps._fields))
        size = np.array(arrays["size"])
        ts = widened(np.zeros((len(size), FIRST_CAPACITY), np.int64), int(size.max()))
        for s, inside in enumerate(np.split(arrays["inside"], np.cumsum(size)[:-1])):
            ts[s, : len(inside)] = inside
        self._inside = Inside(ts, size)


def bins_of(delay: Words, granularity: int) -> Words:
    """The bin of each delay."""
    return np.minimum(-(-np.maximum(delay, 0) // granularity), MOST_BINS)


def _no_maps(bins: int) -> Maps:
    return Maps(np.zeros((2, bins)), np.zeros(2), np.zeros(bins, np.int64))


def widened(array: npt.NDArray[Any], needed: int) -> npt.NDArray[Any]:
    """The same with at least so many places in its last dimension."""
    before = array.shape[-1]
    if needed <= before:
        return array
    wide = np.zeros((*array.shape[:-1], 1 << (needed - 1).bit_length()), array.dtype)
    wide[..., :before] = array
    return wide
