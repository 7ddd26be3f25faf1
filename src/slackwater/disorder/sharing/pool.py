"""The pool of a source: its tuples that wait for some query, each stored once, whatever clock domains wait for it.

Clocks, and so what is late and when a tuple is due, are a matter of a domain; the tuple itself is not. So the words of
a tuple stand here, and the ordered logs of domains (`log.py`) refer to it. A tuple is known by its identity, which is
the same in all domains; the first that has to hold it brings it, each further one finds it. It goes with its last
reference.

Domains may read different columns of a source, and come to a tuple at different times: whoever refers to it writes the
columns that it knows. They say the same where they know the same, because a source is encoded once.

Invariant: a tuple is in the pool iff some log refers to it, and then once. As a log refers to what some query of its
domain still has to be given, and to nothing else, the pools of a set hold the union of what its queries wait for: the
least that anybody can hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import ROW, TS, Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate, encode_words
from slackwater.disorder.sharing.chunks import FRESH, Chunks, Numbers, read

NAMESPACE = "tuples"
FIRST_CAPACITY = 1024
NONE = -1
"""In place of a slot: the tuple is not here."""
Slots = npt.NDArray[np.int32]


class TuplePool:
    """Tuples of one source, one a line.

    >>> pool = TuplePool()
    >>> pool.open(readers=2)
    >>> one, other = pool.columns((TS, ROW, 2)), pool.columns((TS, ROW, 5))
    >>> held = pool.take(np.array([[10, 20], [0, 1], [7, 8]]), np.array([0, 1]), one)
    >>> again = pool.take(np.array([[20], [1], [9]]), np.array([0]), other)
    >>> len(pool), pool.words[again[0]].tolist()
    (2, [20, 1, 8, 9])
    >>> pool.release(held)
    >>> len(pool)
    1
    """

    def __init__(self) -> None:
        self._column_of = {TS: TS, ROW: ROW}
        self.words = np.zeros((FIRST_CAPACITY, len(self._column_of)), np.int64)
        """By slot; the columns are those that `columns` tells."""
        self._references = np.zeros(FIRST_CAPACITY, np.int32)
        self._chunk = np.full(FIRST_CAPACITY, FRESH, np.int32)
        self._free = np.arange(FIRST_CAPACITY - 1, -1, -1, dtype=np.int32)
        self._free_slots = FIRST_CAPACITY
        self._readers = 0
        self._by_identity: Slots | None = None
        """All slots in use, by the identities of their tuples; None where there is only one reader."""
        self.chunks = Chunks(NAMESPACE)
        """The chunks in which tuples are persisted."""

    def __len__(self) -> int:
        return len(self._references) - self._free_slots

    # Who reads it.

    def open(self, readers: int) -> None:
        """So many streams of clock domains read this source from now on, beside those that do."""
        self._readers += readers
        if self._readers > 1 and self._by_identity is None:
            self._by_identity = self._sorted(np.flatnonzero(self._references).astype(np.int32))

    def close(self, readers: int) -> bool:
        """So many have gone, and refer to nothing; whether nobody is left."""
        self._readers -= readers
        return self._readers == 0

    def columns(self, rows: Sequence[int]) -> Words:
        """The columns of the pool for these rows of the source; tuples get those that they do not have."""
        for row in rows:
            self._column_of.setdefault(row, len(self._column_of))
        more = len(self._column_of) - self.words.shape[1]
        if more:
            self.words = np.hstack((self.words, np.zeros((len(self.words), more), np.int64)))
        return np.array([self._column_of[row] for row in rows], np.int64)

    # Tuples.

    def take(self, words: Words, at: Words, columns: Words) -> Slots:
        """Refer to the tuples at these places, all different; their words are lines of `words`, for these columns.
        Returns their slots."""
        slots = self._find(words[ROW, at])
        new = slots == NONE
        count = int(np.count_nonzero(new))
        if count:
            self._reserve(count)
            slots[new] = self._free[self._free_slots - count : self._free_slots][::-1]
            self._free_slots -= count
        write(words, at, columns, slots, new, self.words, self._chunk)
        self._references[slots] += 1
        if count and self._by_identity is not None:
            self._by_identity = self._sorted(np.concatenate([self._by_identity, slots[new]]))
        return slots

    def release(self, slots: Slots) -> None:
        """These references go, all of different tuples."""
        self._references[slots] -= 1
        gone = slots[self._references[slots] == 0]
        if not len(gone):
            return
        self._free[self._free_slots : self._free_slots + len(gone)] = gone
        self._free_slots += len(gone)
        if self._by_identity is not None:
            self._by_identity = self._by_identity[self._references[self._by_identity] > 0]

    def _find(self, identity: Words) -> Slots:
        if self._by_identity is None or not len(self._by_identity):
            return np.full(len(identity), NONE, np.int32)
        known = self.words[self._by_identity, ROW]
        place = np.minimum(np.searchsorted(known, identity), len(known) - 1)
        return np.where(known[place] == identity, self._by_identity[place], np.int32(NONE))

    def _sorted(self, slots: Slots) -> Slots:
        return slots[np.argsort(self.words[slots, ROW], kind="stable")]

    def _reserve(self, more: int) -> None:
        capacity = len(self._references)
        if self._free_slots >= more:
            return
        larger = max(2 * capacity, capacity - self._free_slots + more)
        grown = np.arange(larger - 1, capacity - 1, -1, dtype=np.int32)
        free = np.concatenate([self._free[: self._free_slots], grown])
        self._free_slots = len(free)
        self._free = np.concatenate([free, np.zeros(larger - len(free), np.int32)])
        more = larger - capacity
        self.words = np.vstack((self.words, np.zeros((more, self.words.shape[1]), np.int64)))
        self._references = np.concatenate([self._references, np.zeros(more, np.int32)])
        self._chunk = np.concatenate([self._chunk, np.full(more, FRESH, np.int32)])

    # State.

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call: tuples that came, or got columns."""
        live = np.flatnonzero(self._references)
        chunk = self._chunk[live]

        entries = self.chunks.delta(chunk, lambda fresh: self._encoded(live[fresh]))
        self._chunk[live] = chunk
        return entries

    def _encoded(self, slots: npt.NDArray[np.intp]) -> bytes:
        return encode_words({f"w{column}": words for column, words in enumerate(self.words[slots].T)})

    def persisted(self) -> list[StateUpdate]:
        """What is persisted of the tuples that are here, once all are."""
        live = np.flatnonzero(self._references)
        return self.chunks.persisted(self._chunk[live], lambda at: self._encoded(live[at]))

    def stay_in(self, persisted: PersistedTuples) -> None:
        """The tuples that are held are as they were persisted, and stay in their chunks."""
        live = np.flatnonzero(self._references)
        self._chunk[live] = persisted.chunk_of(self.words[live, ROW])


