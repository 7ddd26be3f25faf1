"""The ordered log: tuples that wait for their slack, each stored once, however many queries wait for it.

Tuples are sorted by event time, and by arrival where that is equal. Each carries a flag for every *selection*, a
choice of filters that some queries share. A query has no buffer, only a cursor: its watermark. What it wants and has
not been given is what its selection flags among the tuples newer than its cursor (`cursor.py`).

Invariant: after `settle` a tuple is in the log iff some query wants it that has not been given it: the newest of those
has its cursor before the tuple. So

- *no configuration of buffers holds less.* A query whose watermark is W at the end of an epoch must still be given
  every tuple it wants with `ts > W` that has come, whatever buffers stand in front of it, because the tuple is not
  due before; so somebody must hold it. The log holds the union of these sets over all queries, and each tuple once.
  A chain of K-slack buffers (004 §5.3) holds at least that union too, and more where a tuple waits in a buffer for a
  query downstream that does not want it.
- *changing slack moves no tuple.* K appears in the cursor alone: `max(cursor, min(clocks) - K)`.
- *nothing is given twice, nothing is left out.* At the end of an epoch a query is given what it wants in
  `(old cursor, new cursor]`, and what came in this epoch at the old cursor itself; the cursor never goes back, so
  these stretches are disjoint, and cover all times. What comes behind the cursor is late, and was never in the log.

References: 004 §5.3 (K-slack chains) and §5.5 (what has to be done when K changes), which this replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Batch, Words
from slackwater.core.jit import compiled
from slackwater.core.state import StateUpdate, decode_words, encode_words, state_update
from slackwater.core.time import AFTER_ALL

NAMESPACE = "log"
FLAGS = 64
"""So many selections have their flags in one word."""
FIRST_CAPACITY = 1024
# Rows of what is noted of a tuple beside its words.
STREAM, DELAY, SEQUENCE = range(3)
_NOTES = 3


class Selection(NamedTuple):
    """A choice of filters, one a stream: the place of its flag among those of a tuple."""

    word: int
    bit: int

    @classmethod
    def numbered(cls, number: int) -> Selection:
        """
        >>> Selection.numbered(65)
        Selection(word=1, bit=1)
        """
        return cls(number // FLAGS, number % FLAGS)


class Held(NamedTuple):
    """The log as compiled code sees it: event times in order, where the tuples are, and the tuples."""

    ts: Words
    slot: Words
    pool: Words
    notes: Words


class OrderedLog:
    """The tuples of one clock domain; words are `rows` of values and then `flags` words of flags.

    >>> log = OrderedLog(rows=2, flags=1)
    >>> new = Batch.of([(0, 5, 0b1), (0, 3, 0b11), (0, 9, 0b10)])
    >>> log.settle(new, np.zeros(3, np.int64), 0, {0: 3, 1: 7})
    >>> log.held.ts.tolist()
    [5, 9]
    """

    def __init__(self, rows: int, flags: int) -> None:
        self.rows, self.flags = rows, flags
        self._laid_out_anew = True
        self._pool = np.empty((rows + flags, FIRST_CAPACITY), np.int64)
        self._notes = np.empty((_NOTES, FIRST_CAPACITY), np.int64)
        self._free = np.arange(FIRST_CAPACITY - 1, -1, -1, dtype=np.int64)
        self._ts, self._slot = np.empty((2, 0), np.int64)
        self._chunks: dict[str, int] = {}
        self._persisted = 0
        self._laid_out_anew = False
        """Whether chunks were persisted with rows or flags that mean something else by now."""

    def __len__(self) -> int:
        return len(self._ts)

    @property
    def held(self) -> Held:
        """What is in the log, for cursors."""
        return Held(self._ts, self._slot, self._pool, self._notes)

    def flag_row(self, selection: Selection) -> int:
        """The row of a tuple's words that has the flag of a selection."""
        return self.rows + selection.word

    def settle(self, new: Batch, delay: Words, first: int, cursors: dict[int, int]) -> None:
        """An epoch has ended: take in what still has to wait for somebody, let go what nobody waits for.

        `cursors` has for every selection in use the oldest cursor of its queries; tuples are numbered from `first`.
        """
        order = np.empty(0, np.int64)
        oldest = min(cursors.values(), default=AFTER_ALL)
        if len(new):
            candidates = np.flatnonzero(new.ts > oldest)
            order = candidates[np.argsort(new.ts[candidates], kind="stable")]
        if not len(order) and not len(self._ts):
            return
        self._reserve(len(order))
        by_cursor = sorted(cursors.items(), key=lambda entry: entry[1])
        at = np.array([position for _, position in by_cursor], np.int64)
        number = np.array([selection for selection, _ in by_cursor], np.int64)
        ts, slot = np.empty((2, len(self._ts) + len(order)), np.int64)
        n, free = settle_log(
            self.held, self.rows, order, new.words, new.stream, delay, first, at, number, self._free,
            self._pool.shape[1] - len(self._ts), ts, slot,
        )  # fmt: skip
        assert free == self._pool.shape[1] - n
        self._ts, self._slot = ts[:n].copy(), slot[:n].copy()

    def _reserve(self, more: int) -> None:
        capacity, used = self._pool.shape[1], len(self._ts)
        if capacity - used >= more:
            return
        larger = max(2 * capacity, used + more)
        self._free = np.concatenate([self._free[: capacity - used], np.arange(larger - 1, capacity - 1, -1)])
        self._free = np.concatenate([self._free, np.empty(larger - len(self._free), np.int64)])
        for name in ("_pool", "_notes"):
            old = getattr(self, name)
            grown = np.empty((len(old), larger), np.int64)
            grown[:, :capacity] = old
            setattr(self, name, grown)

    def relay(self, rows: int, flags: int, change: Callable[[Words], Words]) -> None:
        """From now on tuples have these rows and flags; those in the log are changed."""
        self.rows, self.flags = rows, flags
        self._laid_out_anew = True
        self._pool = np.ascontiguousarray(change(self._pool))

    def clear_flag(self, selection: Selection) -> None:
        """Nobody has this selection any more, or not yet."""
        row = self.flag_row(selection)
        self._laid_out_anew |= bool(np.any(self._pool[row, self._slot] & _mask(selection)))
        self._pool[row] &= ~_mask(selection)

    def copy_flag(self, source: Selection, target: Selection, newer_than: int) -> None:
        """What the source flags among the tuples newer than a cursor is flagged by the target, and nothing else."""
        self.clear_flag(target)
        slot = self._slot[self._ts > newer_than]
        flagged = slot[(self._pool[self.flag_row(source), slot] >> source.bit) & 1 == 1]
        self._laid_out_anew |= len(flagged) > 0
        self._pool[self.flag_row(target), flagged] |= _mask(target)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What came since the last call as a chunk of its own; a chunk of which nothing is left is dropped."""
        entries = []
        number = self._notes[SEQUENCE, self._slot]
        if self._laid_out_anew:
            # All that is held becomes one chunk, and what was persisted before is dropped.
            self._laid_out_anew, self._persisted = False, int(number.min(initial=self._persisted))
            entries = [state_update(NAMESPACE, key, None) for key in self._chunks if key != str(self._persisted)]
            self._chunks = {}
        first = np.array([int(key) for key in self._chunks] + [self._persisted], np.int64)
        chunk = np.searchsorted(first, number, "right") - 1
        left = np.bincount(chunk, minlength=len(first))
        for at, key in enumerate(list(self._chunks)):
            if left[at] == 0:
                del self._chunks[key]
                entries.append(state_update(NAMESPACE, key, None))
        fresh = number >= self._persisted
        if fresh.any():
            key = str(self._persisted)
            self._chunks[key] = int(np.count_nonzero(fresh))
            slot = self._slot[fresh]
            columns = {f"w{row}": self._pool[row, slot] for row in range(len(self._pool))}
            columns |= {"stream": self._notes[STREAM, slot], "delay": self._notes[DELAY, slot], "seq": number[fresh]}
            entries.append(state_update(NAMESPACE, key, encode_words(columns)))
            self._persisted = int(number.max()) + 1
        return entries

    def restore(
        self,
        entries: Sequence[StateUpdate],
        change: Callable[[Words], Words],
        cursors: dict[int, int],
        laid_out_anew: bool,
    ) -> None:
        """Take over persisted chunks whose words are to be changed by `change`; `cursors` as in `settle`."""
        self._laid_out_anew = laid_out_anew
        chunks = [self._all()]
        for entry in entries:
            if entry.value is None:
                self._chunks.pop(entry.key, None)
                continue
            columns = decode_words(entry.value)
            words = change(np.stack([columns[f"w{row}"] for row in range(sum(name[0] == "w" for name in columns))]))
            chunks.append((words, np.stack([columns["stream"], columns["delay"], columns["seq"]])))
            self._chunks[entry.key] = words.shape[1]
            self._persisted = max(self._persisted, int(columns["seq"].max()) + 1)
        self._chunks = dict(sorted(self._chunks.items(), key=lambda chunk: int(chunk[0])))
        words, notes = (np.concatenate(part, axis=1) for part in zip(*chunks, strict=True))
        self._ts, self._slot = np.empty((2, 0), np.int64)
        self._free = np.arange(self._pool.shape[1] - 1, -1, -1, dtype=np.int64)
        order = np.argsort(notes[SEQUENCE], kind="stable")
        words, notes = np.ascontiguousarray(words[:, order]), notes[:, order]
        stream = np.ascontiguousarray(notes[STREAM])
        self.settle(Batch(stream, words, np.ones(len(stream), np.bool_)), notes[DELAY], 0, cursors)
        # Settled tuples were numbered by their place among these.
        self._notes[SEQUENCE, self._slot] = notes[SEQUENCE, self._notes[SEQUENCE, self._slot]]

    def _all(self) -> tuple[Words, Words]:
        return self._pool[:, self._slot], self._notes[:, self._slot]


def _mask(selection: Selection) -> np.int64:
    return np.array([1], np.uint64).view(np.int64)[0] << np.int64(selection.bit)


@compiled
def settle_log(
    held: Held, rows: int, order: Words, words: Words, stream: Words, delay: Words, first: int, cursor: Words,
    number: Words, free: Words, n_free: int, ts: Words, slot: Words,
) -> tuple[int, int]:  # fmt: skip
    """Merge the log with the arrivals in `order`, without what nobody waits for; returns how many are left, and how
    many slots are free.

    Cursors are sorted: a tuple newer than a cursor is waited for by whoever has it and wants the tuple.
    """
    wanted_by = np.zeros(len(held.pool) - rows, np.int64)
    i, j, n, passed = 0, 0, 0, 0
    while i < len(held.ts) or j < len(order):
        old = j == len(order) or (i < len(held.ts) and held.ts[i] <= words[TS, order[j]])
        t = held.ts[i] if old else words[TS, order[j]]
        while passed < len(cursor) and cursor[passed] < t:
            wanted_by[number[passed] // FLAGS] |= 1 << (number[passed] % FLAGS)
            passed += 1
        waits = False
        for word in range(len(wanted_by)):
            flags = held.pool[rows + word, held.slot[i]] if old else words[rows + word, order[j]]
            waits = waits or (flags & wanted_by[word]) != 0
        if old:
            if waits:
                ts[n], slot[n] = t, held.slot[i]
                n += 1
            else:
                free[n_free] = held.slot[i]
                n_free += 1
            i += 1
            continue
        if waits:
            n_free -= 1
            at = free[n_free]
            for row in range(len(held.pool)):
                held.pool[row, at] = words[row, order[j]]
            held.notes[STREAM, at], held.notes[DELAY, at] = stream[order[j]], delay[order[j]]
            held.notes[SEQUENCE, at] = first + order[j]
            ts[n], slot[n] = t, at
            n += 1
        j += 1
    return n, n_free
