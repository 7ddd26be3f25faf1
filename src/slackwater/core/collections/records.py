"""Tables of records for compiled code: one 2-D array of words per table, one record per line.

Invariant: a table has as many hash buckets as records, chained in column CHAIN; free records are chained there too.
The heads of the buckets of several tables share one array, one line per table, apart from the records: a look-up that
finds nothing then reads one word of a small array instead of a line of a large one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import inner

NONE = -1
CHAIN = 0
FIRST_FIELD = 1

Same = Callable[[Any, int, Any, Any, int], bool]


def table(capacity: int, fields: int) -> Words:
    """An empty table; all its records are free, chained from 0 on. `capacity` is a power of two."""
    records = np.zeros((capacity, fields), np.int64)
    records[:, CHAIN] = np.arange(1, capacity + 1)
    records[-1, CHAIN] = NONE
    return records


@inner
def take_free(records: Words, counts: Words, free: int, used: int) -> int:
    """A free record; `counts` has the first free one and how many are in use, at these indices."""
    r = counts[free]
    counts[free] = records[r, CHAIN]
    counts[used] += 1
    return r


@inner
def give_back(records: Words, counts: Words, free: int, used: int, r: int) -> None:
    """A record that is in no bucket is free from now on."""
    records[r, CHAIN] = counts[free]
    counts[free] = r
    counts[used] -= 1


@inner
def find(same: Same, records: Words, buckets: Words, line: int, bucket: int, table: Any, a: Any, b: Any, i: int) -> int:
    """The record of a bucket that holds (a, b, i), by `same(table, record, a, b, i)`; or NONE."""
    r = buckets[line, bucket]
    while r != NONE and not same(table, r, a, b, i):
        r = records[r, CHAIN]
    return r


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
