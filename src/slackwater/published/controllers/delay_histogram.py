"""How late the tuples of each stream are, over as much of the recent past as looks like the present.

Invariant: a stream's histogram counts its newest delays, as many as its own ADWIN window has, and nothing older
(R_stat of the documents). Bin 0 holds the tuples without a delay, bin d those with a delay in ((d-1)g, dg]. So slack
dg covers exactly the bins up to d.

ADWIN compares means. Of delays themselves, a few huge ones move a mean so far that on heavy-tailed streams it sees
changes where there are none, and the window stays too short to know the tail; `DelaysAsShares` scores them otherwise.

References: 004 §3.4.1 (coarse-grained delay, R_stat, K_sync); [BG07].
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.published.controllers.adwin import DELTA, Adwins
from slackwater.published.controllers.delay_state import MARK, absorb, fresh, kept, with_bins, with_capacity

Arrays = Mapping[str, npt.NDArray[Any]]

MOST_VALUES = 2**20
MOST_BINS = 2**16
MOST_SKEWS = 4096
"""A silent stream's window stands still, and would collect measurements of the skew forever."""


class DelayHistogram:
    """Delays, rates and skews of the streams of one query.

    >>> seen = DelayHistogram(granularity=10, streams=2)
    >>> seen.absorb(np.array([0, 0, 1, 0]), np.array([100, 97, 50, 89]), np.array([0, 3, 0, 11]))
    >>> seen.counts(0).tolist(), seen.totals.tolist(), seen.largest.tolist()
    ([1, 1, 1], [3, 1], [2, 0])
    """

    def __init__(
        self,
        granularity: int,
        streams: int,
        delta: float = DELTA,
        most_values: int = MOST_VALUES,
        most_bins: int = MOST_BINS,
    ) -> None:
        self.granularity = granularity
        self._delta = delta
        self._most = most_values
        self._scores = np.arange(most_bins + 1, dtype=np.float64)
        """The score that ADWIN is given for each bin."""
        self._delays, self._adwins = fresh(streams)
        self._skews: list[deque[tuple[int, int]]] = [deque() for _ in range(streams)]
        self._skew_sums = [0] * streams

    def absorb(self, stream: Words, ts: Words, delay: Words) -> None:
        """Take tuples in arrival order. A delay below 0 counts as none, one beyond the last bin as of the last bin."""
        if len(stream) == 0:
            return
        stream, ts, delay = (np.ascontiguousarray(column, np.int64) for column in (stream, ts, delay))
        largest = min(int(delay.max()) // self.granularity + 1, len(self._scores) - 1)
        self._delays = with_bins(self._delays, max(0, largest))
        places = min(int(self._adwins.width.max()) + len(stream), self._most + 1)
        self._delays = with_capacity(self._delays, self._adwins.width, places)
        absorb(self._delays, self._adwins, stream, ts, delay, self.granularity, self._scores, self._delta, self._most)

    def note_skews(self, skews: Words) -> None:
        """Measure K_sync: by how much each stream's clock is ahead of the slowest stream's, now."""
        for s, notes in enumerate(self._skews):
            notes.append((int(self._delays.arrived[s]), int(skews[s])))
            self._skew_sums[s] += int(skews[s])
            begin = int(self._delays.arrived[s] - self._adwins.width[s])
            while notes[0][0] < begin or len(notes) > MOST_SKEWS:
                self._skew_sums[s] -= notes.popleft()[1]

    def counts(self, stream: int) -> Words:
        """The histogram, up to the largest bin in the window; a view."""
        return self._delays.counts[stream, : self._delays.top[stream] + 1]

    def histograms(self) -> list[Words]:
        """The histograms of all streams."""
        return [self.counts(s) for s in range(len(self._skews))]

    @property
    def totals(self) -> Words:
        """How many delays the window of each stream has."""
        return self._adwins.width

    @property
    def largest(self) -> Words:
        """The largest bin in the window of each stream (MaxD^R / g)."""
        return self._delays.top

    @property
    def largest_ever(self) -> Words:
        """The largest delay each stream ever had, in microseconds (MaxD)."""
        return self._delays.largest

    def rates(self) -> Floats:
        """Tuples a second of event time over each stream's window; 0 while its clock has not moved in it."""
        d = self._delays
        begin = (d.arrived - self._adwins.width) // MARK
        found = np.zeros(len(begin))
        for s in range(len(begin)):
            span = int(d.clock[s]) - int(d.marks[s, begin[s] % d.marks.shape[1]])
            if d.arrived[s] > 0 and span > 0:
                found[s] = (d.arrived[s] - begin[s] * MARK - 1) * 1e6 / span
        return found

    def skews(self) -> Floats:
        """K_sync of each stream: mean of what was noted within its window, less the smallest such mean (004 §3.4.1)."""
        means = np.array(
            [total / max(1, len(notes)) for total, notes in zip(self._skew_sums, self._skews, strict=True)]
        )
        return means - means.min()

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, to go on from elsewhere; the windows one after another, oldest value first."""
        d, width = self._delays, self._adwins.width
        found: dict[str, npt.NDArray[Any]] = {f"adwin_{n}": v.copy() for n, v in self._adwins._asdict().items()}
        places = [kept(d, width, s) for s in range(len(width))]
        found["window"] = np.concatenate([d.ring[s, own % d.ring.shape[1]] for s, (own, _) in enumerate(places)])
        found["marks"] = np.concatenate([d.marks[s, m % d.marks.shape[1]] for s, (_, m) in enumerate(places)])
        found |= {"arrived": d.arrived.copy(), "clock": d.clock.copy(), "largest": d.largest.copy()}
        found["noted"] = np.array([len(notes) for notes in self._skews], np.int64)
        found["skews"] = np.array([note for notes in self._skews for note in notes], np.int64).reshape(-1, 2)
        return found

    def restore(self, arrays: Arrays) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        width = arrays["adwin_width"]
        d, _ = fresh(len(width))
        d = with_bins(d, int(arrays["window"].max(initial=0)))
        d = with_capacity(d, np.zeros_like(width), int(width.max()))
        for mine, name in ((d.arrived, "arrived"), (d.clock, "clock"), (d.largest, "largest")):
            mine[:] = arrays[name]
        values = marks = notes = 0
        for s, notebook in enumerate(self._skews):
            own, marked = kept(d, width, s)
            bins = arrays["window"][values : values + len(own)]
            d.ring[s, own % d.ring.shape[1]] = bins
            d.counts[s] = np.bincount(bins, minlength=d.counts.shape[1])
            d.top[s] = bins.max(initial=0)
            d.marks[s, marked % d.marks.shape[1]] = arrays["marks"][marks : marks + len(marked)]
            noted = arrays["skews"][notes : notes + int(arrays["noted"][s])]
            notebook.clear()
            notebook.extend((int(at), int(skew)) for at, skew in noted)
            self._skew_sums[s] = int(noted[:, 1].sum())
            values, marks, notes = values + len(own), marks + len(marked), notes + len(noted)
        self._delays = d
        self._adwins = Adwins(*(np.array(arrays[f"adwin_{name}"]) for name in Adwins._fields))
