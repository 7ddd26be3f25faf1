"""The tuples of a join's windows as persisted state: those that came since the last time are one chunk per stream.

Invariant: what is persisted has every tuple that may still be joined, or that somebody else wants to have back; a chunk
is written once, and dropped when all its tuples are over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.state import (
    WINDOW,
    StateUpdate,
    decode_json,
    decode_words,
    encode_json,
    encode_words,
    state_update,
)
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.join.policy import Eviction, resident
from slackwater.operators.join.store import WindowStore

CHUNKS = "chunks"
"""The cell of the number of the next chunks."""
FEW = 4096
"""Tuples that wait to be persisted are not looked through before there are so many."""


class Remembered(Protocol):
    """What needs a join's tuples to be persisted for longer than its windows need them, and to have them back."""

    @property
    def kept_since(self) -> Words: ...
    def put_back(self, stream: int, words: Words) -> None: ...


class PersistedTuples:
    """The chunks of all streams. Horizons say from which event time on tuples are persisted."""

    def __init__(self, rows: int, store: WindowStore, eviction: Eviction) -> None:
        self._rows, self._store, self._counts = rows, store, eviction.counts
        self._next = 0
        """The number of the next chunks. It is persisted: workers that make the same of the same must write the same
        chunks, also where nothing is left of those before."""
        self._chunks: dict[str, tuple[int, int]] = {}
        """Per chunk its stream, and its newest event time. Where the window counts: the number of the chunk's last
        tuple among all that were persisted."""
        self._fresh: deque[tuple[int, Words, Words]] = deque()
        self._persisted = np.zeros(len(self._counts), np.int64)
        self._waiting, self._look_at = 0, FEW

    def take(self, run: OrderedBatch, words: Words, horizons: Words) -> None:
        """A run has been processed: its tuples are to be persisted, but for late ones where windows count."""
        if self._counts.any():
            entered = np.flatnonzero(~(run.late & self._counts[run.stream]))
            if len(entered):
                self._fresh.append((int(run.ts.max()), run.stream[entered], words[:, entered]))
                self._waiting += len(entered)
            if self._waiting > self._look_at:
                self._forget_some(horizons)
            return
        if len(run):
            self._fresh.append((int(run.ts.max()), run.stream, words))
        # Where nothing is ever persisted, what waits to be persisted must not pile up.
        expired = int(horizons.min())
        while self._fresh and self._fresh[0][0] < expired:
            self._fresh.popleft()

    def _forget_some(self, horizons: Words) -> None:
        """The same where age does not tell what is over."""
        newest = max(ts for ts, _, _ in self._fresh)
        streams, words = self._all_fresh()
        kept = np.zeros(len(streams), np.bool_)
        for stream in range(len(self._counts)):
            kept |= self._worth_keeping(stream, streams, words, horizons)
        self._fresh.clear()
        self._fresh.append((newest, streams[kept], words[:, kept]))
        self._waiting = int(np.count_nonzero(kept))
        self._look_at = 2 * self._waiting + FEW

    def _all_fresh(self) -> tuple[Words, Words]:
        streams = np.concatenate([stream for _, stream, _ in self._fresh])
        return streams, np.concatenate([words for _, _, words in self._fresh], axis=1)

    def _worth_keeping(self, stream: int, streams: Words, words: Words, horizons: Words) -> Flags:
        """Which of these tuples to persist for one stream."""
        chosen = np.asarray((streams == stream) & (words[TS] >= horizons[stream]))
        if self._counts[stream]:
            mine = np.flatnonzero(chosen)
            chosen[mine[: max(0, len(mine) - resident(self._store, stream))]] = False
        return chosen

    def _newest_of(self, stream: int, words: Words) -> int:
        """What to remember of a chunk, to know when all its tuples are over."""
        if not self._counts[stream]:
            return int(words[TS].max())
        self._persisted[stream] += words.shape[1]
        return int(self._persisted[stream]) - 1

    def _is_over(self, stream: int, newest: int, horizons: Words) -> bool:
        if not self._counts[stream]:
            return bool(newest < horizons[stream])
        return bool(newest < self._persisted[stream] - resident(self._store, stream))

    def snapshot_delta(self, horizons: Words) -> list[StateUpdate]:
        """New tuples as one chunk per stream; chunks whose tuples are all over are dropped."""
        entries = []
        for key, (stream, newest) in list(self._chunks.items()):
            if self._is_over(stream, newest, horizons):
                del self._chunks[key]
                entries.append(state_update(WINDOW, key, None))
        if self._fresh:
            streams, words = self._all_fresh()
            for stream in range(len(self._counts)):
                mine = words[:, self._worth_keeping(stream, streams, words, horizons)]
                if mine.shape[1]:
                    key = f"{stream}-{self._next}"
                    self._chunks[key] = (stream, self._newest_of(stream, mine))
                    entries.append(
                        state_update(WINDOW, key, encode_words({f"w{r}": row for r, row in enumerate(mine)}))
                    )
        self._fresh.clear()
        if any(entry.value is not None for entry in entries):
            self._next += 1
            entries.append(state_update(CHUNKS, "next", encode_json({"next": self._next})))
        return entries

    def restore(self, entries: list[StateUpdate]) -> Iterator[tuple[int, Words]]:
        """Take over what was persisted: the stream and the tuples of every chunk, oldest first."""
        chunks = []
        for entry in entries:
            if entry.value is None:
                self._chunks.pop(entry.key, None)
            elif entry.namespace == CHUNKS:
                self._next = decode_json(entry.value)["next"]
            else:
                chunks.append((entry.key, entry.value))
        for key, value in sorted(chunks, key=lambda chunk: int(chunk[0].split("-")[1])):
            columns = decode_words(value)
            stream = int(key.split("-")[0])
            words = np.stack([columns[f"w{r}"] for r in range(self._rows)])
            self._chunks[key] = (stream, self._newest_of(stream, words))
            yield stream, words
