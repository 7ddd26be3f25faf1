"""Live panes in compiled code: found by number, waiting in a heap until they enter, then queued by age until they
retire.

Invariant: a live pane is either among the WAITING (a min-heap by number) or among the INSIDE (a ring, oldest first);
it has at least one partial.
"""

from __future__ import annotations

from slackwater.core.collections.hash_table import mix
from slackwater.core.collections.heap import Heap, pop, push
from slackwater.core.collections.records import NONE, find, give_back, hang, take_free, unhang
from slackwater.core.jit import inner
from slackwater.operators.aggregate.state import (
    FREE_PANE,
    HEAD,
    HEAP,
    HEAP_NUMBER,
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


@inner
def pane_bucket(t: Tables, number: int) -> int:
    """Where a pane belongs."""
    return mix(number) & (len(t.panes) - 1)


@inner
def has_number(t: Tables, p: int, number: int, also: int, unused: int) -> bool:
    """Whether a record is that of a pane."""
    return t.panes[p, NUMBER] == number


@inner
def find_pane(t: Tables, number: int) -> int:
    """The record of a live pane, or NONE."""
    return find(has_number, t.panes, t.buckets, OF_PANES, pane_bucket(t, number), t, number, 0, 0)


@inner
def add_to_pane(t: Tables, number: int, e: int, entered: bool) -> None:
    """Hang a new partial onto its pane, making the pane if it is new."""
    p = find_pane(t, number)
    if p == NONE:
        p = take_free(t.panes, t.scalars, FREE_PANE, PANES)
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
    give_back(t.panes, t.scalars, FREE_PANE, PANES, p)


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
def waiting(t: Tables) -> Heap:
    """The panes that wait, by number."""
    return Heap(t.panes[:, HEAP_NUMBER], t.panes[:, HEAP], t.panes[:, HEAP])


@inner
def push_waiting(t: Tables, p: int) -> None:
    """Put a pane into the heap."""
    push(waiting(t), t.scalars[WAITING], t.panes[p, NUMBER], p, p)
    t.scalars[WAITING] += 1


@inner
def pop_waiting(t: Tables) -> int:
    """Take the oldest waiting pane out of the heap."""
    t.scalars[WAITING] -= 1
    return pop(waiting(t), t.scalars[WAITING] + 1)
