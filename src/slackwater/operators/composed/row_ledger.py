"""The ledger of the rows that reach the top: true rows and rows made, by buckets of event time.

A true row is known when its last member arrives; whether it was made is known once the watermark has passed its time.
So both wait until then.

Invariant: of every event time before the watermark, made + lost = true rows, all of them within the retention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.measured import RESULTS, MeasuredQuality
from slackwater.core.state import NOTHING
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.composed.true_rows import KnownRows
from slackwater.quality.ledger.ledger import PeriodLedger
from slackwater.quality.ledger.periods import note_made, note_true


class RowLedger(PeriodLedger):
    """Rows made and lost, `rows` saying what is true; `whole`: they are those that the top emits, else those that it is
    given. Nothing is estimated: what is needed is counted by rows, so the curves are right about far ones too."""

    def __init__(self, terms: LedgerTerms, rows: KnownRows, whole: bool) -> None:
        width, buckets = terms.buckets((rows.reach,))
        super().__init__(terms.target, buckets, width, longest_window=0)
        self._retention, self._rows, self._whole = terms.retention, rows, whole
        self._total = np.zeros(2)
        """Rows made and true rows since the beginning."""
        self._true, self._made = NOTHING, NOTHING
        """Event times that the watermark has not passed yet."""
        self._watermark = BEFORE_ALL

    def take(self, ts: Words) -> None:
        """True rows have become known."""
        self._true = np.concatenate([self._true, ts])

    def emitted(self, ts: Words, multiplicity: Words | None, by: Words) -> None:
        if self._whole:
            self._note_made(ts)

    def _note_made(self, ts: Words) -> None:
        self._made = np.concatenate([self._made, ts[ts >= self._rows.known_from]])

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        """What the top has been given, and how far it has come."""
        if not self._whole:
            self._note_made(run.ts)
        self._watermark = max(self._watermark, run.watermark)
        true, self._true = _parted(self._true, self._watermark)
        made, self._made = _parted(self._made, self._watermark)
        self._total += (len(made), len(true))
        if len(true):
            self.begin(int(true.min()))
        if len(true) or len(made):
            self.reserve(int(max(true.max(initial=BEFORE_ALL), made.max(initial=BEFORE_ALL))))
        note_true(self.periods, true)
        note_made(self.periods, made, NOTHING, counted_exactly=True)
        if self._watermark > BEFORE_ALL:
            self.settle(run.max_ts if self._watermark == AFTER_ALL else self._watermark - self._retention)

    def measured(self) -> MeasuredQuality:
        """The recall of all rows so far. Of those that came too late to be counted each has cost as many rows as any
        that was, at most."""
        made, true = self._total.tolist()
        unknown, most = self._rows.unknown, self._rows.most
        counts, latest = self.counts()
        since = None if self._watermark in (AFTER_ALL, BEFORE_ALL) else self._watermark - self._retention
        return MeasuredQuality(
            RESULTS, self.target.target, made, true - made, unknown, float(unknown * most), round(counts.periods),
            round(counts.met), *latest, provisional_from=since,
        )  # fmt: skip

    def begin_at(self, watermark: int, clock: int) -> None:
        self._rows.begin_at(clock)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        own = {
            "total": self._total, "watermark": np.array([self._watermark]), "true_ahead": self._true,
            "made_ahead": self._made,
        }  # fmt: skip
        return super().as_arrays() | own

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        super().restore(arrays, same_target)
        self._total[:], self._watermark = arrays["total"], int(arrays["watermark"][0])
        self._true, self._made = np.array(arrays["true_ahead"]), np.array(arrays["made_ahead"])


def _parted(ts: Words, watermark: int) -> tuple[Words, Words]:
    """What lies before a watermark, and the rest."""
    before = ts < watermark
    return ts[before], ts[~before]
