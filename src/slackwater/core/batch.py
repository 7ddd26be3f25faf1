"""Tuples as columns: one 2-D array of 64-bit words for all inputs of a query, in arrival order.

Invariant: row 0 is event time and row 1 the tuple's identity (opaque to kernels); what the other rows mean is fixed per
input by the plan, so a row may hold a float column of one input and a key of another. Floats are stored by their bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TS = 0
ROW = 1
FIRST_COLUMN = 2

Words = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Batch:
    """Arrivals of one or more inputs.

    >>> batch = Batch.of([(0, 5), (1, 3)])
    >>> batch.ts.tolist(), batch.stream.tolist(), len(batch)
    ([5, 3], [0, 1], 2)
    """

    stream: Words
    """Which input each tuple belongs to."""
    words: Words
    """Shape (rows, tuples)."""
    passes: Flags
    """False for a tuple that its stream's filter drops; it still moves the stream's clock."""
    arrival_time: Words | None = None
    """When each tuple arrived, in microseconds, where arrival times are known; else None."""
    reading: Words | None = None
    """What the clock of its stream, or part, reads after each tuple, or BEFORE_ALL where the tuple says nothing about
    it; None: its event time."""

    def __len__(self) -> int:
        return int(self.words.shape[1])

    @property
    def ts(self) -> Words:
        return self.words[TS]

    @staticmethod
    def of(tuples: list[tuple[int, ...]], rows: int = FIRST_COLUMN) -> Batch:
        """A batch from (stream, ts, word, ...) tuples, numbered from 0; for tests and examples."""
        width = max([rows] + [len(t) for t in tuples])
        words = np.zeros((width, len(tuples)), np.int64)
        for i, (_, ts, *rest) in enumerate(tuples):
            words[TS, i], words[ROW, i] = ts, i
            words[FIRST_COLUMN : FIRST_COLUMN + len(rest), i] = rest
        stream = np.array([t[0] for t in tuples], np.int64)
        return Batch(stream, words, np.ones(len(tuples), np.bool_))

    def take(self, index: npt.NDArray[np.int64] | slice) -> Batch:
        """The tuples at these positions, in this order."""
        arrival_time = None if self.arrival_time is None else self.arrival_time[index]
        words = np.ascontiguousarray(self.words[:, index])
        reading = None if self.reading is None else self.reading[index]
        return Batch(self.stream[index], words, self.passes[index], arrival_time, reading)

    @staticmethod
    def concat(parts: list[Batch]) -> Batch:
        """The tuples of several batches, one after the other."""
        if len(parts) == 1:
            return parts[0]
        known = all(part.arrival_time is not None for part in parts)
        read = any(part.reading is not None for part in parts)
        return Batch(
            np.concatenate([part.stream for part in parts]),
            np.concatenate([part.words for part in parts], axis=1),
            np.concatenate([part.passes for part in parts]),
            np.concatenate([part.arrival_time for part in parts if part.arrival_time is not None]) if known else None,
            np.concatenate([part.ts if part.reading is None else part.reading for part in parts]) if read else None,
        )
