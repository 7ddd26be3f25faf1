"""Aggregates over windows that are not of time: the machinery of windows of time, with numbers for event times.

Invariant: a subclass gives the tuples it takes numbers, and says when which windows of numbers are complete; what is
emitted has the event times of its window. Late tuples are shown to no window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.state import StateUpdate
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.operator import AggregateOperator, WindowAggregate
from slackwater.operators.aggregate.panes import last_pane
from slackwater.operators.contract import PLAIN, BuildContext, Operator
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents


@dataclass(frozen=True)
class CountWindows(WindowAggregate, ABC):
    """Spec of an aggregate whose windows know no time."""

    @abstractmethod
    def build(self, context: BuildContext = PLAIN) -> Operator:
        """The mutable half, which gives the numbers."""

    @property
    def needs_order(self) -> bool:
        return True

    @property
    def one_shard(self) -> str:
        return "windows that count tuples count those of all keys"

    @property
    def as_panes(self) -> None:
        return None

    @property
    def state_identity(self) -> object:
        return self

    @property
    def in_numbers(self) -> tuple[int, int | None]:
        """Range and slide of the windows, in numbers."""
        return self.range, self.slide

    def over_numbers(self) -> WindowAggregate:
        """The same over tuples whose time is a number, and whose event time stands in a row behind the others."""

        def moved(row: int) -> int:
            return self.rows if row == TS else row

        aggregates = tuple(replace(one, row=moved(one.row), time=moved(one.time)) for one in self.aggregates)
        return WindowAggregate(*self.in_numbers, tuple(map(moved, self.keys)), aggregates, self.rows + 1)


class CountWindowAggregate(AggregateOperator):
    """An aggregate operator whose first window begins at 0."""

    def _begin(self) -> None:
        super()._begin()
        scalars = self._tables.scalars
        scalars[st.NEXT] = 0
        scalars[st.ENTERED] = scalars[st.FLIP] = last_pane(self.spec.grid, -1)

    @property
    def next_window(self) -> int:
        """The first window that is not closed."""
        return int(self._tables.scalars[st.NEXT])


@dataclass(frozen=True)
class Numbered:
    """The tuples of a run that are taken."""

    place: Words
    """Where they stand in the run."""
    number: Words
    reached: Words
    """Windows of numbers that end here are complete before the tuple."""
    at_end: int
    """The same for the end of the run."""


class CountWindowOperator(Operator):
    """The mutable half of `CountWindows`."""

    def __init__(self, spec: CountWindows, texts: TextTable | None = None) -> None:
        self._windows = CountWindowAggregate(spec.over_numbers(), texts)

    @abstractmethod
    def _number(self, run: OrderedBatch) -> Numbered:
        """Give numbers to tuples in time."""

    @abstractmethod
    def _timed(self, run: OrderedBatch, first: Words) -> tuple[Words, Words, Words]:
        """Of windows that begin with these numbers: start, end, and the place of the tuple that caused them."""

    def _processed(self) -> None:
        """A run has been processed: windows that are closed may be forgotten."""

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it completes."""
        taken = self._number(run)
        words = np.vstack([taken.number[None], run.words[1:, taken.place], run.ts[None, taken.place]])
        tuples = run.tuples.take(taken.place)._replace(words=words, watermark_at_arrival=taken.reached)
        numbered = replace(run, tuples=tuples, watermark=taken.at_end)
        for output in self._windows.process(numbered, ordered=False):
            first, _, *rest = output.columns
            start, end, by = self._timed(run, first)
            yield Output(end, (start, end, *rest), by, None, output.results)
        self._processed()

    @property
    def state_rows(self) -> int:
        """Partial aggregates, and values of holistic ones."""
        return self._windows.state_rows

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        yield from self._windows.window_contents(watermark)

    def snapshot_delta(self) -> list[StateUpdate]:
        return [*self._windows.snapshot_delta(), *self._own_updates()]

    def restore(self, entries: list[StateUpdate]) -> None:
        own = [entry for entry in entries if entry.namespace.startswith("own")]
        self._windows.restore([entry for entry in entries if entry not in own])
        self._restore_own(own)

    @abstractmethod
    def _own_updates(self) -> list[StateUpdate]:
        """What to persist beside the windows, in cells whose names begin with `own`."""

    @abstractmethod
    def _restore_own(self, entries: list[StateUpdate]) -> None: ...
