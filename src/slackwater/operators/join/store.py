"""The windows of a join: tuples of all streams in one pool of words, with hash indexes over them.

Each stream owns a region of the pool; its tuples are appended in processing order, so those in time are sorted by
event time. An index keeps, per key, a chain of tuples from newest to oldest event time with its length; expired
tuples are cut off at the old end when the key is probed. A late tuple is put into its chain by event time.

The key of an index is a word of a tuple, or the cell that the tuple is in (`cells.py`).

Invariant: a chain is sorted by event time, and its count is its length; a tuple with a null key is in no chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.collections.chain import NEWER, OLDER, gap_for, link_between
from slackwater.core.collections.hash_table import mix, slot_for
from slackwater.core.collections.records import NONE
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.operators.join.cells import (
    ANY_KEY,
    AXES,
    AXIS_FIELDS,
    NO_AXIS,
    ROW_OF,
    HashIndex,
    key_in,
    lines_of,
    own_cell,
)

# Columns of a region.
BEGIN, END, BASE, CAPACITY = range(4)
# Fields of a bucket. The event times of its oldest and newest tuple stand there too: tuples are all over the memory,
# and to look at one costs more than everything else about a probe.
KEY, NEWEST, OLDEST, COUNT, SINCE, UNTIL = range(6)
BUCKET_FIELDS = 6
UNUSED = -2
# Columns of an index: its stream, its key row, its pair of links among those of its stream, buckets in use.
OF_STREAM, KEY_ROW, LINK, USED = range(4)


class Windows(NamedTuple):
    """All windows of a join, as compiled code reads and updates them; `floats` is the memory of `words`."""

    words: Words
    floats: Floats
    regions: Words
    links: Words
    buckets: Words
    indexes: Words
    cells: Words
    """Per index its axes; `widths` is the memory of it."""
    widths: Floats


@inner
def find_bucket(w: Windows, x: int, key: int) -> int:
    """The bucket of a key in index x, or the unused one where it would go."""
    return slot_for(stops_at, w, mix(key), w.buckets.shape[1], x, key)


@inner
def chain_of(w: Windows, x: int, key: int) -> int:
    """The bucket of a key in index x that has, or had, a chain; NONE where there is none."""
    if key == NULL_WORD:
        return NONE
    b = find_bucket(w, x, key)
    return NONE if w.buckets[x, b, NEWEST] == UNUSED else b


@inner
def stops_at(w: Windows, b: int, x: int, key: int) -> bool:
    """Whether a bucket of index x is unused, or that of a key."""
    return w.buckets[x, b, NEWEST] == UNUSED or w.buckets[x, b, KEY] == key


@inner
def evict_expired(w: Windows, x: int, b: int, horizon: int) -> None:
    """Cut expired tuples off the old end of a chain."""
    if w.buckets[x, b, SINCE] >= horizon:
        return
    oldest = w.buckets[x, b, OLDEST]
    while oldest != NONE and w.words[TS, oldest] < horizon:
        oldest = unlink_oldest(w, x, b, oldest)
    begin_with(w, x, b, oldest)


@inner
def unlink_oldest(w: Windows, x: int, b: int, oldest: int) -> int:
    """Take the oldest tuple out of a chain; returns the one that follows it, which its bucket is to begin with."""
    link = w.indexes[x, LINK]
    following = w.links[oldest, link + NEWER]
    if following != NONE:
        w.links[following, link + OLDER] = NONE
    w.buckets[x, b, COUNT] -= 1
    return following


@inner
def begin_with(w: Windows, x: int, b: int, oldest: int) -> None:
    """The chain of a bucket has this tuple at its old end now, or none."""
    if oldest == NONE:
        empty(w, x, b)
    else:
        w.buckets[x, b, OLDEST], w.buckets[x, b, SINCE] = oldest, w.words[TS, oldest]


@inner
def empty(w: Windows, x: int, b: int) -> None:
    """A bucket has its key, and no tuple."""
    w.buckets[x, b, NEWEST], w.buckets[x, b, OLDEST], w.buckets[x, b, COUNT] = NONE, NONE, 0
    w.buckets[x, b, SINCE], w.buckets[x, b, UNTIL] = AFTER_ALL, BEFORE_ALL


@inner
def between_times(w: Windows, link: int, at: int, oldest: int, newest: int, found: Words, n: int) -> int:
    """The tuples of a chain from `at` on that lie between two event times, newest first, behind n that are found
    already; returns how many there are then."""
    while at != NONE and w.words[TS, at] > newest:
        at = w.links[at, link]
    while at != NONE and w.words[TS, at] >= oldest:
        found[n] = at
        n += 1
        at = w.links[at, link]
    return n


@inner
def count_since(w: Windows, x: int, b: int, oldest: int) -> int:
    """How many tuples of a chain are not older, counted off at the old end."""
    count, at = w.buckets[x, b, COUNT], w.buckets[x, b, OLDEST]
    while at != NONE and w.words[TS, at] < oldest:
        count -= 1
        at = w.links[at, w.indexes[x, LINK] + NEWER]
    return count


@inner
def place(w: Windows, s: int, words: Words, i: int) -> int:
    """Copy tuple i behind the tuples of stream s, outside of its window still; returns the slot."""
    slot = w.regions[s, END]
    for r in range(w.words.shape[0]):
        w.words[r, slot] = words[r, i]
    return slot


@inner
def insert(w: Windows, s: int) -> None:
    """The tuple placed last is in the window of stream s from now on, and in its indexes."""
    for x in range(len(w.indexes)):
        if w.indexes[x, OF_STREAM] == s:
            link_in(w, x, w.regions[s, END])
    w.regions[s, END] += 1


@inner
def index_key(w: Windows, x: int, slot: int) -> int:
    """The key of a tuple in index x."""
    row = w.indexes[x, KEY_ROW]
    key = 0 if row == ANY_KEY else w.words[row, slot]
    if w.cells[x, 0, ROW_OF] == NO_AXIS or key == NULL_WORD:
        return key
    first = own_cell(w.words, w.floats, w.cells[x, 0], w.widths[x, 0], slot)
    second = own_cell(w.words, w.floats, w.cells[x, 1], w.widths[x, 1], slot)
    if first == NULL_WORD or second == NULL_WORD:
        return NULL_WORD
    return key_in(first, second, key)


@inner
def link_in(w: Windows, x: int, slot: int) -> None:
    """Put a tuple into its chain of index x."""
    key, link = index_key(w, x, slot), w.indexes[x, LINK]
    if key == NULL_WORD:
        return
    b = find_bucket(w, x, key)
    if w.buckets[x, b, NEWEST] == UNUSED:
        w.buckets[x, b, KEY] = key
        empty(w, x, b)
        w.indexes[x, USED] += 1
    following, at, ts = NONE, w.buckets[x, b, NEWEST], w.words[TS, slot]
    if w.buckets[x, b, UNTIL] > ts:
        at, following = gap_for(w.links, link, w.words[TS], at, ts)
    link_between(w.links, link, at, following, slot)
    if at == NONE:
        w.buckets[x, b, OLDEST], w.buckets[x, b, SINCE] = slot, ts
    if following == NONE:
        w.buckets[x, b, NEWEST], w.buckets[x, b, UNTIL] = slot, ts
    w.buckets[x, b, COUNT] += 1


@in_place
def rebuild(w: Windows, old: Words, old_regions: Words, horizons: Words) -> None:
    """Move the tuples at or after each stream's horizon here from a pool that may be the same, and index them anew."""
    w.buckets[:, :, NEWEST] = UNUSED
    w.indexes[:, USED] = 0
    for s in range(len(w.regions)):
        w.regions[s, BEGIN] = w.regions[s, END] = w.regions[s, BASE]
        for slot in range(old_regions[s, BEGIN], old_regions[s, END]):
            if old[TS, slot] >= horizons[s]:
                place(w, s, old, slot)
                insert(w, s)


