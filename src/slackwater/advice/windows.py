"""The curve of a window aggregate: the error of every window and group at every slack.

A tuple counts in a window unless the watermark it met had reached the window's end. So of every window and group the
tuples are put into the order of the slack that each of them needs there, and added one after the other by the engine's
own partial aggregates: the state after those that need at most K is the answer with slack K, and after all of
them the truth.

Invariant: exact but for rounding. Errors are those of `verify`: the worst of a row's aggregates, relative to the truth,
infinite where the row is not emitted. AggregateWindows are taken some at a time, so memory is bounded by PAIRS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from slackwater.advice.arrivals import ArrivalHistory, least_slacks
from slackwater.advice.tally import HOURS, numbered
from slackwater.core.batch import Flags, Floats, Words
from slackwater.core.jit import compiled
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.time import HOUR
from slackwater.language.bound import AggregateQuery
from slackwater.operators.aggregate.algebra import lower
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.partials import add, clear, program_for
from slackwater.sources.codebook import Codebook

PAIRS = 2_000_000
"""Pairs of a tuple and a window that are looked at at once, about."""
Needed = Callable[[Words, Words], Words]
SAME = 1e-9
"""Floats that differ by less, relatively, do so by rounding."""


@dataclass
class ErrorTally:
    """Rows of windows and groups by their error at every slack of a grid."""

    grid: Words
    bounds: tuple[float, ...]
    """Errors that may be asked for; the first is the one that is."""
    within: Words = field(init=False)
    """Shape (bounds, points + 1): how many more rows are within a bound from a point of the grid on."""
    by_hour: Words = field(init=False)
    """The same of the first bound, by the hour of day of the window's end."""
    emitted: Words = field(init=False)
    finite: Words = field(init=False)
    """Those emitted whose error is a number."""
    error: Floats = field(init=False)
    """The sum of finite errors, as it changes from point to point."""
    true_by_hour: Words = field(init=False)
    rows: list[tuple[Words, Words]] = field(default_factory=list)
    """Of every row, the first of its tuples to arrive and the window's end."""

    def __post_init__(self) -> None:
        points = len(self.grid) + 1
        self.within = np.zeros((len(self.bounds), points), np.int64)
        self.by_hour = np.zeros((HOURS, points), np.int64)
        self.emitted, self.finite = np.zeros((2, points), np.int64)
        self.error = np.zeros(points)
        self.true_by_hour = np.zeros(HOURS, np.int64)

    @property
    def true(self) -> int:
        return int(self.true_by_hour.sum())

    def note(self, begin: Words, end: Words, error: Floats, hour: Words) -> None:
        """Rows have these errors with slack from `begin` on, and less than `end`."""
        first, last = (np.searchsorted(self.grid, bound, "left") for bound in (begin, end))
        points = len(self.grid) + 1
        self.emitted += _steps(first, last, points)
        finite = np.isfinite(error)
        self.finite += _steps(first[finite], last[finite], points)
        self.error += np.bincount(first[finite], error[finite], points)
        self.error -= np.bincount(last[finite], error[finite], points)
        for number, bound in enumerate(self.bounds):
            good = error <= bound
            self.within[number] += _steps(first[good], last[good], points)
        good = error <= self.bounds[0]
        of_hour = hour[good] * points
        self.by_hour += _steps(of_hour + first[good], of_hour + last[good], self.by_hour.size).reshape(HOURS, -1)


def _steps(first: Words, last: Words, points: int) -> Words:
    return np.bincount(first, minlength=points) - np.bincount(last, minlength=points)


