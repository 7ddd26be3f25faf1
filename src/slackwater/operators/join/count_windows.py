"""The window join where some windows count tuples: the last n of a stream, whatever their age.

Invariant: a member of a stream whose window counts is among its n newest tuples in processing order at the moment the
newest member of the result is processed. A late tuple enters no such window and triggers nothing: put in by its event
time it would push a tuple out of every window after it, results that are out already among them.

Tuples of a region stand in processing order, so what a new tuple pushes out of its window is the first of the region,
and the oldest in each of its chains. Event times bound nothing, so the window in time is as long as time is.

References: 004 §2.1.2 (count-based windows).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.expressions.compile import refine_at, refine_listed_at
from slackwater.operators.join.loop import ENTERS, PASSES_BY, place_probe_insert
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.policy import Eviction, WindowPolicy
from slackwater.operators.join.probe import admit, probe_and_count
from slackwater.operators.join.probe_stats import ProbeStats
from slackwater.operators.join.probe_steps import Refine
from slackwater.operators.join.rates import NOW, WITHIN, Sampling, look, no_sampling, receive
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import (
    BEGIN,
    END,
    OF_STREAM,
    Windows,
    WindowStore,
    begin_with,
    find_bucket,
    index_key,
    insert,
    place,
    unlink_oldest,
)

EVER = 2**61
"""The window in time of a stream whose window counts tuples."""
BY_TIME = 0
"""In place of a number of tuples: the window of this stream is one of time."""


@dataclass(frozen=True)
class RowWindows(WindowPolicy):
    """`last` says of every stream how many tuples its window holds; BY_TIME where it is one of time."""

    last: tuple[int, ...]

    def check(self, windows: tuple[int, ...], graph: WindowGraph | None) -> None:
        assert graph is None, "windows between pairs of streams are of time"
        assert all(n == BY_TIME or window == EVER for n, window in zip(self.last, windows, strict=True))

    @property
    def one_shard(self) -> str:
        return "windows that count tuples count those of all keys"

    def eviction(self, streams: int) -> Eviction:
        return RowEviction(no_sampling(np.array(self.last, np.int64)))


def by_rows(join: WindowJoin, last: tuple[int, ...]) -> WindowJoin:
    """The same join with windows that count, where `last` has a number of tuples.

    >>> by_rows(WindowJoin((5, 0), (), (), (), (), 2), (BY_TIME, 10)).windows == (5, EVER)
    True
    """
    windows = tuple(EVER if n != BY_TIME else size for n, size in zip(last, join.windows, strict=True))
    return replace(join, windows=windows, policy=RowWindows(last))


class JoiningRows(NamedTuple):
    """What the loop works on: that of `Joining`, and what says how many tuples windows hold."""

    refine: Refine
    refine_listed: Refine
    plan: Probes
    w: Windows
    search: Search
    probe_stats: ProbeStats
    out: Words
    counts: Words
    rates: Sampling


@in_place
def join_rows_run(
    conditions: tuple[int, int], plan: Probes, rates: Sampling, new: OrderedTuples, begin: int, w: Windows,
    search: Search, probe_stats: ProbeStats, out: Words, counts: Words,
) -> tuple[int, int, int]:  # fmt: skip
    """As `join_run`, where a stream with a number in `rates.sizes` keeps so many tuples, none of them late."""
    refine, refine_listed = refine_at(conditions[0]), refine_listed_at(conditions[1])
    job = JoiningRows(refine, refine_listed, plan, w, search, probe_stats, out, counts, rates)
    search.written[0] = 0
    done, status = place_probe_insert(place, insert, admit_row, probe_and_count, push_out_one, job, new, begin)
    return done, search.written[0], status


@inner
def admit_row(job: JoiningRows, new: OrderedTuples, i: int) -> int:
    """As for any join; but no late tuple enters a window that counts, and time moves windows that follow rates."""
    fate = admit(job, new, i)
    if fate == ENTERS and job.rates.sizes[new.stream[i]] != BY_TIME:
        return PASSES_BY
    if fate > PASSES_BY and job.rates.on and new.words[TS, i] > job.rates.state[NOW]:
        move_on(job.plan, job.w, job.rates, new.words[TS, i], new.emit_time[i])
    return fate


@inner
def push_out_one(job: JoiningRows, new: OrderedTuples, i: int, fate: int) -> None:
    """What has entered pushes another out of its window, where that has a number."""
    s = new.stream[i]
    if fate == PASSES_BY:
        return
    if job.rates.on:
        receive(job.rates, s, new.words[TS, i])
    elif job.rates.sizes[s] != BY_TIME:
        evict(job.w, s, job.rates.sizes[s])


@inner
def move_on(plan: Probes, w: Windows, rates: Sampling, ts: int, emit_time: int) -> None:
    """Time moves on: what is in force is looked at anew, and windows that follow rates let go what is too much."""
    if look(rates, ts, emit_time):
        plan.most[0, 1] = plan.most[1, 0] = rates.state[WITHIN]
    rates.state[NOW] = ts
    for t in range(len(rates.sizes)):
        evict_beyond(w, t, rates.sizes[t])


@inner
def evict_beyond(w: Windows, s: int, size: int) -> None:
    """Of stream s only the last tuples stay in the window, and those of the same time as the first of these."""
    first = w.regions[s, END] - size
    if first > w.regions[s, BEGIN] and w.words[TS, w.regions[s, BEGIN]] == w.words[TS, first]:
        # All of these stay; they need not be gone through again whenever time moves on.
        return
    while first > w.regions[s, BEGIN] and w.words[TS, first - 1] == w.words[TS, first]:
        first -= 1
    evict(w, s, w.regions[s, END] - first)


@in_place
def evict(w: Windows, s: int, last: int) -> None:
    """Of stream s only the last tuples stay in the window."""
    while w.regions[s, END] - w.regions[s, BEGIN] > last:
        slot = w.regions[s, BEGIN]
        for x in range(len(w.indexes)):
            if w.indexes[x, OF_STREAM] != s:
                continue
            key = index_key(w, x, slot)
            if key != NULL_WORD:
                b = find_bucket(w, x, key)
                begin_with(w, x, b, unlink_oldest(w, x, b, slot))
        w.regions[s, BEGIN] += 1


class RowEviction(Eviction):
    """A tuple leaves a window when so many others have entered it."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(len(sampling.sizes))
        self._sampling = sampling
        self.counts = sampling.sizes != BY_TIME

    def join(
        self, conditions: tuple[int, int], probes: Probes, new: OrderedTuples, begin: int, store: WindowStore,
        search: Search, probe_stats: ProbeStats, out: Words, counts: Words,
    ) -> tuple[int, int, int]:  # fmt: skip
        return join_rows_run(
            conditions, probes, self._sampling, new, begin, store.windows, search, probe_stats, out, counts
        )

    def put_back(self, store: WindowStore, stream: int, words: Words, horizons: Words) -> None:
        super().put_back(store, stream, words, horizons)
        if self.counts[stream]:
            evict(store.windows, stream, int(self._sampling.sizes[stream]))
