"""Tuples into panes, panes into windows, windows out: the loop of the aggregate operator.

A live pane is found by its number. It waits in a heap until it enters the window, and is then queued by age until it
retires.

Invariant: after `consume` has seen a watermark F, exactly the windows with `end <= F` are closed, in order, each with
every tuple that arrived before it closed; windows without tuples are stepped over, never visited one by one. A live
pane is either among the WAITING (a min-heap by number) or among the INSIDE (a ring, oldest first); it has at least one
partial.

References: 004 §2.1.2 (sliding windows), §4.1.
"""

from __future__ import annotations

from slackwater.core.batch import TS
from slackwater.core.collections.hash_table import mix
from slackwater.core.collections.heap import Heap, pop, push
from slackwater.core.collections.records import NONE, find, give_back, hang, take_free, unhang
from slackwater.core.jit import in_place, inner
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.answers import note_near
from slackwater.operators.aggregate.holistic_values import (
    discard,
    keep,
    tuple_enters,
    values_enter,
    values_leave,
    write_answers,
)
from slackwater.operators.aggregate.panes import (
    Panes,
    first_open,
    first_pane,
    first_window_with,
    last_pane,
    pane_of,
    window_end,
)
from slackwater.operators.aggregate.partials import add
from slackwater.operators.aggregate.sliding import (
    enter,
    find_partial,
    flip,
    free_partial,
    group_of,
    insert_late,
    leave,
    new_partial,
    spread_late,
    write_value,
)

CLOSED_ALL = 0
OUT_OF_CAPACITY = 1

# Columns of a closed line; the group's key follows.
WINDOW, EMITTED_BY, OF_KEY = range(3)


@in_place
def consume(
    t: st.Tables, grid: Panes, new: st.Taken, begin: int, stop: int, ordered: bool, watermark: int, closed: st.Closed
) -> tuple[int, int, int]:
    """Take in tuples from `begin` on, those before `stop` at most; returns (tuples consumed, lines written, why it
    stopped)."""
    n = new.words.shape[1]
    holistic = len(new.value_rows) > 0
    n_out = 0
    for i in range(begin, n + 1):
        done = i == n
        if i == stop and not done:
            return i, n_out, OUT_OF_CAPACITY
        reached = watermark if done else new.watermark_at_arrival[i]
        if ordered and not done:
            reached = max(reached, new.words[TS, i])
        while window_end(grid, t.scalars[st.NEXT]) <= reached:
            k = t.scalars[st.NEXT]
            if t.scalars[st.ACTIVE] == 0:
                k = next_with_tuples(t, grid, k)
                if window_end(grid, k) > reached:
                    skip_to(t, grid, first_open(grid, reached))
                    break
            if n_out + t.scalars[st.GROUPS] > len(closed.lines):
                return i, n_out, OUT_OF_CAPACITY
            retire_panes_before(t, first_pane(grid, k), holistic)
            admit_panes(t, first_pane(grid, k), last_pane(grid, k), holistic)
            n_out = write_window(t, k, i, closed, n_out)
            t.scalars[st.NEXT] = k + 1
        if not done:
            put_into_pane(t, grid, new, i, holistic)
    return n, n_out, CLOSED_ALL


@inner
def next_with_tuples(t: st.Tables, grid: Panes, k: int) -> int:
    """With no tuple inside: the first window from k on that will have one, or one beyond any watermark."""
    if t.scalars[st.WAITING] == 0:
        return 2**62 // grid.slide
    return max(k, first_window_with(grid, t.panes[0, st.HEAP_NUMBER]))


@inner
def skip_to(t: st.Tables, grid: Panes, k: int) -> None:
    """With no tuple inside: step over all windows before k."""
    t.scalars[st.NEXT] = k
    t.scalars[st.ENTERED] = last_pane(grid, k - 1)
    t.scalars[st.FLIP] = t.scalars[st.ENTERED]


@inner
def write_window(t: st.Tables, k: int, by: int, closed: st.Closed, n_out: int) -> int:
    """One line per group with tuples in window k, emit by tuple `by`; returns the new number of lines."""
    for a in range(t.scalars[st.ACTIVE]):
        g = t.groups[a, st.ACTIVE_AT]
        closed.lines[n_out, WINDOW], closed.lines[n_out, EMITTED_BY] = k, by
        for c in range(t.scalars[st.KEYS]):
            closed.lines[n_out, OF_KEY + c] = t.groups[g, st.KEY + c]
        write_value(t, g, closed, n_out)
        write_answers(t, g, closed, n_out)
        if closed.near.shape[1] > 0:
            note_near(t, g, closed, n_out)
        n_out += 1
    return n_out


@inner
def put_into_pane(t: st.Tables, grid: Panes, new: st.Taken, i: int, holistic: bool) -> None:
    """Add tuple i to the partial of its pane and group, unless every window of the pane is closed."""
    pane = pane_of(grid, new.words[TS, i])
    if pane < first_pane(grid, t.scalars[st.NEXT]):
        return
    g = group_of(t, new.words, new.key_rows, i)
    e = t.groups[g, st.LAST_USED]
    if e == NONE or t.partials[e, st.PANE] != pane or t.partials[e, st.GROUP] != g:
        e = find_partial(t, pane, g)
    late = pane <= t.scalars[st.ENTERED]
    if e == NONE:
        e = new_partial(t, pane, g)
        add_to_pane(t, pane, e, late)
        if late:
            insert_late(t, e)
    t.groups[g, st.LAST_USED] = e
    t.partials[e, st.DIRTY] = 1
    if late:
        spread_late(t, e, new, i)
    else:
        add(t.program, t.partials, t.floats, e, st.OWN, new.words, new.floats, i)
    if holistic:
        keep(t, e, new.words, new.value_rows, i)
        if late:
            tuple_enters(t, g, new.words, new.value_rows, i)


