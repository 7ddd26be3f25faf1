"""A binary min-heap of (event time, slot) over two arrays: the buffer behind every slack buffer and the synchronizer.

Invariant: `ts[0]` is the smallest event time held; equal event times leave in the order of their slots' sequence
numbers, which the caller keeps in `seq`, so that release order never depends on how the heap was built.
"""

from __future__ import annotations

from slackwater.compiled import inner
from slackwater.model.batch import Words


@inner
def push(ts: Words, seq: Words, slot: Words, size: int, new_ts: int, new_seq: int, new_slot: int) -> int:
    """Add one tuple; returns the new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if ts[parent] < new_ts or (ts[parent] == new_ts and seq[parent] <= new_seq):
            break
        ts[at], seq[at], slot[at] = ts[parent], seq[parent], slot[parent]
        at = parent
    ts[at], seq[at], slot[at] = new_ts, new_seq, new_slot
    return size + 1


@inner
def pop(ts: Words, seq: Words, slot: Words, size: int) -> int:
    """Drop the earliest tuple (read it at index 0 first); returns the new size."""
    size -= 1
    last_ts, last_seq, last_slot = ts[size], seq[size], slot[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (ts[right] < ts[child] or (ts[right] == ts[child] and seq[right] < seq[child])):
            child = right
        if last_ts < ts[child] or (last_ts == ts[child] and last_seq <= seq[child]):
            break
        ts[at], seq[at], slot[at] = ts[child], seq[child], slot[child]
        at = child
    if size > 0:
        ts[at], seq[at], slot[at] = last_ts, last_seq, last_slot
    return size