@in_place
def append(w: Windows, s: int, new: Words) -> None:
    """Put tuples into the window of stream s, for which there must be room."""
    for i in range(new.shape[1]):
        place(w, s, new, i)
        insert(w, s)


@compiled
def count_live(words: Words, regions: Words, horizons: Words) -> Words:
    """Per stream, how many tuples are at or after its horizon."""
    live = np.zeros(len(regions), np.int64)
    for s in range(len(regions)):
        for slot in range(regions[s, BEGIN], regions[s, END]):
            if words[TS, slot] >= horizons[s]:
                live[s] += 1
    return live


class WindowStore:
    """The arrays behind a join's windows, and when they are compacted or grown."""

    def __init__(self, streams: int, rows: int, indexes: tuple[HashIndex, ...]) -> None:
        self._rows = rows
        self.regions = _regions(np.full(streams, 256))
        self._number(indexes)
        self._allocate(256)

    def _number(self, indexes: tuple[HashIndex, ...]) -> None:
        pairs = np.zeros(len(self.regions), np.int64)
        lines = []
        for stream, row, _ in indexes:
            lines.append((stream, row, 2 * pairs[stream], 0))
            pairs[stream] += 1
        self.indexes = np.array(lines, np.int64).reshape(-1, 4)
        self._cells = np.array([lines_of(one.cells) for one in indexes], np.int64).reshape(-1, AXES, AXIS_FIELDS)
        self._links = int(2 * pairs.max())

    def _allocate(self, buckets: int) -> None:
        capacity = int(self.regions[:, CAPACITY].sum())
        self.words = np.zeros((self._rows, capacity), np.int64)
        self.links = np.empty((capacity, max(1, self._links)), np.int64)
        self._empty_buckets(buckets)

    def _empty_buckets(self, buckets: int) -> None:
        self.buckets = np.empty((max(1, len(self.indexes)), buckets, BUCKET_FIELDS), np.int64)
        self.buckets[:, :, NEWEST] = UNUSED

    @property
    def windows(self) -> Windows:
        """The arrays as they are until room is made again."""
        return Windows(
            self.words, self.words.view(np.float64), self.regions, self.links, self.buckets, self.indexes,
            self._cells, self._cells.view(np.float64),
        )  # fmt: skip

    def reserve(self, arriving: Words, horizons: Words) -> None:
        """Space for so many new tuples per stream; what is older than its stream's horizon may be dropped."""
        needed = int(arriving.max(initial=0))
        fits = np.all(self.regions[:, END] + arriving <= self.regions[:, BASE] + self.regions[:, CAPACITY])
        used = int(self.indexes[:, USED].max(initial=0))
        if fits and 2 * (used + needed) <= self.buckets.shape[1]:
            return
        live = self.live(horizons)
        # An index has a bucket a key; there are not more keys than tuples, nor more than there were so far.
        buckets = self._enough_buckets(min(int(live.max()), used) + needed)
        old, before = self.words, self.regions
        wanted = 2 * (live + arriving)
        if np.all(wanted <= before[:, CAPACITY]):
            self.regions = before.copy()
            if buckets != self.buckets.shape[1]:
                self._empty_buckets(buckets)
        else:
            self.regions = _regions(np.maximum(before[:, CAPACITY], 2 * wanted))
            self._allocate(buckets)
        rebuild(self.windows, old, before, horizons)

    def index_by(self, indexes: tuple[HashIndex, ...], arriving: Words, horizons: Words) -> None:
        """Other hash indexes over the same tuples, with room for so many new ones per stream."""
        old, before = self.words, self.regions
        self._number(indexes)
        live = self.live(horizons)
        self.regions = _regions(np.maximum(before[:, CAPACITY], live + arriving))
        self._allocate(self._enough_buckets(int(live.max()) + int(arriving.max(initial=0))))
        rebuild(self.windows, old, before, horizons)

    def _enough_buckets(self, keys: int) -> int:
        buckets: int = self.buckets.shape[1]
        while buckets < 4 * keys:
            buckets *= 2
        return buckets

    def live(self, horizons: Words) -> Words:
        """Per stream, how many tuples are at or after its horizon."""
        return count_live(self.words, self.regions, horizons)

    def put_back(self, stream: int, words: Words, horizons: Words) -> None:
        """Tuples of one stream enter its window again."""
        arriving = np.zeros(len(self.regions), np.int64)
        arriving[stream] = words.shape[1]
        self.reserve(arriving, horizons)
        append(self.windows, stream, words)

    def times(self) -> list[Words]:
        """The event times of all tuples, by stream."""
        return [self.words[TS, begin:end] for begin, end in self.regions[:, [BEGIN, END]].tolist()]

    def drop(self, horizons: Words) -> None:
        """Drop what is older than its stream's horizon now, whether or not room is needed."""
        before = self.regions
        self.regions = before.copy()
        rebuild(self.windows, self.words, before, horizons)

    def take_all(self) -> list[Words]:
        """The tuples of every stream, which are here no longer."""
        taken = [self.words[:, begin:end].copy() for begin, end in self.regions[:, [BEGIN, END]]]
        self.regions[:, BEGIN] = self.regions[:, END] = self.regions[:, BASE]
        self.buckets[:, :, NEWEST] = UNUSED
        self.indexes[:, USED] = 0
        return taken

    @property
    def held(self) -> int:
        return int((self.regions[:, END] - self.regions[:, BEGIN]).sum())


def _regions(capacities: Words) -> Words:
    regions = np.zeros((len(capacities), 4), np.int64)
    regions[:, CAPACITY] = capacities
    regions[:, BASE] = np.concatenate([[0], np.cumsum(capacities)[:-1]])
    regions[:, BEGIN] = regions[:, END] = regions[:, BASE]
    return regions
