"""The rows of windows that have left and may still change: the values that left last, and how often that was.

Invariant: a window and group has at most one row here. Its version counts the rows that have left, from 0 on without a
hole; THERE says whether the last of them has left it in the table of whoever reads along.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.collections.hash_table import mix
from slackwater.core.collections.records import (
    FIRST_FIELD,
    NONE,
    find,
    give_back,
    grown,
    hang,
    table,
    take_free,
    unhang,
)
from slackwater.core.emitting import DELETE, INSERT, UPDATE
from slackwater.core.jit import in_place, inner
from slackwater.core.state import StateUpdate, decode_words, encode_words, state_update

# A row: its window, how many have left before the last one (-1: none has left), whether it is there, whether it changed
# since it was last persisted, and a mark; then its key, and its values.
WINDOW, VERSION, THERE, DIRTY, MARK = range(FIRST_FIELD, FIRST_FIELD + 5)
KEY = FIRST_FIELD + 5
NO_WINDOW = -(2**62)
"""The window of a record that is not in use."""
FREE, USED = range(2)
SMALLEST = 256
ONLY_LINE = 0
EMITTED = "emitted"


class Rows(NamedTuple):
    """What compiled code works on."""

    records: Words
    buckets: Words
    counts: Words
    """The first free record, and how many are in use."""


class Changes(NamedTuple):
    """What becomes of some lines: which of them leave, with which values, as what, and in which version."""

    lines: Words
    values: Words
    """What is deleted leaves as it was."""
    change: Words
    version: Words

    def only(self, which: Flags) -> Changes:
        """Some of them."""
        return Changes(*(column[which] for column in self))


@inner
def bucket_of(rows: Rows, window: int, keys: Words, i: int) -> int:
    """Where a window and a key belong."""
    h = mix(window)
    for k in range(keys.shape[1]):
        h = mix(h ^ keys[i, k])
    return h & (len(rows.records) - 1)


@inner
def is_row(rows: Rows, r: int, windows: Words, keys: Words, i: int) -> bool:
    """Whether a record is that of line i."""
    if rows.records[r, WINDOW] != windows[i]:
        return False
    k = 0
    while k < keys.shape[1] and rows.records[r, KEY + k] == keys[i, k]:
        k += 1
    return k == keys.shape[1]


@in_place
def find_rows(rows: Rows, windows: Words, keys: Words, make: Flags, places: Words) -> None:
    """The record of every line; a new one where there is none, if one is to be made."""
    for i in range(len(windows)):
        b = bucket_of(rows, windows[i], keys, i)
        r = find(is_row, rows.records, rows.buckets, ONLY_LINE, b, rows, windows, keys, i)
        if r == NONE and make[i]:
            r = take_free(rows.records, rows.counts, FREE, USED)
            rows.records[r, WINDOW], rows.records[r, VERSION] = windows[i], -1
            rows.records[r, THERE], rows.records[r, DIRTY], rows.records[r, MARK] = 0, 1, 0
            for k in range(keys.shape[1]):
                rows.records[r, KEY + k] = keys[i, k]
            hang(rows.records, rows.buckets, ONLY_LINE, b, r)
        places[i] = r


@in_place
def free_rows(rows: Rows, places: Words, keys: Words) -> None:
    """Forget records; `keys` are theirs."""
    for i in range(len(places)):
        r = places[i]
        unhang(rows.records, rows.buckets, ONLY_LINE, bucket_of(rows, rows.records[r, WINDOW], keys, i), r)
        rows.records[r, WINDOW] = NO_WINDOW
        give_back(rows.records, rows.counts, FREE, USED, r)


@in_place
def hang_rows(rows: Rows, places: Words, keys: Words) -> None:
    """Put records into buckets that are empty."""
    for i in range(len(places)):
        r = places[i]
        hang(rows.records, rows.buckets, ONLY_LINE, bucket_of(rows, rows.records[r, WINDOW], keys, i), r)


class EmittedRows:
    """The rows of an aggregate with so many columns in its key, and so many values."""

    def __init__(self, keys: int, values: int) -> None:
        self._keys, self._values = keys, values
        self._rows = self._empty(SMALLEST)
        self._written: set[str] = set()
        self._after_sweep = 0

    def _empty(self, capacity: int) -> Rows:
        records = table(capacity, KEY + self._keys + self._values)
        records[:, WINDOW] = NO_WINDOW
        return Rows(records, np.full((1, capacity), NONE, np.int64), np.zeros(2, np.int64))

    def __len__(self) -> int:
        return int(self._rows.counts[USED])

    @property
    def words(self) -> int:
        """What they take."""
        return len(self) * self._rows.records.shape[1]

    def places(self, windows: Words, keys: Words, make: Flags | None = None) -> Words:
        """The records of lines, NONE for one that has none; one is made where that is asked for. `keys` is of shape
        (lines, columns of the key)."""
        make = np.ones(len(windows), np.bool_) if make is None else make
        self._reserve(int(np.count_nonzero(make)))
        places = np.empty(len(windows), np.int64)
        find_rows(self._rows, np.ascontiguousarray(windows), np.ascontiguousarray(keys), make, places)
        return places

    def known(self) -> tuple[Words, Flags]:
        """The keys of all records, of shape (records, columns), and whether a row of each is there."""
        live = self._live()
        return self._keys_of(live), self._rows.records[live, THERE] == 1

    def mark(self, windows: Words, keys: Words, marks: Words) -> Words:
        """Mark records, made where there are none; returns their places. 0 is no mark."""
        places = self.places(windows, keys)
        self._rows.records[places, MARK] = marks
        return places

    def unmark(self, places: Words) -> None:
        """Take the marks away; a record of which no row has left goes with its mark."""
        self._rows.records[places, MARK] = 0
        self._drop(places[self._rows.records[places, VERSION] < 0])

    def marks(self, places: Words) -> Words:
        """The marks of records, 0 for NONE."""
        return np.where(places == NONE, 0, self._rows.records[places, MARK])

    def take(self, windows: Words, keys: Words, values: Words, wanted: Flags, final: bool = False) -> Changes:
        """Lines as they are now, `wanted` or not, each of another window and group: what leaves of them. `values` is of
        shape (lines, values). A `final` row leaves whether it has changed or not."""
        places = self.places(windows, keys, wanted)
        known, records = places != NONE, self._rows.records
        there = known & (records[places, THERE] == 1)
        change = np.full(len(windows), NONE, np.int64)
        change[wanted & ~there] = INSERT
        same = (records[places, KEY + self._keys :] == values).all(axis=1)
        change[wanted & there & (final | ~same)] = UPDATE
        change[there & ~wanted] = DELETE
        lines = np.flatnonzero(change != NONE)
        at, change = places[lines], change[lines]
        stays = change != DELETE
        records[at[stays], KEY + self._keys :] = values[lines[stays]]
        records[at, VERSION] += 1
        records[at, THERE], records[at, DIRTY] = stays, 1
        return Changes(lines, records[at, KEY + self._keys :], change, records[at, VERSION])

    def forget(self, before: int) -> None:
        """Rows of windows before this one change no more. They are dropped when there are as many as others."""
        if len(self) < 2 * self._after_sweep + SMALLEST // 4:
            return
        windows = self._rows.records[:, WINDOW]
        self._drop(np.flatnonzero((windows != NO_WINDOW) & (windows < before)))
        self._after_sweep = len(self)

    def _drop(self, places: Words) -> None:
        free_rows(self._rows, places, self._keys_of(places))

    def _keys_of(self, places: Words) -> Words:
        return np.ascontiguousarray(self._rows.records[places, KEY : KEY + self._keys])

    def _reserve(self, more: int) -> None:
        records, counts = self._rows.records, self._rows.counts
        size = capacity = len(records)
        while capacity < counts[USED] + more + 1:
            capacity *= 2
        if capacity == size:
            return
        larger = grown(records, capacity, int(counts[FREE]))
        larger[size:, WINDOW] = NO_WINDOW
        counts[FREE] = size
        self._rows = Rows(larger, np.full((1, capacity), NONE, np.int64), counts)
        live = self._live()
        hang_rows(self._rows, live, self._keys_of(live))

    def _live(self) -> Words:
        return np.flatnonzero(self._rows.records[:, WINDOW] != NO_WINDOW)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call: an entry for every window that has changed."""
        records = self._rows.records
        live = self._live()
        window = records[live, WINDOW]
        gone = self._written - set(map(str, np.unique(window).tolist()))
        entries = [state_update(EMITTED, key, None) for key in sorted(gone)]
        touched = np.unique(window[records[live, DIRTY] == 1])
        live = live[np.isin(window, touched)]
        live = live[np.argsort(records[live, WINDOW], kind="stable")]
        begins, ends = (np.searchsorted(records[live, WINDOW], touched, side) for side in ("left", "right"))
        for number, begin, end in zip(touched.tolist(), begins.tolist(), ends.tolist(), strict=True):
            members = live[begin:end]
            columns = {f"w{at}": records[members, at] for at in (VERSION, THERE, *range(KEY, records.shape[1]))}
            entries.append(state_update(EMITTED, str(number), encode_words(columns)))
        records[live, DIRTY] = 0
        self._written = (self._written - gone) | set(map(str, touched.tolist()))
        return entries

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted rows, all of them or those of windows that have changed."""
        replaced = np.array([int(entry.key) for entry in entries], np.int64)
        self._drop(np.flatnonzero(np.isin(self._rows.records[:, WINDOW], replaced)))
        for entry in entries:
            if entry.value is None:
                self._written.discard(entry.key)
                continue
            saved = decode_words(entry.value)
            keys = np.array([saved[f"w{KEY + k}"] for k in range(self._keys)], np.int64)
            count = len(saved[f"w{VERSION}"])
            places = self.places(np.full(count, int(entry.key)), keys.reshape(self._keys, count).T)
            for name, column in saved.items():
                self._rows.records[places, int(name[1:])] = column
            self._written.add(entry.key)
