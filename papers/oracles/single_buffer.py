"""One K-slack buffer alone in front of a query, slow and obvious: a list that is looked through after every event.

Events are arrivals, changes of the size, and the end. After each, everything with `ts + K <= T` leaves, by event time
and then by arrival, where T is the largest event time that has arrived at the source, whether it passes the query's
filters or not. At the end everything leaves.

Invariant: shares no code with `disorder/sharing`.

References: 004 §3.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable

Arrival = tuple[int, bool]
"""Event time, and whether the tuple passes all filters of the query."""
Release = tuple[int, int]
"""Number of the tuple in arrival order, and of the last arrival before it was released."""


def oracle_single_buffer(events: Iterable[Arrival | int], size: int) -> list[Release]:
    """What leaves the buffer; an event that is a bare number is a new size.

    >>> oracle_single_buffer([(1, True), (4, True), (3, True), (5, True)], size=2)
    [(0, 1), (2, 3), (1, 3), (3, 3)]
    >>> oracle_single_buffer([(1, True), (4, True), 0, (3, True)], size=9)
    [(0, 1), (1, 1), (2, 2)]
    """
    waiting: list[tuple[int, int]] = []
    released: list[Release] = []
    clock, arrived = -(2**62), 0
    for event in events:
        if isinstance(event, int):
            size = event
        else:
            ts, wanted = event
            clock = max(clock, ts)
            if wanted:
                waiting.append((ts, arrived))
            arrived += 1
        due = sorted(one for one in waiting if one[0] + size <= clock)
        waiting = [one for one in waiting if one not in due]
        released += [(number, arrived - 1) for _, number in due]
    return released + [(number, arrived - 1) for _, number in sorted(waiting)]
