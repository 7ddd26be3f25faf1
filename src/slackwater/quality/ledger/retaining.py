"""A ledger that keeps what was processed, and counts with it what late tuples have lost.

Invariant: a bucket that is still in the ledger has exact numbers for everything that was counted in full; what came
later than the retention reaches is there as an estimate and a bound. Totals of the whole run are kept beside the
buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Flags, Words
from slackwater.core.measured import RESULTS, MeasuredQuality
from slackwater.core.state import NOTHING
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.quality.ledger.awaited import Awaited
from slackwater.quality.ledger.estimates import Estimates
from slackwater.quality.ledger.ledger import PeriodLedger
from slackwater.quality.ledger.periods import note_made
from slackwater.quality.ledger.retention import Retention


class RetainingLedger(PeriodLedger):
    """What is the same whatever late tuples are joined with. Where the retention is automatic it is as long as terms
    say at least. `longest_window`: by how much a result may be later than a member of it."""

    _counts_all = False
    """Whether the results are made by others, so that every tuple is counted: results that are made count as lost
    before, or after, and must be taken off again."""

    def __init__(
        self, terms: LedgerTerms, width: int, buckets: int, longest_window: int, estimates: Estimates,
        retention: Retention,
    ) -> None:  # fmt: skip
        super().__init__(terms.target, buckets, width, longest_window)
        self._estimates, self._retention = estimates, retention
        self._watermark = BEFORE_ALL
        self.far = terms.far or (AFTER_ALL, AFTER_ALL)
        """Delays of tuples whose losses are summed up by itself: more than the first, up to the second."""
        self._begins = False
        """Whether tuples that are put back are new to the synopsis, because no ledger was kept before."""
        self._total = np.zeros(2)
        """Results made and lost since the beginning."""
        self._awaited = Awaited()

    @property
    def unknown(self) -> int:
        """Late tuples that came after some of what they could have been joined with was forgotten."""
        return self._estimates.unknown

    def _begin_run(self, run: OrderedBatch) -> None:
        """The tuples of a run are about to be counted."""
        if len(run):
            self.begin(max(int(run.ts.min()), self._estimates.arrays.begun))
            self.reserve(int(run.ts.max()))

    def _is_far(self, run: OrderedBatch) -> Flags:
        return np.asarray((run.delay > self.far[0]) & (run.delay <= self.far[1]))

    def _end_run(self, run: OrderedBatch) -> None:
        """They have been counted."""
        self._watermark = max(self._watermark, run.watermark)
        self._estimates.forget()
        self.settle(run.max_ts if run.ended else self._settles_at)

    @property
    def _settles_at(self) -> int:
        """The event time before which hardly anything is still to come."""
        return max(self._watermark, BEFORE_ALL) - self._retention.settling

    @property
    def factor(self) -> float:
        return self._estimates.factor(float(self._total[0]))

    def measured(self) -> MeasuredQuality:
        """The recall of all results so far."""
        made, lost = self._total.tolist()
        most, likely = self._estimates.lost(self.factor)
        # Where every tuple is counted and some are not known in full, more may have been made than was found.
        bad = max(0.0, lost)
        counts, latest = self.counts()
        since = None if self._watermark in (AFTER_ALL, BEFORE_ALL) else self._settles_at
        return MeasuredQuality(
            RESULTS, self.target.target, made, bad, self.unknown, max(0.0, lost + most - bad),
            round(counts.periods), round(counts.met), *latest, provisional_from=since,
            estimated=max(0.0, lost + likely - bad), surely_met=round(counts.surely_met),
            most_periods=round(counts.most_periods), perhaps_met=round(counts.perhaps_met),
            fewest_periods=round(counts.fewest_periods), retention=self._retention.in_force,
            retained_by=self._retention.why, expected=0.0 if since is None else self._expected(made),
        )  # fmt: skip

    def _expected(self, made: float) -> float | None:
        """How many more corrections late tuples will probably bring."""
        middles = self.periods.number * self.periods.width + self.periods.width // 2
        return self._awaited.expected(self.periods.made, self._watermark - middles, made)

    def amended(self, ts: Words, watermark: Words) -> None:
        self._awaited.note(watermark - ts)

    def emitted(self, ts: Words, multiplicity: Words | None, by: Words) -> None:
        self.made(ts, multiplicity)

    def made(self, ts: Words, multiplicity: Words | None) -> None:
        """Note results that were made."""
        count = len(ts) if multiplicity is None else multiplicity.sum()
        self._total += (count, -count if self._counts_all else 0)
        if len(ts):
            self.reserve(int(ts.max()))
        note_made(self.periods, ts, NOTHING if multiplicity is None else multiplicity, self._counts_all)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The ledger without the tuples."""
        own = {"watermark": np.array([self._watermark]), "total": self._total, "awaited": self._awaited.by_age}
        return super().as_arrays() | own | self._estimates.as_arrays() | self._retention.as_arrays()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        super().restore(arrays, same_target)
        self._watermark, self._total[:] = int(arrays["watermark"][0]), arrays["total"]
        self._awaited.by_age[:] = arrays["awaited"]
        self._estimates.restore(arrays)
        self._retention.restore(arrays)

    def begin_at(self, watermark: int, clock: int) -> None:
        """Begin in the middle of a run, in which no ledger was kept so far: what is before is not asked about."""
        self._retention.known = max(self._retention.known, watermark)
        self._estimates.begin_at(watermark)
        self._begins = True

    hears_history = True

    def begin_behind_history(self, watermark: int, clock: int) -> None:
        """The tuples stay; what they have made is the history's."""
        self.forget()
        self._total[:] = 0
        self._estimates.begin_at(watermark)

    def lost_to_far(self) -> tuple[float, float]:
        """Results since the beginning, made or lost; and those lost to tuples that are `far`. Estimates are in both."""
        factor = self.factor
        return float(self._total.sum()) + self._estimates.lost(factor)[1], self._estimates.lost_to_far(factor)
