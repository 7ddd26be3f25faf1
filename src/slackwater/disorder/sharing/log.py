"""The ordered log: tuples of a clock domain that wait for their slack, once, however many queries wait for them.

A line of the log is a reference to a tuple, whose words stand in the pool of its source (`pool.py`), where other
domains refer to it, too. References are sorted by event time, and by arrival where that is equal. Each carries a flag
for every *selection*, a choice of filters that some queries share. A query has no buffer, only a cursor: its watermark.
What it wants and has not been given is what its selection flags among the tuples newer than its cursor (`cursor.py`).

Invariant: after `settle` a tuple is in the log iff some query wants it that has not been given it: the newest of those
has its cursor before the tuple. So

- *no configuration of buffers holds less.* A query whose watermark is W at the end of an epoch must still be given
  every tuple it wants with `ts > W` that has come, whatever buffers stand in front of it, because the tuple is not
  due before; so somebody must hold it. The log refers to the union of these sets over all queries of the domain, the
  pools hold the union over all domains, and each tuple once.
  A chain of K-slack buffers (004 §5.3) holds at least that union too, and more where a tuple waits in a buffer for a
  query downstream that does not want it.
- *changing slack moves no tuple.* K appears in the cursor alone: `max(cursor, min(clocks) - K)`.
- *nothing is given twice, nothing is left out.* At the end of an epoch a query is given what it wants in
  `(old cursor, new cursor]`, and what came in this epoch at the old cursor itself; the cursor never goes back, so
  these segments are disjoint, and cover all times. What comes behind the cursor is late, and was never in the log.

References: 004 §5.3 (K-slack chains) and §5.5 (what has to be done when K changes), which this replaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import ROW, Batch, Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate, encode_words
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.sharing.chunks import FRESH, Chunks, Numbers, read
from slackwater.disorder.sharing.pool import Slots, TuplePool

NAMESPACE = "log"
FLAGS = 64
"""So many selections have their flags in one word."""
Streams = npt.NDArray[np.int16]


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

    @property
    def mask(self) -> np.int64:
        """A word with this flag alone."""
        return np.uint64(1 << self.bit).view(np.int64)


class Held(NamedTuple):
    """The log as compiled code sees it: references in order."""

    ts: Words
    slot: Slots
    """Where the tuple stands in the pool of its stream's source."""
    stream: Streams
    delay: Words
    flags: Words
    """Shape (words of flags, references)."""

    def take(self, index: npt.NDArray[Any]) -> Held:
        """Some of these."""
        return Held(self.ts[index], self.slot[index], self.stream[index], self.delay[index], self.flags[:, index])


class References(NamedTuple):
    """What was persisted of a log, in the order of event time, and of arrival where that is equal."""

    stream: Words
    identity: Words
    delay: Words
    flags: Words
    chunk: Numbers

    @classmethod
    def persisted(cls, entries: Sequence[StateUpdate], words: int) -> References:
        """What entries of state hold, with so many words of flags; some of it nobody waits for any more."""
        chunks, chunk = read(entries)
        nothing = np.zeros(0, np.int64)
        lines = [(one, np.zeros(len(one["row"]), np.int64)) for one in chunks]
        flags = [np.concatenate([nothing, *(one.get(f"f{w}", zero) for one, zero in lines)]) for w in range(words)]
        stream, identity, delay = (
            np.concatenate([nothing, *(one[name].astype(np.int64) for one in chunks)])
            for name in ("stream", "row", "delay")
        )
        return cls(stream, identity, delay, np.stack(flags), chunk)


