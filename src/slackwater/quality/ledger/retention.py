"""How long tuples are kept to count what late ones have lost.

A stated retention is kept to. Else it follows what is seen: at least a minute and the period of the target, as long as
nearly all late tuples have turned out to need, and everything while there are few tuples; at most as long as a bounded
number of tuples reaches.

Invariant: of every stream all tuples from `known` on, less its window, are there. `known` never goes back, so that what
was forgotten once is not taken for known when the retention grows later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.jit import inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, MINUTE

FEW, MOST = 1 << 16, 1 << 20
"""Tuples of all streams that are kept anyway, and that are kept at most."""
FEW_SCANNED, MOST_SCANNED = 1 << 12, 1 << 16
"""The same where all of them are looked at for each late tuple, because no key leads to its partners."""
COVERED = 0.999
"""The share of late tuples that the retention is to be long enough for."""
STATED, ALL, DELAYS, MEMORY = "stated", "all", "delays", "memory"


class Retained(Protocol):
    """The tuples that are kept."""

    @property
    def held(self) -> int:
        """How many they are, or at most are."""

    def times(self) -> Sequence[Words]:
        """The event times of all, by stream."""

    def drop(self, since: Words) -> None:
        """What lies before these event times, one for each stream, goes."""


class Retention:
    """From which event time on everything is known.

    >>> stated = Retention(30, automatic=False, scanning=False)
    >>> stated.move(None, 100, np.array([5, 5]))
    >>> stated.known, stated.in_force
    (70, 30)
    """

    def __init__(self, least: int, automatic: bool, scanning: bool) -> None:
        self.least, self.automatic = least, automatic
        self.known = BEFORE_ALL
        self.lateness = np.zeros(256, np.int64)
        """How far late tuples were behind the watermark, by powers of two in quarters."""
        self.why = ALL if automatic else STATED
        self._few, self._most = (FEW_SCANNED, MOST_SCANNED) if scanning else (FEW, MOST)
        self._look_at = self._few
        self._reached = BEFORE_ALL

    @property
    def while_running(self) -> int:
        """How far behind the watermark tuples are forgotten within a run; -1 where that is looked at between runs."""
        return -1 if self.automatic else self.least

    @property
    def settling(self) -> int:
        """What is older by so much is taken for settled."""
        return MINUTE if self.automatic else self.least

    @property
    def in_force(self) -> int | None:
        """How far back everything is known; None where nothing has been forgotten."""
        if not self.automatic:
            return self.least
        return None if self.why == ALL else max(0, self._reached - self.known)

    def move(self, store: Retained, watermark: int, windows: Words) -> None:
        """The watermark has come so far: forget what may be forgotten."""
        if watermark in (BEFORE_ALL, AFTER_ALL):
            return
        self._reached = max(self._reached, watermark)
        if not self.automatic:
            self.known = max(self.known, watermark - self.least)
        elif store.held > self._look_at:
            self._forget(store, watermark, windows)

    def _forget(self, store: Retained, watermark: int, windows: Words) -> None:
        needed = np.concatenate([ts + window for ts, window in zip(store.times(), windows.tolist(), strict=True)])
        since = min(watermark - max(self.least, self.longest_delay()), _newest(needed, self._few // 2))
        why = DELAYS
        if np.count_nonzero(needed >= since) > self._most:
            # Some air, so that the next look is not due at once.
            since = max(since, min(_newest(needed, self._most * 3 // 4), watermark - MINUTE))
            why = MEMORY
        if since > self.known:
            self.known, self.why = since, why
            store.drop(since - windows)
        # To look costs as much as there is, so the next look is when there is twice as much.
        self._look_at = max(self._few, 2 * store.held)
        if store.held < self._most:
            self._look_at = min(self._look_at, self._most)

    def longest_delay(self) -> int:
        """How late all but the latest few late tuples have been."""
        counts = np.cumsum(self.lateness)
        return _upper_edge(int(np.searchsorted(counts, COVERED * counts[-1]))) if counts[-1] else 0

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        reason = (STATED, ALL, DELAYS, MEMORY).index(self.why)
        return {"retention": np.array([self.known, self._reached, self._look_at, reason]), "lateness": self.lateness}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self.known, self._reached, self._look_at, reason = arrays["retention"].tolist()
        self.why = (STATED, ALL, DELAYS, MEMORY)[reason]
        self.lateness[:] = arrays["lateness"]


def _newest(times: Words, count: int) -> int:
    """The event time from which on there are so many tuples, or all."""
    if len(times) <= count:
        return BEFORE_ALL
    return int(np.partition(times, len(times) - count)[len(times) - count])


@inner
def note_lateness(lateness: Words, late_by: int) -> None:
    """A tuple was so far behind the watermark."""
    power = 0
    while late_by >= 8:
        late_by >>= 1
        power += 1
    lateness[4 * power + late_by] += 1


def _upper_edge(place: int) -> int:
    """The longest lateness that is counted in a place.

    >>> [_upper_edge(place) for place in (3, 7, 8, 11)]
    [3, 7, 9, 15]
    """
    power = max(0, place // 4 - 1)
    return ((place - 4 * power + 1) << power) - 1
