"""Time steps by nested loops: what the freshest consistent set of joined tuples is, in the plainest way.

Invariant: every combination of one row of each stream is tried. Nothing is kept from one question to the next, and
nothing is shared with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

Row = Mapping[str, Any]
Combination = dict[str, Row]
"""One row of each stream, by the stream's name."""


def freshest(
    streams: Mapping[str, Sequence[Row]],
    windows: Mapping[str, int],
    true_of: Callable[[Combination], bool],
    before: int,
) -> tuple[int, list[Combination]] | None:
    """The newest time before `before` at which combinations stand, and all of those; None where there are none.

    Rows have a time `ts`; a combination stands at the time of its newest member, and each member is at most its
    stream's window older.

    >>> streams = {"a": [{"ts": 1}, {"ts": 4}], "b": [{"ts": 3}, {"ts": 9}]}
    >>> freshest(streams, {"a": 2, "b": 2}, lambda rows: True, before=9)
    (4, [{'a': {'ts': 4}, 'b': {'ts': 3}}])
    """
    found: dict[int, list[Combination]] = {}
    for rows in product(*streams.values()):
        combination = dict(zip(streams, rows, strict=True))
        newest = max(row["ts"] for row in rows)
        inside = all(newest - windows[name] <= row["ts"] for name, row in combination.items())
        if newest < before and inside and true_of(combination):
            found.setdefault(newest, []).append(combination)
    return (max(found), found[max(found)]) if found else None


def slow_streams(
    streams: Mapping[str, Sequence[Row]], spoke: Mapping[str, float], first: int | None, patience: int, now: float
) -> list[str]:
    """The streams that hold the others back for longer than `patience`, of event time or since they last moved.

    `spoke` says when each stream's clock last moved, and, of one that never did, when the first tuple of all came;
    `first` is the event time of that tuple.
    """
    if first is None:
        return []
    clocks = {name: max((row["ts"] for row in rows), default=first) for name, rows in streams.items()}
    slow = []
    for name, rows in streams.items():
        waits = max(clocks.values()) > clocks[name] or not rows
        if waits and (max(clocks.values()) - clocks[name] > patience or now - spoke[name] > patience):
            slow.append(name)
    return slow
