"""The least slack from which on a watermark has not yet reached a time: the one thing that all advice is made of.

In epochs the watermark that a tuple meets is `slow - K`, by the slowest clock as the epoch began. Tuple by tuple it is
the largest event time that all slack buffers have released: of every stream the largest one at or before `clock - K`,
among tuples that had come when its clock last moved; and of these the smallest. Both only fall as K grows.

Invariant: exact. `least_slack` of an event and a time is the smallest K >= 0 for which the watermark of that event is
before the time; with `passed`, not after it.

References: 004 Alg. 3.1 (T-sync), Eq. 3.1 (when a slack buffer releases a tuple).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import compiled, inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL


class Clocks(NamedTuple):
    """What compiled code knows of clocks. Streams are the columns of `clock` and `heard`.

    Tuple by tuple, line e of `clock` has the clocks just before arrival e, and of `heard` the latest arrival before e
    that moved each of them; the last line is the end of the input. In epochs line e has the slowest clock as epoch e
    began, in one column.
    """

    each: bool
    clock: Words
    """AFTER_ALL: a stream that is idle, and not waited for."""
    heard: Words
    ts: Words
    """Event times of the passing tuples, stream after stream, each in order; empty in epochs."""
    arrival: Words
    """When those arrived."""
    begins: Words
    """Where each stream begins among them, and where the last one ends."""


@inner
def first_at(clocks: Clocks, k: int, time: int) -> int:
    """Where the tuples of stream k that are not older than a time begin."""
    low, high = clocks.begins[k], clocks.begins[k + 1]
    while low < high:
        middle = (low + high) >> 1
        if clocks.ts[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def least_slack(clocks: Clocks, event: int, time: int, passed: bool, first: Words, at: int) -> int:
    """The least slack with which the watermark of an event is before a time; with `passed`, not after it.

    Tuple by tuple `first[k, at]` says where the tuples of stream k that are not older than the time begin.
    """
    e = min(event, clocks.clock.shape[0] - 1)
    if not clocks.each:
        slow = clocks.clock[e, 0]
        if slow == BEFORE_ALL:
            return 0
        return max(0, slow - time + (0 if passed else 1))
    least = AFTER_ALL
    for k in range(clocks.clock.shape[1]):
        clock, heard = clocks.clock[e, k], clocks.heard[e, k]
        if clock == AFTER_ALL:
            continue
        j, end = first[k, at], clocks.begins[k + 1]
        while j < end and clocks.ts[j] <= clock and ((passed and clocks.ts[j] == time) or clocks.arrival[j] > heard):
            j += 1
        if j == end or clocks.ts[j] > clock:
            return 0
        least = min(least, clock - clocks.ts[j] + 1)
    return 0 if least == AFTER_ALL else least


@compiled
def least_slacks(clocks: Clocks, events: Words, times: Words, passed: Flags) -> Words:
    """`least_slack` of many events and times."""
    found = np.empty(len(events), np.int64)
    first = np.zeros((max(1, len(clocks.begins) - 1), 1), np.int64)
    for i in range(len(events)):
        for k in range(len(clocks.begins) - 1):
            first[k, 0] = first_at(clocks, k, times[i])
        found[i] = least_slack(clocks, events[i], times[i], passed[i], first, 0)
    return found
