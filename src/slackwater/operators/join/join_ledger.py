"""The ledger of a join: results made and results lost, by buckets of event time.

Invariant: a bucket that is still in the ledger has exact numbers for everything that was counted in full; what came
later than the retention reaches is there as an estimate and a bound. Totals of the whole run are kept beside the
buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.collections import ring
from slackwater.core.measured import RESULTS, MeasuredQuality
from slackwater.core.quality import Recall
from slackwater.core.state import NOTHING, in_blocks, out_of_blocks
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.meters import Ledger, LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import Condition
from slackwater.operators.join import synopsis
from slackwater.operators.join.ledger_loops import (
    COUNTED,
    EXPECTED,
    FORGET,
    LOOKED_AT,
    LOST_RESULTS,
    MAKING,
    MOST,
    OF_COUNTED,
    OF_LOOKED_AT,
    Estimating,
    note_made,
    ring_of,
    settle,
)
from slackwater.operators.join.ledger_of_shards import LedgerOfShards, measured_periods
from slackwater.operators.join.loop import OVERFLOW
from slackwater.operators.join.meter import RecallMeter
from slackwater.operators.join.probing import INDEX, SCAN, Equality, ProbePlan
from slackwater.operators.join.retention import Retention
from slackwater.operators.join.search import Arriving, probes_of, search_space
from slackwater.operators.join.store import WindowStore
from slackwater.operators.join.unordered_probe import reach_of

BLOCK = 256
"""Buckets that are persisted together."""
TRUSTED = 32
"""So many late tuples whose losses are known say as much about others as all results that were made."""


class Remembered(Protocol):
    """Who wants a join's tuples to be persisted for longer than its windows need them, and to have them back."""

    @property
    def kept_since(self) -> Words: ...
    def put_back(self, stream: int, words: Words) -> None: ...


