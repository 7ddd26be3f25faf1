"""An index over some rows, built for one instant: which of them have the keys of a row that is looked up.

Rows are chained by the dense numbers of their keys. Where the rows that flow by have carried such numbers since they
arrived, to look one up is one step, without hashing.

Invariant: a row with a null among its keys is in no chain and finds nothing. Without keys every row finds every row.
What is found is handed out in portions; a portion ends where there is no room, and the next goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.collections.numbering import NOBODY, Numbering
from slackwater.core.jit import in_place
from slackwater.operators.instant.blocks import Block

FRESH = -2
PORTION = 1 << 15
"""Pairs of rows that are handed out together."""


@in_place
def link_rows(numbers: Words, heads: Words, links: Words) -> None:
    """Chain rows with one number, each chain in the order of rows."""
    for back in range(len(numbers)):
        r = len(numbers) - 1 - back
        if numbers[r] != NOBODY:
            links[r] = heads[numbers[r]]
            heads[numbers[r]] = r


@in_place
def find_pairs(
    numbers: Words, n: int, begin: int, link: int, heads: Words, links: Words, one: Words, other: Words
) -> tuple[int, int, int]:
    """Pairs of a row that is looked up and a row of the index, from row `begin` on; returns how many there are, and
    where to go on."""
    count, i, r = 0, begin, link
    while i < n:
        if r == FRESH:
            r = heads[numbers[i]] if 0 <= numbers[i] < len(heads) else NOBODY
        while r != NOBODY:
            if count == len(one):
                return count, i, r
            one[count], other[count] = i, r
            count += 1
            r = links[r]
        i, r = i + 1, FRESH
    return count, n, FRESH


@in_place
def find_ones(numbers: Words, begin: int, end: int, heads: Words, one: Words, other: Words) -> int:
    """The same from `begin` to `end` where no two rows of the index have one number; returns how many pairs."""
    count = 0
    for i in range(begin, end):
        number = numbers[i]
        r = heads[number] if 0 <= number < len(heads) else NOBODY
        # Written down before it is known to stay, which is faster than to decide.
        one[count], other[count] = i, r
        count += r != NOBODY
    return count


@in_place
def find_any(numbers: Words, n: int, heads: Words, found: Flags) -> None:
    """Whether each row has a partner."""
    for i in range(n):
        found[i] = 0 <= numbers[i] < len(heads) and heads[numbers[i]] != NOBODY


@in_place
def gather(words: Words, rows: Words, at: Words, n: int, out: Words, into: Words) -> None:
    """Some columns of the rows at these places, into these lines of `out`."""
    # Where every row has met one other, the places are one after the other, and columns can be copied as they are.
    first, straight = at[0] if n else 0, True
    for i in range(n):
        straight &= at[i] == first + i
    for c in range(len(rows)):
        row, line = rows[c], into[c]
        if straight:
            for i in range(n):
                out[line, i] = words[row, first + i]
        else:
            for i in range(n):
                out[line, i] = words[row, at[i]]


@in_place
def mark(rows: Words, marks: Flags) -> None:
    """Mark these rows."""
    for i in range(len(rows)):
        marks[rows[i]] = True


@in_place
def keep_pairs(one: Words, other: Words, keeps: Flags) -> int:
    """Close ranks: leave out the pairs that are not kept; returns how many are left."""
    left = 0
    for i in range(len(one)):
        one[left], other[left] = one[i], other[i]
        left += keeps[i]
    return left


class Index:
    """The rows of a block, by the numbers of their keys."""

    def __init__(self, keys: Block, numbering: Numbering | None = None) -> None:
        """`numbering`: the numbers that rows which are looked up carry; None: they carry none."""
        self._numbering = numbering or Numbering(keys.words.shape[0], nulls=False)
        numbers = self._numbering.of(*keys, adds=numbering is None)
        self._heads: Words = np.full(max(1, self._numbering.count), NOBODY, np.int64)
        self._links: Words = np.full(max(1, keys.n), NOBODY, np.int64)
        link_rows(numbers, self._heads, self._links)
        self.unique = bool((self._links == NOBODY).all())
        self._one, self._other = np.empty(PORTION, np.int64), np.empty(PORTION, np.int64)

    def numbers(self, keys: Block) -> Words:
        """The numbers of rows that carry none."""
        return self._numbering.of(*keys, adds=False)

    def pairs(self, numbers: Words) -> Iterator[tuple[Words, Words]]:
        """Rows with these numbers and rows of the index that have the same, side by side; valid until the next."""
        n, begin, link = len(numbers), 0, FRESH
        while begin < n and self.unique:
            end = min(n, begin + PORTION)
            count = find_ones(numbers, begin, end, self._heads, self._one, self._other)
            begin = end
            if count:
                yield self._one[:count], self._other[:count]
        while begin < n:
            count, begin, link = find_pairs(numbers, n, begin, link, self._heads, self._links, self._one, self._other)
            if count:
                yield self._one[:count], self._other[:count]

    def has(self, numbers: Words) -> Flags:
        """Which rows with these numbers have a partner."""
        found = np.zeros(len(numbers), np.bool_)
        find_any(numbers, len(numbers), self._heads, found)
        return found
