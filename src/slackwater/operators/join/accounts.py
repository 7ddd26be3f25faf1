"""The books of a join: results made and results lost, by stretches of event time.

Invariant: a stretch that is still on the books has exact numbers for everything known so far; what came later than the
retention reaches is counted as tuples of unknown price. Totals of the whole run are kept beside the stretches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.disorder.run import Run
from slackwater.expressions.compile import Condition
from slackwater.kernel import NOTHING
from slackwater.model.batch import TS, Floats, Words
from slackwater.model.measured import RESULTS, MeasuredQuality
from slackwater.model.quality import Recall
from slackwater.model.time import AFTER_ALL, BEFORE_ALL
from slackwater.operators.join.any_order import reach_of
from slackwater.operators.join.crowding import Crowding
from slackwater.operators.join.ledger import NEVER, OVERFLOW, Periods, note_made, settle
from slackwater.operators.join.meter import RecallMeter
from slackwater.operators.join.probing import ProbePlan
from slackwater.operators.join.search import Arriving, probes_of, search_space
from slackwater.operators.join.store import WindowStore


class Remembered(Protocol):
    """Who wants a join's tuples to be persisted for longer than its windows need them, and to have them back."""

    @property
    def retention(self) -> int | Words: ...
    def put_back(self, stream: int, words: Words) -> None: ...


class JoinLedger:
    """Keeps what was processed for `retention` longer than the windows do, and prices late tuples with it."""

    def __init__(
        self,
        plan: ProbePlan,
        windows: Words,
        most: Words | None,
        rows: int,
        condition: Condition,
        retention: int,
        width: int,
        stretches: int,
        price_all: bool = False,
        target: Recall | None = None,
    ) -> None:
        self._condition, self._windows, self.retention = condition, windows, retention
        self._price_all = price_all
        """Whether results that are made count as lost before, or after, so that they must be taken off again."""
        self._probes = probes_of(plan, windows, most, counted=True)
        self._store = WindowStore(len(windows), rows, plan.indexes)
        self._reach = reach_of(len(windows))
        self._periods = Periods(np.full(stretches, NEVER, np.int64), np.zeros(stretches), np.zeros(stretches), width)
        self._frontier = BEFORE_ALL
        self._known_from = BEFORE_ALL
        """Before this event time tuples may have left the windows while no books were kept."""
        self._unknown = np.zeros(len(windows), np.int64)
        self._total = np.zeros(2)
        """Results made and lost since the beginning."""
        self._crowding = Crowding(windows, width * stretches)
        self._target = target
        # Without a target nobody asks which periods met it.
        self._meter = RecallMeter(target.target, target.over, self._periods) if target else None

    @property
    def unknown(self) -> int:
        """Late tuples that came after some of what they could have been joined with was forgotten."""
        return int(self._unknown.sum())

    @property
    def width(self) -> int:
        """How much event time a stretch has."""
        return self._periods.width

    def take(self, run: Run) -> Floats:
        """Note a run; returns how many results each of its tuples has lost, or would have where all are priced."""
        self._store.make_room(np.bincount(run.stream, minlength=len(self._windows)), self._horizons())
        words = np.ascontiguousarray(run.words)
        windows = self._store.windows
        price = np.zeros(len(run))
        _, status = settle(
            self._condition.addresses[1], self._probes, Arriving(run.stream, words, run.cutoff, run.moment), price,
            windows, search_space(len(self._windows), windows.words.shape[1]), self._reach, self._periods,
            self.retention, self._price_all,
        )  # fmt: skip
        if status == OVERFLOW:
            raise self._condition.failure()
        # A tuple is priced in full iff everything within a window of it is still there.
        beyond = run.stream[(run.ts < run.cutoff - self.retention) | (run.late & (run.ts < self._known_from))]
        self._unknown += np.bincount(beyond, minlength=len(self._windows))
        self._total[1] += price.sum()
        self._frontier = max(self._frontier, run.frontier)
        if len(run):
            self._crowding.note(run.stream, words[TS])
        if self._meter is not None:
            if len(run):
                self._meter.begin(int(words[TS].min()))
            self._meter.measure(run.largest if run.ended else self._settled)
        return price

    @property
    def _settled(self) -> int:
        """The event time before which whatever still comes late is of unknown price."""
        return max(self._frontier, BEFORE_ALL) - self.retention

    def measured(self) -> MeasuredQuality | None:
        """The recall of all results so far; None where no recall is asked for."""
        if self._target is None or self._meter is None:
            return None
        unsure = sum(count * self._crowding.most_results(s) for s, count in enumerate(self._unknown.tolist()) if count)
        made, lost = self._total.tolist()
        since = None if self._frontier in (AFTER_ALL, BEFORE_ALL) else self._settled
        return MeasuredQuality(
            RESULTS, self._target.target, made, lost, self.unknown, unsure, self._meter.periods, self._meter.met,
            *self._meter.latest, provisional_from=since,
        )  # fmt: skip

    def _horizons(self) -> Words:
        return np.maximum(self._frontier, BEFORE_ALL) - self._windows - self.retention

    def made(self, ts: Words, weight: Words | None) -> None:
        """Note results that were made."""
        count = len(ts) if weight is None else weight.sum()
        self._total += (count, -count if self._price_all else 0)
        note_made(self._periods, ts, NOTHING if weight is None else weight, self._price_all)

    def put_back(self, stream: int, words: Words) -> None:
        """Note tuples again that were processed before a restart."""
        self._store.put_back(stream, words, self._horizons())

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The books without the tuples, which are persisted with the windows."""
        own = {
            "number": self._periods.number, "made": self._periods.made, "lost": self._periods.lost,
            "frontier": np.array([self._frontier, self._known_from]), "unknown": self._unknown, "total": self._total,
        }  # fmt: skip
        own |= {f"crowd_{name}": array for name, array in self._crowding.as_arrays().items()}
        return own if self._meter is None else own | self._meter.as_arrays()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], same_target: bool = True) -> None:
        """Take over the books of another one; periods are counted anew where another share is asked for now."""
        self._periods.number[:] = arrays["number"]
        self._periods.made[:], self._periods.lost[:] = arrays["made"], arrays["lost"]
        self._unknown[:], self._total[:] = arrays["unknown"], arrays["total"]
        self._frontier, self._known_from = arrays["frontier"].tolist()
        self._crowding.restore({n.removeprefix("crowd_"): a for n, a in arrays.items() if n.startswith("crowd_")})
        if self._meter is not None:
            self._meter.restore(arrays)
            if not same_target:
                self._meter.periods = self._meter.met = 0

    def begin_at(self, frontier: int) -> None:
        """Begin in the middle of a run, in which no books were kept so far."""
        self._known_from = frontier

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Results made and results lost between one edge and the next: timestamps in [edge, next), whole stretches.

        Edges are ascending; what is too old to be on the books counts as nothing.
        """
        at = edges // self.width
        first = max(int(at[0]), int(at[-1]) - len(self._periods.number))
        wanted = np.arange(first, int(at[-1]))
        place = wanted % len(self._periods.number)
        known = self._periods.number[place] == wanted
        marks = np.maximum(at, first) - first
        return _summed(self._periods.made[place] * known, marks), _summed(self._periods.lost[place] * known, marks)


def _summed(counts: Floats, marks: Words) -> Floats:
    """What lies between each two marks."""
    before = np.concatenate(([0.0], np.cumsum(counts)))
    return np.diff(before[marks])
