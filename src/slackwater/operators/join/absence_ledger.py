"""The ledger of a join that gives rows for what has no partner: results lost, and rows that turned out false.

Pairs are counted as in any join. Beside them stands every preserved tuple that was without partner when its window had
passed: its row has left, or, where it was late, should have. A late tuple may show that it had a partner after all.
Then the row that has left was false, and the one that should have left is not lost.

Invariant: results made + results lost = true results, and rows that have left - rows that are false = results made, of
all tuples that are counted in full. A row that says of a tuple that it has no partner is taken for true until a partner
is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.join_kinds import JoinKind
from slackwater.core.measured import MeasuredQuality
from slackwater.core.state import NOTHING
from slackwater.core.time import BEFORE_ALL, LONGEST
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.compile import Condition, refine_listed_at
from slackwater.operators.join.arrival import ArrivalProbe
from slackwater.operators.join.eager_probe import LEAST, Combining, Lines, combine, drop_expired
from slackwater.operators.join.ledger import JoinLedger
from slackwater.operators.join.loop import ENTERS, PASSES_BY, PROBES, nothing_after, place_probe_insert
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import Windows, insert, place
from slackwater.operators.join.unordered_probe import Reach
from slackwater.quality.ledger.periods import no_periods, note_false, note_lost_results, note_made

if TYPE_CHECKING:
    from slackwater.operators.join.operator import WindowJoin


@in_place
def meet_late(
    condition: int, plan: Probes, new: OrderedTuples, begin: int, w: Windows, search: Search, reach: Reach,
    found: Lines, retention: Words,
) -> tuple[int, int]:  # fmt: skip
    """Tuples from `begin` on, until their end or until the pairs of one have no room; returns (tuples, status)."""
    found.state[LEAST] = BEFORE_ALL
    job = Combining(refine_listed_at(condition), plan, w, search, reach, found, retention, retention)
    return place_probe_insert(place, insert, admit, combine, nothing_after, job, new, begin)


@inner
def admit(job: Combining, new: OrderedTuples, i: int) -> int:
    """A late tuple probes what came before it; nobody else has lost a pair."""
    ts, since = new.words[TS, i], new.watermark_at_arrival[i] - job.kind[0]
    if ts < since - job.plan.sizes[new.stream[i]]:
        return PASSES_BY
    drop_expired(job.w, job.plan, since)
    return PROBES if ts < new.watermark_at_arrival[i] else ENTERS


@dataclass(frozen=True)
class Closed:
    """Preserved tuples that were without partner when their window had passed: marks, that instant, who was late."""

    mark: Words
    until: Words
    late: Flags

    def only(self, which: Flags) -> Closed:
        return Closed(self.mark[which], self.until[which], self.late[which])

    def and_then(self, more: Closed) -> Closed:
        """Those and others, by their marks."""
        mark = np.concatenate([self.mark, more.mark])
        order = np.argsort(mark, kind="stable")
        until, late = np.concatenate([self.until, more.until]), np.concatenate([self.late, more.late])
        return Closed(mark[order], until[order], late[order])


NOBODY = Closed(NOTHING, NOTHING, np.zeros(0, np.bool_))


class ClosingLog:
    """What the operator notes of a run for its ledger: the tuples with their marks, and whose window has passed."""

    def __init__(self) -> None:
        self.words: Words = NOTHING
        self.closed = NOBODY

    def take(self) -> tuple[Words, Closed]:
        """What was noted of the last run."""
        closed, self.closed = self.closed, NOBODY
        return self.words, closed


class AbsenceLedger(JoinLedger):
    """The ledger of an outer or anti join."""

    def __init__(
        self, join: WindowJoin, kind: JoinKind, condition: Condition, terms: LedgerTerms, log: ClosingLog
    ) -> None:
        super().__init__(join, condition, terms, *terms.buckets(join.windows))
        self._kind, self._join, self._log = kind, join, log
        self._of_pairs = self.periods if kind.outer else no_periods(len(self.periods.number), self.periods.width)
        """Where lost pairs are counted: those of an anti join are no results."""
        self._probe = ArrivalProbe(join, condition, count_only=False, rows=join.rows)
        self._alone = NOBODY
        """Tuples whose window has passed and of which no partner is known."""
        self._partnered: Words = np.zeros((2, 0), np.int64)
        """Marks of tuples with a partner that was lost, and until when their window is open."""
        self.false = 0.0

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        words, closed = self._log.take()
        marked = replace(raw, tuples=raw.tuples._replace(words=words))
        retention = self._reaches()
        self.take(marked)
        found = self._lost_partners(marked.tuples, retention)
        self._show(found)
        self._close(closed)
        since = self._retention.known
        self._alone = self._alone.only(self._alone.until >= since)
        self._partnered = self._partnered[:, self._partnered[1] >= self._watermark]

    def pass_over(self) -> None:
        self._log.closed = NOBODY

    def take(self, run: OrderedBatch) -> Floats:
        own, lost = self.periods, self._total[1]
        self.periods = self._of_pairs
        found = super().take(run)
        self.periods = own
        if not self._kind.outer:
            self._total[1] = lost
        return found

    def _reaches(self) -> int:
        """How far behind the watermark tuples are kept."""
        known = self._retention.known
        return LONGEST if BEFORE_ALL in (known, self._watermark) else min(LONGEST, max(0, self._watermark - known))

    def _lost_partners(self, new: OrderedTuples, retention: int) -> Words:
        """Of every preserved tuple in a pair that late tuples of a run have lost: its mark, and until when its window
        is open."""
        join, store, kept = self._join, self._probe.store, np.array([retention])
        store.reserve(np.bincount(new.stream, minlength=2), self.kept_since)

        def step(
            condition: int, plan: Probes, new: OrderedTuples, begin: int, w: Windows, search: Search, reach: Reach,
            found: Lines,
        ) -> tuple[int, int]:  # fmt: skip
            return meet_late(condition, plan, new, begin, w, search, reach, found, kept)

        parts = [np.zeros((2, 0), np.int64)]
        for _, _, found in self._probe.combine(new.contiguous(), step):
            # On arrival pairs that are newer than the watermark are made all the same.
            lost = found.ts <= new.watermark_at_arrival[found.by]
            for stream, preserved in enumerate(self._kind.preserved):
                if preserved:
                    words = store.words[:, found.slots[stream, lost]]
                    parts.append(np.stack([words[-1], words[TS] + join.windows[stream]]))
        both = np.concatenate(parts, axis=1)
        _, first = np.unique(both[0], return_index=True)
        return np.asarray(both[:, first])

    def _show(self, partners: Words) -> None:
        """These have had a partner: what was said of them while none was known is taken back."""
        shown = np.isin(self._alone.mark, partners[0])
        self._take_back(self._alone.only(shown))
        self._alone = self._alone.only(~shown)
        fresh = partners[:, ~np.isin(partners[0], self._partnered[0])]
        self._partnered = np.concatenate([self._partnered, fresh], axis=1)

    def _take_back(self, shown: Closed) -> None:
        late, left = shown.until[shown.late], shown.until[~shown.late]
        self._count_lost(late, -1.0)
        self._count_false(left)

    def _close(self, closed: Closed) -> None:
        """The windows of these have passed."""
        had = np.isin(closed.mark, self._partnered[0])
        wrong, alone = closed.only(had), closed.only(~had)
        self._count_false(wrong.until[~wrong.late])
        self._count_lost(alone.until[alone.late], 1.0)
        self._alone = self._alone.and_then(alone)

    def _count_false(self, ts: Words) -> None:
        """Rows that have left with these timestamps were counted as made, and are false."""
        self._total[0] -= len(ts)
        self.false += len(ts)
        note_made(self.periods, ts, np.full(len(ts), -1), False)
        note_false(self.periods, ts, 1.0)

    def _count_lost(self, ts: Words, each: float) -> None:
        """Rows with these timestamps are lost, or after all not."""
        self._total[1] += each * len(ts)
        if len(ts):
            self.reserve(int(ts.max()))
        note_lost_results(self.periods, ts, each)

    def measured(self) -> MeasuredQuality:
        found = replace(super().measured(), false=self.false)
        if self._kind.outer:
            return found
        # What came too late to be counted may itself be a row that is lost, or have made one false for each pair.
        return replace(found, estimated=0.0, unsure=self._estimates.lost(self.factor)[0] + found.unknown_late)

    def put_back(self, stream: int, words: Words) -> None:
        super().put_back(stream, words)
        words = words[:, words[TS] >= self.kept_since[stream]]
        self._probe.store.put_back(stream, words, self.kept_since)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        alone = {"alone": np.stack([self._alone.mark, self._alone.until, self._alone.late.astype(np.int64)])}
        own = {"partnered": self._partnered, "false_rows": np.array([self.false])}
        return super().as_arrays() | alone | own

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        super().restore(arrays, same_target)
        mark, until, late = arrays["alone"]
        self._alone = Closed(mark, until, late.astype(np.bool_))
        self._partnered, self.false = arrays["partnered"], float(arrays["false_rows"][0])