@inner
def retire_panes_before(t: st.Tables, first: int, holistic: bool) -> None:
    """Panes older than the window leave it."""
    while t.scalars[st.INSIDE_COUNT] > 0:
        p = t.panes[inside_at(t, 0), st.RING]
        if t.panes[p, st.NUMBER] >= first:
            return
        if t.panes[p, st.NUMBER] > t.scalars[st.FLIP]:
            flip(t)
        e = t.panes[p, st.HEAD]
        while e != NONE:
            following = t.partials[e, st.NEXT_IN_PANE]
            if holistic:
                values_leave(t, e)
            leave(t, e)
            e = following
        t.scalars[st.INSIDE_BEGIN] = (t.scalars[st.INSIDE_BEGIN] + 1) & (len(t.panes) - 1)
        t.scalars[st.INSIDE_COUNT] -= 1
        forget_pane(t, p)


@in_place
def admit_panes(t: st.Tables, first: int, last: int, holistic: bool) -> None:
    """Panes up to the window's newest enter it, oldest first; one older than its oldest is in no window at all."""
    while t.scalars[st.WAITING] > 0 and t.panes[0, st.HEAP_NUMBER] <= last:
        p = pop_waiting(t)
        e = t.panes[p, st.HEAD]
        if t.panes[p, st.NUMBER] < first:
            while e != NONE:
                following = t.partials[e, st.NEXT_IN_PANE]
                if holistic:
                    discard(t, e)
                free_partial(t, e)
                e = following
            forget_pane(t, p)
            continue
        while e != NONE:
            enter(t, e)
            if holistic:
                values_enter(t, e)
            e = t.partials[e, st.NEXT_IN_PANE]
        queue_inside(t, p)
    t.scalars[st.ENTERED] = last


@inner
def pane_bucket(t: st.Tables, number: int) -> int:
    """Where a pane belongs."""
    return mix(number) & (len(t.panes) - 1)


@inner
def has_number(t: st.Tables, p: int, number: int, also: int, unused: int) -> bool:
    """Whether a record is that of a pane."""
    return t.panes[p, st.NUMBER] == number


@inner
def find_pane(t: st.Tables, number: int) -> int:
    """The record of a live pane, or NONE."""
    return find(has_number, t.panes, t.buckets, st.OF_PANES, pane_bucket(t, number), t, number, 0, 0)


@inner
def add_to_pane(t: st.Tables, number: int, e: int, entered: bool) -> None:
    """Hang a new partial onto its pane, making the pane if it is new."""
    p = find_pane(t, number)
    if p == NONE:
        p = take_free(t.panes, t.scalars, st.FREE_PANE, st.PANES)
        t.panes[p, st.NUMBER], t.panes[p, st.HEAD] = number, NONE
        hang(t.panes, t.buckets, st.OF_PANES, pane_bucket(t, number), p)
        if entered:
            queue_inside(t, p)
        else:
            push_waiting(t, p)
    t.partials[e, st.NEXT_IN_PANE] = t.panes[p, st.HEAD]
    t.panes[p, st.HEAD] = e


@inner
def forget_pane(t: st.Tables, p: int) -> None:
    """A pane with no partials left is gone."""
    unhang(t.panes, t.buckets, st.OF_PANES, pane_bucket(t, t.panes[p, st.NUMBER]), p)
    give_back(t.panes, t.scalars, st.FREE_PANE, st.PANES, p)


@inner
def inside_at(t: st.Tables, place: int) -> int:
    """The line of the ring that holds the pane at this place, counted from the oldest."""
    return (t.scalars[st.INSIDE_BEGIN] + place) & (len(t.panes) - 1)


@inner
def queue_inside(t: st.Tables, p: int) -> None:
    """Put a pane into the ring by its number; it is nearly always the newest."""
    place = t.scalars[st.INSIDE_COUNT]
    t.scalars[st.INSIDE_COUNT] += 1
    while place > 0:
        before = t.panes[inside_at(t, place - 1), st.RING]
        if t.panes[before, st.NUMBER] <= t.panes[p, st.NUMBER]:
            break
        t.panes[inside_at(t, place), st.RING] = before
        place -= 1
    t.panes[inside_at(t, place), st.RING] = p


@inner
def waiting(t: st.Tables) -> Heap:
    """The panes that wait, by number."""
    return Heap(t.panes[:, st.HEAP_NUMBER], t.panes[:, st.HEAP], t.panes[:, st.HEAP])


@inner
def push_waiting(t: st.Tables, p: int) -> None:
    """Put a pane into the heap."""
    push(waiting(t), t.scalars[st.WAITING], t.panes[p, st.NUMBER], p, p)
    t.scalars[st.WAITING] += 1


@inner
def pop_waiting(t: st.Tables) -> int:
    """Take the oldest waiting pane out of the heap."""
    t.scalars[st.WAITING] -= 1
    return pop(waiting(t), t.scalars[st.WAITING] + 1)
