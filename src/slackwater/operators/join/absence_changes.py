"""Outer and anti joins with corrections: what late tuples add, and what they show to be false.

The first answers are those of the join without corrections. A late tuple may complete pairs: they follow. If a tuple in
one of them was said to have no partner, that row is deleted; if it is still to be said, it is said and taken back, for
first answers never change. A late tuple that has no partner when its window has passed has its row then.

Invariant: first answers and corrections together are the rows of a join that waits for `correctable` longer. A row
without partner is inserted once, and deleted once at most.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.emitting import DELETE, INSERT
from slackwater.core.join_kinds import JoinKind
from slackwater.core.state import StateUpdate
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.contract import BuildContext
from slackwater.operators.join.absence import OuterJoin, OuterJoinOperator, Waiting
from slackwater.operators.output import Output


class CorrectedOuterJoin(OuterJoinOperator):
    """The mutable half of an `OuterJoin` whose pairs are corrected."""

    def __init__(self, spec: OuterJoin, context: BuildContext) -> None:
        super().__init__(spec, context)
        self._reaches = spec.made_by.leaving.reaches
        self._partnered: Words = np.zeros(0, np.int64)
        """Marks of those that wait, and have a partner that came late."""
        self._said = Waiting.none(self._columns)
        """Those whose rows have left and may still turn out false."""
        self._amendments: list[Output] = []

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield its rows, and then what follows of late tuples."""
        self._amendments = []
        yield from super().process(run, ordered)
        self._said = self._said.only(self._said.until >= run.watermark - self._reaches)
        self._partnered = self._partnered[np.isin(self._partnered, self._waiting.mark)]
        yield from (one for one in map(self._only_wanted, self._amendments) if len(one.ts))

    def _of_run(self, run: OrderedBatch, words: Words) -> Waiting:
        in_reach = np.flatnonzero(words[TS] >= run.watermark_at_arrival - self._reaches)
        self._end = len(run)
        return self._of_tuples(run.stream[in_reach], words[:, in_reach], run.late[in_reach])

    def _follow(self, made: Output) -> None:
        """Pairs that late tuples complete."""
        *columns, first, second = made.columns
        if self.spec.kind is not JoinKind.ANTI:
            change = np.full(len(made.ts), INSERT)
            self._amendments.append(
                Output(made.ts, tuple(columns), made.by, None, len(made.ts), change=change, amends=True)
            )
        for preserved, marks in zip(self.spec.kind.preserved, (first, second), strict=True):
            if preserved:
                shown = np.isin(self._said.mark, marks)
                self._amend(self._said.only(shown), DELETE)
                self._said = self._said.only(~shown)
                self._partnered = np.union1d(self._partnered, marks)

    def _without_partner(self, watermark: int) -> Waiting:
        gone = super()._without_partner(watermark)
        had = np.isin(gone.mark, self._partnered)
        self._amend(gone.only(gone.late & ~had), INSERT)
        self._amend(gone.only(~gone.late & had), DELETE)
        said = self._said.and_then(gone.only(~had))
        self._said = said.only(np.argsort(said.mark, kind="stable"))
        return gone

    def _amend(self, rows: Waiting, change: int) -> None:
        """Rows without partner that are inserted, or deleted as the second thing that becomes of them."""
        count = len(rows)
        if count:
            by, changes = np.full(count, self._end), np.full(count, change)
            versions = np.full(count, int(change == DELETE))
            self._amendments.append(
                Output(rows.until, tuple(rows.columns), by, None, count, change=changes, version=versions, amends=True)
            )

    def _arrays(self) -> dict[str, Words]:
        return super()._arrays() | {"partnered": self._partnered, "said": self._said.mark}

    def restore(self, entries: list[StateUpdate]) -> None:
        super().restore(entries)
        arrays = self._restored
        if arrays:
            self._partnered = arrays["partnered"]
            self._said = self._standing(arrays["said"], np.zeros(len(arrays["said"]), np.bool_))
