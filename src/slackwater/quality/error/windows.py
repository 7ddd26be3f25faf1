"""What a controller for aggregates knows about the windows of its query.

Invariant: `Watched` is plain data that the operator's spec gives; the controller is made before it is known what it
watches, and hears of it once, before the first tuple. What is kept reaches `retention` back from the clock, however
far back late tuples come. Where the user names no retention, it begins with a minute and grows with the delays that are
seen, twice as long as the longest of them, as far as `most`, MOST_WINDOWS and MOST_RECORDS allow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.measured import MeasuredQuality
from slackwater.core.quality import RelativeError
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.controllers import DelayObservations, SlackController
from slackwater.disorder.meters import AnswerLog, Asked, Measurable, QualityMeter, Scaling, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.quality.error.answers import answered
from slackwater.quality.error.meter import Answers, WindowTally
from slackwater.quality.error.window_losses import (
    CHANGED,
    DEEPEST,
    FIRST_ARGUMENT,
    MEAN,
    SHARE,
    SUM,
    TUPLES,
    Watch,
    WindowLedger,
    absorb,
    absorb_sums,
    coverage_of,
    reach,
)
from slackwater.quality.stats.keyed_sums import GROUP, LINE, NO_LINE, RECORDS, as_chunks, refilled, table, tidied

MOST_WINDOWS = 1 << 15
"""Windows that are kept at once; with a slide so short that retention has more of them, retention is shorter."""
MOST_PIECES = 1 << 19
MOST_RECORDS = 1 << 18
"""With more records than this (windows times groups) retention does not grow any more."""
FIRST_CAPACITY = 256


class WatchesWindows(SlackController):
    """A controller that must know the windows of its query, and measures the error of their answers itself."""

    target: RelativeError
    scaling: Scaling | None = None
    """How the answers are scaled that estimates are asked of."""
    _losses: WindowLosses

    @abstractmethod
    def watch(self, watched: Watched) -> None:
        """Hear which windows there are."""

    def observe_batch(self, run: OrderedBatch, raw: OrderedBatch, answers: Sequence[Answers]) -> None:
        """Hear what was emitted, and which tuples came too late: those that are `raw`, or those of the run that the
        aggregate was given."""
        if self._losses.tally.is_far_ahead(raw, answers):
            self._catch_up()
        self._losses.tally.observe_batch(raw, answers)

    def begin_at(self, clock: int) -> None:
        """Begin in the middle of a run, in which nobody has looked so far."""
        self._losses.tally.begin_at(clock, self._losses.ledger)

    def _catch_up(self) -> None:
        """Note the arrivals that were put off."""

    @abstractmethod
    def measured(self) -> MeasuredQuality:
        """The windows so far that were within the bound."""

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        if query.watched is None:
            return ()
        self.scaling = query.scaling
        self.watch(query.watched)
        return (ErrorMeter(self, query.answers_for(self.target.bound)),)


class ErrorMeter(QualityMeter):
    """The controller of a bound on the error, as a meter."""

    def __init__(self, controller: WatchesWindows, answers: AnswerLog | None) -> None:
        self._controller, self._answers = controller, answers

    def processed(self, run: OrderedBatch, raw: OrderedBatch) -> None:
        self._controller.observe_batch(run, raw, () if self._answers is None else self._answers.take())

    def pass_over(self) -> None:
        if self._answers is not None:
            self._answers.take()

    def measured(self) -> MeasuredQuality:
        return self._controller.measured()

    def begin_at(self, watermark: int, clock: int) -> None:
        self._controller.begin_at(clock)


class WindowLosses:
    """Totals of pieces, and what came too late for each window."""

    def __init__(
        self, watched: Watched, bound: float, retention: int, unit: int, most: int = 0, ahead: int = 0
    ) -> None:
        """Tuples up to `ahead` in front of the others must not drive windows out that are still to be filled."""
        self.watched, self._bound, self._ahead = watched, bound, ahead
        longest = (MOST_WINDOWS - 64) * watched.slide
        ahead = min(ahead, longest // 2)
        retention, most = min(retention, longest - ahead), min(most, longest - ahead)
        rows = list(dict.fromkeys((a.row, int(a.is_float)) for a in watched.aggregates if a.row >= 0))
        judged = [(_kind(a), _component(a, rows)) for a in watched.aggregates]
        self.watch = Watch(
            watched.range, watched.slide, retention, most, unit, np.array(watched.keys, np.int64),
            np.array(rows, np.int64).reshape(-1, 2), np.array(judged, np.int64).reshape(-1, 2),
        )  # fmt: skip
        self.components = FIRST_ARGUMENT + 2 * len(rows)
        windows = 64 + (retention + ahead) // watched.slide
        pieces = min(MOST_PIECES, 64 + 2 * ((retention + ahead + watched.range) // watched.slide + 1))
        late = table(FIRST_CAPACITY, FIRST_CAPACITY, windows, self.components)
        self.tally = WindowTally(self.watch, answered(watched.aggregates, bound), self.components, pieces)
        self.ledger = WindowLedger(
            table(FIRST_CAPACITY, 0, pieces, self.components), late, np.zeros(len(late.lines), np.int64),
            np.zeros(len(late.lines), np.int64), np.array([BEFORE_ALL, BEFORE_ALL, 0, 0, NO_LINE]),
        )  # fmt: skip

    def absorb(self, arrived: DelayObservations, slack: int, allowed: Floats) -> None:
        """Note arrivals in their order; `slack` is the one in force while they came."""
        words = np.ascontiguousarray(arrived.words)
        done = 0
        while done < words.shape[1]:
            done = absorb(self.watch, self.ledger, words, words.view(np.float64), arrived.behind, done, slack)
            if done < words.shape[1]:
                self.reserve(int(words[TS, done]), allowed)

    @staticmethod
    def sums_of(watched: Watched, words: Words) -> Words:
        """Arrivals of one group as sums by piece, for `absorb_sums`: the piece, its newest event time, and the bits of
        each component."""
        ts, slide = words[TS], watched.slide
        in_slide = ts // slide
        pieces, which = np.unique(2 * in_slide + (ts - in_slide * slide >= watched.range % slide), return_inverse=True)
        newest = np.full(len(pieces), BEFORE_ALL)
        np.maximum.at(newest, which, ts)
        sums: list[npt.NDArray[Any]] = [
            np.bincount(which, minlength=len(pieces)).astype(np.float64),
            np.zeros(len(pieces)),
        ]
        for row, is_float in dict.fromkeys((a.row, a.is_float) for a in watched.aggregates if a.row >= 0):
            values = words[row].view(np.float64) if is_float else words[row].astype(np.float64)
            known = ~np.isnan(values) if is_float else words[row] != NULL_WORD
            sums.append(np.bincount(which[known], minlength=len(pieces)).astype(np.float64))
            sums.append(np.bincount(which[known], values[known], minlength=len(pieces)))
        return np.vstack([pieces, newest, np.stack(sums).view(np.int64)])

    def absorb_sums(self, sums: Words, allowed: Floats) -> None:
        """Note sums of arrivals that came before the clock had passed them."""
        sums, done = np.ascontiguousarray(sums), 0
        while done < sums.shape[1]:
            done = absorb_sums(self.watch, self.ledger, sums, sums.view(np.float64), done)
            if done < sums.shape[1]:
                self.reserve(int(sums[1, done]), allowed)

    def reserve(self, ts: int, allowed: Floats) -> None:
        """Make room in the tables for a tuple of this event time: count the windows in its way, or tidy up."""
        w, b = self.watch, self.ledger
        if self.tally.count_before(ts, b, allowed):
            return
        most = min(w.range, w.retention) // w.slide + FIRST_CAPACITY
        self.ledger = b._replace(totals=tidied(b.totals, FIRST_CAPACITY, 0), late=tidied(b.late, most, most))

    def follow_delays(self) -> None:
        """Keep more of the past if tuples come from further back, and the past is not too much already."""
        deepest = int(self.ledger.marks[DEEPEST])
        if 5 * deepest > 4 * self.watch.retention and self.ledger.totals.used[RECORDS] < MOST_RECORDS:
            self._keep(min(self.watch.most, 2 * deepest))

    def _keep(self, retention: int) -> None:
        if retention <= self.watch.retention:
            return
        old = self.ledger
        longer = self._of_retention(retention)
        fresh = longer.ledger
        self.watch = longer.watch
        self.ledger = WindowLedger(
            tidied(old.totals, FIRST_CAPACITY, 0, len(fresh.totals.lines)),
            tidied(old.late, FIRST_CAPACITY, FIRST_CAPACITY, len(fresh.late.lines)),
            fresh.changed, fresh.is_changed, old.marks,
        )  # fmt: skip
        self._mark_changed(old.changed[: old.marks[CHANGED]])
        self.tally.keep(self.watch, len(fresh.totals.lines))

    def _of_retention(self, retention: int) -> WindowLosses:
        return WindowLosses(self.watched, self._bound, retention, self.watch.unit, self.watch.most, self._ahead)

    def _mark_changed(self, windows: Words) -> None:
        self.ledger.changed[: len(windows)] = windows
        self.ledger.is_changed[windows & (len(self.ledger.late.lines) - 1)] = 1

    def coverage(self, window: int) -> float | None:
        """The measured coverage of a window so far; None where no tuple of it has come."""
        found = coverage_of(self.watch, self.ledger, window)
        return None if found < 0 else found

    def tuples(self) -> float:
        """How many tuples a window of one group has, on average over what is kept (N of Eq. 4.1)."""
        t = self.ledger.totals
        records = t.records[: t.used[RECORDS]]
        if len(records) == 0:
            return 0.0
        pieces = int(records[:, LINE].max() - records[:, LINE].min()) // 2 + 1
        groups = len(np.unique(records[:, GROUP])) if self.watched.keys else 1
        rate = float(t.sums[: len(records), TUPLES].sum()) / (pieces * self.watch.slide)
        return rate * self.watch.range / groups

    def last_ended(self, time: int) -> int:
        """The newest window that has ended at an event time."""
        return (time - self.watch.range) // self.watch.slide

    def reach(self, clock: int, slack: int) -> int:
        """Where the watermark stands at a clock, with the slack that was in force until now."""
        return reach(self.ledger, clock, slack)

    def count(self, allowed: Floats) -> None:
        """Count the windows that are old enough, as within the bound or off."""
        self.tally.count(self.ledger, allowed)

    def measured(self, target: float, allowed: Floats) -> MeasuredQuality:
        """How many windows were within the bound."""
        return self.tally.measured(target, self.ledger, allowed)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, the tables by chunks of lines; what has been displaced is left out."""
        b = self.ledger
        found = {"marks": b.marks.copy(), "changed": b.changed[: b.marks[CHANGED]].copy()}
        found["retention"] = np.array([self.watch.retention])
        for name, one in (("totals", b.totals), ("late", b.late)):
            found |= {f"{name}_{number}": chunk for number, chunk in as_chunks(one).items()}
        return found | {f"tally_{name}": array for name, array in self.tally.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        longer = self._of_retention(int(arrays["retention"][0]))
        fresh, self.watch = longer.ledger, longer.watch
        self.tally.keep(self.watch, len(fresh.totals.lines))
        tables = {}
        for name, one in (("totals", fresh.totals), ("late", fresh.late)):
            chunks = [chunk for key, chunk in arrays.items() if key.startswith(f"{name}_")]
            tables[name] = refilled(len(one.lines), FIRST_CAPACITY, self.components, chunks)
        self.ledger = fresh._replace(totals=tables["totals"], late=tables["late"])
        self.ledger.marks[:] = arrays["marks"]
        self.tally.restore({n.removeprefix("tally_"): a for n, a in arrays.items() if n.startswith("tally_")})
        self._mark_changed(arrays["changed"])


def _kind(asked: Asked) -> int:
    if asked.function == "SUM":
        return SUM
    return MEAN if asked.function == "AVG" else SHARE


def _component(asked: Asked, rows: list[tuple[int, int]]) -> int:
    if asked.row < 0:
        return TUPLES
    return FIRST_ARGUMENT + 2 * rows.index((asked.row, int(asked.is_float)))
