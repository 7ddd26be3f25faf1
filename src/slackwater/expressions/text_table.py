"""The table of a query's texts: it grows as texts come, and is made anew with those that are to stay.

Invariant: its address stays the same as long as it lives, and what is found there is always the table as it is now.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.expressions.texts import (
    COUNT,
    SECRET,
    USED,
    Bytes,
    Entries,
    Numbers,
    find_all,
    gather,
    lay_out,
    mark,
    put_in,
    take_in,
)

SMALLEST = 1024
LOAD = 2
"""Slots for every entry there is room for, at least."""
MOST = 2**31 - 2
"""Entries that slots can number."""


class TextTable:
    """The texts of a query, kept until they are swept out.

    >>> table = TextTable()
    >>> ends, data = np.array([0, 3, 6, 9]), np.frombuffer(b"btcethbtc", np.uint8)
    >>> codes, clash = table.take_in(ends, data, np.zeros(3, np.bool_))
    >>> bool(clash.any()), len(table), bool(codes[0] == codes[2] != codes[1])
    (False, 2, True)
    """

    def __init__(self, secret: int = 0) -> None:
        self._secret = secret
        self._cell = np.zeros(5, np.int64)
        self._put(SMALLEST, 16 * SMALLEST)

    def __len__(self) -> int:
        return int(self.entries.scalars[COUNT])

    @property
    def used(self) -> int:
        """Bytes of all texts."""
        return int(self.entries.scalars[USED])

    @property
    def address(self) -> int:
        """For compiled code that compares texts; it stays the same as long as the table lives."""
        return self._cell.ctypes.data

    def _put(self, room: int, size: int) -> None:
        """Space for so many entries and bytes, and nothing in it."""
        assert room <= MOST, "texts cannot be numbered any more"
        slots = np.zeros(LOAD * room, np.int32)
        self.entries = Entries(
            slots,
            np.zeros(room, np.int64),
            np.zeros(room + 1, np.int64),
            np.zeros(size, np.uint8),
            np.zeros(3, np.int64),
        )
        self.entries.scalars[SECRET] = self._secret
        self._cell[:] = [
            slots.ctypes.data, len(slots) - 1, self.entries.codes.ctypes.data, self.entries.ends.ctypes.data,
            self.entries.data.ctypes.data,
        ]  # fmt: skip

    def take_in(self, ends: Words, data: Bytes, null: Flags) -> tuple[Words, Flags]:
        """The codes of texts that stand one behind the other in memory; and which of them have the code of an entry,
        though they are another text, and are not taken in."""
        codes, clash = np.empty(len(null), np.int64), np.zeros(len(null), np.bool_)
        done = 0
        while (done := take_in(self.entries, ends, data.ctypes.data, null, done, codes, clash)) < len(codes):
            self._grow(int(ends[done + 1] - ends[done]))
        return codes, clash

    def _grow(self, size: int) -> None:
        old, count, used = self.entries, len(self), self.used
        room = len(old.codes) * (2 if count == len(old.codes) else 1)
        self._put(room, _power(max(len(old.data), used + size)))
        self._fill(old.codes[:count], np.diff(old.ends[: count + 1]), old.data[:used])

    def _fill(self, codes: Words, lengths: Words, data: Bytes) -> None:
        self.entries.data[: len(data)] = data
        put_in(self.entries, codes, lengths)

    def text(self, entry: int) -> str:
        """The text of one entry."""
        t = self.entries
        return t.data[t.ends[entry] : t.ends[entry + 1]].tobytes().decode()

    def find(self, codes: Words) -> Numbers:
        """The entries of codes, -1 for a null."""
        entry = np.empty(len(codes), np.int32)
        unknown = find_all(self.entries, np.ascontiguousarray(codes), entry)
        if unknown:
            raise RuntimeError(f"{unknown} codes stand for no text, or for one that was let go too early")
        return entry

    def gather(self, entry: Numbers) -> tuple[Words, Bytes]:
        """Ends and bytes of the texts of entries, -1 giving an empty one."""
        ends = np.empty(len(entry) + 1, np.int64)
        lay_out(self.entries, entry, ends)
        data = np.empty(int(ends[-1]), np.uint8)
        gather(self.entries, entry, ends, data)
        return ends, data

    def mark(self, words: Words, marks: Flags) -> None:
        """Mark the entries whose codes are among the words."""
        mark(self.entries, words, marks)

    def keep(self, entry: Numbers) -> None:
        """Keep these entries, in this order, and no others."""
        codes = self.entries.codes[entry]
        ends, data = self.gather(entry)
        self._put(_power(max(SMALLEST, len(entry))), _power(max(16 * SMALLEST, len(data))))
        self._fill(codes, np.diff(ends), data)


def _power(least: int) -> int:
    """The power of two that is no smaller."""
    return 1 << (least - 1).bit_length()
