"""The ledger of a join: it keeps what was processed for longer than the windows do, and counts what late tuples lost.

Invariant: a bucket that is still in the ledger has exact numbers for everything that was counted in full; what came
later than the retention reaches is there as an estimate and a bound. Totals of the whole run are kept beside the
buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.measured import RESULTS, MeasuredQuality
from slackwater.core.state import NOTHING
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import Condition
from slackwater.operators.join.ledger_loops import settle
from slackwater.operators.join.loop import OVERFLOW
from slackwater.operators.join.probing import INDEX, SCAN, classes_of, first_plan
from slackwater.operators.join.retention import Retention
from slackwater.operators.join.search import probes_of, search_space
from slackwater.operators.join.store import WindowStore
from slackwater.operators.join.unordered_probe import reach_of
from slackwater.quality.ledger.awaited import Awaited
from slackwater.quality.ledger.estimates import Estimates
from slackwater.quality.ledger.ledger import PeriodLedger
from slackwater.quality.ledger.periods import note_made

if TYPE_CHECKING:
    from slackwater.operators.join.operator import WindowJoin


class JoinLedger(PeriodLedger):
    """Keeps what was processed for longer than the windows do, and counts with them what late tuples have lost.

    Where the retention is automatic it is `retention` at least.
    """

    def __init__(
        self,
        join: WindowJoin,
        condition: Condition,
        terms: LedgerTerms,
        width: int,
        buckets: int,
        count_all_results: bool = False,
    ) -> None:
        windows, most = np.array(join.windows, np.int64), join.most
        super().__init__(terms.target, buckets, width, max(join.windows, default=0))
        plan = first_plan(join.linkage(count_only=True, in_order=False))
        self._condition, self._windows = condition, windows
        self._count_all_results = count_all_results
        """Whether the results are made by others, so that every tuple is counted: results that are made count as lost
        before, or after, and must be taken off again."""
        self._probes = probes_of(plan, windows, most, count_only=True)
        self._store = WindowStore(len(windows), join.rows, plan.indexes)
        scanning = bool(np.any(plan.steps[:, :, INDEX] == SCAN))
        self._retention = Retention(terms.retention, terms.automatic, scanning)
        self._reach = reach_of(len(windows))
        self._watermark = BEFORE_ALL
        self._estimates = Estimates(classes_of(join.equalities), windows, most, self._retention.lateness)
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

    @property
    def kept_since(self) -> Words:
        """Per stream, the event time from which on tuples are needed."""
        return np.asarray(self._retention.known - self._windows)

    def take(self, run: OrderedBatch) -> Floats:
        """Note a run; returns how many results each of its tuples has lost, or would have where all are counted."""
        self._retention.move(self._store, self._watermark, self._windows)
        self._store.reserve(np.bincount(run.stream, minlength=len(self._windows)), self.kept_since)
        new = run.tuples.contiguous()
        windows = self._store.windows
        lost_results = np.zeros(len(run))
        if len(run):
            self.begin(max(int(run.ts.min()), self._estimates.arrays.begun))
            self.reserve(int(run.ts.max()))
        known = np.array([self._retention.known])
        status = settle(
            self._condition.addresses[1], self._probes, new,
            (run.delay > self.far[0]) & (run.delay <= self.far[1]), lost_results, windows,
            search_space(len(self._windows), windows.words.shape[1]), self._reach, self.periods,
            self._estimates.arrays, known, self._retention.while_running, self._count_all_results,
        )  # fmt: skip
        self._retention.known = int(known[0])
        if status == OVERFLOW:
            raise self._condition.failure()
        self._total[1] += lost_results.sum()
        self._watermark = max(self._watermark, run.watermark)
        self._estimates.forget()
        self.settle(run.max_ts if run.ended else self._settles_at)
        return lost_results

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

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        self.take(raw)

    def made(self, ts: Words, multiplicity: Words | None) -> None:
        """Note results that were made."""
        count = len(ts) if multiplicity is None else multiplicity.sum()
        self._total += (count, -count if self._count_all_results else 0)
        if len(ts):
            self.reserve(int(ts.max()))
        note_made(self.periods, ts, NOTHING if multiplicity is None else multiplicity, self._count_all_results)

    def put_back(self, stream: int, words: Words) -> None:
        """Note tuples again that were processed before a restart."""
        words = words[:, words[TS] >= self.kept_since[stream]]
        self._store.put_back(stream, words, self.kept_since)
        if self._begins:
            self._estimates.note_all(stream, words)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The ledger without the tuples, which are persisted with the windows."""
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

    def lost_to_far(self) -> tuple[float, float]:
        """Results since the beginning, made or lost; and those lost to tuples that are `far`. Estimates are in both."""
        factor = self.factor
        return float(self._total.sum()) + self._estimates.lost(factor)[1], self._estimates.lost_to_far(factor)
