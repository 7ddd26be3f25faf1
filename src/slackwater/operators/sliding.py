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

import numpy as np
import numpy.typing as npt

from slackwater.compiled import inner
from slackwater.model.batch import Words
from slackwater.operators.partials import add, clear, combine
from slackwater.operators.records import CHAIN, FIRST_FIELD, NONE, hang, mix, unhang

Floats = npt.NDArray[np.float64]

# A partial: its pane and group, its neighbours in the pane and in its group by age, its values, whether it changed
# since it was last persisted; then its own state and its suffix.
PANE, GROUP, NEXT_IN_PANE, OLDER, NEWER, VALUES, DIRTY = range(FIRST_FIELD, FIRST_FIELD + 7)
OWN = FIRST_FIELD + 7

# A group: how many partials it has at all and inside the window, its oldest front partial, its newest inside, the
# partial it used last, its place among the active, and the group that is active at this place; then its key and its
# back.
ENTRIES, INSIDE, FRONT, NEWEST, LAST_USED, POSITION, ACTIVE_AT = range(FIRST_FIELD, FIRST_FIELD + 7)
KEY = FIRST_FIELD + 7

# Scalars.
NEXT = 0
"""The oldest window not yet closed."""
FLIP = 1
"""Newest pane of the front."""
ENTERED = 2
"""Newest pane whose partials have entered."""
ACTIVE = 3
FREE_PARTIAL, FREE_GROUP, FREE_PANE = 4, 5, 6
PARTIALS, GROUPS, PANES = 7, 8, 9
"""How many records of each table are in use."""
WAITING, INSIDE_BEGIN, INSIDE_COUNT = 10, 11, 12
WIDTH, KEYS = 13, 14
"""Words of a partial's state; key columns."""
FREE_VALUE, VALUES_KEPT, CAME, WENT = 15, 16, 17, 18
"""Values of holistic aggregates: the first free one, how many are kept, how many entered and left the window."""
SCALARS = 19

NO_PANE = -(2**62)

# Lines of the array of buckets.
OF_PARTIALS, OF_GROUPS, OF_PANES = range(3)


@inner
def group_of(groups: Words, buckets: Words, scalars: Words, words: Words, key_rows: Words, i: int) -> int:
    """The group of tuple i; a new one if its key is new."""
    h = 0
    for r in key_rows:
        h = mix(h ^ words[r, i])
    b = h & (len(groups) - 1)
    g = buckets[OF_GROUPS, b]
    while g != NONE:
        same = True
        for k in range(len(key_rows)):
            if groups[g, KEY + k] != words[key_rows[k], i]:
                same = False
                break
        if same:
            return g
        g = groups[g, CHAIN]
    g = scalars[FREE_GROUP]
    scalars[FREE_GROUP] = groups[g, CHAIN]
    scalars[GROUPS] += 1
    for k in range(len(key_rows)):
        groups[g, KEY + k] = words[key_rows[k], i]
    groups[g, ENTRIES], groups[g, INSIDE], groups[g, LAST_USED] = 0, 0, NONE
    hang(groups, buckets, OF_GROUPS, b, g)
    return g


@inner
def group_bucket(groups: Words, n_keys: int, g: int) -> int:
    """Where a group's key belongs."""
    h = 0
    for k in range(n_keys):
        h = mix(h ^ groups[g, KEY + k])
    return h & (len(groups) - 1)


@inner
def partial_bucket(partials: Words, pane: int, g: int) -> int:
    """Where a (pane, group) belongs."""
    return mix(mix(pane) ^ g) & (len(partials) - 1)


@inner
def find_partial(partials: Words, buckets: Words, pane: int, g: int) -> int:
    """The partial of a group in a pane, or NONE."""
    e = buckets[OF_PARTIALS, partial_bucket(partials, pane, g)]
    while e != NONE and (partials[e, PANE] != pane or partials[e, GROUP] != g):
        e = partials[e, CHAIN]
    return e


@inner
def new_partial(
    program: Words, partials: Words, floats: Floats, groups: Words, buckets: Words, scalars: Words, pane: int, g: int
) -> int:
    """An identity partial for a group in a pane."""
    e = scalars[FREE_PARTIAL]
    scalars[FREE_PARTIAL] = partials[e, CHAIN]
    scalars[PARTIALS] += 1
    partials[e, PANE], partials[e, GROUP] = pane, g
    partials[e, OLDER], partials[e, NEWER], partials[e, VALUES] = NONE, NONE, NONE
    hang(partials, buckets, OF_PARTIALS, partial_bucket(partials, pane, g), e)
    clear(program, partials, floats, e, OWN)
    groups[g, ENTRIES] += 1
    return e


@inner
def free_partial(partials: Words, groups: Words, buckets: Words, scalars: Words, e: int) -> None:
    """Forget a partial, and its group with the last one."""
    g = partials[e, GROUP]
    unhang(partials, buckets, OF_PARTIALS, partial_bucket(partials, partials[e, PANE], g), e)
    partials[e, PANE] = NO_PANE
    partials[e, CHAIN] = scalars[FREE_PARTIAL]
    scalars[FREE_PARTIAL] = e
    scalars[PARTIALS] -= 1
    groups[g, ENTRIES] -= 1
    if groups[g, ENTRIES] == 0:
        unhang(groups, buckets, OF_GROUPS, group_bucket(groups, scalars[KEYS], g), g)
        groups[g, CHAIN] = scalars[FREE_GROUP]
        scalars[FREE_GROUP] = g
        scalars[GROUPS] -= 1


