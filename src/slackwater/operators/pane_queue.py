"""Live panes in compiled code: found by number, waiting in a heap until they enter, then queued by age until they
retire.

Invariant: a live pane is either among the WAITING (a min-heap by number) or among the INSIDE (a ring, oldest first);
it has at least one partial.
"""

from __future__ import annotations

from slackwater.compiled import inner
from slackwater.model.batch import Words
from slackwater.operators.records import CHAIN, FIRST_FIELD, NONE, hang, mix, unhang
from slackwater.operators.sliding import (
    FREE_PANE,
    INSIDE_BEGIN,
    INSIDE_COUNT,
    NEXT_IN_PANE,
    OF_PANES,
    PANES,
    WAITING,
)

# A pane: its number, its first partial; and which pane stands at this place of the heap, of the ring.
NUMBER, HEAD, HEAP, RING = range(FIRST_FIELD, FIRST_FIELD + 4)
FIELDS = FIRST_FIELD + 4


@inner
def bucket_of(panes: Words, number: int) -> int:
    """Where a pane belongs."""
    return mix(number) & (len(panes) - 1)


@inner
def find_pane(panes: Words, buckets: Words, number: int) -> int:
    """The record of a live pane, or NONE."""
    p = buckets[OF_PANES, bucket_of(panes, number)]
    while p != NONE and panes[p, NUMBER] != number:
        p = panes[p, CHAIN]
    return p


@inner
def add_to_pane(
    panes: Words, partials: Words, buckets: Words, scalars: Words, number: int, e: int, entered: bool
) -> None:
    """Hang a new partial onto its pane, making the pane if it is new."""
    p = find_pane(panes, buckets, number)
    if p == NONE:
        p = scalars[FREE_PANE]
        scalars[FREE_PANE] = panes[p, CHAIN]
        scalars[PANES] += 1
        panes[p, NUMBER], panes[p, HEAD] = number, NONE
        hang(panes, buckets, OF_PANES, bucket_of(panes, number), p)
        if entered:
            queue_inside(panes, scalars, p)
        else:
            push_waiting(panes, scalars, p)
    partials[e, NEXT_IN_PANE] = panes[p, HEAD]
    panes[p, HEAD] = e


@inner
def forget_pane(panes: Words, buckets: Words, scalars: Words, p: int) -> None:
    """A pane with no partials left is gone."""
    unhang(panes, buckets, OF_PANES, bucket_of(panes, panes[p, NUMBER]), p)
    panes[p, CHAIN] = scalars[FREE_PANE]
    scalars[FREE_PANE] = p
    scalars[PANES] -= 1


@inner
def inside_at(panes: Words, scalars: Words, place: int) -> int:
    """The line of the ring that holds the pane at this place, counted from the oldest."""
    return (scalars[INSIDE_BEGIN] + place) & (len(panes) - 1)


@inner
def queue_inside(panes: Words, scalars: Words, p: int) -> None:
    """Put a pane into the ring by its number; it is nearly always the newest."""
    place = scalars[INSIDE_COUNT]
    scalars[INSIDE_COUNT] += 1
    while place > 0:
        before = panes[inside_at(panes, scalars, place - 1), RING]
        if panes[before, NUMBER] <= panes[p, NUMBER]:
            break
        panes[inside_at(panes, scalars, place), RING] = before
        place -= 1
    panes[inside_at(panes, scalars, place), RING] = p


@inner
def push_waiting(panes: Words, scalars: Words, p: int) -> None:
    """Put a pane into the heap."""
    at = scalars[WAITING]
    scalars[WAITING] += 1
    while at > 0:
        parent = (at - 1) >> 1
        if panes[panes[parent, HEAP], NUMBER] <= panes[p, NUMBER]:
            break
        panes[at, HEAP] = panes[parent, HEAP]
        at = parent
    panes[at, HEAP] = p


@inner
def pop_waiting(panes: Words, scalars: Words) -> int:
    """Take the oldest waiting pane out of the heap."""
    oldest = panes[0, HEAP]
    scalars[WAITING] -= 1
    size = scalars[WAITING]
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
