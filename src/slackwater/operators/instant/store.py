"""What stands in the windows of one stream: its newest tuples in chunks of columns, in processing order.

Invariant: a chunk is contiguous and never moved, so a window is a few chunks as they are, and two that may be cut at
its ends. Behind the columns stand numbers of keys, where a join looks rows up by them. `high` is the largest event time
so far, hence ascending; where it is above a tuple's own event time the tuple came late. Chunks are dropped whole from
the front once all their tuples have expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.collections.numbering import Numbering
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.operators.instant.blocks import Block, block

CHUNK = 1 << 15
"""Tuples in a chunk: their columns stay in the cache of a processor while a block of them is computed."""


class Chunk:
    """Up to CHUNK tuples."""

    def __init__(self, columns: int, number: int, size: int) -> None:
        self.number = number
        self.ts: Words = np.empty(size, np.int64)
        self.high: Words = np.empty(size, np.int64)
        self.words: Words = np.empty((columns, size), np.int64)
        self.n = 0
        self.earliest_late = AFTER_ALL
        """The smallest event time of a tuple that came late."""

    def append(self, ts: Words, high: Words, words: Words) -> None:
        """Tuples for which there is room."""
        to = slice(self.n, self.n + len(ts))
        self.ts[to], self.high[to], self.words[:, to] = ts, high, words
        late = ts[ts < high]
        if len(late):
            self.earliest_late = min(self.earliest_late, int(late.min()))
        self.n = to.stop

    def inside(self, since: int, until: int) -> slice | Flags:
        """Which tuples have an event time in [since, until): a segment of them, or flags where late ones are spread."""
        high = self.high[: self.n]
        begin, end = (int(at) for at in np.searchsorted(high, (since, until)))
        if self.earliest_late == AFTER_ALL or (self.earliest_late >= since and end == self.n):
            return slice(begin, end)
        ts = self.ts[: self.n]
        flags = (ts >= since) & (ts < until)
        return flags if not flags.all() else slice(0, self.n)


class CarriedKey:
    """A key of every tuple, as a dense number that it carries from its arrival on."""

    def __init__(self, keys_of: Callable[[Block], Block], keys: int, line: int) -> None:
        self._keys_of, self._keys, self.line = keys_of, keys, line
        self.numbering = Numbering(keys, nulls=False)

    def number(self, words: Words, columns: int) -> Words:
        """The numbers of tuples with these columns."""
        return self.numbering.of(*self._keys_of(block(np.ascontiguousarray(words[:columns]))))

    def begin(self) -> None:
        """Forget all numbers."""
        self.numbering = Numbering(self._keys, nulls=False)


class WindowStore:
    """The tuples of one stream, or what a tree makes of each of them, that a window may still reach back to.

    >>> store = WindowStore(1)
    >>> store.append(np.array([1, 5, 3, 9]), np.array([[10, 50, 30, 90]]))
    >>> [block.rows.tolist() for block in store.blocks(3, 9)]
    [[[50, 30]]]
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.chunks: list[Chunk] = []
        self._high = BEFORE_ALL
        self._number = 0
        self._room = 1 << 8
        self._carried: dict[object, CarriedKey] = {}

    def carry(self, name: object, keys: int, keys_of: Callable[[Block], Block]) -> CarriedKey:
        """Add the number of a key to tuples, those that are there already too."""
        if name not in self._carried:
            key = CarriedKey(keys_of, keys, self.columns + len(self._carried))
            for chunk in self.chunks:
                numbers = np.zeros((1, len(chunk.ts)), np.int64)
                numbers[0, : chunk.n] = key.number(chunk.words[:, : chunk.n], self.columns)
                # A reader that still has the chunk as it was has it whole.
                chunk.words = np.vstack([chunk.words, numbers])
            self._carried[name] = key
        return self._carried[name]

    def append(self, ts: Words, words: Words) -> None:
        """More tuples, in processing order."""
        if not len(ts):
            return
        if self._carried:
            numbers = [key.number(words, self.columns) for key in self._carried.values()]
            words = np.vstack([words, *numbers])
        high = np.maximum.accumulate(np.maximum(ts, self._high))
        self._high = int(high[-1])
        at = 0
        while at < len(ts):
            if not self.chunks or self.chunks[-1].n == len(self.chunks[-1].ts):
                # A stream of few tuples gets small chunks.
                self.chunks.append(Chunk(self.columns + len(self._carried), self._number, self._room))
                self._number += 1
                self._room = min(2 * self._room, CHUNK)
            chunk = self.chunks[-1]
            end = min(len(ts), at + len(chunk.ts) - chunk.n)
            chunk.append(ts[at:end], high[at:end], words[:, at:end])
            at = end

    def blocks(self, since: int, until: int) -> Iterator[Block]:
        """The tuples with an event time in [since, until)."""
        for chunk, inside in self.parts(since, until):
            if isinstance(inside, slice):
                if inside.start == 0:
                    yield Block(chunk.words, inside.stop)
                else:
                    yield Block(np.ascontiguousarray(chunk.words[:, inside]), inside.stop - inside.start)
            else:
                yield Block(np.ascontiguousarray(chunk.words[:, : chunk.n][:, inside]), int(np.count_nonzero(inside)))

    def parts(self, since: int, until: int) -> Iterator[tuple[Chunk, slice | Flags]]:
        """The chunks with such tuples, and where these stand in each."""
        for chunk in self.chunks:
            if int(chunk.high[chunk.n - 1]) < since:
                continue
            if int(chunk.high[0]) >= until and chunk.earliest_late == AFTER_ALL:
                break
            inside = chunk.inside(since, until)
            if inside.stop > inside.start if isinstance(inside, slice) else inside.any():
                yield chunk, inside

    def count(self, since: int, until: int) -> int:
        """How many tuples have an event time in [since, until)."""
        total = 0
        for _, inside in self.parts(since, until):
            total += inside.stop - inside.start if isinstance(inside, slice) else int(np.count_nonzero(inside))
        return total

    def first_from(self, since: int) -> int:
        """The smallest event time at or after `since`; AFTER_ALL where there is none."""
        first = AFTER_ALL
        for chunk in self.chunks:
            if int(chunk.high[chunk.n - 1]) < since:
                continue
            if int(chunk.high[0]) >= first and chunk.earliest_late >= first:
                continue
            ts = chunk.ts[: chunk.n]
            later = ts[ts >= since]
            if len(later):
                first = min(first, int(later.min()))
        return first

    def expire(self, since: int) -> None:
        """No window reaches further back any more."""
        gone = 0
        while gone < len(self.chunks) and int(self.chunks[gone].high[self.chunks[gone].n - 1]) < since:
            gone += 1
        del self.chunks[:gone]
        if gone:
            self._forget_keys()

    def _forget_keys(self) -> None:
        """Number the keys anew where most of those that have a number are gone."""
        live = sum(chunk.n for chunk in self.chunks)
        for key in self._carried.values():
            if key.numbering.count > max(CHUNK, 2 * live):
                key.begin()
                for chunk in self.chunks:
                    chunk.words[key.line, : chunk.n] = key.number(chunk.words[:, : chunk.n], self.columns)

    def all(self) -> Iterator[tuple[Words, Words]]:
        """Event times and columns of everything that is still there, in processing order."""
        for chunk in self.chunks:
            yield chunk.ts[: chunk.n], chunk.words[: self.columns, : chunk.n]

    def clear(self) -> None:
        """Forget everything."""
        self.chunks.clear()
        self._high = BEFORE_ALL
        for key in self._carried.values():
            key.begin()
