"""A hash index over some rows, built for one instant: which of them have the keys of a row that is looked up.

Invariant: a row with a null among its keys is in no chain and finds nothing. Without keys every row finds every row.
What is found is handed out in portions; a portion ends where there is no room, and the next goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.collections.hash_table import mixed
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD
from slackwater.operators.instant.blocks import Block

NOBODY, FRESH = -1, -2
PORTION = 1 << 15
"""Pairs of rows that are handed out together."""


@inner
def bucket_of(keys: Words, r: int, mask: int) -> int:
    """The bucket of a row's keys; NOBODY where one of them is null."""
    code = 0
    for c in range(keys.shape[0]):
        if keys[c, r] == NULL_WORD:
            return NOBODY
        code = mixed(code, keys[c, r])
    return code & mask


@inner
def same_keys(keys: Words, i: int, others: Words, r: int) -> bool:
    """Whether two rows have the same keys."""
    same = True
    for c in range(keys.shape[0]):
        same = same and keys[c, i] == others[c, r]
    return same


@in_place
def link_rows(keys: Words, n: int, heads: Words, links: Words) -> None:
    """Chain rows with one bucket, each chain in the order of rows."""
    mask = len(heads) - 1
    for back in range(n):
        r = n - 1 - back
        b = bucket_of(keys, r, mask)
        if b != NOBODY:
            links[r] = heads[b]
            heads[b] = r


@in_place
def find_pairs(
    keys: Words, n: int, begin: int, link: int, built: Words, heads: Words, links: Words, one: Words, other: Words
) -> tuple[int, int, int]:
    """Pairs of a row that is looked up and a row of the index, from row `begin` on; returns how many there are, and
    where to go on."""
    mask = len(heads) - 1
    count, i, r = 0, begin, link
    while i < n:
        if r == FRESH:
            b = bucket_of(keys, i, mask)
            r = heads[b] if b != NOBODY else NOBODY
        while r != NOBODY:
            if same_keys(keys, i, built, r):
                if count == len(one):
                    return count, i, r
                one[count], other[count] = i, r
                count += 1
            r = links[r]
        i, r = i + 1, FRESH
    return count, n, FRESH


@in_place
def find_any(keys: Words, n: int, built: Words, heads: Words, links: Words, found: Flags) -> None:
    """Whether each row has a partner."""
    mask = len(heads) - 1
    for i in range(n):
        b = bucket_of(keys, i, mask)
        r = heads[b] if b != NOBODY else NOBODY
        while r != NOBODY and not same_keys(keys, i, built, r):
            r = links[r]
        found[i] = r != NOBODY


@in_place
def gather(words: Words, rows: Words, at: Words, n: int, out: Words, first: int) -> None:
    """Some columns of the rows at these places, into the lines of `out` from `first` on."""
    for c in range(len(rows)):
        row = rows[c]
        for i in range(n):
            out[first + c, i] = words[row, at[i]]


class HashIndex:
    """The rows of a block, by their keys."""

    def __init__(self, keys: Block) -> None:
        self._keys = keys.words
        buckets = 1 << max(4, int(2 * keys.n - 1).bit_length() if keys.n and keys.words.shape[0] else 4)
        self._heads: Words = np.full(buckets, NOBODY, np.int64)
        self._links: Words = np.full(max(1, keys.n), NOBODY, np.int64)
        link_rows(self._keys, keys.n, self._heads, self._links)

    def pairs(self, keys: Block) -> Iterator[tuple[Words, Words]]:
        """Rows of a block and rows of the index that have the same keys, side by side; valid until the next portion."""
        one, other = np.empty(PORTION, np.int64), np.empty(PORTION, np.int64)
        begin, link = 0, FRESH
        while begin < keys.n:
            count, begin, link = find_pairs(
                keys.words, keys.n, begin, link, self._keys, self._heads, self._links, one, other
            )
            if count:
                yield one[:count], other[:count]

    def has(self, keys: Block) -> Flags:
        """Which rows of a block have a partner."""
        found = np.zeros(keys.n, np.bool_)
        find_any(keys.words, keys.n, self._keys, self._heads, self._links, found)
        return found
