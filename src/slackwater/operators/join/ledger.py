"""The ledger of a join: it keeps what was processed for longer than the windows do, and counts what late tuples lost.

Invariant: that of `RetainingLedger`; the tuples are persisted with the windows of the join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.core.batch import TS, Floats, Words
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import Condition
from slackwater.operators.join.ledger_loops import settle
from slackwater.operators.join.loop import OVERFLOW
from slackwater.operators.join.probing import INDEX, SCAN, classes_of, first_plan
from slackwater.operators.join.search import probes_of, search_space
from slackwater.operators.join.store import WindowStore
from slackwater.operators.join.unordered_probe import reach_of
from slackwater.quality.ledger.estimates import Estimates
from slackwater.quality.ledger.retaining import RetainingLedger
from slackwater.quality.ledger.retention import Retention

if TYPE_CHECKING:
    from slackwater.operators.join.operator import WindowJoin


class JoinLedger(RetainingLedger):
    """Keeps what was processed for longer than the windows do, and counts with them what late tuples have lost."""

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
        plan = first_plan(join.linkage(count_only=True, in_order=False))
        retention = Retention(terms.retention, terms.automatic, bool(np.any(plan.steps[:, :, INDEX] == SCAN)))
        estimates = Estimates(classes_of(join.equalities), windows, most, retention.lateness)
        super().__init__(terms, width, buckets, max(join.windows, default=0), estimates, retention)
        self._condition, self._windows, self._counts_all = condition, windows, count_all_results
        self._probes = probes_of(plan, windows, most, count_only=True)
        self._store = WindowStore(len(windows), join.rows, plan.indexes)
        self._reach = reach_of(len(windows))

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
        self._begin_run(run)
        known = np.array([self._retention.known])
        status = settle(
            self._condition.addresses[1], self._probes, new, self._is_far(run), lost_results, windows,
            search_space(len(self._windows), windows.words.shape[1]), self._reach, self.periods,
            self._estimates.arrays, known, self._retention.while_running, self._counts_all,
        )  # fmt: skip
        self._retention.known = int(known[0])
        if status == OVERFLOW:
            raise self._condition.failure()
        self._total[1] += lost_results.sum()
        self._end_run(run)
        return lost_results

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        self.take(raw)

    def put_back(self, stream: int, words: Words) -> None:
        """Note tuples again that were processed before a restart."""
        words = words[:, words[TS] >= self.kept_since[stream]]
        self._store.put_back(stream, words, self.kept_since)
        if self._begins:
            self._estimates.note_all(stream, words)
