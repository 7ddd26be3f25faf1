"""As-of joins with corrections: rows follow the versions that come late, and late tuples have their rows after all.

Invariant: first answers are those of the join alone. With corrections they are those of one that waits for
`correctable` longer. The versions of a row count what has left for its tuple.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.emitting import DELETE, INSERT, UPDATE
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.asof.answered import Answered, Turned
from slackwater.operators.asof.operator import AsOfOperator
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.contract import BuildContext
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents

# Notes of an answered tuple: whether its row is there, and how many have left.
THERE, LINES = range(2)


class CorrectedAsOf(AsOfOperator):
    """The mutable half of an `AsOfJoin` that is corrected."""

    def __init__(self, spec: AsOfJoin, context: BuildContext) -> None:
        super().__init__(spec, context)
        self._answered = Answered(spec, notes=2)

    @property
    def _followed(self) -> bool:
        return True

    def _corrections(self, turned: Turned, run: OrderedBatch) -> Iterator[Output]:
        reach, first = self.spec.correctable or 0, turned.words[TS] + self.spec.strict
        met = np.full(len(first), BEFORE_ALL)
        met[turned.late] = run.watermark_at_arrival[turned.place[turned.late]] - reach
        counts = turned.words[TS] >= met
        notes = np.stack([turned.left, turned.left]).astype(np.int64)
        affected = self._answered.take(turned, np.maximum(first, met), counts, notes)
        if affected is not None:
            yield from self._changes(affected.at, affected.found, affected.answers, affected.by)
        self._answered.forget(run.watermark - reach)

    def _changes(self, at: Words, found: Flags, answers: Words, by: Words) -> Iterator[Output]:
        """What follows now that these tuples have these versions."""
        words, notes = self._answered.words(at), self._answered.notes
        before, _ = self._rows(words, *self._answered.answers(at))
        now, wanted = self._rows(words, found, answers)
        there = notes[THERE, at] > 0
        changes = np.flatnonzero(np.where(there & wanted, (before != now).any(axis=0), there != wanted))
        self._answered.answer(at, found, answers)
        if not len(changes):
            return
        lines, there, wanted = at[changes], there[changes], wanted[changes]
        change = np.where(there, np.where(wanted, UPDATE, DELETE), INSERT)
        version = notes[LINES, lines].copy()
        notes[THERE, lines] = wanted
        notes[LINES, lines] += 1
        # A row that goes is called as it was there.
        columns = np.where(change == DELETE, before[:, changes], now[:, changes])
        yield Output(
            words[TS, changes], tuple(columns), by[changes], None, len(changes), change=change, version=version,
            amends=True,
        )  # fmt: skip

    @property
    def state_rows(self) -> int:
        """Tuples that wait, versions, and answered tuples with all versions that may change their answers."""
        return super().state_rows + self._answered.held

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        sizes = zip(self._answered.held_by_stream, self._answered.weight, strict=True)
        for own, (tuples, words) in zip(super().window_contents(watermark), sizes, strict=True):
            yield WindowContents(own.input, own.tuples + tuples, own.words + words)

    def _arrays(self) -> dict[str, Words]:
        return super()._arrays() | self._answered.as_arrays()

    def _take_over(self, arrays: dict[str, Words]) -> None:
        super()._take_over(arrays)
        self._answered.restore(arrays)
