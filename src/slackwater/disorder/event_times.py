"""Event times as a histogram that can be merged: what a vote about clocks must know of an epoch, in bounded space.

Invariant: buckets are 2**shift microseconds wide, and `shift` is the least, from a given first one on, with which at
most BUCKETS of them hold something. So the histogram of tuples does not depend on their order, nor on how they were
split into parts whose histograms were merged. A tuple a year away costs one bucket, not a year of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.hash_table import slot_for
from slackwater.core.jit import in_place, inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL

BUCKETS = 128
PLACES = 256
FINEST = 16
"""The first buckets are 2**-FINEST of `max_ahead`, or a microsecond."""
# Places in `EventTimes.used`; the last one is where the last tuples were put.
SHIFT, FILLED, TUPLES, LAST = range(4)


class EventTimes(NamedTuple):
    """Hash tables of buckets, a line each; the last line is scratch."""

    number: Words
    size: Words
    """How many tuples; 0: the place is free."""
    latest: Words
    oldest: Words
    """Of those that passed their filter; AFTER_ALL where none did."""
    used: Words


def first_shift(max_ahead: int) -> int:
    """The width that a histogram begins with.

    >>> first_shift(10), first_shift(600_000_000)
    (0, 13)
    """
    return max(0, max_ahead.bit_length() - 1 - FINEST)


def event_times(lines: int) -> EventTimes:
    """Empty histograms; `clear` gives each its first width."""
    places = (lines + 1, PLACES)
    number, size, latest, oldest = np.zeros((4, *places), np.int64)
    return EventTimes(number, size, latest, oldest, np.zeros((lines + 1, 4), np.int64))


@inner
def clear(times: EventTimes, line: int, shift: int) -> None:
    """Forget what a line holds."""
    for place in range(PLACES):
        times.size[line, place] = 0
    times.used[line, SHIFT], times.used[line, FILLED], times.used[line, TUPLES] = shift, 0, 0


@inner
def place_of(times: EventTimes, line: int, number: int) -> int:
    """Where a bucket stands, or would: neighbours in time stand side by side."""
    return slot_for(stops_at, times, number, PLACES, line, number)


@inner
def stops_at(times: EventTimes, place: int, line: int, number: int) -> bool:
    """Whether a place is free, or that of a bucket."""
    return times.size[line, place] == 0 or times.number[line, place] == number


@inner
def put(times: EventTimes, line: int, number: int, count: int, latest: int, oldest: int) -> None:
    """Add tuples to a bucket of a line that has room for it."""
    place = times.used[line, LAST]
    # Arrivals are nearly in order, so it mostly is the bucket of the one before.
    if times.size[line, place] == 0 or times.number[line, place] != number:
        place = place_of(times, line, number)
        times.used[line, LAST] = place
    if times.size[line, place] == 0:
        times.number[line, place] = number
        times.latest[line, place], times.oldest[line, place] = latest, oldest
        times.used[line, FILLED] += 1
    times.size[line, place] += count
    times.latest[line, place] = max(times.latest[line, place], latest)
    times.oldest[line, place] = min(times.oldest[line, place], oldest)


@in_place
def coarsen(times: EventTimes, line: int) -> None:
    """Make every two buckets one."""
    scratch = len(times.used) - 1
    for place in range(PLACES):
        times.number[scratch, place], times.size[scratch, place] = (
            times.number[line, place],
            times.size[line, place],
        )
        times.latest[scratch, place], times.oldest[scratch, place] = (
            times.latest[line, place],
            times.oldest[line, place],
        )
        times.size[line, place] = 0
    times.used[line, SHIFT] += 1
    times.used[line, FILLED] = 0
    for place in range(PLACES):
        if times.size[scratch, place] > 0:
            put(
                times, line, times.number[scratch, place] >> 1, times.size[scratch, place],
                times.latest[scratch, place], times.oldest[scratch, place],
            )  # fmt: skip


@inner
def note(times: EventTimes, line: int, count: int, latest: int, oldest: int, shift: int) -> None:
    """Add tuples that a bucket of 2**shift has held."""
    while times.used[line, SHIFT] < shift:
        coarsen(times, line)
    put(times, line, latest >> times.used[line, SHIFT], count, latest, oldest)
    times.used[line, TUPLES] += count
    while times.used[line, FILLED] > BUCKETS:
        coarsen(times, line)


@inner
def sort_buckets(times: EventTimes, line: int) -> int:
    """Write latest times and counts of a line into scratch, oldest first; returns how many buckets there are."""
    scratch, n = len(times.used) - 1, 0
    oldest, first = AFTER_ALL, 0
    for place in range(PLACES):
        if times.size[line, place] > 0 and times.latest[line, place] < oldest:
            oldest, first = times.latest[line, place], place
    # From there on they mostly stand in order, so that inserting one after the other moves little.
    for step in range(PLACES):
        place = (first + step) & (PLACES - 1)
        if times.size[line, place] > 0:
            latest, at = times.latest[line, place], n
            while at > 0 and times.latest[scratch, at - 1] > latest:
                times.latest[scratch, at] = times.latest[scratch, at - 1]
                times.size[scratch, at] = times.size[scratch, at - 1]
                at -= 1
            times.latest[scratch, at], times.size[scratch, at] = latest, times.size[line, place]
            n += 1
    return n


@in_place
def note_all(times: EventTimes, ts: Words, kept: Words, shift: int) -> None:
    """The histogram of some tuples as line 0; `kept` is 1 for those that passed their filter."""
    clear(times, 0, shift)
    for i in range(len(ts)):
        note(times, 0, 1, ts[i], ts[i] if kept[i] == 1 else AFTER_ALL, 0)


@in_place
def note_buckets(times: EventTimes, line: int, reported: Words, shift: int) -> None:
    """Add buckets of another histogram: columns of counts, latest and oldest times."""
    for i in range(reported.shape[1]):
        note(times, line, reported[0, i], reported[1, i], reported[2, i], shift)


def as_reported(ts: Words, kept: Words, max_ahead: int) -> list[Any]:
    """The histogram of some tuples as plain data: its width, and per bucket (count, latest, oldest or None).

    >>> as_reported(np.array([5, 7, 10**9]), np.array([1, 1, 0]), max_ahead=10)
    [0, [[1, 5, 5], [1, 7, 7], [1, 1000000000, None]]]
    """
    times = event_times(1)
    note_all(times, ts, kept, first_shift(max_ahead))
    filled = np.flatnonzero(times.size[0])
    rows = zip(*(getattr(times, name)[0, filled].tolist() for name in ("size", "latest", "oldest")), strict=True)
    return [
        int(times.used[0, SHIFT]),
        sorted(([n, t, None if o == AFTER_ALL else o] for n, t, o in rows), key=_by_time),
    ]


def of_sampled(buckets: Iterable[list[Any]]) -> Words:
    """Buckets of `as_reported` as columns."""
    lines = [(n, t, AFTER_ALL if o is None else o) for n, t, o in buckets]
    return np.array(lines, np.int64).reshape(-1, 3).T.copy()


def oldest_within(reported: Words, earliest: int) -> int:
    """The oldest time not before `earliest`; BEFORE_ALL where there is none.

    A bucket that lies across counts by its latest time: what is before `earliest` in it is not known apart.
    """
    kept = reported[:, reported[2] != AFTER_ALL]
    found = np.where(kept[2] >= earliest, kept[2], kept[1])
    found = found[found >= earliest]
    return int(found.min()) if len(found) else BEFORE_ALL


def _by_time(bucket: list[Any]) -> int:
    return int(bucket[1])
