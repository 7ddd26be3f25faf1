"""Recall by periods, the slow and obvious way: every period counts its own results."""

from __future__ import annotations

from collections.abc import Mapping


def oracle_periods(
    made: Mapping[int, float], true: Mapping[int, float], first: int, last: int, bucket: int, length: int
) -> list[float]:
    """The recall of every period of `length` stretches with true results, from the first tuple to the last event time.

    >>> oracle_periods({0: 1, 9: 1}, {0: 1, 9: 2, 29: 1}, first=0, last=31, bucket=5, length=2)
    [0.6666666666666666, 0.5, 0.0]
    """
    measured = []
    for end in range(first // bucket + length, last // bucket + 1):
        inside = [ts for ts in true if end - length <= ts // bucket < end]
        if inside:
            measured.append(sum(made.get(ts, 0) for ts in inside) / sum(true[ts] for ts in inside))
    return measured
