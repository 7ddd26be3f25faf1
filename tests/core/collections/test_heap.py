"""The heap of compiled loops against heapq."""

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.heap import Heap, pop, push
from slackwater.core.jit import in_place

POP = -(2**62)
STEPS = st.lists(st.one_of(st.just(POP), st.integers(-3, 3), st.integers(-1000, 1000)), max_size=60)


@in_place
def follow(heap, steps, out):
    """Push every key with the number of its step as tie and ten times that as item; returns how many are left."""
    size, n = 0, 0
    for i in range(len(steps)):
        if steps[i] != POP:
            push(heap, size, steps[i], i, 10 * i)
            size += 1
        elif size > 0:
            out[n] = pop(heap, size)
            size, n = size - 1, n + 1
    return size, n


@in_place
def sort(keys, out):
    """All keys through one array that is key, tie and item."""
    heap = Heap(out, out, out)
    for i in range(len(keys)):
        push(heap, i, keys[i], keys[i], keys[i])
    for left in range(len(keys), 0, -1):
        out[left - 1] = pop(heap, left)


def slow_heap(steps):
    entries, taken = [], []
    for i, step in enumerate(steps):
        if step != POP:
            heapq.heappush(entries, (step, i, 10 * i))
        elif entries:
            taken.append(heapq.heappop(entries)[2])
    return entries, taken


@given(STEPS)
def test_the_least_leaves_first_and_of_equal_keys_the_one_with_the_least_tie(steps):
    heap = Heap(*np.zeros((3, 64), np.int64))
    out = np.zeros(64, np.int64)
    size, n = follow(heap, np.array(steps, np.int64), out)
    entries, taken = slow_heap(steps)
    assert out[:n].tolist() == taken
    left = sorted(zip(*(part[:size].tolist() for part in heap), strict=True))
    assert left == sorted(entries)


@given(st.lists(st.integers(-9, 9), max_size=40))
def test_one_array_may_be_key_tie_and_item(keys):
    out = np.zeros(len(keys), np.int64)
    sort(np.array(keys, np.int64), out)
    assert out.tolist() == sorted(keys, reverse=True)
