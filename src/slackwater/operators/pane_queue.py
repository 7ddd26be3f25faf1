"""Live panes in compiled code: found by number, waiting in a heap until they enter, then queued by age until they
retire.

Invariant: a live pane is either among the WAITING (a min-heap by number) or among the INSIDE (a ring, oldest first);
it has at least one partial.
"""

from __future__ import annotations

from slackwater.compiled import inner
from slackwater.operators.aggregate_state import (
    FREE_PANE,
    HEAD,
    HEAP,
    INSIDE_BEGIN,
    INSIDE_COUNT,
    NEXT_IN_PANE,
    NUMBER,
    OF_PANES,
    PANES,
    RING,
    WAITING,
    Tables,
)
from slackwater.operators.records import CHAIN, NONE, hang, mix, unhang


@inner
def pane_bucket(t: Tables, number: int) -> int:
    """Where a pane belongs."""
    return mix(number) & (len(t.panes) - 1)


@inner
def find_pane(t: Tables, number: int) -> int:
    """The record of a live pane, or NONE."""
    p = t.buckets[OF_PANES, pane_bucket(t, number)]
    while p != NONE and t.panes[p, NUMBER] != number:
        p = t.panes[p, CHAIN]
    return p


@inner
def add_to_pane(t: Tables, number: int, e: int, entered: bool) -> None:
    """Hang a new partial onto its pane, making the pane if it is new."""
    p = find_pane(t, number)
    if p == NONE:
        p = t.scalars[FREE_PANE]
        t.scalars[FREE_PANE] = t.panes[p, CHAIN]
        t.scalars[PANES] += 1
        t.panes[p, NUMBER], t.panes[p, HEAD] = number, NONE
        hang(t.panes, t.buckets, OF_PANES, pane_bucket(t, number), p)
        if entered:
            queue_inside(t, p)
        else:
            push_waiting(t, p)
    t.partials[e, NEXT_IN_PANE] = t.panes[p, HEAD]
    t.panes[p, HEAD] = e


@inner
def forget_pane(t: Tables, p: int) -> None:
    """A pane with no partials left is gone."""
    unhang(t.panes, t.buckets, OF_PANES, pane_bucket(t, t.panes[p, NUMBER]), p)
    t.panes[p, CHAIN] = t.scalars[FREE_PANE]
    t.scalars[FREE_PANE] = p
    t.scalars[PANES] -= 1


@inner
def inside_at(t: Tables, place: int) -> int:
    """The line of the ring that holds the pane at this place, counted from the oldest."""
    return (t.scalars[INSIDE_BEGIN] + place) & (len(t.panes) - 1)


@inner
def queue_inside(t: Tables, p: int) -> None:
    """Put a pane into the ring by its number; it is nearly always the newest."""
    place = t.scalars[INSIDE_COUNT]
    t.scalars[INSIDE_COUNT] += 1
    while place > 0:
        before = t.panes[inside_at(t, place - 1), RING]
        if t.panes[before, NUMBER] <= t.panes[p, NUMBER]:
            break
        t.panes[inside_at(t, place), RING] = before
        place -= 1
    t.panes[inside_at(t, place), RING] = p


@inner
def push_waiting(t: Tables, p: int) -> None:
    """Put a pane into the heap."""
    at = t.scalars[WAITING]
    t.scalars[WAITING] += 1
    while at > 0:
        parent = (at - 1) >> 1
        if t.panes[t.panes[parent, HEAP], NUMBER] <= t.panes[p, NUMBER]:
            break
        t.panes[at, HEAP] = t.panes[parent, HEAP]
        at = parent
    t.panes[at, HEAP] = p


@inner
def pop_waiting(t: Tables) -> int:
    """Take the oldest waiting pane out of the heap."""
    panes = t.panes
    oldest = panes[0, HEAP]
    t.scalars[WAITING] -= 1
    size = t.scalars[WAITING]
    last = panes[size, HEAP]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and panes[panes[child + 1, HEAP], NUMBER] < panes[panes[child, HEAP], NUMBER]:
            child += 1
        if panes[last, NUMBER] <= panes[panes[child, HEAP], NUMBER]:
            break
        panes[at, HEAP] = panes[child, HEAP]
        at = child
    panes[at, HEAP] = last
    return oldest
