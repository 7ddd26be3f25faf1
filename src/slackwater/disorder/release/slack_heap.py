"""Tuples that are held: a pool of slots, and binary min-heaps over it. They serve slack buffers and the synchronizer.

Invariant: the head of a heap has the smallest event time in it; equal event times leave in the order of their sequence
numbers, so that release order never depends on how the heap was built. A slot is free, or in exactly one heap.
"""

from __future__ import annotations

from slackwater.core.batch import TS
from slackwater.core.collections import heap
from slackwater.core.collections.heap import Heap
from slackwater.core.jit import inner
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.disorder.release.state import (
    FREE,
    MAX_TS,
    NOW,
    SEQUENCE,
    Arrivals,
    Buffers,
    Clockwork,
)
from slackwater.disorder.release.watermarks import watermark_of


@inner
def hold(clock: Clockwork, held: Buffers, h: int, new: Arrivals | OrderedTuples, i: int, delay: int) -> None:
    """Copy an arrival into a free slot of the pool, and put it into heap h."""
    slot = put_into_pool(clock, held, new, i, delay)
    push(held, h, new.words[TS, i], clock.scalars[SEQUENCE], slot)
    clock.scalars[SEQUENCE] += 1


@inner
def lay_down(clock: Clockwork, held: Buffers, h: int, new: Arrivals | OrderedTuples, i: int, delay: int) -> None:
    """As `hold`, but at the end of the arrays; they are no heap until they are sorted."""
    slot, at = put_into_pool(clock, held, new, i, delay), held.sizes[h]
    held.ts[h, at], held.seq[h, at], held.slot[h, at] = new.words[TS, i], clock.scalars[SEQUENCE], slot
    held.sizes[h] += 1
    clock.scalars[SEQUENCE] += 1


@inner
def put_into_pool(clock: Clockwork, held: Buffers, new: Arrivals | OrderedTuples, i: int, delay: int) -> int:
    """Copy an arrival into a free slot; returns the slot."""
    clock.scalars[FREE] -= 1
    slot = held.free[clock.scalars[FREE]]
    for r in range(new.words.shape[0]):
        held.pool[r, slot] = new.words[r, i]
    held.stream[slot], held.delay[slot] = new.stream[i], delay
    return slot


@inner
def emit(clock: Clockwork, held: Buffers, slot: int, watermark_at_arrival: int, out: OrderedTuples, n_out: int) -> int:
    """Move a tuple that is in no heap any more from the pool into the run; returns the run's new length."""
    for r in range(held.pool.shape[0]):
        out.words[r, n_out] = held.pool[r, slot]
    out.stream[n_out], out.delay[n_out] = held.stream[slot], held.delay[slot]
    out.watermark_at_arrival[n_out], out.clock[n_out] = watermark_at_arrival, clock.scalars[MAX_TS]
    out.emit_time[n_out] = clock.scalars[NOW]
    held.free[clock.scalars[FREE]] = slot
    clock.scalars[FREE] += 1
    return n_out + 1


@inner
def emit_watermark(clock: Clockwork, k: int, ts: int, out: OrderedTuples, n_out: int) -> int:
    """Write a watermark event of stream k into the run; a watermark never goes back."""
    clock.promised_watermark[k] = max(clock.promised_watermark[k], ts)
    for r in range(out.words.shape[0]):
        out.words[r, n_out] = 0
    out.words[TS, n_out] = clock.promised_watermark[k]
    out.stream[n_out], out.delay[n_out] = watermark_of(k), 0
    out.watermark_at_arrival[n_out], out.clock[n_out] = BEFORE_ALL, clock.scalars[MAX_TS]
    out.emit_time[n_out] = clock.scalars[NOW]
    return n_out + 1


@inner
def heap_of(held: Buffers, h: int) -> Heap:
    """The arrays of heap h: by event time, then by sequence number."""
    return Heap(held.ts[h], held.seq[h], held.slot[h])


@inner
def push(held: Buffers, h: int, ts: int, seq: int, slot: int) -> None:
    """Add one tuple to heap h."""
    heap.push(heap_of(held, h), held.sizes[h], ts, seq, slot)
    held.sizes[h] += 1


@inner
def pop(held: Buffers, h: int) -> int:
    """Take the earliest tuple out of heap h; returns its slot."""
    held.sizes[h] -= 1
    return heap.pop(heap_of(held, h), held.sizes[h] + 1)
