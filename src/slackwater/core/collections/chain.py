"""Chains in the order of time: doubly linked lists through columns of an array, for compiled loops.

The links of an entry stand side by side in two columns of its line, from `column` on: the older neighbour, then the
newer one. So one entry may be in several chains. The owner of a chain holds its ends.

Invariant: along `NEWER` times never go down; of two entries with one time, the one put in last is the newer.
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import inner

OLDER, NEWER = 0, 1
"""Places of the two links."""


@inner
def gap_for(links: Words, column: int, times: Words, newest: int, time: int) -> tuple[int, int]:
    """The neighbours, older and newer, that an entry of this time gets; it is nearly always the newest."""
    newer, older = NONE, newest
    while older != NONE and times[older] > time:
        newer, older = older, links[older, column + OLDER]
    return older, newer


@inner
def link_between(links: Words, column: int, older: int, newer: int, entry: int) -> None:
    """Put an entry between two neighbours; NONE is the end of the chain."""
    links[entry, column + OLDER], links[entry, column + NEWER] = older, newer
    if older != NONE:
        links[older, column + NEWER] = entry
    if newer != NONE:
        links[newer, column + OLDER] = entry


@inner
def unlink(links: Words, column: int, entry: int) -> tuple[int, int]:
    """Take an entry out; returns the neighbours it had. Its own links stay as they are."""
    older, newer = links[entry, column + OLDER], links[entry, column + NEWER]
    if older != NONE:
        links[older, column + NEWER] = newer
    if newer != NONE:
        links[newer, column + OLDER] = older
    return older, newer
