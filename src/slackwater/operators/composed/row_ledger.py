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

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring
from slackwater.core.measured import RESULTS, MeasuredQuality
from slackwater.core.quality import Recall
from slackwater.core.state import NOTHING
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.operators.join.ledger_loops import note_made, note_true, ring_of
from slackwater.operators.join.ledger_of_shards import LedgerOfShards, measured_periods
from slackwater.operators.join.meter import RecallMeter

MOST_BUCKETS = 4096
"""No more buckets of time are told apart."""


class RowLedger:
    """Rows made and lost; `take` what is true, say what was `made`, and `settle` up to a watermark."""

    def __init__(self, target: Recall, interval: int, memory: int, retention: int, reach: int) -> None:
        span = memory + 2 * retention + 2 * reach
        width = max(interval, span // MOST_BUCKETS)
        buckets = 1 << (span // width + 64).bit_length()
        self._target, self._retention = target, retention
        self.periods = ring_of(buckets, width)
        self._meter = RecallMeter(target.target, target.over, self.periods, longest_window=0)
        self._of_shards: LedgerOfShards | None = None
        """That of all shards, where there are several."""
        self.oldest, self.settled = AFTER_ALL, BEFORE_ALL
        self._total = np.zeros(2)
        """Rows made and true rows since the beginning."""
        self._true, self._made = NOTHING, NOTHING
        """Event times that the watermark has not passed yet."""
        self._watermark = BEFORE_ALL

    def take(self, ts: Words) -> None:
        """True rows have become known."""
        self._true = np.concatenate([self._true, ts])

    def made(self, ts: Words) -> None:
        """Rows have been made."""
        self._made = np.concatenate([self._made, ts])

    def settle(self, watermark: int, max_ts: int) -> None:
        """The watermark of the top stands here; AFTER_ALL when the input has ended, with this largest clock."""
        self._watermark = max(self._watermark, watermark)
        true, self._true = _parted(self._true, self._watermark)
        made, self._made = _parted(self._made, self._watermark)
        self._total += (len(made), len(true))
        if len(true):
            self.oldest = min(self.oldest, int(true.min()))
            self._meter.begin(int(true.min()))
        if len(true) or len(made):
            self._meter.reserve(int(max(true.max(initial=BEFORE_ALL), made.max(initial=BEFORE_ALL))), self.factor)
        note_true(self.periods, true)
        note_made(self.periods, made, NOTHING, counted_exactly=True)
        if self._watermark > BEFORE_ALL:
            self.settled = max_ts if self._watermark == AFTER_ALL else self._watermark - self._retention
            self._meter.settle(self.settled)

    @property
    def factor(self) -> float:
        """No synopsis expects rows."""
        return 0.0

    def of_all_shards(self) -> LedgerOfShards:
        """That of all shards, where this is the ledger of one."""
        self._of_shards = LedgerOfShards(self, self._target, 0)
        return self._of_shards

    def measured(self, unknown: int, most: int) -> MeasuredQuality:
        """The recall of all rows so far; `unknown` tuples came too late to be counted, and each of those that were
        has cost `most` rows at most."""
        made, true = self._total.tolist()
        periods, latest = measured_periods(self._meter, self._of_shards, self.factor)
        since = None if self._watermark in (AFTER_ALL, BEFORE_ALL) else self._watermark - self._retention
        return MeasuredQuality(
            RESULTS, self._target.target, made, true - made, unknown, float(unknown * most), round(periods.periods),
            round(periods.met), *latest, provisional_from=since,
        )  # fmt: skip

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Rows made and rows lost between one edge and the next, whole buckets; what is too old counts as nothing."""
        ledger = self.periods
        return ring.sums_between(ledger.number, edges // ledger.width, ledger.made, ledger.lost)

    def lost_to_far(self) -> None:
        """What is needed is counted by rows, so the curves are right about far ones too."""

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        own = {
            "number": self.periods.number.copy(), "made": self.periods.made.copy(), "lost": self.periods.lost.copy(),
            "total": self._total.copy(), "watermark": np.array([self._watermark]),
            "target": np.array([self._target.target]), "beyond": self.periods.beyond.copy(),
            "true_ahead": self._true, "made_ahead": self._made,
        }  # fmt: skip
        return own | self._meter.as_arrays()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave; periods are counted anew where another share is asked for now."""
        self.periods.number[:] = arrays["number"]
        self.periods.made[:], self.periods.lost[:] = arrays["made"], arrays["lost"]
        self._total[:], self.periods.beyond[:] = arrays["total"], arrays["beyond"]
        self._watermark = int(arrays["watermark"][0])
        self._true, self._made = np.array(arrays["true_ahead"]), np.array(arrays["made_ahead"])
        self._meter.restore(arrays)
        if float(arrays["target"][0]) != self._target.target:
            self._meter.count_anew()


def _parted(ts: Words, watermark: int) -> tuple[Words, Words]:
    """What lies before a watermark, and the rest."""
    before = ts < watermark
    return ts[before], ts[~before]
