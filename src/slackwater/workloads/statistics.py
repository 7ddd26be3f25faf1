"""What disorder a stream shows: the figures of Table 4.1 in the dissertation, measured on its event times alone.

Invariant: only the order of the rows and their event times count; the clock of a stream is the largest event time so
far, and a tuple is out of order iff it lies below that clock.

References: 004 §2.2.1 (stream clock, delay), §4.1.3 (correlated out-of-order tuples), Table 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.workloads.workload import Integers

SMALL_DELAY_MS = 100


@dataclass(frozen=True)
class DisorderStatistics:
    """Times are milliseconds; `rate` is tuples a second of event time."""

    tuples: int
    duration_ms: int
    out_of_order: int
    correlated: int
    """Out-of-order tuples whose predecessor in arrival order is out of order too."""
    max_delay_ms: int
    small_delay_share: float
    """Share of the out-of-order tuples delayed by less than 100 ms; 1 where nothing is out of order."""
    rate: float


def delays(ts: npt.ArrayLike) -> Integers:
    """How far each tuple lies behind the clock of its stream when it arrives; 0 in order.

    >>> delays([10, 30, 20, 30, 5]).tolist()
    [0, 0, 10, 0, 25]
    """
    times = np.asarray(ts, np.int64)
    return np.maximum.accumulate(times) - times


def disorder_statistics(ts: npt.ArrayLike) -> DisorderStatistics:
    """Measure event times in milliseconds, given in arrival order.

    >>> found = disorder_statistics([1000, 3000, 2950, 2000, 4000])
    >>> found.out_of_order, found.correlated, found.max_delay_ms, found.small_delay_share
    (2, 1, 1000, 0.5)
    """
    times = np.asarray(ts, np.int64)
    if len(times) == 0:
        return DisorderStatistics(0, 0, 0, 0, 0, 1.0, 0.0)
    delay = delays(times)
    late = delay > 0
    count = int(late.sum())
    duration = int(times.max() - times.min())
    return DisorderStatistics(
        tuples=len(times),
        duration_ms=duration,
        out_of_order=count,
        correlated=int((late[1:] & late[:-1]).sum()),
        max_delay_ms=int(delay.max()),
        small_delay_share=int((late & (delay < SMALL_DELAY_MS)).sum()) / count if count else 1.0,
        rate=len(times) * 1000 / duration if duration else 0.0,
    )
