"""The stream buffers of the W-join algorithms, plain or cut into hash buckets, and the count of their work.

A buffer is a list of tuples from oldest to newest event time; a hashed one is a list for every bucket, and a plain one
has one bucket. Tuples stand in a pool that only grows within a run, so the place of a removed one stays readable until
room is made again.

The time-stamp vector has the latest event time of every stream. A tuple is out of reach when it is more than the
window of its stream behind the latest tuples of *all* other streams; behind one of them is not enough, for a slower
stream may still join it.

Invariant: a list is sorted by event time; a tuple out of reach is in no result of any tuple to come.

References: 002 §3.1, Fig. 3 and Fig. 5 (IsOut, one-sided: too old only).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.collections.chain import NEWER, gap_for, link_between, unlink
from slackwater.core.collections.hash_table import mix
from slackwater.core.collections.records import NONE
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.time import BEFORE_ALL, MAX_TIME

NO_KEY = -1
"""The key row of a stream whose buffer is not hashed."""
# What is counted: tests whether a tuple is out of reach, whether it is inside a period, and whether it joins; and pairs
# of a whole combination that are asked for their window.
REMOVAL, WINDOW, PREDICATE, REFINEMENT = range(4)


class Buffers(NamedTuple):
    """All buffers of a join, as compiled code reads and updates them; `floats` is the memory of `words`."""

    words: Words
    floats: Floats
    links: Words
    """A line per place of the pool: the neighbours in its list (a `chain`)."""
    newer: Words
    """The memory of the newer ones by itself: it is all that a loop through a buffer follows."""
    oldest: Words
    """Ends of the lists, by stream and bucket."""
    newest: Words
    probed: Words
    """The event time of the latest probe of each bucket."""
    keys: Words
    """The key row of each stream, or NO_KEY."""
    windows: Words
    """How long tuples are kept, by stream."""
    latest: Words
    """The time-stamp vector."""
    reach: Words
    """What lies before is out of reach, by stream."""
    held: Words
    used: Words
    """Places of the pool in use; tuples since the last cleaning; the bucket to be looked at next."""
    work: Words
    before: Words
    """The work when the tuple in hand came."""


USED, SINCE_CLEANING, HAND = range(3)


@inner
def bucket_of(b: Buffers, s: int, slot: int) -> int:
    """The bucket of a tuple of stream s."""
    if b.keys[s] == NO_KEY:
        return 0
    return mix(b.words[b.keys[s], slot]) & (b.oldest.shape[1] - 1)


@inner
def place(b: Buffers, s: int, words: Words, i: int) -> int:
    """Copy tuple i of stream s into the pool, outside of its buffer still; returns its place."""
    for w in range(len(b.work)):
        b.before[w] = b.work[w]
    slot = b.used[USED]
    for r in range(b.words.shape[0]):
        b.words[r, slot] = words[r, i]
    return slot


@inner
def enter(b: Buffers, s: int) -> None:
    """Put the tuple placed last into the buffer of stream s; behind all others, unless it came late."""
    slot = b.used[USED]
    bucket = bucket_of(b, s, slot)
    older, newer = gap_for(b.links, 0, b.words[TS], b.newest[s, bucket], b.words[TS, slot])
    link_between(b.links, 0, older, newer, slot)
    if older == NONE:
        b.oldest[s, bucket] = slot
    if newer == NONE:
        b.newest[s, bucket] = slot
    b.held[s] += 1
    b.used[USED] += 1


@inner
def remove(b: Buffers, s: int, bucket: int, slot: int) -> None:
    """Take a tuple out of its list."""
    older, newer = unlink(b.links, 0, slot)
    if older == NONE:
        b.oldest[s, bucket] = newer
    if newer == NONE:
        b.newest[s, bucket] = older
    b.held[s] -= 1


@inner
def update_vector(b: Buffers, s: int, ts: int) -> None:
    """Stream s has come to this event time."""
    if ts <= b.latest[s]:
        return
    b.latest[s] = ts
    for j in range(len(b.latest)):
        least = MAX_TIME
        for i in range(len(b.latest)):
            if i != j:
                least = min(least, b.latest[i])
        b.reach[j] = least - b.windows[j]


@inner
def remove_old(b: Buffers, s: int, bucket: int, horizon: int) -> None:
    """Remove what lies before the horizon, from the oldest on."""
    slot = b.oldest[s, bucket]
    while slot != NONE:
        b.work[REMOVAL] += 1
        if b.words[TS, slot] >= horizon:
            return
        newer = b.newer[slot]
        remove(b, s, bucket, slot)
        slot = newer


@inner
def clean(b: Buffers) -> None:
    """Remove everything that is out of reach from all buffers."""
    b.used[SINCE_CLEANING] = 0
    for s in range(len(b.latest)):
        for bucket in range(b.oldest.shape[1]):
            remove_old(b, s, bucket, b.reach[s])


@in_place
def append(b: Buffers, s: int, words: Words) -> None:
    """Put tuples of stream s into its buffer, for which there must be room."""
    for i in range(words.shape[1]):
        place(b, s, words, i)
        update_vector(b, s, words[TS, i])
        enter(b, s)


@in_place
def move(b: Buffers, old: Buffers, only_in_reach: bool) -> None:
    """Take all tuples over from old buffers."""
    for s in range(len(b.latest)):
        for bucket in range(old.oldest.shape[1]):
            slot = old.oldest[s, bucket]
            while slot != NONE:
                if not only_in_reach or old.words[TS, slot] >= old.reach[s]:
                    place(b, s, old.words, slot)
                    enter(b, s)
                slot = old.newer[slot]


@compiled
def slots_of(b: Buffers, s: int) -> Words:
    """The places of the tuples in the buffer of stream s."""
    slots, n = np.empty(b.held[s], np.int64), 0
    for bucket in range(b.oldest.shape[1]):
        slot = b.oldest[s, bucket]
        while slot != NONE:
            slots[n] = slot
            n += 1
            slot = b.newer[slot]
    return slots


class BufferStore:
    """The arrays behind the buffers, and when they grow.

    `removes`: tuples out of reach may be dropped whenever room is made; without, they go when the algorithm says so.
    """

    def __init__(self, keys: tuple[int, ...], rows: int, windows: tuple[int, ...], buckets: int, removes: bool) -> None:
        streams = len(keys)
        self._keys, self._rows, self._windows = np.array(keys, np.int64), rows, np.array(windows, np.int64)
        self._lists = (streams, buckets)
        self._removes = removes
        self._latest = np.full(streams, BEFORE_ALL, np.int64)
        self._reach = self._latest - self._windows
        self._work = np.zeros(4, np.int64)
        self.buffers = self._empty(256)

    def _empty(self, capacity: int) -> Buffers:
        words = np.zeros((self._rows, capacity), np.int64)
        links = np.full((2, capacity), NONE, np.int64).T
        oldest, newest = np.full((2, *self._lists), NONE, np.int64)
        probed = np.full(self._lists, BEFORE_ALL, np.int64)
        return Buffers(
            words, words.view(np.float64), links, links[:, NEWER], oldest, newest, probed, self._keys, self._windows,
            self._latest, self._reach, np.zeros(len(self._keys), np.int64), np.zeros(3, np.int64),
            self._work, np.zeros_like(self._work),
        )  # fmt: skip

    def reserve(self, arriving: int) -> None:
        """Space for so many tuples; places of removed ones are used again."""
        old = self.buffers
        if old.used[USED] + arriving <= old.words.shape[1]:
            return
        capacity = old.words.shape[1]
        while capacity < 2 * (self.held + arriving):
            capacity *= 2
        self.buffers = self._empty(capacity)
        self.buffers.probed[:] = old.probed
        move(self.buffers, old, self._removes)
        self.buffers.used[SINCE_CLEANING:] = old.used[SINCE_CLEANING:]

    def put_back(self, stream: int, words: Words) -> None:
        """Tuples of one stream enter its buffer again."""
        self.reserve(words.shape[1])
        append(self.buffers, stream, words)

    def advance_watermark(self, watermark: int) -> None:
        """No stream has anything in time before the watermark any more, also one that is silent."""
        np.maximum(self._latest, watermark, out=self._latest)
        for stream in range(len(self._latest)):
            self._reach[stream] = np.delete(self._latest, stream).min() - self._windows[stream]

    def take_back(self) -> None:
        """The tuple in hand is begun anew: what it has cost so far does not count."""
        self._work[:] = self.buffers.before

    @property
    def held(self) -> int:
        return int(self.buffers.held.sum())

    @property
    def comparisons(self) -> int:
        """Comparisons of event times and of values so far: a period has two ends, other tests are one."""
        removal, window, predicate, refinement = self._work.tolist()
        return int(removal + 2 * window + predicate + refinement)
