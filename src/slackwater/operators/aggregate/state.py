"""The state of a window aggregate, as one named group of tables that compiled code reads and updates in place.

Invariant: a record keeps its number for as long as it lives, so one table may point into another. What is free, what is
in use and where the window stands is written in `scalars`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.records import FIRST_FIELD
from slackwater.core.collections.segments import Segments

# A partial: its pane and group, the next in the pane, its neighbours in its group (a `chain`), its values,
# whether it changed since it was last persisted; then its own state and its suffix.
PANE, GROUP, NEXT_IN_PANE, OLDER, NEWER, VALUES, DIRTY = range(FIRST_FIELD, FIRST_FIELD + 7)
OWN = FIRST_FIELD + 7
NO_PANE = -(2**62)
"""The pane of a partial that is not in use."""

# A group: how many partials it has at all and inside the window, its oldest front partial, its newest inside, the
# partial it used last, its place among the active, and the group that is active at this place; then its key, its
# back, and what is known of its values (`holistic_values`).
ENTRIES, INSIDE, FRONT, NEWEST, LAST_USED, POSITION, ACTIVE_AT = range(FIRST_FIELD, FIRST_FIELD + 7)
KEY = FIRST_FIELD + 7

# A pane: its number, its first partial; and at this place of the heap a number and its pane, of the ring a pane.
NUMBER, HEAD, HEAP_NUMBER, HEAP, RING = range(FIRST_FIELD, FIRST_FIELD + 5)
PANE_FIELDS = FIRST_FIELD + 5

# A block of values: the next one of its partial (or the next free one), how many values it has; then for each argument
# their words.
LINK, FILLED, WORD = range(3)
BLOCK = 6
"""How many values a block may have; with one argument it is as long as a line of a cache."""

# Lines of the array of buckets.
OF_PARTIALS, OF_GROUPS, OF_PANES = range(3)

# Scalars.
NEXT = 0
"""The oldest window not yet closed."""
FLIP = 1
"""Newest pane of the front."""
ENTERED = 2
"""Newest pane whose partials have entered."""
ACTIVE = 3
"""How many groups have partials inside the window."""
FREE_PARTIAL, FREE_GROUP, FREE_PANE = 4, 5, 6
PARTIALS, GROUPS, PANES = 7, 8, 9
"""How many records of each table are in use."""
WAITING, INSIDE_BEGIN, INSIDE_COUNT = 10, 11, 12
"""Panes in the heap; where the ring begins, and panes in it."""
WIDTH, KEYS = 13, 14
"""Words of a partial's state; key columns."""
FREE_BLOCK, BLOCKS, VALUES_KEPT, VALUES_INSIDE = 15, 16, 17, 18
"""Values of holistic aggregates: the first free block, blocks in use, values in them, and those inside the window."""
FREE_DIFFERENT, DIFFERENT = 19, 20
"""Different values: the first free record, and records in use."""
SCALARS = 21


class Tables(NamedTuple):
    """All state of an aggregate. `floats` and `group_floats` are the memory of `partials` and `groups`."""

    program: Words
    """What the components of a partial do (`partials.program_for`)."""
    partials: Words
    floats: Floats
    groups: Words
    group_floats: Floats
    panes: Words
    buckets: Words
    arguments: Words
    asked: Words
    """What is asked of which arguments (`holistic_values.holistic_of`)."""
    blocks: Words
    """Values of partials."""
    near: Segments
    """Values near quantiles."""
    gathered: Words
    """Where all values of a group are brought together for a while."""
    different: Words
    different_buckets: Words
    scalars: Words


class Taken(NamedTuple):
    """Tuples as the loop takes them in: their words, the watermark each met, the rows of group keys and of values."""

    words: Words
    floats: Floats
    watermark_at_arrival: Words
    key_rows: Words
    value_rows: Words


class Closed(NamedTuple):
    """Where closed windows are written: a line per window and group, its combined partial, then holistic answers."""

    lines: Words
    state: Words
    floats: Floats
    near: Floats
    """What stands near each quantile (`holistic_values.note_near`); without columns where it is not asked for."""
    bound: float
    """The error that a quantile may have, for that."""


def room_for(lines: int, columns: int, words: int, near: int = 0, bound: float = 0.0) -> Closed:
    """Space for so many closed lines."""
    state = np.empty((lines, words), np.int64)
    return Closed(np.empty((lines, columns), np.int64), state, state.view(np.float64), np.empty((lines, near)), bound)
