"""How long a piece of work takes, for constants that plans are compared by."""

from __future__ import annotations

import time
from collections.abc import Callable

REPEATS = 5
LEAST = 1e-10
"""No constant is less: a difference of two times may be nothing, or below."""


def seconds_of(work: Callable[[], object], times: int = 1) -> float:
    """Seconds of the processor for one run: the least of some measurements, of so many runs each. The first run, in
    which code is compiled and memory is found, is not measured.

    >>> seconds_of(lambda: None) < 0.01
    True
    """
    work()
    least = float("inf")
    for _ in range(REPEATS):
        begun = time.process_time()
        for _ in range(times):
            work()
        least = min(least, (time.process_time() - begun) / times)
    return least