class OrderedLog:
    """What one clock domain waits for. A tuple of stream s that comes has the rows `rows[s]` of its source, and behind
    `width` rows so many words of `flags`.

    >>> pool = TuplePool()
    >>> log = OrderedLog([pool], rows=((0, 1),), flags=1)
    >>> new = Batch.of([(0, 5, 0b1), (0, 3, 0b11), (0, 9, 0b10)])
    >>> log.settle(new, np.zeros(3, np.int64), {0: 3, 1: 7})
    >>> log.held.ts.tolist(), len(pool)
    ([5, 9], 2)
    """

    def __init__(self, pools: Sequence[TuplePool], rows: Sequence[Sequence[int]], flags: int) -> None:
        self.pools = pools
        for pool in pools:
            pool.open(readers=1)
        self.columns: list[Words] = []
        """Per stream, the column of the pool for each of its rows; empty while nothing was ever held."""
        self.lay_out(rows)
        nothing = np.zeros(0, np.int64)
        self.held = Held(nothing, np.zeros(0, np.int32), np.zeros(0, np.int16), nothing, np.zeros((flags, 0), np.int64))
        self._chunk: Numbers = np.zeros(0, np.int32)
        self.chunks = Chunks(NAMESPACE)
        """The chunks in which references are persisted."""

    def __len__(self) -> int:
        return len(self.held.ts)

    def lay_out(self, rows: Sequence[Sequence[int]]) -> None:
        """From now on tuples come with these rows of their sources; a stream keeps those that it had."""
        self._rows, self.width = rows, max(map(len, rows))
        self._laid_out = False

    def widen(self, flags: int) -> None:
        """From now on tuples have so many words of flags."""
        more = np.zeros((flags - len(self.held.flags), len(self)), np.int64)
        self.held = self.held._replace(flags=np.vstack((self.held.flags, more)))

    def close(self) -> list[TuplePool]:
        """End all waiting; returns the pools that no query reads now."""
        self._release(np.ones(len(self), np.bool_))
        return [pool for pool in self.pools if pool.close(readers=1)]

    # Tuples.

    def settle(self, new: Batch, delay: Words, cursors: dict[int, int], chunk: Numbers | None = None) -> None:
        """An epoch has ended: refer to what still has to wait for somebody, let go what nobody waits for.

        `cursors` has for every selection in use the oldest cursor of its queries, `chunk` where new ones are persisted
        already.
        """
        before = self.held
        by_cursor = sorted(cursors.items(), key=lambda entry: entry[1])
        at = np.array([position for _, position in by_cursor], np.int64)
        number = np.array([selection for selection, _ in by_cursor], np.int64)
        stays = waited_for(before.ts, before.flags, at, number)
        order = np.empty(0, np.int64)
        if len(new):
            candidates = np.flatnonzero(new.ts > (at[0] if len(at) else AFTER_ALL))
            order = candidates[np.argsort(new.ts[candidates], kind="stable")]
            order = order[waited_for(new.ts[order], new.words[self.width :, order], at, number)]
        if not len(order) and stays.all():
            return
        self._release(~stays)
        come = Held(
            new.ts[order], self._take(new, order), new.stream[order].astype(np.int16), delay[order],
            new.words[self.width :, order],
        )  # fmt: skip
        kept = before.take(stays)
        place = np.searchsorted(kept.ts, come.ts, "right") + np.arange(len(order))
        old = np.ones(len(kept.ts) + len(order), np.bool_)
        old[place] = False

        def merged(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
            both = np.empty((*one.shape[:-1], len(old)), one.dtype)
            both[..., old], both[..., place] = one, other
            return both

        persisted = np.full(len(order), FRESH, np.int32) if chunk is None else chunk[order]
        self._chunk = merged(self._chunk[stays], persisted)
        self.held = Held(
            merged(kept.ts, come.ts), merged(kept.slot, come.slot), merged(kept.stream, come.stream),
            merged(kept.delay, come.delay), merged(kept.flags, come.flags),
        )  # fmt: skip

    def _take(self, new: Batch, at: Words) -> Slots:
        slots = np.empty(len(at), np.int32)
        if len(at):
            self.place_columns()
        for s, pool in enumerate(self.pools):
            mine = np.flatnonzero(new.stream[at] == s)
            if len(mine):
                slots[mine] = pool.take(new.words, at[mine], self.columns[s])
        return slots

    def place_columns(self) -> None:
        """From now on rows have columns in the pools."""
        if not self._laid_out:
            self.columns = [pool.columns(rows) for pool, rows in zip(self.pools, self._rows, strict=True)]
            self._laid_out = True

    def _release(self, gone: Flags) -> None:
        stream, slot = self.held.stream[gone], self.held.slot[gone]
        for s, pool in enumerate(self.pools):
            mine = slot[stream == s]
            if len(mine):
                pool.release(mine)

    def clear_flag(self, selection: Selection) -> None:
        """No query has this selection any more, or not yet."""
        flags = self.held.flags[selection.word]
        if np.any(flags & selection.mask):
            flags &= ~selection.mask
            self._write_anew()

    def copy_flag(self, source: Selection, target: Selection, newer_than: int) -> None:
        """What the source flags among the tuples newer than a cursor is flagged by the target, and nothing else."""
        self.clear_flag(target)
        flagged = (self.held.flags[source.word] & source.mask != 0) & (self.held.ts > newer_than)
        if flagged.any():
            self.held.flags[target.word, flagged] |= target.mask
            self._write_anew()

    # State.

    def _write_anew(self) -> None:
        """All references become one chunk, so that chunks stay in the order of arrival."""
        self._chunk[:] = FRESH

    def snapshot_delta(self) -> list[StateUpdate]:
        """What came since the last call as a chunk of its own; a chunk of which nothing is left is dropped."""
        return self.chunks.delta(self._chunk, self._encoded)

    def _encoded(self, fresh: npt.NDArray[np.intp]) -> bytes:
        one = self.held.take(fresh)
        identity = np.empty(len(fresh), np.int64)
        for s, pool in enumerate(self.pools):
            mine = one.stream == s
            identity[mine] = pool.words[one.slot[mine], ROW]
        columns: dict[str, Any] = {"row": identity, "stream": one.stream, "delay": one.delay}
        return encode_words(columns | {f"f{word}": flags for word, flags in enumerate(one.flags)})

    def persisted(self) -> list[StateUpdate]:
        """What is persisted of the references that are here, once all are."""
        return self.chunks.persisted(self._chunk, self._encoded)

    def clear(self) -> None:
        """Refer to nothing: what there is will be restored."""
        everything = np.ones(len(self), np.bool_)
        self._release(everything)
        self.held, self._chunk = self.held.take(~everything), self._chunk[:0]


def waited_for(ts: Words, flags: Words, cursor: Words, number: Words) -> Flags:
    """Which tuples, sorted by event time, somebody waits for; cursors are sorted, each of the selection `number`."""
    waits = np.empty(len(ts), np.bool_)
    find_waited_for(ts, flags, cursor, number, np.zeros(len(flags), np.int64), waits)
    return waits


@in_place
def find_waited_for(
    ts: Words, flags: Words, cursor: Words, number: Words, wanted_by: Words, waits: Flags
) -> None:  # fmt: skip
    """A tuple newer than a cursor is waited for by whoever has it and wants the tuple."""
    passed = 0
    for i in range(len(ts)):
        while passed < len(cursor) and cursor[passed] < ts[i]:
            wanted_by[number[passed] // FLAGS] |= 1 << (number[passed] % FLAGS)
            passed += 1
        waits[i] = False
        for word in range(len(wanted_by)):
            waits[i] = waits[i] or (flags[word, i] & wanted_by[word]) != 0
