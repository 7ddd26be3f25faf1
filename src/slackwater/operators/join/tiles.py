"""Tiles: the space in which a band brings two streams together, cut into pieces for shards.

An axis is a column of the *home* stream, of which a band says how far partners may be from it. A tuple of the home
stream is in one tile. One of the other stream reaches every tile in which a partner may be: usually one, near a border
two, near a corner four. A tile belongs to one shard.

Invariant: two tuples that a band lets meet share the shard of the home tuple's tile, whatever rounding does. For a tile
is two neighbouring cells of `cells.py`, and so never falls as the value rises. A tuple without a value on an axis meets
nothing, and is in some one shard, chosen by its time. Of the shards that a tuple is in, the first tells of it: that of
the tile where its reach begins. All of this hangs on words alone, so whoever has a tuple can tell.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Flags, Floats, Words
from slackwater.core.collections.hash_table import mix
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD
from slackwater.operators.join.cells import cells_around, own_cell

MOST_REACHED = 4
"""Tiles that a tuple can reach: a tile is at least twice as wide as a reach, so two along each axis."""
TIME = 0
"""The row of times in what these functions are given; rows of axes follow."""


@inner
def _tiles(
    words: Words, floats: Floats, axis: Words, widths: Floats, probe: Words, bounds: Floats, home: bool, shift: int,
    slot: int,
) -> tuple[int, int]:  # fmt: skip
    """The first and the last tile of a tuple along an axis; none where the last is before."""
    if home:
        first = own_cell(words, floats, axis, widths, slot)
        last = first
        if first == NULL_WORD:
            return 1, 0
    else:
        first, last = cells_around(words, floats, axis, widths, probe, bounds, slot)
        if last < first:
            return 1, 0
    return (first + shift) >> 1, (last + shift) >> 1


@in_place
def spread(
    words: Words, keep: Flags, axes: Words, probes: Words, home: bool, shards: int, step: int, seen: Words, out: Words
) -> int:  # fmt: skip
    """Where kept tuples go: `out` gets their numbers, and below each a shard, first the one that tells of it; returns
    how many these are, or -1 if there is no room for them. `seen` has a word a shard, of no tuple."""
    floats, widths, bounds = words.view(np.float64), axes.view(np.float64), probes.view(np.float64)
    count = 0
    for slot in range(words.shape[1]):
        if not keep[slot]:
            continue
        x, last_x = _tiles(words, floats, axes[0], widths[0], probes[0], bounds[0], home, 0, slot)
        # The second axis is moved by half a tile: else a diagonal would go through every other tile alone.
        first_y, last_y = _tiles(words, floats, axes[1], widths[1], probes[1], bounds[1], home, 1, slot)
        if last_x < x or last_y < first_y:
            if count == out.shape[1]:
                return -1
            out[0, count], out[1, count] = slot, mix(words[TIME, slot]) % shards
            count += 1
            continue
        while x <= last_x:
            for y in range(first_y, last_y + 1):
                shard = (x + step * y) % shards
                if seen[shard] != slot:
                    if count == out.shape[1]:
                        return -1
                    seen[shard] = slot
                    out[0, count], out[1, count] = slot, shard
                    count += 1
            x += 1
    return count


@in_place
def told_by(
    words: Words, copied: Flags, axes: Words, probes: Words, shards: int, step: int, shard: int, told: Flags
) -> None:  # fmt: skip
    """Of tuples that `spread` copies: whether the first shard that it names is this one."""
    floats, widths, bounds = words.view(np.float64), axes.view(np.float64), probes.view(np.float64)
    for slot in range(words.shape[1]):
        if not copied[slot]:
            continue
        x, last_x = _tiles(words, floats, axes[0], widths[0], probes[0], bounds[0], False, 0, slot)
        y, last_y = _tiles(words, floats, axes[1], widths[1], probes[1], bounds[1], False, 1, slot)
        nowhere = last_x < x or last_y < y
        told[slot] = (mix(words[TIME, slot]) if nowhere else x + step * y) % shards == shard
