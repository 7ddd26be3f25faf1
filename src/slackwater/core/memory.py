"""What the windows of a query hold, in tuples, events and bytes.

Invariant: an event in several windows, alone or as a member of combinations, is one event, and its bytes count once,
with the largest size it has in any of them; `tuples` counts it in every window. So the events of a query are at most
those of its nodes together, and those of a node at most those of its windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.core.values import Value

STREAMS, NODES, WINDOWS = "streams", "nodes", "windows"
WORD = 8
"""Bytes of a word: an event has as many words as are kept of it, if no column says its size."""


@dataclass(frozen=True)
class Resident(Value):
    """Tuples that somebody holds, how many different events they are, and the bytes of these."""

    tuples: int = 0
    events: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Memory(Value):
    """What is in memory: of the whole query, and by source, node and window.

    >>> one = Memory(Resident(3, 2, 16), windows={"a": Resident(2, 2, 16), "b": Resident(1, 1, 8)})
    >>> (one + one).windows["a"]
    Resident(tuples=4, events=4, bytes=32)
    """

    query: Resident = Resident()
    streams: Mapping[str, Resident] = field(default_factory=dict)
    """By source: its events, in whatever windows they stand, as members of combinations too where that is known."""
    nodes: Mapping[str, Resident] = field(default_factory=dict)
    windows: Mapping[str, Resident] = field(default_factory=dict)
