"""Tables of records for compiled code: one 2-D array of words per table, one record per line.

Invariant: a table has as many hash buckets as records, chained in column CHAIN; free records are chained there too.
The heads of the buckets of several tables share one array, one line per table, apart from the records: a look-up that
finds nothing then reads one word of a small array instead of a line of a large one.
"""

from __future__ import annotations

import numpy as np

from slackwater.compiled import inner
from slackwater.model.batch import Words

NONE = -1
CHAIN = 0
FIRST_FIELD = 1


@inner
def mix(word: int) -> int:
    """Spread the bits of a word (the finalizer of splitmix64)."""
    z = np.uint64(word) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]  # an int to numba


def table(capacity: int, fields: int) -> Words:
    """An empty table; all its records are free, chained from 0 on. `capacity` is a power of two."""
    records = np.zeros((capacity, fields), np.int64)
    records[:, CHAIN] = np.arange(1, capacity + 1)
    records[-1, CHAIN] = NONE
    return records


@inner
def hang(records: Words, buckets: Words, line: int, b: int, r: int) -> None:
    """Put a record at the head of a bucket; `line` holds the buckets of its table."""
    records[r, CHAIN] = buckets[line, b]
    buckets[line, b] = r


@inner
def unhang(records: Words, buckets: Words, line: int, b: int, r: int) -> None:
    """Take a record out of its bucket."""
    at = buckets[line, b]
    if at == r:
        buckets[line, b] = records[r, CHAIN]
        return
    while records[at, CHAIN] != r:
        at = records[at, CHAIN]
    records[at, CHAIN] = records[r, CHAIN]


def grown(records: Words, capacity: int, first_free: int) -> Words:
    """A larger copy with the same records; the caller hangs the live ones anew. New records are free first."""
    size = len(records)
    new = table(capacity, records.shape[1])
    new[:size, FIRST_FIELD:] = records[:, FIRST_FIELD:]
    new[:size, CHAIN] = records[:, CHAIN]
    new[-1, CHAIN] = first_free
    return new
