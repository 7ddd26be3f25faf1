"""Keys as dense numbers: 0, 1, 2, ... in the order in which they were first seen.

Invariant: two rows have the same number iff all their keys are the same words. Where nulls are told apart from keys, a
row with a null has the number NOBODY, and so has one whose keys were never seen.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.hash_table import mixed
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD

NOBODY = -1


@inner
def hash_of(keys: Words, r: int) -> int:
    """The keys of a row as one word, well spread."""
    code = 0
    for c in range(keys.shape[0]):
        code = mixed(code, keys[c, r])
    return code


@inner
def slot_of(keys: Words, i: int, slots: Words, known: Words) -> int:
    """The slot of a row's keys, or the free one where they would go."""
    mask = len(slots) - 1
    at = hash_of(keys, i) & mask
    while slots[at] != NOBODY:
        same = True
        for c in range(keys.shape[0]):
            same = same and known[c, slots[at]] == keys[c, i]
        if same:
            break
        at = (at + 1) & mask
    return at


@inner
def has_null(keys: Words, i: int) -> bool:
    """Whether a key of a row is null."""
    found = False
    for c in range(keys.shape[0]):
        found = found or keys[c, i] == NULL_WORD
    return found


@in_place
def number_rows(
    keys: Words, begin: int, n: int, slots: Words, known: Words, count: int, nulls: bool, adds: bool, numbers: Words
) -> tuple[int, int]:
    """Number rows from `begin` on; returns where it stopped for lack of room, and how many numbers there are."""
    mask = len(slots) - 1
    for i in range(begin, n):
        if keys.shape[0] == 1:
            # Most keys are one column, and most rows have been seen and stand where they are first looked for.
            number = slots[mixed(0, keys[0, i]) & mask]
            if number != NOBODY and known[0, number] == keys[0, i]:
                numbers[i] = number
                continue
        numbers[i] = NOBODY
        if not nulls and has_null(keys, i):
            continue
        at = slot_of(keys, i, slots, known)
        if slots[at] == NOBODY and adds:
            if count == known.shape[1]:
                return i, count
            for c in range(keys.shape[0]):
                known[c, count] = keys[c, i]
            slots[at] = count
            count += 1
        numbers[i] = slots[at]
    return n, count


@in_place
def place_again(known: Words, count: int, slots: Words) -> None:
    """Put all keys into an empty table."""
    for number in range(count):
        slots[slot_of(known, number, slots, known)] = number


class Numbering:
    """Numbers for the keys of rows.

    >>> numbering = Numbering(1, nulls=True)
    >>> numbering.of(np.array([[7, 5, 7]])).tolist(), numbering.keys.tolist()
    ([0, 1, 0], [[7, 5]])
    """

    def __init__(self, keys: int, nulls: bool) -> None:
        self._nulls = nulls
        self.known: Words = np.zeros((keys, 256), np.int64)
        """The keys by their numbers, and room for more; whoever changes them numbers all anew."""
        self._slots: Words = np.full(512, NOBODY, np.int64)
        self.count = 0

    @property
    def keys(self) -> Words:
        """The keys, in the order of their numbers."""
        return self.known[:, : self.count]

    def of(self, keys: Words, rows: int | None = None, adds: bool = True) -> Words:
        """The number of each row (or of so many rows), whose keys are a column; unless `adds` is set, keys that were
        never seen get none."""
        n, done = keys.shape[1] if rows is None else rows, 0
        numbers = np.empty(n, np.int64)
        while True:
            done, self.count = number_rows(
                keys, done, n, self._slots, self.known, self.count, self._nulls, adds, numbers
            )
            if done == n:
                return numbers
            self._grow()

    def _grow(self) -> None:
        lines, size = self.known.shape
        known = np.zeros((lines, 4 * size), np.int64)
        known[:, : self.count] = self.keys
        self.known, self._slots = known, np.full(8 * size, NOBODY, np.int64)
        place_again(self.known, self.count, self._slots)
