"""The arrays behind `DelayHistogram`, and the loop that keeps them.

Invariant: `counts` of a stream is the histogram of exactly those bins that its newest `width` places in `ring` hold,
where `width` is the stream's ADWIN window. The n-th arrival of a stream has place n modulo the ring's length (a power
of two); every 32nd leaves a mark of the stream's clock, from which the rate over the window is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import in_place
from slackwater.core.time import BEFORE_ALL
from slackwater.published.controllers.adwin import Adwins, adwins, push

Bins = npt.NDArray[np.int32]

MARK = 32
FIRST_CAPACITY = 1024
FIRST_BINS = 64


class Delays(NamedTuple):
    """Arrays over (stream), (stream, bin), (stream, place)."""

    counts: Words
    ring: Bins
    marks: Words
    """Twice as many as fit the ring, so that the mark before a full window still stands."""
    arrived: Words
    clock: Words
    """Largest event time of each stream."""
    top: Words
    """Largest bin in the window."""
    largest: Words
    """Largest delay ever, in microseconds."""


def delays(streams: int) -> Delays:
    """Nothing heard yet."""
    none = np.zeros(streams, np.int64)
    return Delays(
        np.zeros((streams, FIRST_BINS), np.int64),
        np.zeros((streams, FIRST_CAPACITY), np.int32),
        np.zeros((streams, 2 * FIRST_CAPACITY // MARK), np.int64),
        none,
        np.full(streams, BEFORE_ALL, np.int64),
        none.copy(),
        none.copy(),
    )


def with_bins(d: Delays, largest: int) -> Delays:
    """The same with a histogram that reaches to this bin."""
    streams, before = d.counts.shape
    if largest < before:
        return d
    counts = np.zeros((streams, 1 << largest.bit_length()), np.int64)
    counts[:, :before] = d.counts
    return d._replace(counts=counts)


def with_capacity(d: Delays, width: Words, places: int) -> Delays:
    """The same with a ring for at least so many values a stream."""
    streams, before = d.ring.shape
    if places <= before:
        return d
    capacity = 1 << (places - 1).bit_length()
    ring = np.zeros((streams, capacity), np.int32)
    marks = np.zeros((streams, 2 * capacity // MARK), np.int64)
    for s in range(streams):
        inside, marked = kept(d, width, s)
        ring[s, inside % capacity] = d.ring[s, inside % before]
        marks[s, marked % marks.shape[1]] = d.marks[s, marked % d.marks.shape[1]]
    return d._replace(ring=ring, marks=marks)


def kept(d: Delays, width: Words, s: int) -> tuple[Words, Words]:
    """Which arrivals of a stream are in its window, and the numbers of the marks from its begin on."""
    end = int(d.arrived[s])
    begin = end - int(width[s])
    return np.arange(begin, end), np.arange(begin // MARK, -(-end // MARK))


@in_place
def absorb(
    d: Delays,
    a: Adwins,
    stream: Words,
    ts: Words,
    delay: Words,
    granularity: int,
    scores: Floats,
    delta: float,
    most: int,
) -> None:
    """Take arrivals in; `scores` has what ADWIN is given for each bin, and its length bounds the bins."""
    # Both lengths are powers of two, so a mask does what a division would.
    places = d.ring.shape[1] - 1
    markers = d.marks.shape[1] - 1
    last_bin = len(scores) - 1
    for i in range(len(stream)):
        s = stream[i]
        at = d.arrived[s]
        late = delay[i]
        d.clock[s] = max(d.clock[s], ts[i])
        into = 0
        if late > 0:
            into = min((late - 1) // granularity + 1, last_bin)
            d.largest[s] = max(d.largest[s], late)
            d.top[s] = max(d.top[s], into)
        if at % MARK == 0:
            d.marks[s, (at // MARK) & markers] = d.clock[s]
        d.ring[s, at & places] = into
        d.counts[s, into] += 1
        d.arrived[s] = at + 1
        oldest = at - a.width[s]
        for gone in range(oldest, oldest + push(a, s, scores[into], delta, most)):
            d.counts[s, d.ring[s, gone & places]] -= 1
    for s in range(len(d.top)):
        while d.top[s] > 0 and d.counts[s, d.top[s]] == 0:
            d.top[s] -= 1


def fresh(streams: int) -> tuple[Delays, Adwins]:
    """State before the first arrival."""
    return delays(streams), adwins(streams)
