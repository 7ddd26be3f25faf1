"""What Spark's own operators lose: they drop a row that is not newer than the watermark, whatever it would have joined.

In micro-batch n late rows are those behind the watermark of micro-batch n - 1: the largest event time up to micro-batch
n - 2, of the slowest stream, less the delay of `withWatermark`, in whole milliseconds. A join loses a
result when any of its rows is dropped; an aggregate leaves a row out of a window that ends at or before the watermark.

Invariant: clocks follow every row, as Spark's do: there is no clock guard, and one row from the future moves them. The
stream is taken to be busy: there is no micro-batch without rows between two others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.advice.arrivals import ArrivalHistory
from slackwater.core.batch import ROW, TS, Words
from slackwater.core.time import BEFORE_ALL, MILLISECOND
from slackwater.disorder.cutting import Epochs, epochs_by_span
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.replay import Replay


@dataclass(frozen=True)
class Dropping:
    """How far Spark's clock had come, for every arrival of a history."""

    reached: Words
    """The slowest stream's largest event time by which the arrival is judged; BEFORE_ALL: it is not."""
    most: int
    """A delay with which no row is dropped."""
    micro_batches: int

    @staticmethod
    def of(plan: PhysicalPlan, arrivals: Replay, epochs: Epochs, history: ArrivalHistory) -> Dropping:
        """By the micro-batches that recorded streams would have come in."""
        streams = len(arrivals.inputs)
        ts = np.empty(len(arrivals), np.int64)
        for s, one in enumerate(arrivals.inputs):
            mine = arrivals.stream == s
            ts[mine] = one.words[TS, arrivals.row[mine]]
        batch = _micro_batches(plan, arrivals, ts, epochs)
        reached = _judged_by(batch, arrivals.stream, ts, streams)
        by_row = [np.full(one.words.shape[1], BEFORE_ALL, np.int64) for one in arrivals.inputs]
        for s, rows in enumerate(by_row):
            mine = arrivals.stream == s
            rows[arrivals.row[mine]] = reached[batch[mine]]
        mine = np.empty(len(history.batch), np.int64)
        for s, rows in enumerate(by_row):
            here = history.stream == s
            mine[here] = rows[history.batch.words[ROW, here]]
        judged = history.passes & (mine > BEFORE_ALL)
        behind = (mine - history.ts)[judged]
        return Dropping(mine, max(0, int(behind.max(initial=0))) + 1, int(batch[-1]) + 1 if len(batch) else 0)

    def below(self, tuples: Words, times: Words) -> Words:
        """The delay below which each of these is dropped, if it must be newer than the watermark at a time."""
        reached = self.reached[tuples]
        return np.where(reached == BEFORE_ALL, 0, np.maximum(0, reached - times + 1))


def _micro_batches(plan: PhysicalPlan, arrivals: Replay, ts: Words, epochs: Epochs) -> Words:
    if epochs.tuples:
        return np.arange(len(ts)) // epochs.tuples
    known = np.empty(0, np.int64) if arrivals.arrival_time is None else arrivals.arrival_time
    return epochs_by_span(arrivals.stream, ts, known, len(arrivals.inputs), epochs.span, plan.options.max_ahead)


def _judged_by(batch: Words, stream: Words, ts: Words, streams: int) -> Words:
    """Per micro-batch, the slowest stream's largest event time up to two micro-batches before."""
    count = int(batch[-1]) + 1 if len(batch) else 0
    largest = np.full((streams, count), BEFORE_ALL, np.int64)
    np.maximum.at(largest, (stream, batch), ts)
    slowest = np.maximum.accumulate(largest, axis=1).min(axis=0)
    known = slowest > BEFORE_ALL
    slowest = np.where(known, slowest // MILLISECOND * MILLISECOND, BEFORE_ALL)
    return np.concatenate([np.full(min(2, count), BEFORE_ALL, np.int64), slowest[: max(0, count - 2)]])
