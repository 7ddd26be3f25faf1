"""A ledger: results made and results lost, by periods, and how many periods met the target.

How losses are found is for whoever keeps one. A join counts what late tuples could have been joined with, the rows of a
graph are compared with those that should be there, and the ledger of all shards adds up what each has noted.

A period of a query that runs in several shards is measured in the sum of their ledgers; one that counts in a shard
alone would scatter more.

Invariant: made + lost = true results, in every bucket that the ring still has, but for what is only estimated. Once the
reports of a micro-batch are heard, sums are the same in all shards, and they are those of one ledger that had seen all
of them; what has been noted since then is not in them yet. A period counts once it is settled in every shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring
from slackwater.core.quality import Recall
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.meters import Ledger, Report, SharedLedger
from slackwater.quality.ledger import periods as periods_
from slackwater.quality.ledger.meter import PeriodCounts, PeriodMeter
from slackwater.quality.ledger.periods import COLUMNS, add_buckets, no_periods

BUCKET, TIMES, FAR, AGES = "bucket", "times", "far", "ages"
"""In a report: numbers of buckets; the oldest event time that came, and the one up to which hardly any more will; the
results of all, and those lost to far tuples; the ages of members, summed up, and how many."""


class PeriodLedger(Ledger):
    """The ring of a ledger and its meter."""

    def __init__(self, target: Recall, buckets: int, width: int, longest_window: int) -> None:
        self.periods = no_periods(buckets, width)
        self.target, self.longest_window = target, longest_window
        self._meter = PeriodMeter(target.target, target.over, self.periods, longest_window)
        self.shared: LedgerOfShards | None = None
        """That of all shards, where there are several."""
        self.oldest = AFTER_ALL
        """The oldest tuple since this was set so."""
        self.settled = BEFORE_ALL
        """Up to this event time hardly anything is still to come."""

    @property
    def factor(self) -> float:
        """What a result is worth that a synopsis expects; 0 where there is none."""
        return 0.0

    def forget(self) -> None:
        """Nothing that was noted so far counts."""
        own = self.periods
        for name in COLUMNS:
            getattr(own, name)[:] = 0
        own.number[:], own.beyond[:], own.final[[0, 2]] = ring.NEVER, 0, ring.NEVER
        self._meter = PeriodMeter(self.target.target, self.target.over, own, self.longest_window)
        self.oldest, self.settled = AFTER_ALL, BEFORE_ALL
        if self.shared is not None:
            self.shared.begin_micro_batch()

    def begin(self, oldest: int) -> None:
        """There is a tuple of this event time."""
        self.oldest = min(self.oldest, oldest)
        self._meter.begin(oldest)

    def reserve(self, newest: int) -> None:
        """Something is to be noted for this event time."""
        self._meter.reserve(newest, self.factor)

    def settle(self, settled: int) -> None:
        """Up to this event time hardly anything is still to come."""
        self.settled = settled
        self._meter.settle(settled)

    def counts(self) -> tuple[PeriodCounts, tuple[float, float]]:
        """All periods that were measured, and what was made and lost in the latest one: those of all shards, as soon as
        there are some."""
        if self.shared is not None:
            found = self.shared.counts()
            if found[0].periods:
                return found
        return self._meter.counts(self.factor)

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Results made and results lost between one edge and the next: timestamps in [edge, next), whole buckets.

        Edges are ascending; what is too old to be in the ledger counts as nothing.
        """
        return ring.sums_between(self.periods.number, edges // self.periods.width, self.periods.made, self.periods.lost)

    def false_between(self, edges: Words) -> Floats:
        """Rows that left and were not true, likewise."""
        own = self.periods
        return ring.sums_between(own.number, edges // own.width, own.false, own.lost)[0]

    def lost_to_far(self) -> tuple[float, float] | None:
        return None

    def of_all_shards(self) -> LedgerOfShards:
        self.shared = LedgerOfShards(self)
        return self.shared

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The ring and what its meter has counted."""
        own = {"target": np.array([self.target.target])}
        return periods_.as_arrays(self.periods) | self._meter.as_arrays() | own

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        """Take over what `as_arrays` gave; periods are counted anew where another share is asked for now."""
        periods_.restore(self.periods, arrays)
        self._meter.restore(arrays)
        if not same_target or float(arrays["target"][0]) != self.target.target:
            self._meter.count_anew()


class LedgerOfShards(PeriodLedger, SharedLedger):
    """The sum of the ledgers of all shards; `own` is that of this one."""

    def __init__(self, own: PeriodLedger) -> None:
        super().__init__(own.target, len(own.periods.number), own.periods.width, own.longest_window)
        self._own = own
        self._far, self._ages = np.zeros(2), np.zeros(2)
        self.begin_micro_batch()

    def begin_micro_batch(self) -> None:
        """What this shard has noted so far is reported, or counts for nothing."""
        own = self._own
        self._before = own.periods.number.copy(), [getattr(own.periods, name).copy() for name in COLUMNS]
        self._far_before = np.array(own.lost_to_far() or (0.0, 0.0))
        self._ages_before = np.array(own.ages() or (0.0, 0.0))
        own.oldest = AFTER_ALL

    @property
    def factor(self) -> float:
        return self._own.factor

    def report(self) -> Report:
        """What this shard has noted since the last reports were heard."""
        own, (number, before) = self._own, self._before
        same = own.periods.number == number
        columns = (getattr(own.periods, name) for name in COLUMNS)
        news = np.array([np.where(same, now - then, now) for now, then in zip(columns, before, strict=True)])
        at = np.flatnonzero(news.any(axis=0))
        at = at[np.argsort(own.periods.number[at])]
        found: dict[str, npt.NDArray[Any]] = {
            BUCKET: own.periods.number[at], TIMES: np.array([own.oldest, own.settled]),
            FAR: np.array(own.lost_to_far() or (0.0, 0.0)) - self._far_before,
            AGES: np.array(own.ages() or (0.0, 0.0)) - self._ages_before,
        }  # fmt: skip
        return found | {name: column[at] for name, column in zip(COLUMNS, news, strict=True)}

    def hear(self, reports: Sequence[Report]) -> None:
        """Add up what all shards have noted."""
        oldest = min((int(one[TIMES][0]) for one in reports), default=AFTER_ALL)
        if oldest < AFTER_ALL:
            self.begin(oldest)
        newest = [int(one[BUCKET][-1]) for one in reports if len(one[BUCKET])]
        if newest:
            self.reserve(max(newest) * self.periods.width)
        for one in reports:
            add_buckets(self.periods, one[BUCKET], *(one[name] for name in COLUMNS))
            self._far += one[FAR]
            self._ages += one[AGES]
        settled = min((int(one[TIMES][1]) for one in reports), default=BEFORE_ALL)
        if settled > BEFORE_ALL:
            self.settle(settled)
        self.begin_micro_batch()

    def lost_to_far(self) -> tuple[float, float] | None:
        return None if self._own.lost_to_far() is None else (float(self._far[0]), float(self._far[1]))

    def ages(self) -> tuple[float, float] | None:
        return None if self._own.ages() is None else (float(self._ages[0]), float(self._ages[1]))

    def of_all_shards(self) -> LedgerOfShards:
        return self

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state but that of this shard's own ledger, which is known when the next reports are heard."""
        return super().as_arrays() | {FAR: self._far, AGES: self._ages}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        super().restore(arrays, same_target)
        self._far[:], self._ages[:] = arrays[FAR], arrays[AGES]
