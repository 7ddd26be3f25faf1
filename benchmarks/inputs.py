"""What the benchmarks read: seeded streams in memory, as the batches a runtime would hand to a kernel.

Invariant: the same name and size give the same batches; tuples are in arrival order over all streams, and one in ten is
held back, by at most 1.5 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from papers.workloads import dsyn3, uniform_stream
from slackwater.core.batch import FIRST_COLUMN, ROW, TS, Batch, Words
from slackwater.core.time import MILLISECOND

BATCH = 32_768
"""Tuples a batch."""
LATE_SHARE = 0.1
MAX_DELAY_MS = 1_500
FIELD_M = 100.0


@dataclass(frozen=True)
class Input:
    """All tuples of a run, cut into batches."""

    batches: tuple[Batch, ...]
    tuples: int
    rows: int


def readings(tuples: int, keys: int) -> Input:
    """One stream of 10,000 tuples/s; rows: key, v."""
    return batched([_stream(tuples, rate=10_000, keys=keys, seed=1)], ("key", "v"))


def streams_of_keys(tuples: int, streams: int, keys: int) -> Input:
    """So many streams of 1,000 tuples/s each; rows: key, v."""
    shares = [(tuples + streams - 1 - s) // streams for s in range(streams)]
    return batched([_stream(n, rate=1_000, keys=keys, seed=seed) for seed, n in enumerate(shares)], ("key", "v"))


def places(tuples: int) -> Input:
    """Two streams of 330 tuples/s each, spread over a square field; rows: x, y."""
    halves = (tuples + 1) // 2, tuples // 2
    return batched([_stream(n, rate=330, keys=1, seed=seed) for seed, n in enumerate(halves)], ("x", "y"))


def synthetic(tuples: int) -> Input:
    """D_syn x3, 100 tuples/s each of three streams, with the delays of its recipe; rows: a1."""
    return batched(list(dsyn3(seed=0, minutes=tuples / 18_000).streams.values()), ("a1",))


def _stream(tuples: int, rate: float, keys: int, seed: int) -> pa.Table:
    return uniform_stream(tuples, rate, keys, seed, max_delay_ms=MAX_DELAY_MS, late_share=LATE_SHARE, field_m=FIELD_M)


def batched(streams: list[pa.Table], columns: tuple[str, ...]) -> Input:
    """The streams merged by arrival, ties by stream."""
    arrival = np.concatenate([table["arrival"].to_numpy() for table in streams])
    order = np.argsort(arrival, kind="stable")
    stream = np.repeat(np.arange(len(streams)), [len(table) for table in streams])[order]
    words = np.empty((FIRST_COLUMN + len(columns), len(order)), np.int64)
    words[TS] = np.concatenate([table["ts"].to_numpy() for table in streams])[order] * MILLISECOND
    words[ROW] = np.concatenate([np.arange(len(table)) for table in streams])[order]
    for row, name in enumerate(columns, FIRST_COLUMN):
        words[row] = np.concatenate([_words(table[name]) for table in streams])[order]
    cuts = range(0, len(order), BATCH)
    return Input(tuple(_batch(stream[at : at + BATCH], words[:, at : at + BATCH]) for at in cuts), *words.shape[::-1])


def _batch(stream: Words, words: Words) -> Batch:
    return Batch(np.ascontiguousarray(stream), np.ascontiguousarray(words), np.ones(len(stream), np.bool_))


def _words(column: pa.ChunkedArray) -> Words:
    return np.ascontiguousarray(column.to_numpy()).view(np.int64)
