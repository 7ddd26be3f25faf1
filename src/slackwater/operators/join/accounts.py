"""The books of a join: results made and results lost, by stretches of event time.

Invariant: a stretch that is still on the books has exact numbers for everything known so far; what came later than the
retention reaches is counted as tuples of unknown price.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slackwater.disorder.run import Run
from slackwater.expressions.compile import Condition
from slackwater.kernel import NOTHING
from slackwater.model.batch import Floats, Words
from slackwater.model.time import BEFORE_ALL
from slackwater.operators.join.enumerate import Arriving, Probes, search_space
from slackwater.operators.join.ledger import OVERFLOW, Periods, Reach, note_made, settle
from slackwater.operators.join.probing import ProbePlan
from slackwater.operators.join.store import WindowStore

NEVER = -(2**62)


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
        rows: int,
        condition: Condition,
        retention: int,
        width: int,
        stretches: int,
        price_all: bool = False,
    ) -> None:
        self._condition, self._windows, self.retention = condition, windows, retention
        self._price_all = price_all
        """Whether results that are made count as lost before, or after, so that they must be taken off again."""
        self._probes = Probes(plan.steps, plan.leaves, plan.checks, plan.conditions, windows, True)
        self._store = WindowStore(len(windows), rows, plan.indexes)
        self._reach = Reach(*np.zeros((2, len(windows) + 1), np.int64))
        self._periods = Periods(np.full(stretches, NEVER, np.int64), np.zeros(stretches), np.zeros(stretches), width)
        self._frontier = BEFORE_ALL
        self.unknown = 0
        """Late tuples that came after everything they could have been joined with was forgotten."""

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
        unknown, status = settle(
            self._condition.refine_listed, self._probes, Arriving(run.stream, words, run.cutoff), price, windows,
            search_space(len(self._windows), windows.words.shape[1]), self._reach, self._periods, self.retention,
            self._price_all,
        )  # fmt: skip
        if status == OVERFLOW:
            raise self._condition.failure()
        self.unknown += unknown
        self._frontier = max(self._frontier, run.frontier)
        return price

    def _horizons(self) -> Words:
        return np.maximum(self._frontier, BEFORE_ALL) - self._windows - self.retention

    def made(self, ts: Words, weight: Words | None) -> None:
        """Note results that were made."""
        note_made(self._periods, ts, NOTHING if weight is None else weight, self._price_all)

    def put_back(self, stream: int, words: Words) -> None:
        """Note tuples again that were processed before a restart."""
        self._store.put_back(stream, words, self._horizons())

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The books without the tuples, which are persisted with the windows."""
        return {
            "number": self._periods.number, "made": self._periods.made, "lost": self._periods.lost,
            "scalars": np.array([self._frontier, self.unknown]),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the books of another one."""
        self._periods.number[:] = arrays["number"]
        self._periods.made[:], self._periods.lost[:] = arrays["made"], arrays["lost"]
        self._frontier, self.unknown = arrays["scalars"].tolist()

    def between(self, begin: int, end: int) -> tuple[float, float]:
        """(results made, results lost) with timestamps in [begin, end), cut to whole stretches."""
        first, last = begin // self.width, end // self.width
        size = len(self._periods.number)
        wanted = np.arange(max(first, last - size), last)
        place = wanted % size
        known = place[self._periods.number[place] == wanted]
        return float(self._periods.made[known].sum()), float(self._periods.lost[known].sum())
