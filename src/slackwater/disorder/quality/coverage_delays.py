"""The delays that the published model for aggregates goes by: R_stat over one stream.

Invariant: `counts` is the histogram of exactly those bins that the newest `width` places of the ring hold, where
`width` is the ADWIN window; bin 0 has the tuples in order, bin d those with a delay in ((d-1)g, dg].

ADWIN's bound is for values between 0 and 1. So it is told each delay as a share of the largest one so far, and when a
larger one comes, what it has summed up is brought to the new scale. Told delays in other units, the part of the bound
that allows for single large values counts for nothing: a burst of long delays is then taken for a change when it comes
and again when it has gone, and forgotten within seconds. The slack for a strict bound is the largest delay in R_stat,
so that decides how often the bound holds.

References: 004 §3.4.1 (R_stat, coarse-grained delays); Bifet & Gavaldà, SDM 2007 ([BG07]).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.compiled import in_place, inner
from slackwater.disorder.quality.adwin import DELTA, Adwins, adwins, push
from slackwater.model.batch import Words

Bins = npt.NDArray[np.int32]

MOST_DELAYS = 2**17
"""Delays that are remembered: minutes of a fast stream, and few enough to be persisted."""
MOST_BINS = 2**16
FIRST_ROOM, FIRST_BINS = 1024, 64
# Places in `Recent.marks`: tuples so far, the largest bin in the window, the largest bin so far.
ARRIVED, TOP, SCALE = range(3)


class Recent(NamedTuple):
    """The window's bins in a ring (a power of two of places), and their histogram."""

    ring: Bins
    counts: Words
    marks: Words


@inner
def rescale(a: Adwins, by: float) -> None:
    """All values in the window times a factor."""
    a.total[0] *= by
    a.spread[0] *= by * by
    for row in range(a.rows[0]):
        for k in range(a.buckets[0, row]):
            a.sums[0, row, k] *= by
            a.spreads[0, row, k] *= by * by


@in_place
def note(r: Recent, a: Adwins, delays: Words, granularity: int, last_bin: int, most: int) -> None:
    """Take delays in arrival order."""
    places = len(r.ring) - 1
    for i in range(len(delays)):
        into = 0
        if delays[i] > 0:
            into = min((delays[i] - 1) // granularity + 1, last_bin)
        if into > r.marks[SCALE]:
            rescale(a, r.marks[SCALE] / into)
            r.marks[SCALE] = into
        at = r.marks[ARRIVED]
        r.ring[at & places] = into
        r.counts[into] += 1
        r.marks[ARRIVED] = at + 1
        r.marks[TOP] = max(r.marks[TOP], into)
        oldest = at - a.width[0]
        for gone in range(oldest, oldest + push(a, 0, into / r.marks[SCALE], DELTA, most)):
            r.counts[r.ring[gone & places]] -= 1
    while r.marks[TOP] > 0 and r.counts[r.marks[TOP]] == 0:
        r.marks[TOP] -= 1


class RecentDelays:
    """The histogram of delays over as much of the past as looks like the present.

    >>> seen = RecentDelays(granularity=10)
    >>> seen.absorb(np.array([0, 3, 0, 11]))
    >>> seen.counts.tolist()
    [2, 1, 1]
    """

    def __init__(self, granularity: int, most: int = MOST_DELAYS) -> None:
        self._granularity, self._most = granularity, most
        self._adwin = adwins(1)
        self._recent = Recent(np.zeros(FIRST_ROOM, np.int32), np.zeros(FIRST_BINS, np.int64), np.array([0, 0, 1]))

    @property
    def width(self) -> int:
        """How many delays the window has."""
        return int(self._adwin.width[0])

    @property
    def counts(self) -> Words:
        """The histogram, up to the largest bin in the window; a view."""
        return self._recent.counts[: self._recent.marks[TOP] + 1]

    def absorb(self, delays: Words) -> None:
        """Take delays in arrival order; one below 0 counts as none."""
        if len(delays) == 0:
            return
        largest = min(int(delays.max()) // self._granularity + 1, MOST_BINS)
        self._make_room(min(self.width + len(delays), self._most + 1), largest)
        note(self._recent, self._adwin, delays, self._granularity, MOST_BINS, self._most)

    def _make_room(self, places: int, largest: int) -> None:
        ring, counts, marks = self._recent
        if largest >= len(counts):
            wider = np.zeros(1 << largest.bit_length(), np.int64)
            wider[: len(counts)] = counts
            counts = wider
        if places > len(ring):
            inside = np.arange(marks[ARRIVED] - self.width, marks[ARRIVED])
            longer = np.zeros(1 << (places - 1).bit_length(), np.int32)
            longer[inside & (len(longer) - 1)] = ring[inside & (len(ring) - 1)]
            ring = longer
        self._recent = Recent(ring, counts, marks)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state; the window's bins oldest first."""
        ring, _, marks = self._recent
        inside = np.arange(marks[ARRIVED] - self.width, marks[ARRIVED])
        found: dict[str, npt.NDArray[Any]] = {f"adwin_{n}": v.copy() for n, v in self._adwin._asdict().items()}
        return found | {"bins": ring[inside & (len(ring) - 1)], "marks": marks.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self._adwin = Adwins(*(np.array(arrays[f"adwin_{name}"]) for name in Adwins._fields))
        bins, marks = np.asarray(arrays["bins"], np.int32), np.array(arrays["marks"])
        counts = np.bincount(bins, minlength=max(FIRST_BINS, 1 << int(marks[TOP]).bit_length())).astype(np.int64)
        ring = np.zeros(max(FIRST_ROOM, 1 << max(0, len(bins) - 1).bit_length()), np.int32)
        ring[np.arange(marks[ARRIVED] - len(bins), marks[ARRIVED]) & (len(ring) - 1)] = bins
        self._recent = Recent(ring, counts, marks)