@inner
def activate(program: Words, groups: Words, group_floats: Floats, scalars: Words, g: int) -> None:
    """A group gets its first partial inside the window."""
    groups[g, POSITION] = scalars[ACTIVE]
    groups[scalars[ACTIVE], ACTIVE_AT] = g
    scalars[ACTIVE] += 1
    groups[g, FRONT], groups[g, NEWEST] = NONE, NONE
    clear(program, groups, group_floats, g, KEY + scalars[KEYS])


@inner
def enter(
    program: Words, partials: Words, floats: Floats, groups: Words, group_floats: Floats, scalars: Words, e: int
) -> None:
    """A partial becomes the newest of its group inside the window."""
    g = partials[e, GROUP]
    if groups[g, INSIDE] == 0:
        activate(program, groups, group_floats, scalars, g)
    else:
        partials[groups[g, NEWEST], NEWER] = e
        partials[e, OLDER] = groups[g, NEWEST]
    groups[g, NEWEST] = e
    groups[g, INSIDE] += 1
    combine(program, groups, group_floats, g, KEY + scalars[KEYS], partials, floats, e, OWN)


@inner
def leave(partials: Words, groups: Words, buckets: Words, scalars: Words, e: int) -> None:
    """The oldest partial of its group, always of the front, leaves."""
    g = partials[e, GROUP]
    following = partials[e, NEWER]
    groups[g, FRONT] = NONE
    if following != NONE:
        partials[following, OLDER] = NONE
        if partials[following, PANE] <= scalars[FLIP]:
            groups[g, FRONT] = following
    groups[g, INSIDE] -= 1
    if groups[g, INSIDE] == 0:
        scalars[ACTIVE] -= 1
        last = groups[scalars[ACTIVE], ACTIVE_AT]
        groups[groups[g, POSITION], ACTIVE_AT] = last
        groups[last, POSITION] = groups[g, POSITION]
    free_partial(partials, groups, buckets, scalars, e)


@inner
def flip(program: Words, partials: Words, floats: Floats, groups: Words, group_floats: Floats, scalars: Words) -> None:
    """The whole window becomes the front: make every suffix, empty every back."""
    suffix = OWN + scalars[WIDTH]
    for a in range(scalars[ACTIVE]):
        g = groups[a, ACTIVE_AT]
        e = groups[g, NEWEST]
        while e != NONE:
            for c in range(scalars[WIDTH]):
                partials[e, suffix + c] = partials[e, OWN + c]
            newer = partials[e, NEWER]
            if newer != NONE:
                combine(program, partials, floats, e, suffix, partials, floats, newer, suffix)
            groups[g, FRONT] = e
            e = partials[e, OLDER]
        clear(program, groups, group_floats, g, KEY + scalars[KEYS])
    scalars[FLIP] = scalars[ENTERED]


@inner
def value_of(
    program: Words,
    partials: Words,
    floats: Floats,
    groups: Words,
    group_floats: Floats,
    scalars: Words,
    g: int,
    into: Words,
    into_floats: Floats,
    o: int,
) -> None:
    """The window's value of a group."""
    back = KEY + scalars[KEYS]
    for c in range(scalars[WIDTH]):
        into[o, c] = groups[g, back + c]
    if groups[g, FRONT] != NONE:
        combine(program, into, into_floats, o, 0, partials, floats, groups[g, FRONT], OWN + scalars[WIDTH])


@inner
def insert_late(
    program: Words, partials: Words, floats: Floats, groups: Words, group_floats: Floats, scalars: Words, e: int
) -> None:
    """Link a new, still empty partial of an entered pane between its group's older and newer ones."""
    g, pane, suffix = partials[e, GROUP], partials[e, PANE], OWN + scalars[WIDTH]
    if groups[g, INSIDE] == 0:
        activate(program, groups, group_floats, scalars, g)
    following, at = NONE, groups[g, NEWEST]
    while at != NONE and partials[at, PANE] > pane:
        following, at = at, partials[at, OLDER]
    partials[e, OLDER], partials[e, NEWER] = at, following
    if at != NONE:
        partials[at, NEWER] = e
    if following != NONE:
        partials[following, OLDER] = e
    else:
        groups[g, NEWEST] = e
    groups[g, INSIDE] += 1
    if pane <= scalars[FLIP]:
        clear(program, partials, floats, e, suffix)
        if following != NONE and partials[following, PANE] <= scalars[FLIP]:
            combine(program, partials, floats, e, suffix, partials, floats, following, suffix)
        if at == NONE:
            groups[g, FRONT] = e


@inner
def spread_late(
    program: Words,
    partials: Words,
    floats: Floats,
    groups: Words,
    group_floats: Floats,
    scalars: Words,
    e: int,
    words: Words,
    word_floats: Floats,
    i: int,
) -> None:
    """Combine late tuple i into everything that covers partial e."""
    add(program, partials, floats, e, OWN, words, word_floats, i)
    if partials[e, PANE] > scalars[FLIP]:
        add(program, groups, group_floats, partials[e, GROUP], KEY + scalars[KEYS], words, word_floats, i)
        return
    at = e
    while at != NONE:
        add(program, partials, floats, at, OWN + scalars[WIDTH], words, word_floats, i)
        at = partials[at, OLDER]
