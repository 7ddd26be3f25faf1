"""The maps M-cross and M-join of a tree of joins, whose windows and results are spread over its nodes.

A tuple's results are known by what they carry along: the delay of the raw tuple that triggered them. Those that have
one timestamp and one delay have one trigger, but for ties; so the most that a tuple has made can be told. What it met,
n-cross, is a product of rates times windows, for no node knows all windows. Late tuples count as in `productivity`.

Invariant: what an interval has shown does not depend on the runs it came in.

References: 004 §4.2.6, 003 §V.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.published.controllers.productivity import FIRST_BINS, Profile, Profiler, bins_of, widened

FADING = 0.9
"""What an interval counts for in the rates, once the next one has passed."""


class TreeProductivity:
    """Watches which raw tuples come in time and which late, and what the last node of a tree makes."""

    def __init__(self, windows: Sequence[int] | Words, granularity: int) -> None:
        self.windows, self.granularity = np.array(windows, np.int64), granularity
        self._rate = np.zeros(len(self.windows) + 1)
        """Tuples of every stream, and the event time they came in; both fade."""
        self._newest = BEFORE_ALL
        self._trigger = BEFORE_ALL
        """The latest timestamp of results; more of them may come."""
        self._open = np.zeros(FIRST_BINS)
        """The results of that timestamp, by bin."""
        self._begin()

    @classmethod
    def in_place_of(cls, other: Profiler) -> TreeProductivity:
        """One for the same windows and delays."""
        return cls(other.windows, other.granularity)

    def _begin(self) -> None:
        streams = len(self.windows)
        self._in_time = np.zeros((streams, FIRST_BINS))
        self._late, self._made = np.zeros((2, FIRST_BINS))
        self._most = 0.0

    def note(self, run: OrderedBatch, made: Floats, raw: OrderedBatch | None = None) -> None:
        """A run that the last node has processed, its tuples' results, and the raw tuples of its epoch."""
        assert raw is not None
        self._note_raw(raw)
        self._note_made(run.ts[made > 0], bins_of(run.delay[made > 0], self.granularity), made[made > 0])

    def _note_raw(self, raw: OrderedBatch) -> None:
        if len(raw) == 0:
            return
        since = int(raw.ts.min()) if self._newest == BEFORE_ALL else self._newest
        self._newest = max(since, int(raw.ts.max()))
        self._rate += np.append(np.bincount(raw.stream, minlength=len(self.windows)), self._newest - since)
        bins, late = bins_of(raw.delay, self.granularity), raw.late
        self._reserve(int(bins.max()))
        np.add.at(self._late, bins[late], 1)
        np.add.at(self._in_time, (raw.stream[~late], bins[~late]), 1)

    def _note_made(self, ts: Words, bins: Words, made: Floats) -> None:
        if len(ts) == 0:
            return
        self._reserve(int(bins.max()))
        np.add.at(self._made, bins, made)
        (when, into), sequence = np.unique(np.stack([ts, bins]), axis=1, return_inverse=True)
        results = np.bincount(sequence.ravel(), made)
        goes_on = when == self._trigger
        results[goes_on] += self._open[into[goes_on]]
        self._most = max(self._most, float(results.max()))
        if when[-1] != self._trigger:
            self._trigger = int(when[-1])
            self._open[:] = 0
        last = when == self._trigger
        self._open[into[last]] = results[last]

    def _reserve(self, largest_bin: int) -> None:
        needed = largest_bin + 1
        self._in_time, self._late = widened(self._in_time, needed), widened(self._late, needed)
        self._made, self._open = widened(self._made, needed), widened(self._open, needed)

    def take(self) -> Profile:
        """The interval that ends here; the next one begins."""
        span = self._rate[-1]
        inside = self._rate[:-1] / span * self.windows if span > 0 else np.zeros(len(self.windows))
        cross_of = np.array([np.prod(np.delete(inside, s)) for s in range(len(inside))])
        came = self._in_time.sum(axis=1) > 0
        cross = cross_of @ self._in_time + cross_of[came].max(initial=0.0) * self._late
        join, made = self._made + self._most * self._late, float(self._made.sum())
        seen = np.flatnonzero(cross + join + self._late)
        end = int(seen[-1]) + 1 if len(seen) else 0
        self._rate *= FADING
        self._begin()
        return Profile(cross[:end], join[:end], made)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, to go on from elsewhere."""
        return {
            "in_time": self._in_time.copy(), "late": self._late.copy(), "made": self._made.copy(),
            "open": self._open.copy(), "rate": self._rate.copy(), "most": np.array([self._most]),
            "times": np.array([self._newest, self._trigger]),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        self._in_time, self._late, self._made, self._open, self._rate = (
            np.array(arrays[name]) for name in ("in_time", "late", "made", "open", "rate")
        )
        self._most = float(arrays["most"][0])
        self._newest, self._trigger = arrays["times"].tolist()
