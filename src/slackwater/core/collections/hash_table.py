"""Hashing for compiled loops: words mixed, and slots found by open addressing.

A table is whatever its owner makes of it; all that is asked is whether a search stops at a slot, because the slot is
free or has what is wanted. There are a power of two of slots, and some are always free.

Invariant: with nothing ever taken out, whatever has been put where `slot_for` said is found there again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slackwater.core.jit import inner

Stops = Callable[[Any, int, int, int], bool]


@inner
def mix(word: int) -> int:
    """Spread the bits of a word (the finalizer of splitmix64)."""
    z = np.uint64(word) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]  # an int to numba


@inner
def mixed(a: int, b: int) -> int:
    """Two words as one, well spread."""
    h = (a ^ (b * -7046029254386353131)) * -4658895280553007687
    h ^= (h >> 29) & 0x7FFFFFFFF
    h *= -7723592293110705685
    return h ^ ((h >> 32) & 0xFFFFFFFF)


@inner
def slot_for(stops: Stops, table: Any, hashed: int, slots: int, a: int, b: int) -> int:
    """The slot of what (a, b) identifies, or the free one where it would go; `stops(table, slot, a, b)` decides."""
    at = hashed & (slots - 1)
    while not stops(table, at, a, b):
        at = (at + 1) & (slots - 1)
    return at