@dataclass(frozen=True)
class AggregateWindows:
    """A window aggregate over one history."""

    history: ArrivalHistory
    query: AggregateQuery
    spec: WindowAggregate
    codebook: Codebook

    def count(self, tally: ErrorTally, needed: Needed | None = None) -> None:
        """Find the error of every row at every slack; `needed` says which slack a tuple needs to be in a window."""
        needed = needed or self._needed
        program = program_for(self.spec.layout, self.codebook.table)
        words = np.ascontiguousarray(self.history.batch.words)
        for tuples, ends, group in self._pairs():
            slack = needed(tuples, ends)
            row, of_row = self._rows(ends, group)
            first = np.full(len(of_row), len(self.history.batch))
            np.minimum.at(first, row, tuples)
            hours = of_row // HOUR % HOURS
            tally.true_by_hour += np.bincount(hours, minlength=HOURS)
            tally.rows.append((first, of_row))
            loses = np.zeros(len(of_row), np.bool_)
            loses[row[slack > 0]] = True
            count = int(np.count_nonzero(~loses))
            never = np.full(count, int(tally.grid[-1]) + 1)
            tally.note(np.zeros(count, np.int64), never, np.zeros(count), hours[~loses])
            if loses.any():
                number = np.cumsum(loses) - 1
                some = loses[row]
                self._note_errors(
                    tally, program, words, tuples[some], slack[some], number[row[some]], hours[loses]
                )  # fmt: skip

    def _rows(self, ends: Words, group: Words) -> tuple[Words, Words]:
        """Which row, a window and a group, each pair belongs to, and where the windows of rows end."""
        groups = int(group.max()) + 1
        pair = (ends - ends.min()) // self.spec.grid.slide * groups + group
        if int(pair.max()) > 4 * len(pair):
            _, row = np.unique(pair, return_inverse=True)
        else:
            there = np.bincount(pair) > 0
            row = (np.cumsum(there) - 1)[pair]
        of_row = np.empty(int(row.max()) + 1, np.int64)
        of_row[row] = ends
        return row, of_row

    def _needed(self, tuples: Words, ends: Words) -> Words:
        """The least slack with which a tuple is in a window: most are in it without any."""
        history = self.history
        found = np.zeros(len(tuples), np.int64)
        late = np.flatnonzero(history.reached[tuples] >= ends)
        never = np.zeros(len(late), np.bool_)
        found[late] = least_slacks(history.clocks, history.event[tuples[late]], ends[late], never)
        return found

    def _note_errors(
        self, tally: ErrorTally, program: Words, words: Words, tuples: Words, slack: Words, row: Words, hours: Words
    ) -> None:  # fmt: skip
        """The errors of rows that lose something at some slack; those that are always there need no order."""
        always, width = slack == 0, self.spec.layout.width
        base = folded(program, words, tuples[always], row[always], len(hours), width)
        whole = np.bincount(row[always], minlength=len(hours)) > 0
        late = np.flatnonzero(~always)
        late = late[np.lexsort((tuples[late], slack[late], row[late]))]
        tuples, slack, row = tuples[late], slack[late], row[late]
        stops = np.append((row[1:] != row[:-1]) | (slack[1:] != slack[:-1]), True)
        states = running(program, words, tuples, row, stops, base)
        at = np.flatnonzero(stops)
        # What is always there comes before all that is not.
        which = np.concatenate([np.flatnonzero(whole), row[at]])
        begin = np.concatenate([np.zeros(np.count_nonzero(whole), np.int64), slack[at]])
        order = np.lexsort((begin, which))
        which, begin = which[order], begin[order]
        states = np.ascontiguousarray(np.concatenate([base[whole], states])[order])
        last = np.append(which[1:] != which[:-1], True)
        truth = np.flatnonzero(last)[np.cumsum(np.concatenate([[0], last[:-1]]))]
        error = np.zeros(len(which))
        for asked, aggregate in zip(self.query.aggregates, self.spec.aggregates, strict=True):
            found = lower(aggregate, self.spec.layout, states)
            np.maximum(error, errors(found, found[truth], asked.kind), out=error)
        end = np.append(begin[1:], 0)
        end[last] = int(tally.grid[-1]) + 1
        tally.note(begin, end, error, hours[which])

    def _pairs(self) -> Iterator[tuple[Words, Words, Words]]:
        """Tuples, the ends of windows that they belong to, and their groups, some windows at a time."""
        batch, size = self.history.batch, self.spec.range
        slide = self.spec.grid.slide
        mine = np.flatnonzero(batch.passes)
        group = numbered([batch.words[key] for key in self.spec.keys], len(batch))
        group = np.unique(group, return_inverse=True)[1] if self.spec.keys else group
        mine = mine[np.argsort(batch.ts[mine], kind="stable")]
        ts = batch.ts[mine]
        each = -(-size // slide)
        at_once = max(1, PAIRS // each)
        begin = 0
        first = int(ts[0]) // slide - each if len(ts) else 0
        while begin < len(ts):
            # Windows that begin up to here have all their tuples before some tuple.
            last = max(first, int(ts[min(begin + at_once, len(ts)) - 1]) // slide)
            low = int(np.searchsorted(ts, (first + 1) * slide, "left"))
            high = int(np.searchsorted(ts, last * slide + size, "left"))
            newest = ts[low:high] // slide
            for back in range(each):
                window = newest - back
                inside = (window > first) & (window <= last) & (ts[low:high] < window * slide + size)
                if back == 0:
                    found = []
                found.append((mine[low:high][inside], window[inside] * slide + size))
            tuples, ends = (np.concatenate(one) for one in zip(*found, strict=True))
            if len(tuples):
                yield tuples, ends, group[tuples]
            first = last
            begin = int(np.searchsorted(ts, (last + 1) * slide, "left"))


def errors(found: Words, truth: Words, kind: Kind) -> Floats:
    """|A - Â| / |A|, absolute where A = 0; infinite where only one of the two is a number.

    >>> errors(np.array([9, 3, NULL_WORD]), np.array([10, 0, 7]), Kind.INT).tolist()
    [0.1, 3.0, inf]
    """
    if kind in (Kind.TEXT, Kind.BOOL):
        return np.where(found == truth, 0.0, np.inf)
    if kind is Kind.FLOAT:
        given, right = (np.ascontiguousarray(one).view(np.float64) for one in (found, truth))
        known = (found != NULL_FLOAT) & (truth != NULL_FLOAT) & np.isfinite(given) & np.isfinite(right)
    else:
        given, right = found.astype(np.float64), truth.astype(np.float64)
        known = (found != NULL_WORD) & (truth != NULL_WORD)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(right - given) / np.where(right == 0, 1.0, np.abs(right))
    off = np.where(known, off, np.inf)
    return np.where((found == truth) | (off <= (SAME if kind is Kind.FLOAT else 0.0)), 0.0, off)


@compiled
def folded(program: Words, words: Words, tuples: Words, row: Words, rows: int, width: int) -> Words:
    """The partial aggregates of rows, of tuples in any order."""
    floats = words.view(np.float64)
    states = np.zeros((rows, width), np.int64)
    views = states.view(np.float64)
    for r in range(rows):
        clear(program, states, views, r, 0)
    for i in range(len(tuples)):
        add(program, states, views, row[i], 0, words, floats, tuples[i])
    return states


@compiled
def running(program: Words, words: Words, tuples: Words, row: Words, stops: Flags, base: Words) -> Words:
    """Partial aggregates as tuples are added to those of their rows, row by row; one line for
    every stop."""
    floats = words.view(np.float64)
    states = np.zeros((np.count_nonzero(stops), base.shape[1]), np.int64)
    views = states.view(np.float64)
    at = 0
    for i in range(len(tuples)):
        if i == 0 or row[i] != row[i - 1]:
            for w in range(base.shape[1]):
                states[at, w] = base[row[i], w]
        elif stops[i - 1]:
            for w in range(base.shape[1]):
                states[at, w] = states[at - 1, w]
        add(program, states, views, at, 0, words, floats, tuples[i])
        if stops[i]:
            at += 1
    return states
