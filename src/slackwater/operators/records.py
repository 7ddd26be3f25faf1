"""Tables of records for compiled code: one 2-D array of words per table, one record per line.

Invariant: a table has as many hash buckets as records; the head of bucket b is kept in column BUCKET of line b, the chain in
column CHAIN. Free records are chained through CHAIN too, so a table is one array and passing it on costs next to nothing.
"""

from __future__ import annotations

import numpy as np

from slackwater.compiled import inner
from slackwater.model.batch import Words

NONE = -1
BUCKET, CHAIN = 0, 1
FIRST_FIELD = 2


@inner
def mix(word: int) -> int:
    """Spread the bits of a word (the finalizer of splitmix64)."""
    z = np.uint64(word) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


def table(capacity: int, fields: int) -> Words:
    """An empty table; all its records are free, chained from 0 on. `capacity` is a power of two."""
    records = np.zeros((capacity, fields), np.int64)
    records[:, BUCKET] = NONE
    records[:, CHAIN] = np.arange(1, capacity + 1)
    records[-1, CHAIN] = NONE
    return records


@inner
def hang(records: Words, b: int, r: int) -> None:
    """Put a record at the head of a bucket."""
    records[r, CHAIN] = records[b, BUCKET]
    records[b, BUCKET] = r


@inner
def unhang(records: Words, b: int, r: int) -> None:
    """Take a record out of its bucket."""
    at = records[b, BUCKET]
    if at == r:
        records[b, BUCKET] = records[r, CHAIN]
        return
    while records[at, CHAIN] != r:
        at = records[at, CHAIN]
    records[at, CHAIN] = records[r, CHAIN]


def grown(records: Words, capacity: int, first_free: int) -> Words:
    """A larger copy with the same records; the caller hangs the live ones anew. The new records come first when free."""
    size = len(records)
    new = table(capacity, records.shape[1])
    new[:size, FIRST_FIELD:] = records[:, FIRST_FIELD:]
    new[:size, CHAIN] = records[:, CHAIN]
    new[-1, CHAIN] = first_free
    return new
