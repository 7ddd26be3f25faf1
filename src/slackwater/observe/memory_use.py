"""Memory over a run: what is in the windows, measured now and then.

Invariant: where windows are large, four tuples come for every one that is looked at, so to know what it holds costs a
run little. The last look is before the end of the input, which emits everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.core.memory import Memory, Resident
from slackwater.core.time import BEFORE_ALL
from slackwater.core.values import as_json

FEW = 4096
"""So many tuples are measured whenever there is an occasion; of more,"""
SELDOM = 4
"""so many tuples must have come for each that is measured."""


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
        self._last = Memory()
        self._numbers: dict[tuple[str, str], _Numbers] = {}
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
        """What was in the windows when the largest clock was here and so many tuples had come."""
        self.begin(clock)
        weight = max(0, clock - self._since)
        self._since = max(self._since, clock)
        for owner, one in _by_owner(memory):
            known = self._numbers.setdefault(owner, _Numbers())
            known.note(one, weight)
        self._weight += weight
        self._samples += 1
        self._last, self._looked_at = memory, arrivals

    def as_json(self, now: Memory | None) -> dict[str, Any]:
        """What is there now, the average and the largest of each number by itself, and how often it was measured."""
        average = self._as_memory(lambda one: one.average(self._weight)) if self._weight else self._last
        reported = {"now": now or Memory(), "average": average, "peak": self._as_memory(lambda one: one.peak)}
        return {"samples": self._samples, **{name: as_json(one) for name, one in reported.items()}}

    def _as_memory(self, what: Callable[[_Numbers], Resident]) -> Memory:
        groups: dict[str, dict[str, Resident]] = {"": {}, "streams": {}, "nodes": {}, "windows": {}}
        for (group, name), one in self._numbers.items():
            groups[group][name] = what(one)
        return Memory(groups.pop("").get("", Resident()), **groups)


class _Numbers:
    """The numbers of one owner over time; what was not there counts as nothing."""

    def __init__(self) -> None:
        self.peak = Resident()
        self._tuples = self._events = self._bytes = 0

    def note(self, one: Resident, weight: int) -> None:
        self._tuples += weight * one.tuples
        self._events += weight * one.events
        self._bytes += weight * one.bytes
        peak = self.peak
        if one.tuples > peak.tuples or one.events > peak.events or one.bytes > peak.bytes:
            self.peak = Resident(max(one.tuples, peak.tuples), max(one.events, peak.events), max(one.bytes, peak.bytes))

    def average(self, weight: int) -> Resident:
        return Resident(round(self._tuples / weight), round(self._events / weight), round(self._bytes / weight))


def _by_owner(memory: Memory) -> list[tuple[tuple[str, str], Resident]]:
    """Everything with a number of its own: the query, and its streams, nodes and windows."""
    named = [
        ((group, name), one)
        for group, owners in (("streams", memory.streams), ("nodes", memory.nodes), ("windows", memory.windows))
        for name, one in owners.items()
    ]
    return [(("", ""), memory.query), *named]
