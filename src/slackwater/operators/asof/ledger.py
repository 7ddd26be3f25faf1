"""The ledger of an as-of join: rows with the true version, rows that are lost, and rows that turned out false.

A row is right while it is the row that its tuple has over all versions that came. A late version makes rows false that
have left, and loses those that should have left instead; a late tuple of the first stream loses its row.

Invariant: rows made + rows lost = true rows, and rows that have left - rows that are false = rows made, of all tuples
that are counted in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.jit import in_place
from slackwater.core.measured import MeasuredQuality
from slackwater.core.time import BEFORE_ALL, DAY
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.operators.asof.answered import CAME_BEFORE, Answered, Turned
from slackwater.operators.asof.spec import LEFT, RIGHT, AsOfJoin
from slackwater.quality.ledger.estimates import Estimates, Estimating, note_loss
from slackwater.quality.ledger.periods import Periods, note_false, note_lost_results, note_made
from slackwater.quality.ledger.retaining import RetainingLedger
from slackwater.quality.ledger.retention import Retention, note_lateness

OLDEST = 100 * 366 * DAY
"""No version is older than this."""
NOWHERE = np.zeros(2, np.int64)
MADE, LOST, FALSE = range(3)
# Notes of an answered tuple: whether a row left, and as what its row is counted.
LEAVES, COUNTED = 0, slice(1, 4)
Rows = Callable[[Words, Flags, Words], tuple[Words, Flags]]
"""The columns of the rows of tuples with their versions, and which of these leave."""


@in_place
def estimate_versions(
    new: OrderedTuples, lost: Floats, far: Flags, periods: Periods, rough: Estimating, known: int, window: int
) -> None:
    """Estimate what versions have lost of rows before `known`, and learn from others what estimates are worth."""
    for i in range(len(new.stream)):
        met = new.watermark_at_arrival[i]
        late = new.words[TS, i] < met
        if late:
            note_lateness(rough.lateness, met - new.words[TS, i])
        note_loss(
            rough, periods, new.stream[i], new.words, i, met, lost[i], known, window, False,
            late and new.stream[i] == RIGHT, far[i],
        )  # fmt: skip


class AsOfLedger(RetainingLedger):
    """`turned` is set by the operator, with every run."""

    turned: Turned

    def __init__(self, spec: AsOfJoin, rows: Rows, terms: LedgerTerms) -> None:
        width, buckets = terms.buckets((0,))
        # A version may be older than the ring reaches back; so far behind itself it is looked for in it.
        self._window = min(OLDEST if spec.within is None else spec.within, width * buckets // 4)
        retention = Retention(terms.retention, terms.automatic, scanning=not spec.keys)
        oldest = np.array([0, OLDEST if spec.within is None else spec.within])
        classes = [{(LEFT, mine), (RIGHT, other)} for mine, other in spec.keys]
        estimates = Estimates(classes, oldest, None, retention.lateness, self._window)
        super().__init__(terms, width, buckets, self._window, estimates, retention)
        self._spec, self._rows_of = spec, rows
        self._answered = Answered(spec, notes=4)
        self._ages = np.zeros(2)
        self._too_late = 0
        """Tuples of the first stream that came when the versions they may have had were forgotten."""
        self.false = 0.0

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        self._retention.move(self._answered, self._watermark, NOWHERE)
        known, turned = self._retention.known, self.turned
        if not self._retention.automatic:
            self._answered.forget(known)
        self._begin_run(run)
        in_time = turned.ages[turned.asks & ~turned.late]
        self._ages += (in_time[in_time >= 0].sum(), np.count_nonzero(in_time >= 0))
        notes = np.zeros((4, len(turned.asks)), np.int64)
        notes[LEAVES] = notes[1 + MADE] = turned.left
        seen = turned.words[TS] + self._spec.strict
        affected = self._answered.take(turned, seen, turned.late, notes, known)
        lost = np.zeros(len(run))
        if affected is not None and len(affected.at):
            self._count_anew(affected.at, affected.found, affected.answers, affected.by, lost)
        estimate_versions(
            run.tuples.contiguous(), lost, self._is_far(run), self.periods, self._estimates.arrays, known, self._window
        )
        self._end_run(run)

    def _count_anew(self, at: Words, found: Flags, answers: Words, by: Words, lost: Floats) -> None:
        """The rows of these tuples are those with these versions now; by whom each has changed."""
        answered = self._answered
        words, notes = answered.words(at), answered.notes
        was, _ = self._rows_of(words, *answered.answers(at))
        now, wanted = self._rows_of(words, found, answers)
        left = notes[LEAVES, at] > 0
        made = left & wanted & (was == now).all(axis=0)
        self._too_late += int(np.count_nonzero((words[TS] < self._retention.known) & ~found))
        counted = np.stack([made, wanted & ~made, left & ~made]).astype(np.int64)
        change = counted - notes[COUNTED][:, at]
        notes[COUNTED][:, at] = counted
        ts = words[TS]
        np.add.at(lost, by[change[LOST] > 0], 1.0)
        for each in (1, -1):
            self._count_lost(ts[change[LOST] == each], float(each))
            false = ts[change[FALSE] == each]
            self.false += each * len(false)
            note_false(self.periods, false, float(each))
        moved = change[MADE] != 0
        self._total[0] += change[MADE].sum()
        note_made(self.periods, ts[moved], change[MADE, moved], False)

    def _count_lost(self, ts: Words, each: float) -> None:
        self._total[1] += each * len(ts)
        note_lost_results(self.periods, ts, each)

    def ages(self) -> tuple[float, float]:
        return float(self._ages[0]), float(self._ages[1])

    def measured(self) -> MeasuredQuality:
        found = super().measured()
        unknown, unsure = found.unknown_late + self._too_late, found.unsure + self._too_late
        return replace(found, false=self.false, unknown_late=unknown, unsure=unsure)

    def begin_with(self, table: Words) -> None:
        """Begin in the middle of a run with the last version of every key, where no ledger was kept before."""
        if not self._begins:
            return
        keys, spec = len(self._spec.keys), self._spec
        table = table[table[:, keys] != BEFORE_ALL]
        words = np.zeros((spec.rows, len(table)), np.int64)
        for (_, row), column in zip(spec.keys, table.T, strict=False):
            words[row] = column
        for row, column in zip((TS, *spec.carried), table.T[keys:], strict=True):
            words[row] = column
        none, nothing = np.zeros(len(table), np.bool_), np.zeros((len(spec.carried), len(table)), np.int64)
        place = np.full(len(table), CAME_BEFORE)
        versions = Turned(words, none, none, place, words[TS], place, nothing, none)
        self._answered.take(versions, words[TS] + spec.strict, none, np.zeros((4, len(table)), np.int64))
        self._begins = False

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        own = {"false_rows": np.array([self.false, self._too_late]), "ages": self._ages}
        return super().as_arrays() | own | self._answered.as_arrays()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        super().restore(arrays, same_target)
        self.false, self._too_late = float(arrays["false_rows"][0]), int(arrays["false_rows"][1])
        self._ages[:] = arrays["ages"]
        self._answered.restore(arrays)
