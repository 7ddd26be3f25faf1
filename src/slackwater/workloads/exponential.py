"""Streams of integers with exponential times between them.

Invariant: event times are microseconds in order; the same seed gives the same stream.

References: 002 §4.2 (synthetic data streams).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.workloads.workload import Integers, generator

_GAP, _VALUE = range(2)
SWITCHED_EVERY = 100


def exponential_stream(
    seed: int, number: int, tuples: int, rates: Sequence[float], values: int
) -> tuple[Integers, Integers]:
    """Event times and values of one stream; where several rates a second are given, they change every 100 tuples.

    >>> ts, value = exponential_stream(seed=0, number=0, tuples=1000, rates=[100.0], values=5)
    >>> bool(8 < ts[-1] / 1e6 < 12), sorted(set(value.tolist()))
    (True, [0, 1, 2, 3, 4])
    """
    turn = np.arange(tuples) // SWITCHED_EVERY % len(rates)
    gap = generator(seed, number, _GAP).exponential(1e6, tuples) / np.asarray(rates)[turn]
    return np.cumsum(gap).astype(np.int64), generator(seed, number, _VALUE).integers(0, values, tuples)
