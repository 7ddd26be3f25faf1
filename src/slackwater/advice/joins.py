"""The curve of a window join: on a key, counted without making a result; of any other join, by making them all.

**On a key** a result is lost iff the last of its members to be released was late, and the watermark it met had reached
the result's time T: every tuple in time up to T had then probed already. So only results whose last member is behind
the slowest clock can be lost at all; these are counted one late tuple and one time T at a time. All true results are
counted in event-time order, as the products of what windows hold.

**Any other join**, where streams are linked by more than one key: by any condition, by windows between pairs, by
nothing at all. Tuples go through the engine's own kernel in event-time order, so nothing is late there, and every
result names its members. This is the oracle of the other way.

Invariant: both are exact. Of members with equal times, the one in the stream that is written last is the newest.
Results are counted as they come and never retained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from slackwater.advice.arrivals import ArrivalHistory, Clocks, first_at, least_slack
from slackwater.advice.tally import HOURS, Tally, numbered, points_below
from slackwater.core.batch import ROW, Batch, Words
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.quality import NoWait
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.core.time import HOUR
from slackwater.disorder.cutting import Epochs
from slackwater.plan.physical import IDENTITY, PhysicalPlan
from slackwater.runtime.driver import Driver, with_results
from slackwater.runtime.kernels import query_for
from slackwater.sources.codebook import Codebook


def keys_of(plan: PhysicalPlan) -> tuple[tuple[int, ...], ...] | None:
    """Where all that links the streams is a key that each of them has: the rows of its parts, per stream; else None."""
    spec = plan.operator.as_join
    if spec is None or spec.conditions or spec.graph is not None or spec.streams < 2:
        return None
    whole = [set(range(one.rows)) for one in plan.inputs]
    exact = [{row for _, kind, row in one.columns if kind is not Kind.FLOAT} & rows for one, rows in
             zip(plan.inputs, whole, strict=True)]  # fmt: skip
    classes: list[set[tuple[int, int]]] = []
    for one in spec.equalities:
        ends = {(one.left, one.left_row), (one.right, one.right_row)}
        touched = [each for each in classes if each & ends]
        classes = [each for each in classes if not each & ends] + [reduce(set.union, touched, ends)]
    found: list[list[int]] = [[] for _ in range(spec.streams)]
    for each in classes:
        if sorted(stream for stream, _ in each) != list(range(spec.streams)):
            return None
        for stream, row in each:
            if row not in exact[stream]:
                return None
            found[stream].append(row)
    return tuple(map(tuple, found)) if classes else None


class Grouped(NamedTuple):
    """Tuples by stream, key and event time; the other arrays are by arrival."""

    ts: Words
    arrival: Words
    """Which arrival each of them is."""
    begin: Words
    """Shape (keys, streams): where the tuples of a key begin."""
    end: Words
    rank: Words
    event: Words
    reached: Words
    first: Words
    """Shape (streams, arrivals): where the tuples of a stream that are not older begin (`least.least_slack`)."""


@dataclass(frozen=True)
class KeyedJoin:
    """A join on a key over one history."""

    history: ArrivalHistory
    windows: Words
    grouped: Grouped

    @staticmethod
    def of(history: ArrivalHistory, plan: PhysicalPlan, keys: tuple[tuple[int, ...], ...]) -> KeyedJoin:
        """Bring the tuples into order."""
        return KeyedJoin(history, np.array(plan.windows, np.int64), group(history, _words(history, keys)))

    def count(self, tally: Tally) -> None:
        """Count all results, and those that slacks lose."""
        m = self.history.streams
        count_true(self.grouped, self.windows, tally.true_by_hour, tally.made, np.zeros((2, m), np.int64))
        count_lost(
            self.history.clocks, self.grouped, self.windows, tally.grid, tally.by_stream, tally.by_hour,
            np.zeros((3, m), np.int64),
        )  # fmt: skip


def _words(history: ArrivalHistory, keys: tuple[tuple[int, ...], ...]) -> Words:
    """One word per arrival that identifies its key; NULL_WORD where a part of it is null."""
    words, stream = history.batch.words, history.stream
    parts = []
    for part in zip(*keys, strict=True):
        column = words[part[0]] if len(set(part)) == 1 else np.choose(stream, [words[row] for row in part])
        parts.append(column)
    null = np.any([column == NULL_WORD for column in parts], axis=0)
    return np.where(null, NULL_WORD, numbered(parts, len(stream)))


def group(history: ArrivalHistory, key: Words) -> Grouped:
    """The passing tuples by stream, key and event time, for the keys that all streams have."""
    m, ts, clocks = history.streams, history.ts, history.clocks
    usable = history.passes & (key != NULL_WORD)
    ordered, keys = [], []
    for s in range(m):
        mine = history.in_order(s)
        if not usable.all():
            mine = mine[usable[mine]]
        words = key[mine]
        by_key = np.argsort(words, kind="stable")
        ordered.append(mine[by_key])
        keys.append(words[by_key])
    heads = [np.flatnonzero(np.concatenate([[len(one) > 0], one[1:] != one[:-1]])) for one in keys]
    distinct = [one[head] if len(one) else one for one, head in zip(keys, heads, strict=True)]
    common = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), distinct)
    begin, end = np.zeros((2, len(common), m), np.int64)
    offset = 0
    for s in range(m):
        which = np.searchsorted(distinct[s], common)
        bounds = np.append(heads[s], len(keys[s]))
        begin[:, s], end[:, s] = offset + bounds[which], offset + bounds[which + 1]
        offset += len(keys[s])
    at = np.concatenate(ordered)
    first = np.empty((m, len(ts) if clocks.each else 0), np.int64)
    if clocks.each:
        mark_first(clocks, first)
    return Grouped(ts[at], at, begin, end, history.rank, history.event, history.reached, first)


@in_place
def mark_first(clocks: Clocks, first: Words) -> None:
    """For every tuple, where the tuples of each stream that are not older begin."""
    for k in range(first.shape[0]):
        for s in range(first.shape[0]):
            at = clocks.begins[k]
            for i in range(clocks.begins[s], clocks.begins[s + 1]):
                while at < clocks.begins[k + 1] and clocks.ts[at] < clocks.ts[i]:
                    at += 1
                first[k, clocks.arrival[i]] = at


@in_place
def count_true(by: Grouped, windows: Words, by_hour: Words, made: Words, pointers: Words) -> None:
    """Every tuple as the newest member: the product of what the other windows hold then."""
    m = len(windows)
    for g in range(by.begin.shape[0]):
        for s in range(m):
            for j in range(m):
                pointers[0, j] = pointers[1, j] = by.begin[g, j]
            for p in range(by.begin[g, s], by.end[g, s]):
                t = by.ts[p]
                found = 1
                for j in range(m):
                    if j == s:
                        continue
                    low, high, end = pointers[0, j], pointers[1, j], by.end[g, j]
                    while low < end and by.ts[low] < t - windows[j]:
                        low += 1
                    while high < end and is_older(by.ts[high], j, t, s):
                        high += 1
                    pointers[0, j], pointers[1, j] = low, high
                    found *= max(0, high - low)
                by_hour[t // HOUR % HOURS] += found
                made[by.arrival[p]] += found


@inner
def is_older(ts: int, stream: int, newest: int, its_stream: int) -> bool:
    """Whether a tuple comes before another in the order of event times."""
    return ts < newest or (ts == newest and stream < its_stream)


@in_place
def count_lost(
    clocks: Clocks, by: Grouped, windows: Words, grid: Words, by_stream: Words, by_hour: Words, scratch: Words
) -> None:
    """Every late tuple as the last member released, with every newest member that there was for it."""
    m = len(windows)
    for g in range(by.begin.shape[0]):
        for s in range(m):
            for j in range(m):
                scratch[0, j] = by.begin[g, j]
            for p in range(by.begin[g, s], by.end[g, s]):
                t, reached = by.ts[p], by.reached[by.arrival[p]]
                if reached <= t:
                    continue
                lose(clocks, by, windows, g, s, p, s, p, grid, by_stream, by_hour, scratch)
                for j in range(m):
                    if j == s:
                        continue
                    q, end = scratch[0, j], by.end[g, j]
                    while q < end and is_older(by.ts[q], j, t, s):
                        q += 1
                    scratch[0, j] = q
                    while q < end and by.ts[q] <= reached and by.ts[q] <= t + windows[s]:
                        if by.rank[by.arrival[q]] < by.rank[by.arrival[p]]:
                            lose(clocks, by, windows, g, s, p, j, q, grid, by_stream, by_hour, scratch)
                        q += 1


@inner
def lose(
    clocks: Clocks, by: Grouped, windows: Words, g: int, s: int, p: int, newest: int, q: int, grid: Words,
    by_stream: Words, by_hour: Words, scratch: Words,
) -> None:  # fmt: skip
    """The results with tuple p of stream s as the last member released, and q of stream `newest` as the newest."""
    t = by.ts[q]
    rank, event = by.rank[by.arrival[p]], by.event[by.arrival[p]]
    together = by.ts[p] == t or (not clocks.each and by.event[by.arrival[q]] == event)
    all_of_them, apart = 1, 1
    for j in range(len(windows)):
        if j in (s, newest):
            continue
        at = lower_bound(by.ts, by.begin[g, j], by.end[g, j], t - windows[j])
        count, tied = 0, 0
        while at < by.end[g, j] and is_older(by.ts[at], j, t, newest):
            if by.rank[by.arrival[at]] < rank:
                count += 1
                # What came in the same epoch at the watermark itself is joined when it ends.
                tied += 1 if by.ts[at] == t and not clocks.each and by.event[by.arrival[at]] == event else 0
            at += 1
        all_of_them *= count
        apart *= count - tied
        if all_of_them == 0:
            return
    if together:
        apart = 0
    if all_of_them > apart:
        put(clocks, by, s, p, q, t, True, all_of_them - apart, grid, by_stream, by_hour)
    if apart > 0:
        put(clocks, by, s, p, q, t, False, apart, grid, by_stream, by_hour)


@inner
def put(
    clocks: Clocks, by: Grouped, s: int, p: int, q: int, t: int, passed: bool, count: int, grid: Words,
    by_stream: Words, by_hour: Words,
) -> None:  # fmt: skip
    """Count results by their least slack."""
    least = least_slack(clocks, by.event[by.arrival[p]], t, passed, by.first, by.arrival[q])
    if least > 0:
        at = points_below(grid, least)
        by_stream[s, at] += count
        by_hour[t // HOUR % HOURS, at] += count


@inner
def lower_bound(ts: Words, low: int, high: int, time: int) -> int:
    """The first position from `low` on whose time is not before `time`."""
    while low < high:
        middle = (low + high) >> 1
        if ts[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def count_dropped(by: Grouped, windows: Words, slack: Words, grid: Words, by_stream: Words, by_hour: Words) -> None:
    """Joins of two streams whose late rows are dropped: a pair is lost with less slack than the later of both needs."""
    for g in range(by.begin.shape[0]):
        for s in range(2):
            j = 1 - s
            low = by.begin[g, j]
            for p in range(by.begin[g, s], by.end[g, s]):
                t, least = by.ts[p], slack[p]
                while low < by.end[g, j] and by.ts[low] < t - windows[j]:
                    low += 1
                if least <= 0:
                    continue
                point = points_below(grid, least)
                q = low
                while q < by.end[g, j] and by.ts[q] <= t + windows[s]:
                    if slack[q] < least or (slack[q] == least and s > j):
                        by_stream[s, point] += 1
                        by_hour[max(t, by.ts[q]) // HOUR % HOURS, point] += 1
                    q += 1


AT_ONCE = 2048
"""Tuples that go into the kernel at once; their results are held together."""


@dataclass(frozen=True)
class EnumeratedJoin:
    """A join whose results are all made."""

    history: ArrivalHistory
    plan: PhysicalPlan
    codebook: Codebook

    def count(self, tally: Tally, dropped: Tally | None = None, below: Words | None = None) -> None:
        """Count all results, and those that slacks lose; where rows are dropped, by the slack below which each is."""
        history = self.history
        first = np.zeros((max(1, history.streams), 1), np.int64)
        for members in self.results():
            count_results(
                history.clocks, members, history.ts, history.rank, history.event, history.reached, tally.grid,
                tally.by_stream, tally.by_hour, tally.true_by_hour, tally.made, first,
            )  # fmt: skip
            if dropped is not None and below is not None:
                of_members = below[members]
                hour = history.ts[members].max(axis=0) // HOUR % HOURS
                dropped.note(of_members.max(axis=0), np.argmax(of_members, axis=0), hour)
        if dropped is not None:
            dropped.true_by_hour[:] = tally.true_by_hour

    def results(self) -> Iterator[Words]:
        """The members of all true results, shape (streams, results), by their numbers in the history."""
        batch, plan = self.history.batch, replace(self.plan, quality=NoWait())
        mine = np.flatnonzero(batch.passes)
        order = mine[np.lexsort((mine, batch.ts[mine]))]
        words = np.ascontiguousarray(batch.words[:, order])
        words[ROW] = order
        sorted_ = Batch(batch.stream[order], words, np.ones(len(order), np.bool_))
        kernel = query_for(plan, Epochs(tuples=AT_ONCE), self.codebook)
        columns = [plan.emitted.index((stream, IDENTITY)) for stream in range(self.history.streams)]
        batches = (sorted_.take(slice(at, at + AT_ONCE)) for at in range(0, len(order), AT_ONCE))
        for emission in with_results(Driver(kernel).run(batches)):
            yield np.stack([emission.columns[column] for column in columns])


@in_place
def count_results(
    clocks: Clocks, members: Words, ts: Words, rank: Words, event: Words, reached: Words, grid: Words,
    by_stream: Words, by_hour: Words, true_by_hour: Words, made: Words, first: Words,
) -> None:  # fmt: skip
    """Count results, given their members, by the least slack of each."""
    m = members.shape[0]
    for i in range(members.shape[1]):
        newest, last = 0, 0
        for s in range(1, m):
            newest = s if ts[members[s, i]] >= ts[members[newest, i]] else newest
            last = s if rank[members[s, i]] > rank[members[last, i]] else last
        released, t = members[last, i], ts[members[newest, i]]
        hour = t // HOUR % HOURS
        true_by_hour[hour] += 1
        made[members[newest, i]] += 1
        if reached[released] < t:
            continue
        # A member with the newest time that is released with the last one is in time if the watermark is just there.
        passed = ts[released] == t
        for s in range(m if not clocks.each else 0):
            passed = passed or (ts[members[s, i]] == t and event[members[s, i]] == event[released])
        for k in range(len(clocks.begins) - 1):
            first[k, 0] = first_at(clocks, k, t)
        least = least_slack(clocks, event[released], t, passed, first, 0)
        if least > 0:
            at = points_below(grid, least)
            by_stream[last, at] += 1
            by_hour[hour, at] += 1
