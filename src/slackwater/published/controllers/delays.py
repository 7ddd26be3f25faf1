"""R_stat as published: delays since they last changed, where ADWIN is told each as a share of the largest so far.

Invariant: what ADWIN has been told is, at any moment, every delay of its windows divided by the largest delay that any
stream has had up to that moment. So all values lie in [0, 1], which its bound takes for granted: the second term of
the bound is a share of the range of the values. Told delays of hundreds of units, it sees a change in every burst,
forgets all but some hundred tuples, and no slack can be asked for that is longer than the delays among these.

The documents do not say in which unit ADWIN is told delays. This is the only one in which its guarantee holds.

References: 004 §3.4.1; Bifet & Gavaldà, SDM 2007 (values in [0, 1]).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.published.controllers.delay_histogram import DelayHistogram


class DelaysAsShares(DelayHistogram):
    """Delays of the streams of one query, over windows that do not depend on the unit of time.

    >>> seen = DelaysAsShares(granularity=10, streams=1, most_values=4096)
    >>> delays = np.tile([0, 0, 30, 0], 500)
    >>> seen.absorb(np.zeros(2000, np.int64), np.arange(2000), delays)
    >>> seen.counts(0).tolist()
    [1500, 0, 0, 500]
    """

    def __init__(self, granularity: int, streams: int, most_values: int) -> None:
        super().__init__(granularity, streams, most_values=most_values)
        self._bins = np.arange(len(self._scores), dtype=np.float64)
        self._whole = 1
        """The bin of the largest delay so far."""
        self._measure_by(1)

    def absorb(self, stream: Words, ts: Words, delay: Words) -> None:
        """Take tuples in arrival order; a new largest delay changes the measure from its own tuple on."""
        bins = np.clip(-(-np.asarray(delay) // self.granularity), 0, len(self._bins) - 1)
        largest = np.maximum.accumulate(np.append(self._whole, bins))
        records = np.flatnonzero(np.diff(largest))
        for begin, end in zip([0, *records], [*records, len(bins)], strict=True):
            if begin < end:
                self._measure_by(int(largest[begin + 1]))
                super().absorb(stream[begin:end], ts[begin:end], delay[begin:end])

    def _measure_by(self, whole: int) -> None:
        shrunk = self._whole / whole
        if shrunk < 1.0:
            a = self._adwins
            for sums in (a.total, a.sums):
                sums *= shrunk
            for spreads in (a.spread, a.spreads):
                spreads *= shrunk * shrunk
        self._whole = whole
        self._scores = self._bins / whole

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        super().restore(arrays)
        largest = -(-int(arrays["largest"].max(initial=0)) // self.granularity)
        self._whole = max(1, min(largest, len(self._bins) - 1))
        self._scores = self._bins / self._whole
