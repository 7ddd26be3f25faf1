"""How late the tuples of each stream came since the last report, in few logarithmic buckets.

Bucket 0 holds tuples without a delay, bucket 1 those up to EDGES[1], a millisecond, and each further one is half an
octave wide: 64 buckets reach from a millisecond to more than a month.

Invariant: counts are taken once, and then begin anew. A delay is counted against the largest event time of the stream
that is believed: a tuple further ahead than `max_ahead` moves nothing, as in the clock guard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.jit import in_place
from slackwater.core.time import BEFORE_ALL, MILLISECOND

BUCKETS = 64
EDGES: Words = np.array([0, *(round(MILLISECOND * 2 ** (k / 2)) for k in range(BUCKETS - 1))], np.int64)
"""The largest delay in each bucket, in microseconds; the last one has no end."""
Buckets = dict[str, list[tuple[int, int]]]
"""By the name of a stream: buckets that hold something, as (bucket, tuples)."""


@in_place
def count_delays(edges: Words, clocks: Words, max_ahead: int, stream: Words, ts: Words, counts: Words) -> None:
    """Count arrivals by stream and delay, and move the clocks."""
    for i in range(len(ts)):
        s, t = stream[i], ts[i]
        if clocks[s] == BEFORE_ALL or clocks[s] < t <= clocks[s] + max_ahead:
            clocks[s] = t
        delay = clocks[s] - t
        lo, hi = 0, len(edges) - 1
        while lo < hi:
            middle = (lo + hi) >> 1
            if edges[middle] >= delay:
                hi = middle
            else:
                lo = middle + 1
        counts[s, lo] += 1


class DelayTally:
    """Delays by stream.

    >>> tally = DelayTally(["a", "b"], max_ahead=10**9)
    >>> tally.note(Batch.of([(0, 5_000), (0, 4_000), (1, 7), (0, 1)]), [BEFORE_ALL, BEFORE_ALL])
    >>> tally.take(), tally.take()
    ({'a': [(0, 1), (1, 1), (6, 1)], 'b': [(0, 1)]}, {})
    """

    def __init__(self, names: Sequence[str], max_ahead: int) -> None:
        self._names, self._max_ahead = tuple(names), max_ahead
        self._counts: Words = np.zeros((len(self._names), BUCKETS), np.int64)

    def note(self, batch: Batch, clocks: Sequence[int]) -> None:
        """Tuples in arrival order; `clocks` is where the clocks of the streams stood before them."""
        now = np.array(clocks, np.int64)
        count_delays(EDGES, now, self._max_ahead, batch.stream, np.ascontiguousarray(batch.ts), self._counts)

    def note_counted(self, stream: int, clock: int, ts: Words, counts: Words) -> None:
        """Count tuples of a stream with these event times, when its clock had this value; the first ones that
        come together are put in order for free, and none of them is late."""
        late = np.zeros_like(ts) if clock == BEFORE_ALL else clock - ts
        buckets = np.minimum(np.searchsorted(EDGES, late), BUCKETS - 1)
        self._counts[stream] += np.bincount(buckets, counts, BUCKETS).astype(np.int64)

    def take(self) -> Buckets:
        """The counts since the last call."""
        found = {}
        for name, row in zip(self._names, self._counts, strict=True):
            filled = np.flatnonzero(row)
            if len(filled):
                found[name] = list(zip(filled.tolist(), row[filled].tolist(), strict=True))
        self._counts[:] = 0
        return found


def added(parts: Sequence[Mapping[str, Sequence[Sequence[int]]]]) -> Buckets:
    """Counts of several tallies as one.

    >>> added([{"a": [(0, 1)]}, {"a": [(0, 2), (3, 1)], "b": [(1, 1)]}])
    {'a': [(0, 3), (3, 1)], 'b': [(1, 1)]}
    """
    sums: dict[str, dict[int, int]] = {}
    for part in parts:
        for name, buckets in part.items():
            mine = sums.setdefault(name, {})
            for bucket, count in buckets:
                mine[bucket] = mine.get(bucket, 0) + count
    return {name: sorted(mine.items()) for name, mine in sums.items()}
