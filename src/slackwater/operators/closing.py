"""Tuples into panes, panes into windows, windows out: the loop of the aggregate operator.

Invariant: after `consume` has seen a frontier F, exactly the windows with `end <= F` are closed, in order, each with
every tuple that arrived before it closed; windows without tuples are stepped over, never visited one by one.

References: 004 §2.1.2 (sliding windows), §4.1.
"""

from __future__ import annotations

from slackwater.compiled import in_place, inner
from slackwater.model.batch import TS, Words
from slackwater.operators.pane_queue import (
    HEAD,
    HEAP,
    NUMBER,
    RING,
    add_to_pane,
    forget_pane,
    inside_at,
    pop_waiting,
    queue_inside,
)
from slackwater.operators.partials import Floats, add
from slackwater.operators.records import NONE
from slackwater.operators.sliding import (
    ACTIVE,
    ACTIVE_AT,
    DIRTY,
    ENTERED,
    FLIP,
    GROUP,
    GROUPS,
    INSIDE_BEGIN,
    INSIDE_COUNT,
    KEY,
    KEYS,
    LAST_USED,
    NEXT,
    NEXT_IN_PANE,
    OWN,
    PANE,
    WAITING,
    enter,
    find_partial,
    flip,
    free_partial,
    group_of,
    insert_late,
    leave,
    new_partial,
    spread_late,
    value_of,
)
from slackwater.operators.values import discard, keep, note_entered, note_left, note_one
from slackwater.windows.panes import (
    Panes,
    first_open,
    first_pane,
    first_window_with,
    last_pane,
    pane_of,
    window_end,
)

CLOSED_ALL = 0
OUT_OF_ROOM = 1
CLOSED_ONE = 2

# Columns of a closed line; the group's key follows.
WINDOW, LET_OUT_BY, OF_GROUP, OF_KEY = range(4)


@in_place
def consume(
    program: Words,
    grid: Panes,
    key_rows: Words,
    value_rows: Words,
    words: Words,
    word_floats: Floats,
    cutoff: Words,
    ordered: bool,
    begin: int,
    frontier: int,
    partials: Words,
    floats: Floats,
    groups: Words,
    group_floats: Floats,
    panes: Words,
    buckets: Words,
    values: Words,
    moved: Words,
    scalars: Words,
    lines: Words,
    state: Words,
    state_floats: Floats,
) -> tuple[int, int, int]:
    """Take in tuples from `begin` on; returns (tuples consumed, lines written, why it stopped)."""
    holistic = len(value_rows) > 0
    n_out = 0
    for i in range(begin, words.shape[1] + 1):
        done = i == words.shape[1]
        reached = frontier if done else cutoff[i]
        if ordered and not done:
            reached = max(reached, words[TS, i])
        while window_end(grid, scalars[NEXT]) <= reached:
            k = scalars[NEXT]
            if scalars[ACTIVE] == 0:
                k = next_with_tuples(grid, panes, scalars, k)
                if window_end(grid, k) > reached:
                    scalars[NEXT] = first_open(grid, reached)
                    scalars[ENTERED] = last_pane(grid, scalars[NEXT] - 1)
                    scalars[FLIP] = scalars[ENTERED]
                    break
            if n_out + scalars[GROUPS] > len(lines):
                return i, n_out, OUT_OF_ROOM
            first = first_pane(grid, k)
            retire_panes_before(
                program, partials, floats, groups, group_floats, panes, buckets, values, moved, scalars, first, holistic
            )
            admit_panes(
                program, partials, floats, groups, group_floats, panes, buckets, values, moved, scalars,
                first, last_pane(grid, k), holistic,
            )  # fmt: skip
            for a in range(scalars[ACTIVE]):
                g = groups[a, ACTIVE_AT]
                lines[n_out, WINDOW], lines[n_out, LET_OUT_BY], lines[n_out, OF_GROUP] = k, i, g
                for c in range(scalars[KEYS]):
                    lines[n_out, OF_KEY + c] = groups[g, KEY + c]
                value_of(
                    program, partials, floats, groups, group_floats, scalars, g, state, state_floats, n_out
                )  # fmt: skip
                n_out += 1
            scalars[NEXT] = k + 1
            if holistic:
                return i, n_out, CLOSED_ONE
        if done:
            break
        pane = pane_of(grid, words[TS, i])
        if pane < first_pane(grid, scalars[NEXT]):
            continue
        g = group_of(groups, buckets, scalars, words, key_rows, i)
        e = groups[g, LAST_USED]
        if e == NONE or partials[e, PANE] != pane or partials[e, GROUP] != g:
            e = find_partial(partials, buckets, pane, g)
        late = pane <= scalars[ENTERED]
        if e == NONE:
            e = new_partial(program, partials, floats, groups, buckets, scalars, pane, g)
            add_to_pane(panes, partials, buckets, scalars, pane, e, late)
            if late:
                insert_late(program, partials, floats, groups, group_floats, scalars, e)
        groups[g, LAST_USED] = e
        partials[e, DIRTY] = 1
        if late:
            spread_late(
                program, partials, floats, groups, group_floats, scalars, e, words, word_floats, i
            )  # fmt: skip
        else:
            add(program, partials, floats, e, OWN, words, word_floats, i)
        if holistic:
            v = keep(values, scalars, partials, e, words, value_rows, i)
            if late:
                note_one(values, moved, scalars, g, v)
    return words.shape[1], n_out, CLOSED_ALL


