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
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.holistic_values import begin_values, end_values
from slackwater.operators.aggregate.partials import add, clear, combine


@inner
def has_key(t: st.Tables, g: int, words: Words, key_rows: Words, i: int) -> bool:
    """Whether a group has the key of tuple i."""
    k = 0
    while k < len(key_rows) and t.groups[g, st.KEY + k] == words[key_rows[k], i]:
        k += 1
    return k == len(key_rows)


@inner
def group_of(t: st.Tables, words: Words, key_rows: Words, i: int) -> int:
    """The group of tuple i; a new one if its key is new."""
    h = 0
    for r in key_rows:
        h = mix(h ^ words[r, i])
    b = h & (len(t.groups) - 1)
    g = find(has_key, t.groups, t.buckets, st.OF_GROUPS, b, t, words, key_rows, i)
    if g != NONE:
        return g
    g = take_free(t.groups, t.scalars, st.FREE_GROUP, st.GROUPS)
    for k in range(len(key_rows)):
        t.groups[g, st.KEY + k] = words[key_rows[k], i]
    t.groups[g, st.ENTRIES], t.groups[g, st.INSIDE], t.groups[g, st.LAST_USED] = 0, 0, NONE
    begin_values(t, g)
    hang(t.groups, t.buckets, st.OF_GROUPS, b, g)
    return g


@inner
def group_bucket(t: st.Tables, g: int) -> int:
    """Where a group's key belongs."""
    h = 0
    for k in range(t.scalars[st.KEYS]):
        h = mix(h ^ t.groups[g, st.KEY + k])
    return h & (len(t.groups) - 1)


@inner
def partial_bucket(t: st.Tables, pane: int, g: int) -> int:
    """Where a (pane, group) belongs."""
    return mix(mix(pane) ^ g) & (len(t.partials) - 1)


@inner
def is_of(t: st.Tables, e: int, pane: int, g: int, unused: int) -> bool:
    """Whether a partial is that of a group in a pane."""
    return t.partials[e, st.PANE] == pane and t.partials[e, st.GROUP] == g


@inner
def find_partial(t: st.Tables, pane: int, g: int) -> int:
    """The partial of a group in a pane, or NONE."""
    return find(is_of, t.partials, t.buckets, st.OF_PARTIALS, partial_bucket(t, pane, g), t, pane, g, 0)


@inner
def new_partial(t: st.Tables, pane: int, g: int) -> int:
    """An identity partial for a group in a pane."""
    e = take_free(t.partials, t.scalars, st.FREE_PARTIAL, st.PARTIALS)
    t.partials[e, st.PANE], t.partials[e, st.GROUP] = pane, g
    t.partials[e, st.OLDER], t.partials[e, st.NEWER], t.partials[e, st.VALUES] = NONE, NONE, NONE
    hang(t.partials, t.buckets, st.OF_PARTIALS, partial_bucket(t, pane, g), e)
    clear(t.program, t.partials, t.floats, e, st.OWN)
    t.groups[g, st.ENTRIES] += 1
    return e


@inner
def free_partial(t: st.Tables, e: int) -> None:
    """Forget a partial, and its group with the last one."""
    g = t.partials[e, st.GROUP]
    unhang(t.partials, t.buckets, st.OF_PARTIALS, partial_bucket(t, t.partials[e, st.PANE], g), e)
    t.partials[e, st.PANE] = st.NO_PANE
    give_back(t.partials, t.scalars, st.FREE_PARTIAL, st.PARTIALS, e)
    t.groups[g, st.ENTRIES] -= 1
    if t.groups[g, st.ENTRIES] == 0:
        end_values(t, g)
        unhang(t.groups, t.buckets, st.OF_GROUPS, group_bucket(t, g), g)
        give_back(t.groups, t.scalars, st.FREE_GROUP, st.GROUPS, g)


@inner
def activate(t: st.Tables, g: int) -> None:
    """A group gets its first partial inside the window."""
    t.groups[g, st.POSITION] = t.scalars[st.ACTIVE]
    t.groups[t.scalars[st.ACTIVE], st.ACTIVE_AT] = g
    t.scalars[st.ACTIVE] += 1
    t.groups[g, st.FRONT], t.groups[g, st.NEWEST] = NONE, NONE
    clear(t.program, t.groups, t.group_floats, g, st.KEY + t.scalars[st.KEYS])


