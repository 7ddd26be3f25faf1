"""Sliding by two stacks, sparse: each partial enters a window once and leaves it once, whatever window/slide is.

Partials are kept per (pane, group). A window is a front and a back: for every partial of the front, its suffix
combines it with all newer front partials of its group; the back of a group is one running combination. A window's
value of a group is its oldest front suffix combined with its back. When the front is used up, the whole window
becomes the front: suffixes are made once per partial, so the amortised cost of a partial is constant, without ever
subtracting.

A late tuple may fall into a pane that has already entered: `combine` is commutative, so it is combined into the
partials and suffixes that cover it.

Invariant: INSIDE partials of a group lie in panes [first of the window, ENTERED]; groups with none are not listed as
active.

References: Tangwongsan, Hirzel, Schneider: Low-latency sliding-window aggregation in worst-case constant time, DEBS
2017 (two stacks); Traub et al.: Scotty, ICDE 2018 (slices).
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.collections.chain import gap_for, link_between
from slackwater.core.collections.hash_table import mix
from slackwater.core.collections.records import NONE, find, give_back, hang, take_free, unhang
from slackwater.core.jit import inner
from slackwater.operators.aggregate.holistic_values import begin_values, end_values
from slackwater.operators.aggregate.partials import add, clear, combine
from slackwater.operators.aggregate.state import (
    ACTIVE,
    ACTIVE_AT,
    ENTERED,
    ENTRIES,
    FLIP,
    FREE_GROUP,
    FREE_PARTIAL,
    FRONT,
    GROUP,
    GROUPS,
    INSIDE,
    KEY,
    KEYS,
    LAST_USED,
    NEWER,
    NEWEST,
    NO_PANE,
    OF_GROUPS,
    OF_PARTIALS,
    OLDER,
    OWN,
    PANE,
    PARTIALS,
    POSITION,
    VALUES,
    WIDTH,
    Closed,
    Tables,
    Taken,
)


@inner
def has_key(t: Tables, g: int, words: Words, key_rows: Words, i: int) -> bool:
    """Whether a group has the key of tuple i."""
    k = 0
    while k < len(key_rows) and t.groups[g, KEY + k] == words[key_rows[k], i]:
        k += 1
    return k == len(key_rows)


@inner
def group_of(t: Tables, words: Words, key_rows: Words, i: int) -> int:
    """The group of tuple i; a new one if its key is new."""
    h = 0
    for r in key_rows:
        h = mix(h ^ words[r, i])
    b = h & (len(t.groups) - 1)
    g = find(has_key, t.groups, t.buckets, OF_GROUPS, b, t, words, key_rows, i)
    if g != NONE:
        return g
    g = take_free(t.groups, t.scalars, FREE_GROUP, GROUPS)
    for k in range(len(key_rows)):
        t.groups[g, KEY + k] = words[key_rows[k], i]
    t.groups[g, ENTRIES], t.groups[g, INSIDE], t.groups[g, LAST_USED] = 0, 0, NONE
    begin_values(t, g)
    hang(t.groups, t.buckets, OF_GROUPS, b, g)
    return g


@inner
def group_bucket(t: Tables, g: int) -> int:
    """Where a group's key belongs."""
    h = 0
    for k in range(t.scalars[KEYS]):
        h = mix(h ^ t.groups[g, KEY + k])
    return h & (len(t.groups) - 1)


@inner
def partial_bucket(t: Tables, pane: int, g: int) -> int:
    """Where a (pane, group) belongs."""
    return mix(mix(pane) ^ g) & (len(t.partials) - 1)


@inner
def is_of(t: Tables, e: int, pane: int, g: int, unused: int) -> bool:
    """Whether a partial is that of a group in a pane."""
    return t.partials[e, PANE] == pane and t.partials[e, GROUP] == g


@inner
def find_partial(t: Tables, pane: int, g: int) -> int:
    """The partial of a group in a pane, or NONE."""
    return find(is_of, t.partials, t.buckets, OF_PARTIALS, partial_bucket(t, pane, g), t, pane, g, 0)


@inner
def new_partial(t: Tables, pane: int, g: int) -> int:
    """An identity partial for a group in a pane."""
    e = take_free(t.partials, t.scalars, FREE_PARTIAL, PARTIALS)
    t.partials[e, PANE], t.partials[e, GROUP] = pane, g
    t.partials[e, OLDER], t.partials[e, NEWER], t.partials[e, VALUES] = NONE, NONE, NONE
    hang(t.partials, t.buckets, OF_PARTIALS, partial_bucket(t, pane, g), e)
    clear(t.program, t.partials, t.floats, e, OWN)
    t.groups[g, ENTRIES] += 1
    return e


@inner
def free_partial(t: Tables, e: int) -> None:
    """Forget a partial, and its group with the last one."""
    g = t.partials[e, GROUP]
    unhang(t.partials, t.buckets, OF_PARTIALS, partial_bucket(t, t.partials[e, PANE], g), e)
    t.partials[e, PANE] = NO_PANE
    give_back(t.partials, t.scalars, FREE_PARTIAL, PARTIALS, e)
    t.groups[g, ENTRIES] -= 1
    if t.groups[g, ENTRIES] == 0:
        end_values(t, g)
        unhang(t.groups, t.buckets, OF_GROUPS, group_bucket(t, g), g)
        give_back(t.groups, t.scalars, FREE_GROUP, GROUPS, g)