@inner
def next_with_tuples(grid: Panes, panes: Words, scalars: Words, k: int) -> int:
    """With no tuple inside: the first window from k on that will have one, or one beyond any frontier."""
    if scalars[WAITING] == 0:
        return 2**62 // grid.slide
    return max(k, first_window_with(grid, panes[panes[0, HEAP], NUMBER]))


@inner
def retire_panes_before(
    program: Words,
    partials: Words,
    floats: Floats,
    groups: Words,
    group_floats: Floats,
    panes: Words,
    buckets: Words,
    values: Words,
    moved: Words,
    scalars: Words,
    first: int,
    holistic: bool,
) -> None:
    """Panes older than the window leave it."""
    while scalars[INSIDE_COUNT] > 0:
        p = panes[inside_at(panes, scalars, 0), RING]
        if panes[p, NUMBER] >= first:
            return
        if panes[p, NUMBER] > scalars[FLIP]:
            flip(program, partials, floats, groups, group_floats, scalars)
        e = panes[p, HEAD]
        while e != NONE:
            following = partials[e, NEXT_IN_PANE]
            if holistic:
                note_left(values, moved, scalars, partials, e)
            leave(partials, groups, buckets, scalars, e)
            e = following
        scalars[INSIDE_BEGIN] = (scalars[INSIDE_BEGIN] + 1) & (len(panes) - 1)
        scalars[INSIDE_COUNT] -= 1
        forget_pane(panes, buckets, scalars, p)


@in_place
def admit_panes(
    program: Words,
    partials: Words,
    floats: Floats,
    groups: Words,
    group_floats: Floats,
    panes: Words,
    buckets: Words,
    values: Words,
    moved: Words,
    scalars: Words,
    first: int,
    last: int,
    holistic: bool,
) -> None:
    """Panes up to the window's newest enter it, oldest first; one older than its oldest is in no window at all."""
    while scalars[WAITING] > 0 and panes[panes[0, HEAP], NUMBER] <= last:
        p = pop_waiting(panes, scalars)
        e = panes[p, HEAD]
        if panes[p, NUMBER] < first:
            while e != NONE:
                following = partials[e, NEXT_IN_PANE]
                if holistic:
                    discard(values, scalars, partials, e)
                free_partial(partials, groups, buckets, scalars, e)
                e = following
            forget_pane(panes, buckets, scalars, p)
            continue
        while e != NONE:
            enter(program, partials, floats, groups, group_floats, scalars, e)
            if holistic:
                note_entered(values, moved, scalars, partials, e)
            e = partials[e, NEXT_IN_PANE]
        queue_inside(panes, scalars, p)
    scalars[ENTERED] = last
