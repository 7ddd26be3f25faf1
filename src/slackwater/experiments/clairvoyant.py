"""The best constant slack, found with hindsight: the limit that controllers are held against.

Invariant: the slack returned has been tried and meets the target in at least 97 of 100 measurements, and one
granularity less has been tried and does not. More slack is taken to be never worse; where fulfilment is not monotone
this is a constant that is good enough, not the least of all.
"""

from __future__ import annotations

from collections.abc import Callable

ENOUGH = 0.97
LONGEST_MS = 120_000


def least_slack(meets: Callable[[int], bool], granularity_ms: int = 10) -> int | None:
    """The least slack (ms, a multiple of the granularity) that meets; None where two minutes do not.

    >>> least_slack(lambda slack: slack >= 333), least_slack(lambda slack: True), least_slack(lambda slack: False)
    (340, 0, None)
    """
    if meets(0):
        return 0
    low, high = 0, 1
    while not meets(high * granularity_ms):
        if high * granularity_ms > LONGEST_MS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle * granularity_ms):
            high = middle
        else:
            low = middle
    return high * granularity_ms
