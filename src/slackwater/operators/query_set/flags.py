"""Flags of tuples: a bit for each selection, set where the tuple has passed the filter of its stream.

Invariant: what `Batch.passes` drops has no flag.
"""

from __future__ import annotations

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import in_place
from slackwater.disorder.sharing.log import FLAGS
from slackwater.operators.query_set.places import NO_FILTER

NOBODY = NO_FILTER - 1
"""In place of a filter: no tuple is wanted."""


@in_place
def flag(stream: Words, passes: Flags, passed: Words, filters: Words, flags: Words) -> None:
    """Set the flag of every selection whose filter of the tuple's stream the tuple has passed."""
    for number in range(len(filters)):
        word, bit = number // FLAGS, number % FLAGS
        for i in range(len(stream)):
            chosen = filters[number, stream[i]] if passes[i] else NOBODY
            if chosen == NO_FILTER or (chosen >= 0 and (passed[chosen // FLAGS, i] >> (chosen % FLAGS)) & 1 == 1):
                flags[word, i] |= 1 << bit


@in_place
def flagged_places(flags: Words, bit: int, places: Words) -> int:
    """Write where the bit is set; returns how often."""
    n = 0
    for i in range(len(flags)):
        places[n] = i
        n += (flags[i] >> bit) & 1
    return n