class PersistedTuples:
    """The tuples of a source as an earlier kernel has persisted them, in the columns that it had."""

    def __init__(self, entries: Sequence[StateUpdate]) -> None:
        chunks, self._chunk = read(entries)
        self._words = np.zeros((max(map(len, chunks), default=ROW + 1), len(self._chunk)), np.int64)
        at = 0
        for one in chunks:
            for column in range(len(one)):
                self._words[column, at : at + len(one["w0"])] = one[f"w{column}"]
            at += len(one["w0"])
        # A tuple that got columns was written again: then the last word is right.
        self._order = np.argsort(self._words[ROW], kind="stable")
        self._identity = self._words[ROW, self._order]

    def find(self, identity: Words) -> tuple[Flags, Words]:
        """Which of these tuples there are, and the words of those."""
        known, at = self._find(identity)
        return known, self._words[:, at]

    def chunk_of(self, identity: Words) -> Numbers:
        """The chunks that tuples were written to last; FRESH for one that there is not."""
        known, at = self._find(identity)
        chunk: Numbers = np.full(len(identity), FRESH, np.int32)
        chunk[known] = self._chunk[at]
        return chunk

    def _find(self, identity: Words) -> tuple[Flags, Words]:
        place = np.searchsorted(self._identity, identity, "right") - 1
        known: Flags = place >= 0
        known[known] = self._identity[place[known]] == identity[known]
        return known, self._order[place[known]]


@in_place
def write(words: Words, at: Words, columns: Words, slots: Slots, new: Flags, pool: Words, chunk: Numbers) -> None:
    """Write tuples into their slots; one that is changed by it has to be persisted."""
    for k in range(len(at)):
        slot = slots[k]
        if new[k]:
            chunk[slot] = FRESH
            for column in range(pool.shape[1]):
                pool[slot, column] = 0
        for row in range(len(columns)):
            word = words[row, at[k]]
            if pool[slot, columns[row]] != word:
                pool[slot, columns[row]] = word
                chunk[slot] = FRESH
