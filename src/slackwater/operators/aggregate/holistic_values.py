"""The values behind holistic aggregates, kept per partial while its pane lives.

Invariant: a value is noted as moved once when its pane enters the window and once when it leaves; what is noted is what
`sorted_window` has to take over.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.records import NONE, give_back, table, take_free
from slackwater.core.jit import inner
from slackwater.operators.aggregate.state import (
    ADDED,
    FREE_VALUE,
    FROM_GROUP,
    GROUP,
    LINK,
    REMOVED,
    VALUES,
    VALUES_KEPT,
    WORD,
    Tables,
)


def value_tables(arguments: int, capacity: int) -> tuple[Words, Words]:
    """Space for this many kept values, and for as many to enter and to leave at once."""
    return table(capacity, WORD + arguments), np.zeros((2 * capacity, 1 + arguments), np.int64)


@inner
def keep(t: Tables, e: int, words: Words, rows: Words, i: int) -> int:
    """Keep the values of tuple i with partial e; returns where."""
    v = take_free(t.values, t.scalars, FREE_VALUE, VALUES_KEPT)
    for h in range(len(rows)):
        t.values[v, WORD + h] = words[rows[h], i]
    t.values[v, LINK] = t.partials[e, VALUES]
    t.partials[e, VALUES] = v
    return v


@inner
def note_one(t: Tables, g: int, v: int) -> None:
    """One value is inside the window from now on."""
    t.moved[t.scalars[ADDED], FROM_GROUP] = g
    for h in range(1, t.moved.shape[1]):
        t.moved[t.scalars[ADDED], h] = t.values[v, h]
    t.scalars[ADDED] += 1


@inner
def note_entered(t: Tables, e: int) -> None:
    """All values of a partial are inside the window from now on."""
    v = t.partials[e, VALUES]
    while v != NONE:
        note_one(t, t.partials[e, GROUP], v)
        v = t.values[v, LINK]


@inner
def note_left(t: Tables, e: int) -> None:
    """All values of a partial leave the window and are forgotten."""
    v = t.partials[e, VALUES]
    while v != NONE:
        at = len(t.moved) // 2 + t.scalars[REMOVED]
        t.moved[at, FROM_GROUP] = t.partials[e, GROUP]
        for h in range(1, t.moved.shape[1]):
            t.moved[at, h] = t.values[v, h]
        t.scalars[REMOVED] += 1
        v = t.values[v, LINK]
    discard(t, e)


@inner
def discard(t: Tables, e: int) -> None:
    """Forget the values of a partial."""
    v = t.partials[e, VALUES]
    while v != NONE:
        following = t.values[v, LINK]
        give_back(t.values, t.scalars, FREE_VALUE, VALUES_KEPT, v)
        v = following
    t.partials[e, VALUES] = NONE
