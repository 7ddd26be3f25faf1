"""Memory over a run: what stands in the windows, looked at now and then.

Invariant: where windows are large, four tuples come for every one that is looked at, so to know what it holds costs a
run little. The last look is before the end of the input, which emits everything.
"""

from __future__ import annotations

from typing import Any

from slackwater.core.memory import Memory, combined
from slackwater.core.time import BEFORE_ALL

FEW = 4096
"""So many tuples are looked at whenever there is an occasion; of more,"""
SELDOM = 4
"""so many tuples must have come for each that is looked at."""


class MemoryUse:
    """Samples of memory: the average, weighted by the event time between one and the next, and the largest.

    >>> from slackwater.core.memory import Resident
    >>> use = MemoryUse()
    >>> use.begin(0)
    >>> use.note(Memory(Resident(4, 4, 32)), clock=10, arrivals=100)
    >>> use.note(Memory(Resident(8, 8, 64)), clock=40, arrivals=200)
    >>> use.as_json(None)["average"]["query"]["events"], use.as_json(None)["peak"]["query"]["bytes"]
    (7, 64)
    """

    def __init__(self) -> None:
        self._since = BEFORE_ALL
        self._weight = self._samples = 0
        self._sum = self._last = self._peak = Memory()
        self._looked_at = 0

    def begin(self, clock: int) -> None:
        """The first tuple has this event time; later calls do nothing."""
        if self._since == BEFORE_ALL:
            self._since = clock

    def due(self, arrivals: int) -> bool:
        """Whether so many have come, in all, that it is worth looking again."""
        tuples = self._last.query.tuples
        return tuples <= FEW or arrivals - self._looked_at >= SELDOM * tuples

    def note(self, memory: Memory, clock: int, arrivals: int) -> None:
        """What stood in the windows when the largest clock was here and so many tuples had come."""
        self.begin(clock)
        weight = max(0, clock - self._since)
        self._since = max(self._since, clock)
        self._sum = combined([self._sum, memory], lambda pair: pair[0] + weight * pair[1])
        self._peak = combined([self._peak, memory], max)
        self._weight += weight
        self._samples += 1
        self._last, self._looked_at = memory, arrivals

    def as_json(self, now: Memory | None) -> dict[str, Any]:
        """What stands there now, the average and the largest of each number by itself, and how often it was looked."""
        average = combined([self._sum], lambda only: round(only[0] / self._weight)) if self._weight else self._last
        reported = {"now": now or Memory(), "average": average, "peak": self._peak}
        return {"samples": self._samples, **{name: one.as_json() for name, one in reported.items()}}
