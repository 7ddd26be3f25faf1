"""What the two questions of the zoo should have been answered: by sorting and counting, without the engine.

Invariant: event times alone decide, never the order of arrival. Nothing here is shared with what is judged.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from slackwater.workloads.workload import Floats, Integers

WITHIN_MS = 2_000
RANGE_MS, SLIDE_MS = 5_000, 250
"""The windows of the join and of the sum; a test holds them against the texts of the queries."""


def join_truth(streams: Mapping[str, pa.Table]) -> dict[int, float]:
    """How many results of the join fall into each second of result time.

    >>> a, b = (pa.table({"ts": ts, "key": [1] * len(ts)}) for ts in ([1000, 4000], [1500, 3500, 9000]))
    >>> join_truth({"a": a, "b": b})
    {1: 1.0, 4: 1.0}
    """
    (ts, key), (other_ts, other_key) = ((_column(streams[name], "ts"), _column(streams[name], "key")) for name in "ab")
    found: dict[int, float] = {}
    for one in np.intersect1d(key, other_key).tolist():
        mine, theirs = np.sort(ts[key == one]), np.sort(other_ts[other_key == one])
        # A pair counts where its later tuple is; of two at the same time that is the first stream's.
        for late, early, shift in ((mine, theirs, 1), (theirs, mine, 0)):
            upto = np.searchsorted(early, late + shift, "left")
            count = upto - np.searchsorted(early, late - WITHIN_MS, "left")
            _add(found, late // 1000, count.astype(np.float64))
    return {second: found[second] for second in sorted(found)}


def sum_truth(table: pa.Table) -> dict[int, float]:
    """The sum of every window that has a tuple, by its end in microseconds."""
    ts, v = _column(table, "ts"), table["v"].to_numpy()
    order = np.argsort(ts, kind="stable")
    ts, total = ts[order], np.concatenate(([0.0], np.cumsum(v[order])))
    first = ts // SLIDE_MS * SLIDE_MS + SLIDE_MS
    ends = np.unique(np.concatenate([first + step for step in range(0, RANGE_MS, SLIDE_MS)]))
    sums = total[np.searchsorted(ts, ends, "left")] - total[np.searchsorted(ts, ends - RANGE_MS, "left")]
    return dict(zip((1000 * ends).tolist(), sums.tolist(), strict=True))


def _column(table: pa.Table, name: str) -> Integers:
    return np.asarray(table[name].to_numpy(), np.int64)


def _add(found: dict[int, float], second: Integers, count: Floats) -> None:
    seconds, place = np.unique(second, return_inverse=True)
    for one, many in zip(seconds.tolist(), np.bincount(place, count, len(seconds)).tolist(), strict=True):
        if many:
            found[one] = found.get(one, 0.0) + many