class JoinLedger(Ledger):
    """Keeps what was processed for longer than the windows do, and counts with them what late tuples have lost.

    Where the retention is automatic it is `retention` at least.
    """

    def __init__(
        self,
        plan: ProbePlan,
        equalities: tuple[Equality, ...],
        windows: Words,
        most: Words | None,
        rows: int,
        condition: Condition,
        retention: int,
        width: int,
        buckets: int,
        count_all_results: bool = False,
        target: Recall | None = None,
        automatic: bool = False,
    ) -> None:
        self._condition, self._windows = condition, windows
        self._count_all_results = count_all_results
        """Whether results that are made count as lost before, or after, so that they must be taken off again."""
        self._probes = probes_of(plan, windows, most, count_only=True)
        self._store = WindowStore(len(windows), rows, plan.indexes)
        self._retention = Retention(retention, automatic, bool(np.any(plan.steps[:, :, INDEX] == SCAN)))
        self._reach = reach_of(len(windows))
        self.periods = ring_of(buckets, width)
        self._watermark = BEFORE_ALL
        self._rough = Estimating(
            synopsis.synopsis_of(equalities, windows, most), np.zeros(len(windows), np.int64), np.zeros(4),
            np.zeros(6), self._retention.lateness, BEFORE_ALL,
        )  # fmt: skip
        self.far = (AFTER_ALL, AFTER_ALL)
        """Delays of tuples whose losses are summed up by itself: more than the first, up to the second."""
        self._begins = False
        """Whether tuples that are put back are new to the synopsis, because no ledger was kept before."""
        self._total = np.zeros(2)
        """Results made and lost since the beginning."""
        self._target = target
        self._longest = int(windows.max(initial=0))
        # Without a target nobody asks which periods met it.
        self._meter = RecallMeter(target.target, target.over, self.periods, self._longest) if target else None
        self._of_shards: LedgerOfShards | None = None
        """That of all shards, where there are several."""
        self.oldest, self.settled = AFTER_ALL, BEFORE_ALL

    @property
    def unknown(self) -> int:
        """Late tuples that came after some of what they could have been joined with was forgotten."""
        return int(self._rough.unknown.sum())

    @property
    def width(self) -> int:
        """How much event time a bucket has."""
        return self.periods.width

    @property
    def kept_since(self) -> Words:
        """Per stream, the event time from which on tuples are needed."""
        return np.asarray(self._retention.known - self._windows)

    def take(self, run: OrderedBatch) -> Floats:
        """Note a run; returns how many results each of its tuples has lost, or would have where all are counted."""
        self._retention.move(self._store, self._watermark, self._windows)
        self._store.reserve(np.bincount(run.stream, minlength=len(self._windows)), self.kept_since)
        words = np.ascontiguousarray(run.words)
        windows = self._store.windows
        lost_results = np.zeros(len(run))
        if self._meter is not None and len(run):
            oldest = max(int(words[TS].min()), self._rough.begun)
            self.oldest = min(self.oldest, oldest)
            self._meter.begin(oldest)
            self._meter.reserve(int(words[TS].max()), self.factor)
        known = np.array([self._retention.known])
        status = settle(
            self._condition.addresses[1], self._probes, Arriving(run.stream, words, run.watermark_at_arrival,
            run.emit_time),
            (run.delay > self.far[0]) & (run.delay <= self.far[1]), lost_results, windows,
            search_space(len(self._windows), windows.words.shape[1]), self._reach, self.periods, self._rough,
            known, self._retention.while_running, self._count_all_results,
        )  # fmt: skip
        self._retention.known = int(known[0])
        if status == OVERFLOW:
            raise self._condition.failure()
        self._total[1] += lost_results.sum()
        self._watermark = max(self._watermark, run.watermark)
        if self._rough.factor[COUNTED] > FORGET:
            self._rough.factor[[COUNTED, LOST_RESULTS, OF_COUNTED]] /= 2
        self.settled = run.max_ts if run.ended else self._settled
        if self._meter is not None:
            self._meter.settle(self.settled)
        return lost_results

    def of_all_shards(self) -> LedgerOfShards:
        assert self._target is not None, "several shards share what is kept for a target"
        self._of_shards = LedgerOfShards(self, self._target, self._longest)
        return self._of_shards

    @property
    def _settled(self) -> int:
        """The event time before which hardly anything is still to come."""
        return max(self._watermark, BEFORE_ALL) - self._retention.settling

    @property
    def factor(self) -> float:
        """What a result is worth that the synopsis expects: learned from late tuples whose losses are known, and while
        there are few of them from what tuples in time have made."""
        factor = self._rough.factor
        made = 0.0
        if factor[OF_LOOKED_AT] > 0 and factor[MAKING] > 0:
            made = (self._total[0] / factor[MAKING]) / (factor[OF_LOOKED_AT] / factor[LOOKED_AT])
        if factor[OF_COUNTED] <= 0:
            return float(made)
        trust = factor[COUNTED] / (factor[COUNTED] + TRUSTED) if factor[LOOKED_AT] else 1.0
        return float(trust * factor[LOST_RESULTS] / factor[OF_COUNTED] + (1 - trust) * made)

    def measured(self) -> MeasuredQuality | None:
        """The recall of all results so far; None where no recall is asked for."""
        if self._target is None or self._meter is None:
            return None
        made, lost = self._total.tolist()
        most, expected = (self._rough.sums[part].item() for part in (MOST, EXPECTED))
        likely = min(most, self.factor * expected)
        # Where every tuple is counted and some are not known in full, more may have been made than was found.
        bad = max(0.0, lost)
        probe_stats, latest = measured_periods(self._meter, self._of_shards, self.factor)
        since = None if self._watermark in (AFTER_ALL, BEFORE_ALL) else self._settled
        return MeasuredQuality(
            RESULTS, self._target.target, made, bad, self.unknown, max(0.0, lost + most - bad),
            round(probe_stats.periods), round(probe_stats.met), *latest, provisional_from=since,
            estimated=max(0.0, lost + likely - bad), surely_met=round(probe_stats.surely_met),
            most_periods=round(probe_stats.most_periods), perhaps_met=round(probe_stats.perhaps_met),
            fewest_periods=round(probe_stats.fewest_periods), retention=self._retention.in_force,
            retained_by=self._retention.why,
        )  # fmt: skip

    def emitted(self, ts: Words, multiplicity: Words | None, by: Words) -> None:
        self.made(ts, multiplicity)

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        self.take(raw)

    def made(self, ts: Words, multiplicity: Words | None) -> None:
        """Note results that were made."""
        count = len(ts) if multiplicity is None else multiplicity.sum()
        self._total += (count, -count if self._count_all_results else 0)
        if self._meter is not None and len(ts):
            self._meter.reserve(int(ts.max()), self.factor)
        note_made(self.periods, ts, NOTHING if multiplicity is None else multiplicity, self._count_all_results)

    def put_back(self, stream: int, words: Words) -> None:
        """Note tuples again that were processed before a restart."""
        words = words[:, words[TS] >= self.kept_since[stream]]
        self._store.put_back(stream, words, self.kept_since)
        if self._begins:
            synopsis.note_all(self._rough.synopsis, stream, np.ascontiguousarray(words))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The ledger without the tuples, which are persisted with the windows."""
        own: dict[str, npt.NDArray[Any]] = {
            "beyond": self.periods.beyond, "watermark": np.array([self._watermark, self._rough.begun]),
            "unknown": self._rough.unknown, "sums": self._rough.sums, "factor": self._rough.factor,
            "total": self._total,
        }  # fmt: skip
        for name in ("number", "made", "lost", "expected", "most"):
            own |= in_blocks(name, getattr(self.periods, name), BLOCK)
        own |= {f"synopsis_{name}": array for name, array in synopsis.as_arrays(self._rough.synopsis).items()}
        own |= self._retention.as_arrays()
        return own if self._meter is None else own | self._meter.as_arrays()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        """Take over the ledger of another one; periods are counted anew where another share is asked for now."""
        for name in ("number", "made", "lost", "expected", "most"):
            out_of_blocks(name, getattr(self.periods, name), BLOCK, arrays)
        self.periods.beyond[:] = arrays["beyond"]
        self._rough.unknown[:], self._total[:] = arrays["unknown"], arrays["total"]
        self._rough.sums[:], self._rough.factor[:] = arrays["sums"], arrays["factor"]
        self._watermark, begun = arrays["watermark"].tolist()
        self._rough = self._rough._replace(begun=begun)
        counts = {n.removeprefix("synopsis_"): a for n, a in arrays.items() if n.startswith("synopsis_")}
        synopsis.restore(self._rough.synopsis, counts)
        self._retention.restore(arrays)
        if self._meter is not None:
            self._meter.restore(arrays)
            if not same_target:
                self._meter.count_anew()

    def begin_at(self, watermark: int, clock: int) -> None:
        """Begin in the middle of a run, in which no ledger was kept so far: what is before is not asked about."""
        self._retention.known = max(self._retention.known, watermark)
        self._rough = self._rough._replace(begun=watermark)
        self._begins = True

    def lost_to_far(self) -> tuple[float, float]:
        """Results since the beginning, made or lost; and those lost to tuples that are `far`. Estimates are in both."""
        most, expected, found, of_far = self._rough.sums.tolist()
        likely = min(most, self.factor * expected)
        return float(self._total.sum()) + likely, found + (likely * of_far / expected if expected > 0 else 0.0)

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Results made and results lost between one edge and the next: timestamps in [edge, next), whole buckets.

        Edges are ascending; what is too old to be in the ledger counts as nothing.
        """
        return ring.sums_between(self.periods.number, edges // self.width, self.periods.made, self.periods.lost)


def ledger_on(terms: LedgerTerms, windows: Sequence[int], open_ledger: Callable[..., JoinLedger]) -> JoinLedger:
    """The ledger that an operator over these windows keeps on these terms."""
    ledger = open_ledger(terms.retention, *terms.buckets(windows), terms.target, terms.automatic)
    if terms.far is not None:
        ledger.far = terms.far
    return ledger