@inner
def enter(t: st.Tables, e: int) -> None:
    """A partial becomes the newest of its group inside the window."""
    g = t.partials[e, st.GROUP]
    if t.groups[g, st.INSIDE] == 0:
        activate(t, g)
    else:
        t.partials[t.groups[g, st.NEWEST], st.NEWER] = e
        t.partials[e, st.OLDER] = t.groups[g, st.NEWEST]
    t.groups[g, st.NEWEST] = e
    t.groups[g, st.INSIDE] += 1
    combine(t.program, t.groups, t.group_floats, g, st.KEY + t.scalars[st.KEYS], t.partials, t.floats, e, st.OWN)


@inner
def leave(t: st.Tables, e: int) -> None:
    """The oldest partial of its group, always of the front, leaves."""
    g = t.partials[e, st.GROUP]
    following = t.partials[e, st.NEWER]
    t.groups[g, st.FRONT] = NONE
    if following != NONE:
        t.partials[following, st.OLDER] = NONE
        if t.partials[following, st.PANE] <= t.scalars[st.FLIP]:
            t.groups[g, st.FRONT] = following
    t.groups[g, st.INSIDE] -= 1
    if t.groups[g, st.INSIDE] == 0:
        t.scalars[st.ACTIVE] -= 1
        last = t.groups[t.scalars[st.ACTIVE], st.ACTIVE_AT]
        t.groups[t.groups[g, st.POSITION], st.ACTIVE_AT] = last
        t.groups[last, st.POSITION] = t.groups[g, st.POSITION]
    free_partial(t, e)


@inner
def flip(t: st.Tables) -> None:
    """The whole window becomes the front: make every suffix, empty every back."""
    suffix = st.OWN + t.scalars[st.WIDTH]
    # Where all aggregates are holistic there is nothing to combine.
    for a in range(t.scalars[st.ACTIVE] if len(t.program) > 0 else 0):
        g = t.groups[a, st.ACTIVE_AT]
        e = t.groups[g, st.NEWEST]
        while e != NONE:
            for c in range(t.scalars[st.WIDTH]):
                t.partials[e, suffix + c] = t.partials[e, st.OWN + c]
            newer = t.partials[e, st.NEWER]
            if newer != NONE:
                combine(t.program, t.partials, t.floats, e, suffix, t.partials, t.floats, newer, suffix)
            t.groups[g, st.FRONT] = e
            e = t.partials[e, st.OLDER]
        clear(t.program, t.groups, t.group_floats, g, st.KEY + t.scalars[st.KEYS])
    t.scalars[st.FLIP] = t.scalars[st.ENTERED]


@inner
def write_value(t: st.Tables, g: int, closed: st.Closed, line: int) -> None:
    """The window's value of a group."""
    back = st.KEY + t.scalars[st.KEYS]
    for c in range(t.scalars[st.WIDTH]):
        closed.state[line, c] = t.groups[g, back + c]
    front = t.groups[g, st.FRONT]
    if front != NONE:
        combine(
            t.program, closed.state, closed.floats, line, 0, t.partials, t.floats, front, st.OWN + t.scalars[st.WIDTH]
        )


@inner
def insert_late(t: st.Tables, e: int) -> None:
    """Link a new, still empty partial of an entered pane between its group's older and newer ones."""
    g, pane, suffix = t.partials[e, st.GROUP], t.partials[e, st.PANE], st.OWN + t.scalars[st.WIDTH]
    if t.groups[g, st.INSIDE] == 0:
        activate(t, g)
    at, following = gap_for(t.partials, st.OLDER, t.partials[:, st.PANE], t.groups[g, st.NEWEST], pane)
    link_between(t.partials, st.OLDER, at, following, e)
    if following == NONE:
        t.groups[g, st.NEWEST] = e
    t.groups[g, st.INSIDE] += 1
    if pane <= t.scalars[st.FLIP]:
        clear(t.program, t.partials, t.floats, e, suffix)
        if following != NONE and t.partials[following, st.PANE] <= t.scalars[st.FLIP]:
            combine(t.program, t.partials, t.floats, e, suffix, t.partials, t.floats, following, suffix)
        if at == NONE:
            t.groups[g, st.FRONT] = e


@inner
def spread_late(t: st.Tables, e: int, new: st.Taken, i: int) -> None:
    """Combine late tuple i into everything that covers partial e."""
    add(t.program, t.partials, t.floats, e, st.OWN, new.words, new.floats, i)
    if t.partials[e, st.PANE] > t.scalars[st.FLIP]:
        g = t.partials[e, st.GROUP]
        add(t.program, t.groups, t.group_floats, g, st.KEY + t.scalars[st.KEYS], new.words, new.floats, i)
        return
    at = e
    while at != NONE:
        add(t.program, t.partials, t.floats, at, st.OWN + t.scalars[st.WIDTH], new.words, new.floats, i)
        at = t.partials[at, st.OLDER]
