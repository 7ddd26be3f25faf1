"""How long tuples wait until their turn has come, by their arrival times: the waiting part of the response time.

All that waits at a moment waits on; so the sum of all waiting is what the moments of leaving add up to, less those of
arriving, and those that wait still wait until now. No tuple needs to carry its own arrival time along.

Invariant: what is told is the average over all tuples that have arrived, whether their turn has come or not.

References: 000 §4.1 (response time).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.core.batch import Words


class Responding:
    """Sums of moments, in microseconds since the first one.

    >>> responding = Responding()
    >>> responding.arrived(np.array([100, 103]))
    >>> responding.left(np.array([103]))
    >>> responding.average
    1.5
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._now = self._came = self._came_at = self._gone = self._gone_at = 0

    def arrived(self, moments: Words) -> None:
        """Tuples came at these moments."""
        if len(moments):
            self._first = int(moments[0]) if self._first is None else self._first
            since = moments - self._first
            self._now = max(self._now, int(since.max()))
            self._came += len(since)
            self._came_at += int(since.sum())

    def left(self, moments: Words) -> None:
        """The turn of tuples came at these moments."""
        if self._first is not None:
            self._gone += len(moments)
            self._gone_at += int(np.sum(moments - self._first))

    @property
    def average(self) -> float | None:
        """Microseconds a tuple; None before there is any."""
        if not self._came:
            return None
        return (self._gone_at + (self._came - self._gone) * self._now - self._came_at) / self._came

    def as_json(self) -> dict[str, Any]:
        """For state."""
        return dict(vars(self))

    def restore(self, saved: dict[str, Any]) -> None:
        """The inverse of `as_json`."""
        vars(self).update(saved)