@inner
def activate(t: Tables, g: int) -> None:
    """A group gets its first partial inside the window."""
    t.groups[g, POSITION] = t.scalars[ACTIVE]
    t.groups[t.scalars[ACTIVE], ACTIVE_AT] = g
    t.scalars[ACTIVE] += 1
    t.groups[g, FRONT], t.groups[g, NEWEST] = NONE, NONE
    clear(t.program, t.groups, t.group_floats, g, KEY + t.scalars[KEYS])


@inner
def enter(t: Tables, e: int) -> None:
    """A partial becomes the newest of its group inside the window."""
    g = t.partials[e, GROUP]
    if t.groups[g, INSIDE] == 0:
        activate(t, g)
    else:
        t.partials[t.groups[g, NEWEST], NEWER] = e
        t.partials[e, OLDER] = t.groups[g, NEWEST]
    t.groups[g, NEWEST] = e
    t.groups[g, INSIDE] += 1
    combine(t.program, t.groups, t.group_floats, g, KEY + t.scalars[KEYS], t.partials, t.floats, e, OWN)


@inner
def leave(t: Tables, e: int) -> None:
    """The oldest partial of its group, always of the front, leaves."""
    g = t.partials[e, GROUP]
    following = t.partials[e, NEWER]
    t.groups[g, FRONT] = NONE
    if following != NONE:
        t.partials[following, OLDER] = NONE
        if t.partials[following, PANE] <= t.scalars[FLIP]:
            t.groups[g, FRONT] = following
    t.groups[g, INSIDE] -= 1
    if t.groups[g, INSIDE] == 0:
        t.scalars[ACTIVE] -= 1
        last = t.groups[t.scalars[ACTIVE], ACTIVE_AT]
        t.groups[t.groups[g, POSITION], ACTIVE_AT] = last
        t.groups[last, POSITION] = t.groups[g, POSITION]
    free_partial(t, e)


@inner
def flip(t: Tables) -> None:
    """The whole window becomes the front: make every suffix, empty every back."""
    suffix = OWN + t.scalars[WIDTH]
    # Where all aggregates are holistic there is nothing to combine.
    for a in range(t.scalars[ACTIVE] if len(t.program) > 0 else 0):
        g = t.groups[a, ACTIVE_AT]
        e = t.groups[g, NEWEST]
        while e != NONE:
            for c in range(t.scalars[WIDTH]):
                t.partials[e, suffix + c] = t.partials[e, OWN + c]
            newer = t.partials[e, NEWER]
            if newer != NONE:
                combine(t.program, t.partials, t.floats, e, suffix, t.partials, t.floats, newer, suffix)
            t.groups[g, FRONT] = e
            e = t.partials[e, OLDER]
        clear(t.program, t.groups, t.group_floats, g, KEY + t.scalars[KEYS])
    t.scalars[FLIP] = t.scalars[ENTERED]


@inner
def write_value(t: Tables, g: int, closed: Closed, line: int) -> None:
    """The window's value of a group."""
    back = KEY + t.scalars[KEYS]
    for c in range(t.scalars[WIDTH]):
        closed.state[line, c] = t.groups[g, back + c]
    front = t.groups[g, FRONT]
    if front != NONE:
        combine(t.program, closed.state, closed.floats, line, 0, t.partials, t.floats, front, OWN + t.scalars[WIDTH])


@inner
def insert_late(t: Tables, e: int) -> None:
    """Link a new, still empty partial of an entered pane between its group's older and newer ones."""
    g, pane, suffix = t.partials[e, GROUP], t.partials[e, PANE], OWN + t.scalars[WIDTH]
    if t.groups[g, INSIDE] == 0:
        activate(t, g)
    at, following = gap_for(t.partials, OLDER, t.partials[:, PANE], t.groups[g, NEWEST], pane)
    link_between(t.partials, OLDER, at, following, e)
    if following == NONE:
        t.groups[g, NEWEST] = e
    t.groups[g, INSIDE] += 1
    if pane <= t.scalars[FLIP]:
        clear(t.program, t.partials, t.floats, e, suffix)
        if following != NONE and t.partials[following, PANE] <= t.scalars[FLIP]:
            combine(t.program, t.partials, t.floats, e, suffix, t.partials, t.floats, following, suffix)
        if at == NONE:
            t.groups[g, FRONT] = e


@inner
def spread_late(t: Tables, e: int, new: Taken, i: int) -> None:
    """Combine late tuple i into everything that covers partial e."""
    add(t.program, t.partials, t.floats, e, OWN, new.words, new.floats, i)
    if t.partials[e, PANE] > t.scalars[FLIP]:
        g = t.partials[e, GROUP]
        add(t.program, t.groups, t.group_floats, g, KEY + t.scalars[KEYS], new.words, new.floats, i)
        return
    at = e
    while at != NONE:
        add(t.program, t.partials, t.floats, at, OWN + t.scalars[WIDTH], new.words, new.floats, i)
        at = t.partials[at, OLDER]
