"""What the windows of a query hold, in tuples, events and bytes.

Invariant: an event in several windows, alone or as a member of combinations, is one event, and its bytes count once,
with the largest size it has in any of them; `tuples` counts it in every window. So the events of a query are at most
those of its nodes together, and those of a node at most those of its windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STREAMS, NODES, WINDOWS = "streams", "nodes", "windows"
WORD = 8
"""Bytes of a word: an event has as many words as are kept of it, if no column says its size."""


@dataclass(frozen=True)
class Resident:
    """Tuples in some place, how many different events they are, and the bytes of these."""

    tuples: int = 0
    events: int = 0
    bytes: int = 0

    def as_json(self) -> dict[str, int]:
        """As plain data."""
        return {"tuples": self.tuples, "events": self.events, "bytes": self.bytes}


@dataclass(frozen=True)
class Memory:
    """What is in memory: of the whole query, and by source, node and window.

    >>> one = Memory(Resident(3, 2, 16), windows={"a": Resident(2, 2, 16), "b": Resident(1, 1, 8)})
    >>> together([one, one]).windows["a"]
    Resident(tuples=4, events=4, bytes=32)
    """

    query: Resident = Resident()
    streams: Mapping[str, Resident] = field(default_factory=dict)
    """By source: its events, in whatever windows they stand, as members of combinations too where that is known."""
    nodes: Mapping[str, Resident] = field(default_factory=dict)
    windows: Mapping[str, Resident] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As plain data, for people and for `of_json` in another process."""
        groups = {STREAMS: self.streams, NODES: self.nodes, WINDOWS: self.windows}
        named = {group: {name: one.as_json() for name, one in places.items()} for group, places in groups.items()}
        return {"query": self.query.as_json(), **named}

    @classmethod
    def of_json(cls, reported: Mapping[str, Any]) -> Memory:
        """The inverse of `as_json`."""
        named = {group: {name: Resident(**one) for name, one in reported[group].items()} for group in _GROUPS}
        return cls(Resident(**reported["query"]), **named)


_GROUPS = (STREAMS, NODES, WINDOWS)


def combined(parts: Sequence[Memory], how: Callable[[Sequence[int]], int]) -> Memory:
    """Combine the same number of all parts by `how`; a number that a part does not have is 0.

    >>> combined([Memory(Resident(3, 2, 16)), Memory(Resident(1, 1, 99))], max).query
    Resident(tuples=3, events=2, bytes=99)
    """

    def one(found: Sequence[Resident]) -> Resident:
        return Resident(*(how([getattr(each, name) for each in found]) for name in ("tuples", "events", "bytes")))

    def named(places: Sequence[Mapping[str, Resident]]) -> dict[str, Resident]:
        names = dict.fromkeys(name for mine in places for name in mine)
        return {name: one([mine.get(name, Resident()) for mine in places]) for name in names}

    groups = {group: named([getattr(part, group) for part in parts]) for group in _GROUPS}
    return Memory(one([part.query for part in parts]), **groups)


def together(parts: Sequence[Memory]) -> Memory | None:
    """The shards of one query as one; None if there are none."""
    return combined(parts, sum) if parts else None
