"""Segments of words for compiled loops: any number of them in one array, each a power of two long.

Invariant: a segment that was taken is nobody else's until it is given back; one that was given back is used again for
one of the same length. Shortest ones are always to be had, as many as were asked for before compiled code was called;
longer ones as long as there is room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import inner

SHORTEST = 16
LENGTHS = 40
"""How many lengths there are, each twice the one before."""

# How the array is used: what was never taken begins here, so much at its end is for shortest segments only; then for
# each length the first segment that was given back. Its first word has the next one.
FRESH, HELD_BACK, GIVEN_BACK = range(3)


class Segments(NamedTuple):
    """All segments, and how the array is used."""

    words: Words
    usage: Words


def segments() -> Segments:
    """None yet, and no room for any."""
    usage = np.full(GIVEN_BACK + LENGTHS, NONE, np.int64)
    usage[[FRESH, HELD_BACK]] = 0
    return Segments(np.zeros(0, np.int64), usage)


def with_room(s: Segments, shortest: int, longer: int) -> Segments:
    """The same with room for so many of the shortest segments, and so many words of longer ones."""
    used = int(s.usage[FRESH])
    s.usage[HELD_BACK] = shortest * SHORTEST
    wanted = used + shortest * SHORTEST + longer
    if wanted <= len(s.words):
        return s
    # Twice what is wanted: memory that is never written costs nothing.
    words = np.empty(2 * wanted, np.int64)
    words[:used] = s.words[:used]
    return s._replace(words=words)


@inner
def kind_of(length: int) -> int:
    """Which of the lengths this is."""
    kind = 0
    while SHORTEST << kind < length:
        kind += 1
    return kind


@inner
def take(s: Segments, length: int) -> int:
    """Where a segment of this length begins that is the caller's from now on; NONE if there is no room."""
    kind = kind_of(length)
    begin = s.usage[GIVEN_BACK + kind]
    if begin != NONE:
        s.usage[GIVEN_BACK + kind] = s.words[begin]
        return begin
    begin = s.usage[FRESH]
    if begin + length > len(s.words) - (0 if kind == 0 else s.usage[HELD_BACK]):
        return NONE
    s.usage[FRESH] += length
    return begin


@inner
def give_back(s: Segments, begin: int, length: int) -> None:
    """A segment may be taken by others from now on."""
    kind = kind_of(length)
    s.words[begin] = s.usage[GIVEN_BACK + kind]
    s.usage[GIVEN_BACK + kind] = begin
