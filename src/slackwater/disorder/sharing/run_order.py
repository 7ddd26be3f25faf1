"""The order of a run: what a cursor passes of the log, and of a batch of arrivals, as the query sees it.

Invariant: epoch by epoch, late tuples as they arrived, then those that the watermark has reached, sorted by event time,
and by arrival where that is equal; as `release_sorted` has them. Words of tuples in the log are fetched from the pools
of their sources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.jit import compiled, in_place, inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.disorder.sharing.clock_domain import Timeline
from slackwater.disorder.sharing.log import Held

NOWHERE = -1
"""In place of the row of the domain that a row of the query is: it has nothing there."""


class View(NamedTuple):
    """How a query sees the tuples of its domain."""

    stream: Words
    """Per stream of the domain, the query's own number of it."""
    rows: Words
    """Per stream of the domain, the row of the domain for each of the query's own, or NOWHERE."""


class New(NamedTuple):
    """The arrivals of a domain, and those among them that a query wants."""

    stream: Words
    words: Words
    at: Words
    """Those of the segment, in the order of arrival."""
    late: Flags
    by_ts: Words
    """Those of the batch that the watermark passes in the segment, by event time."""


class Segment(NamedTuple):
    """What of the log is passed, in which epochs, and the place behind the last arrival."""

    lowest: int
    highest: int
    word: int
    """Of the flags of the log, and in it"""
    bit: int
    """the one that says what the query wants."""
    from_epoch: int
    to_epoch: int
    position: int


@inner
def due(watermark: Words, epoch: int, t: int) -> int:
    """The first epoch, from this one on, after which the watermark has reached a time."""
    while watermark[epoch + 1] < t:
        epoch += 1
    return epoch


@compiled
def order_run(
    held: Held, new: New, segment: Segment, line: Timeline, watermark: Words, view: View, with_late: bool,
    out: OrderedTuples, referred: Words,
) -> tuple[int, int]:  # fmt: skip
    """Write a run: epoch by epoch, the late ones as they arrived, then those that the watermark has reached, sorted.

    The words of those in the log are left out: `referred` says where they stand in the log, and in the run. Returns how
    many tuples there are, and how many of them are in the log. Negative places are those in the log.
    """
    first, last = segment.from_epoch, segment.to_epoch
    place, epoch = np.empty_like(out.stream), np.empty_like(out.stream)
    count = 0
    begins = np.zeros(last - first + 2, np.int64)
    # Those at the old cursor that came after it was there.
    cursor = watermark[first]
    for k in range(len(new.at)):
        i = new.at[k]
        if new.late[k]:
            if with_late:
                begins[min(line.epoch[i], last) - first + 1] += 1
        elif new.words[TS, i] <= cursor and line.epoch[i] < last:
            place[count], epoch[count] = i, line.epoch[i]
            count += 1
    i, j, reached = segment.lowest, 0, first
    while i < segment.highest or j < len(new.by_ts):
        if j == len(new.by_ts) or (i < segment.highest and held.ts[i] <= new.words[TS, new.by_ts[j]]):
            i += 1
            if (held.flags[segment.word, i - 1] >> segment.bit) & 1 == 0:
                continue
            reached = due(watermark, reached, held.ts[i - 1])
            place[count], epoch[count] = ~(i - 1), reached
        else:
            at = new.by_ts[j]
            j += 1
            t = new.words[TS, at]
            if at >= segment.position or t < watermark[line.epoch[at]]:
                continue
            reached = due(watermark, reached, t)
            place[count], epoch[count] = at, max(reached, line.epoch[at])
        count += 1
    for k in range(count):
        begins[epoch[k] - first + 1] += 1
    for e in range(1, len(begins)):
        begins[e] += begins[e - 1]
    total = begins[len(begins) - 1]
    if with_late:
        for k in range(len(new.at)):
            if new.late[k]:
                i = new.at[k]
                e = min(line.epoch[i], last) - first
                n = begins[e]
                begins[e] += 1
                write(new.words, new.stream[i], i, view, out, n)
                out.delay[n], out.watermark_at_arrival[n] = line.delay[i], watermark[line.epoch[i]]
                out.clock[n], out.emit_time[n] = line.max_ts[i], line.now[i]
    old = 0
    for k in range(count):
        e = epoch[k]
        n = begins[e - first]
        begins[e - first] += 1
        if place[k] < 0:
            i = ~place[k]
            out.stream[n], out.delay[n] = view.stream[held.stream[i]], held.delay[i]
            referred[0, old], referred[1, old] = i, n
            old += 1
        else:
            write(new.words, new.stream[place[k]], place[k], view, out, n)
            out.delay[n] = line.delay[place[k]]
        out.watermark_at_arrival[n] = watermark[e]
        out.clock[n], out.emit_time[n] = line.largest[e], line.ended_at[e]
    return total, old


@in_place
def fetch(
    pool: Words, columns: Words, stream: int, rows: Words, held: Held, referred: Words, count: int, out: Words
) -> None:  # fmt: skip
    """Write the words of those tuples of a run that are in the log and of this stream, as the query sees them."""
    for k in range(count):
        i, n = referred[0, k], referred[1, k]
        if held.stream[i] == stream:
            for r in range(rows.shape[1]):
                row = rows[stream, r]
                out[r, n] = pool[held.slot[i], columns[row]] if row >= 0 else 0


@inner
def write(words: Words, stream: int, at: int, view: View, out: OrderedTuples, n: int) -> None:
    """One tuple, as the query sees it."""
    out.stream[n] = view.stream[stream]
    for r in range(view.rows.shape[1]):
        row = view.rows[stream, r]
        out.words[r, n] = words[row, at] if row >= 0 else 0


def gathered(words: Words, stream: Words, at: Words, rows: Words) -> Words:
    """Tuples as a query sees them."""
    out = np.empty((rows.shape[1], len(at)), np.int64)
    gather(words, stream, at, rows, out)
    return out


@in_place
def gather(words: Words, stream: Words, at: Words, rows: Words, out: Words) -> None:
    """Write the rows of a query for the tuples at these places."""
    for r in range(rows.shape[1]):
        for k in range(len(at)):
            row = rows[stream[at[k]], r]
            out[r, k] = words[row, at[k]] if row >= 0 else 0
