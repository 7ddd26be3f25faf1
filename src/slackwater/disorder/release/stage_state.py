"""The state of a stage of disorder handling: clocks, and tuples held in heaps; and how both are persisted.

A release and a synchronizer each have one, and run their own loops over it.

Invariant: `restore` puts back exactly the held tuples and the clocks. If every call ends an epoch, held tuples are
persisted in chunks, each written once, and dropped when the watermark has passed all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.state import StateUpdate, decode_json, decode_words, encode_json, encode_words, state_update
from slackwater.core.time import AFTER_ALL, LONGEST
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.disorder.release import state as st

NAMESPACE = "release"
CLOCK, WHOLE = "clock", "held"
"""The keys of the clocks, and of all held tuples in one entry."""
LEFT_OUT = ("slack_log", "slowest", "readings")
"""Of the clocks, what is not persisted: it is read at once, or made anew."""
FIRST_CAPACITY = 1024


class StageState:
    """Clocks of this many streams, and tuples of this many rows in heaps.

    `marks` names words that are kept for every held tuple beside its rows; `marked` has them, by slot.
    """

    def __init__(
        self,
        streams: int,
        rows: int,
        heaps: int,
        in_chunks: bool,
        slack: int = 0,
        max_behind: int = LONGEST,
        marks: Sequence[str] = (),
        capacity: int = FIRST_CAPACITY,
    ) -> None:
        self._rows, self._in_chunks = rows, in_chunks
        self.clock = st.clockwork(streams, slack, max_behind)
        self.clock.scalars[st.FREE] = capacity
        self.buffers = st.buffers(heaps, rows, capacity)
        self.marked = {name: np.zeros(capacity, np.int64) for name in marks}
        self.ended = False
        self._chunks: dict[str, int] = {}
        self._persisted = 0

    @property
    def waiting(self) -> int:
        """Tuples in the heaps."""
        return self.buffers.pool.shape[1] - int(self.clock.scalars[st.FREE])

    def waiting_of(self, streams: Words) -> int:
        """Those of these streams."""
        return int(np.count_nonzero(np.isin(self.buffers.stream[self._slots()], streams)))

    def tuples_of(self, streams: Words) -> tuple[Words, Words]:
        """The tuples of these streams: the stream of each, and their words."""
        slots = self._slots()
        slots = slots[np.isin(self.buffers.stream[slots], streams)]
        return self.buffers.stream[slots], self.buffers.pool[:, slots]

    def waiting_told(self, tells: Callable[[Words, Words], Flags]) -> int:
        """Those that somebody tells of, given their streams and words."""
        slots = self._slots()
        return int(np.count_nonzero(tells(self.buffers.stream[slots], self.buffers.pool[:, slots])))

    @property
    def watermark(self) -> int:
        return AFTER_ALL if self.ended else self.reached

    @property
    def reached(self) -> int:
        """Where the watermark stands, or stood when the input ended."""
        return int(self.clock.scalars[st.WATERMARK])

    def reserve(self, count: int) -> None:
        """Reserve space to hold this many more tuples."""
        if self.clock.scalars[st.FREE] < count:
            capacity = self.buffers.pool.shape[1]
            self.buffers = st.grown(self.buffers, max(2 * capacity, capacity + count), self.clock)
            fresh = np.zeros(self.buffers.pool.shape[1] - capacity, np.int64)
            self.marked = {name: np.append(marks, fresh) for name, marks in self.marked.items()}

    def run(self, out: OrderedTuples, n: int, ended: bool = False) -> OrderedBatch:
        """What a loop has written, as a run."""
        scalars = self.clock.scalars
        watermark = AFTER_ALL if ended else int(scalars[st.WATERMARK])
        return OrderedBatch(out.take(slice(n)), watermark, int(scalars[st.MAX_TS]), int(scalars[st.NOW]), ended)

    def times(self) -> Words:
        """The event times of all held tuples, heap by heap."""
        held = self.buffers
        return np.concatenate([held.ts[h, :size] for h, size in enumerate(held.sizes)])

    def _slots(self) -> Words:
        """The slots of all held tuples, heap by heap."""
        held = self.buffers
        return np.concatenate([held.slot[h, :size] for h, size in enumerate(held.sizes)])

    def columns(self) -> dict[str, Words]:
        """All held tuples."""
        held, slot = self.buffers, self._slots()
        sizes = list(enumerate(held.sizes))
        columns = {
            "heap": np.repeat(np.arange(len(held.sizes)), held.sizes),
            "ts": self.times(),
            "seq": np.concatenate([held.seq[h, :size] for h, size in sizes]),
            "stream": held.stream[slot],
            "delay": held.delay[slot],
        }
        columns |= {name: marks[slot] for name, marks in self.marked.items()}
        return columns | {f"w{r}": held.pool[r, slot] for r in range(self._rows)}

    def fill(self, saved: dict[str, Words]) -> None:
        """Fill the heaps with these tuples alone, without those that have left since they were persisted."""
        if self._in_chunks:
            left = saved["ts"] > self.clock.scalars[st.WATERMARK]
            saved = {name: column[left] for name, column in saved.items()}
        count = len(saved["ts"])
        # Sorted by event time they are a heap as they stand.
        order = np.lexsort((saved["seq"], saved["ts"]))
        saved = {name: column[order] for name, column in saved.items()}
        held = st.buffers(len(self.buffers.sizes), self._rows, max(FIRST_CAPACITY, 2 * count))
        capacity = held.pool.shape[1]
        held.stream[:count], held.delay[:count] = saved["stream"], saved["delay"]
        for r in range(self._rows):
            held.pool[r, :count] = saved[f"w{r}"]
        for h in range(len(held.sizes)):
            slots = np.flatnonzero(saved["heap"] == h)
            held.sizes[h] = len(slots)
            held.ts[h, : len(slots)], held.seq[h, : len(slots)] = saved["ts"][slots], saved["seq"][slots]
            held.slot[h, : len(slots)] = slots
        held.free[: capacity - count] = np.arange(capacity - 1, count - 1, -1)
        self.buffers = held
        self.clock.scalars[st.FREE] = capacity - count
        self.marked = {name: np.zeros(capacity, np.int64) for name in self.marked}
        for name in self.marked.keys() & saved.keys():
            self.marked[name][:count] = saved[name]

    def snapshot_delta(self, own: dict[str, Any]) -> list[StateUpdate]:
        """The clocks with the owner's own entries; and the tuples that came since the last call as a chunk of their
        own."""
        clock = {name: array.tolist() for name, array in self.clock._asdict().items() if name not in LEFT_OUT}
        entries = [state_update(NAMESPACE, CLOCK, encode_json(clock | own))]
        if not self._in_chunks:
            return [*entries, state_update(NAMESPACE, WHOLE, encode_words(self.columns()))]
        for key in [key for key, newest in self._chunks.items() if newest <= self.watermark]:
            del self._chunks[key]
            entries.append(state_update(NAMESPACE, key, None))
        held = self.columns()
        fresh = held["seq"] >= self._persisted
        if fresh.any():
            key = str(self._persisted)
            self._chunks[key] = int(held["ts"][fresh].max())
            entries.append(state_update(NAMESPACE, key, encode_words({n: column[fresh] for n, column in held.items()})))
        self._persisted = int(self.clock.scalars[st.SEQUENCE])
        return entries

    def restore(self, entries: Sequence[StateUpdate]) -> dict[str, Any]:
        """Take over persisted state; returns the owner's own entries, and the clocks."""
        saved: dict[str, Any] = {}
        partitions = [self.columns()] if self._in_chunks else []
        for entry in entries:
            if entry.value is None:
                self._chunks.pop(entry.key, None)
            elif entry.key == CLOCK:
                saved = decode_json(entry.value)
                self.clock = self.clock._replace(
                    partitions=np.zeros((st.PARTITION_ROWS, len(saved["partitions"][0])), np.int64),
                    slowest=np.zeros((len(self.clock.clocks), 0), np.int64),
                )
                for name, array in self.clock._asdict().items():
                    if name in saved:
                        array[:] = saved[name]
            else:
                partitions.append(decode_words(entry.value))
                if self._in_chunks:
                    self._chunks[entry.key] = int(partitions[-1]["ts"].max())
        self._persisted = int(self.clock.scalars[st.SEQUENCE])
        self.fill({name: np.concatenate([partition[name] for partition in partitions]) for name in partitions[0]})
        return saved
