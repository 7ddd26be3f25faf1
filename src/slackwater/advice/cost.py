"""What a slack costs: how long results wait, and how many tuples are kept meanwhile.

A result of time T is emitted when the watermark reaches T, which is known from the clocks for every K. Latency is how
far the largest clock was beyond T by then, as in the report of a run; what only the end of the input releases is left
out. A tuple is held from its arrival until the watermark reaches it, and is in its window until the watermark is
beyond that too.

Invariant: sampled. At most SAMPLE results and tuples are looked at, evenly spread; all numbers are averages over
arrivals, and a peak is that of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.advice.arrivals import ArrivalHistory
from slackwater.core.batch import Flags, Words
from slackwater.core.time import AFTER_ALL

SAMPLE = 20_000
STEPS = 1 << 16
"""Into so many steps the run is divided."""


@dataclass(frozen=True)
class Cost:
    """What one slack costs."""

    latency: float | None
    """Microseconds of event time, on average over results; None: all of them wait for the end of the input."""
    held: float
    """Tuples that wait to be released, on average."""
    kept: float
    """The same and those in windows; of an aggregate, rows of open windows."""
    most_kept: int


class Watermarks:
    """When the watermark reaches a time, for any slack."""

    def __init__(self, history: ArrivalHistory) -> None:
        self._history = history
        clocks = history.clocks
        self._by_stream = clocks.each and not bool((clocks.clock == AFTER_ALL).any())
        self._slow = np.maximum.accumulate(history.slow) if len(history.slow) else history.slow
        if self._by_stream:
            self._columns = [np.ascontiguousarray(clocks.clock[1:, k]) for k in range(clocks.clock.shape[1])]

    @property
    def end(self) -> int:
        """Beyond all arrivals: what only the end of the input releases."""
        return len(self._history.batch)

    def reach(self, times: Words, slack: int) -> Words:
        """The arrival with which the watermark reaches each of these times; `end` where none does it."""
        return self._arrivals(self._readings(times, slack))

    def largest(self, times: Words, slack: int) -> tuple[Words, Flags]:
        """The largest clock then, and which of the times are reached before the end."""
        at = self._readings(times, slack)
        before = at < len(self._history.largest)
        return self._history.largest[np.minimum(at, len(self._history.largest) - 1)], before

    def _readings(self, times: Words, slack: int) -> Words:
        if not self._by_stream:
            return np.searchsorted(self._slow, times + slack, "left")
        clocks, found = self._history.clocks, np.zeros(len(times), np.int64)
        for k, column in enumerate(self._columns):
            low, high = clocks.begins[k], clocks.begins[k + 1]
            # A slack buffer releases tuples, not times: the watermark is at the first one that is not older.
            at = low + np.searchsorted(clocks.ts[low:high], times, "left")
            released = clocks.ts[np.minimum(at, len(clocks.ts) - 1)] + slack
            found = np.maximum(found, np.where(at < high, np.searchsorted(column, released, "left"), len(column)))
        return found

    def _arrivals(self, readings: Words) -> Words:
        last = np.append(self._history.last, self.end)
        return last[np.minimum(readings, len(last) - 1)]


class EvenSample:
    """Some of many numbers, and how many each of them represents."""

    def __init__(self, numbers: Words) -> None:
        self.at = numbers[:: max(1, -(-len(numbers) // SAMPLE))]
        self.share = len(numbers) / max(1, len(self.at))


class JoinCost:
    """What slacks cost a join whose results have these newest members."""

    def __init__(self, history: ArrivalHistory, made: Words, windows: Words) -> None:
        self._history, self._marks, self._windows = history, Watermarks(history), windows
        self._results, self._tuples = EvenSample(np.flatnonzero(made)), EvenSample(np.flatnonzero(history.passes))
        self._made = made[self._results.at]

    def of(self, slack: int) -> Cost:
        history, marks, tuples = self._history, self._marks, self._tuples.at
        latency = _latency(marks, history.ts[self._results.at], self._made, slack)
        times = history.ts[tuples]
        held = np.maximum(marks.reach(times, slack), tuples)
        gone = np.maximum(marks.reach(times + self._windows[history.stream[tuples]] + 1, slack), tuples)
        waited, _ = _kept(tuples, held, marks.end, self._tuples.share)
        average, most = _kept(tuples, gone, marks.end, self._tuples.share)
        return Cost(latency, waited, average, most)


class WindowCost:
    """What slacks cost an aggregate whose rows begin with these arrivals, and end at these times."""

    def __init__(self, history: ArrivalHistory, first: Words, ends: Words) -> None:
        self._history, self._marks = history, Watermarks(history)
        self._rows, self._tuples = EvenSample(np.arange(len(first))), EvenSample(np.flatnonzero(history.passes))
        self._first, self._ends = first[self._rows.at], ends[self._rows.at]

    def of(self, slack: int) -> Cost:
        history, marks, tuples = self._history, self._marks, self._tuples.at
        latency = _latency(marks, self._ends, np.ones(len(self._ends), np.int64), slack)
        gone = np.maximum(marks.reach(self._ends, slack), self._first)
        average, most = _kept(self._first, gone, marks.end, self._rows.share)
        held = 0.0
        if history.each:
            until = np.maximum(marks.reach(history.ts[tuples], slack), tuples)
            held, _ = _kept(tuples, until, marks.end, self._tuples.share)
        return Cost(latency, held, average, most)


def _latency(marks: Watermarks, times: Words, weights: Words, slack: int) -> float | None:
    if not len(times):
        return None
    largest, before = marks.largest(times, slack)
    if not before.any():
        return None
    return float(np.average((largest - times)[before], weights=weights[before]))


def _kept(begin: Words, end: Words, arrivals: int, share: float) -> tuple[float, int]:
    """How many are there on average, and at most, if each represents several."""
    if not len(begin):
        return 0.0, 0
    wide = -(-(arrivals + 1) // STEPS)
    count = arrivals // wide + 1
    steps = np.bincount(begin // wide, minlength=count) - np.bincount(end // wide, minlength=count)
    return float((end - begin).sum() / arrivals * share), round(int(np.cumsum(steps).max()) * share)
