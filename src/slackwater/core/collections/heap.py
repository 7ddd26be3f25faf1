"""A binary min-heap over arrays, for compiled loops.

Entries lie by (key, tie); `item` is what an entry represents. One array may serve as two or as all three of them: a
heap of bare keys is `Heap(keys, keys, keys)`, one whose keys are all different `Heap(keys, items, items)`. The owner of
a heap keeps its size.

Invariant: no entry is less than the one above it, so the least is at index 0. Entries with one key leave in the order
of their ties, however the heap was built.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.batch import Words
from slackwater.core.jit import inner


class Heap(NamedTuple):
    """The arrays of a heap, each as long as the heap may become."""

    key: Words
    tie: Words
    item: Words


@inner
def push(heap: Heap, size: int, key: int, tie: int, item: int) -> None:
    """Add an entry to a heap of so many; it has one more from now on."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap.key[parent] < key or (heap.key[parent] == key and heap.tie[parent] <= tie):
            break
        heap.key[at], heap.tie[at], heap.item[at] = heap.key[parent], heap.tie[parent], heap.item[parent]
        at = parent
    heap.key[at], heap.tie[at], heap.item[at] = key, tie, item


@inner
def pop(heap: Heap, size: int) -> int:
    """Take the least entry out of a heap of so many; returns its item. The heap has one less from now on."""
    least = heap.item[0]
    last = size - 1
    key, tie, item = heap.key[last], heap.tie[last], heap.item[last]
    at, child = 0, 1
    while child < last:
        right = child + 1
        if right < last and (
            heap.key[right] < heap.key[child]
            or (heap.key[right] == heap.key[child] and heap.tie[right] < heap.tie[child])
        ):
            child = right
        if key < heap.key[child] or (key == heap.key[child] and tie <= heap.tie[child]):
            break
        heap.key[at], heap.tie[at], heap.item[at] = heap.key[child], heap.tie[child], heap.item[child]
        at, child = child, 2 * child + 1
    heap.key[at], heap.tie[at], heap.item[at] = key, tie, item
    return least
