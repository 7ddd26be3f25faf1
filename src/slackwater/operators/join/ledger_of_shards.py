"""The ledgers of all shards of a query as one: what each has booked in a micro-batch is added up in every shard.

A period of the whole query is measured in the sums; one that counts in a shard alone would scatter more.

Invariant: once the reports of a micro-batch are heard, the sums are the same in all shards, and they are those of one
ledger that had seen all of them. What has been booked since then is not in them yet. A period counts once it is settled
in every shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring
from slackwater.core.jit import in_place
from slackwater.core.quality import Recall
from slackwater.core.state import in_blocks, out_of_blocks
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.meters import Report
from slackwater.operators.join.ledger_loops import Periods, empty, ring_of, spoiled
from slackwater.operators.join.meter import ProbeStats, RecallMeter

BLOCK = 256
"""Buckets that are persisted together."""
COLUMNS = ("made", "lost", "expected", "most")
"""What stands in the buckets of a ledger."""
BUCKET, TIMES, FAR = "bucket", "times", "far"
"""In a report: numbers of buckets; the oldest event time that came, and the one up to which hardly any more will; the
results of all, and those lost to far tuples."""


class BooksPeriods(Protocol):
    """The ledger of one shard."""

    periods: Periods
    oldest: int
    """Of the tuples since this was set to AFTER_ALL."""
    settled: int
    """Up to this event time hardly anything is still to come."""

    @property
    def factor(self) -> float: ...
    def lost_to_far(self) -> tuple[float, float] | None: ...


@in_place
def add_buckets(periods: Periods, numbers: Words, made: Floats, lost: Floats, expected: Floats, most: Floats) -> None:
    """Add to buckets what a shard has booked; what falls into periods whose verdict is final is summed up."""
    for i in range(len(numbers)):
        at = ring.turn_to(empty, periods.number, periods, numbers[i])
        if at >= 0:
            periods.made[at] += made[i]
            periods.lost[at] += lost[i]
            periods.expected[at] += expected[i]
            periods.most[at] += most[i]
        final = spoiled(periods, numbers[i] * periods.width, 0)
        if final > 0 and (lost[i] != 0.0 or most[i] != 0.0):
            periods.beyond[0] += final
            periods.beyond[1] += final * lost[i]
            periods.beyond[2] += final * expected[i]


class LedgerOfShards:
    """The sum of the ledgers of all shards; `own` is that of this one."""

    def __init__(self, own: BooksPeriods, target: Recall, longest_window: int) -> None:
        self._own, self._target = own, target.target
        self._sums = ring_of(len(own.periods.number), own.periods.width)
        self._meter = RecallMeter(target.target, target.over, self._sums, longest_window)
        self._far = np.zeros(2)
        self._begin()

    def _begin(self) -> None:
        """A micro-batch begins: what this shard has booked so far is reported."""
        own = self._own
        self._before = own.periods.number.copy(), [getattr(own.periods, name).copy() for name in COLUMNS]
        self._far_before = np.array(own.lost_to_far() or (0.0, 0.0))
        own.oldest = AFTER_ALL

    def report(self) -> Report:
        """What this shard has booked since the last reports were heard."""
        own, (number, before) = self._own, self._before
        same = own.periods.number == number
        columns = (getattr(own.periods, name) for name in COLUMNS)
        news = np.array([np.where(same, now - then, now) for now, then in zip(columns, before, strict=True)])
        at = np.flatnonzero(news.any(axis=0))
        at = at[np.argsort(own.periods.number[at])]
        found: dict[str, npt.NDArray[Any]] = {
            BUCKET: own.periods.number[at], TIMES: np.array([own.oldest, own.settled]),
            FAR: np.array(own.lost_to_far() or (0.0, 0.0)) - self._far_before,
        }  # fmt: skip
        return found | {name: column[at] for name, column in zip(COLUMNS, news, strict=True)}

    def hear(self, reports: Sequence[Report]) -> None:
        """Add up what all shards have booked."""
        oldest = min((int(one[TIMES][0]) for one in reports), default=AFTER_ALL)
        if oldest < AFTER_ALL:
            self._meter.begin(oldest)
        newest = [int(one[BUCKET][-1]) for one in reports if len(one[BUCKET])]
        if newest:
            self._meter.reserve(max(newest) * self._sums.width, self._own.factor)
        for one in reports:
            add_buckets(self._sums, one[BUCKET], *(one[name] for name in COLUMNS))
            self._far += one[FAR]
        settled = min((int(one[TIMES][1]) for one in reports), default=BEFORE_ALL)
        if settled > BEFORE_ALL:
            self._meter.settle(settled)
        self._begin()

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Made and lost between each edge and the next."""
        return ring.sums_between(self._sums.number, edges // self._sums.width, self._sums.made, self._sums.lost)

    def lost_to_far(self) -> tuple[float, float] | None:
        """All results so far, and those of them lost to tuples that no slack allowed would have kept in time."""
        return None if self._own.lost_to_far() is None else (float(self._far[0]), float(self._far[1]))

    def of_all_shards(self) -> LedgerOfShards:
        """It is that."""
        return self

    def probe_stats(self) -> tuple[ProbeStats, tuple[float, float]]:
        """All periods that were measured, and what was made and lost in the latest one."""
        return self._meter.probe_stats(self._own.factor)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state but that of this shard's own ledger."""
        found = {FAR: self._far.copy(), "beyond": self._sums.beyond.copy(), "target": np.array([self._target])}
        found |= self._meter.as_arrays()
        for name in ("number", *COLUMNS):
            found |= in_blocks(name, getattr(self._sums, name), BLOCK)
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave; periods are counted anew where another share is asked for now. What the own
        ledger has then is known when the next reports are heard."""
        self._far[:], self._sums.beyond[:] = arrays[FAR], arrays["beyond"]
        for name in ("number", *COLUMNS):
            out_of_blocks(name, getattr(self._sums, name), BLOCK, arrays)
        self._meter.restore(arrays)
        if float(arrays["target"][0]) != self._target:
            self._meter.count_anew()


def measured_periods(
    own: RecallMeter, of_shards: LedgerOfShards | None, factor: float
) -> tuple[ProbeStats, tuple[float, float]]:
    """All periods that were measured, and what was made and lost in the latest one: those of all shards, as soon as
    there are some."""
    if of_shards is not None:
        found = of_shards.probe_stats()
        if found[0].periods:
            return found
    return own.probe_stats(factor)
