"""A window aggregate that reads the panes of a store, in place of its own.

Invariant: what it emits for a run is what `AggregateOperator` emits for the same tuples, up to the rounding of float
sums, whose partials are added up in another order. Of its own it has the number of its next window, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.disorder.meters import AnswerLog, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.aggregate.algebra import lower
from slackwater.operators.aggregate.answers import NOTHING_NEAR, log_for, summaries
from slackwater.operators.aggregate.shared.fragments import BY_EPOCH, OF_KEY, WINDOW
from slackwater.operators.aggregate.shared.store import ClosedLines, PaneReader
from slackwater.operators.contract import Operator
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents

if TYPE_CHECKING:
    from slackwater.operators.aggregate.operator import WindowAggregate


class PaneReadingOperator(Operator):
    """The store is moved on by its owner, who delivers what its windows came to."""

    def __init__(self, spec: WindowAggregate, reader: PaneReader) -> None:
        self.spec, self.reader = spec, reader
        self._answers: AnswerLog | None = None

    @property
    def watched(self) -> Watched:
        return self.spec.watched

    def answers_for(self, bound: float) -> AnswerLog | None:
        self._answers = log_for(self.spec.aggregates, bound)
        return self._answers

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        delivered, self.reader.delivered = self.reader.delivered, []
        for closed, by, clock, emit_time in delivered:
            yield replace(self._output(closed, by), clock=clock, emit_time=emit_time)

    def _output(self, closed: ClosedLines, by: Words) -> Output:
        lines, reader = closed.lines, self.reader
        start = lines[:, WINDOW] * reader.slide
        values = closed.values
        if values is None or self._answers is not None:
            assert reader.store is not None, "it reads panes"
            layout = reader.store.spec.layout
            if values is None:
                values = [lower(one, layout, closed.state) for one in reader.aggregates]
        if self._answers is not None:
            known = summaries(reader.aggregates, layout, closed.state, values, NOTHING_NEAR)
            self._answers.note(lines[:, WINDOW].copy(), lines[:, OF_KEY:].copy(), known)
        keys = [lines[:, OF_KEY + c].copy() for c in range(len(self.spec.keys))]
        end = start + reader.range
        return Output(end, (start, end, *keys, *values), by, None, len(lines), at_watermark=True)

    @property
    def state_rows(self) -> int:
        """Partials that it still needs, whoever else needs them."""
        return self.reader.held

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """The same, with their words."""
        held = self.reader.held
        yield WindowContents(0, held, held * (len(self.spec.keys) + self.spec.layout.width))

    def snapshot_delta(self) -> list[StateUpdate]:
        return [state_update("aggregate", "next", encode_json({"next": self.reader.next}))]

    def restore(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.key == "next" and entry.value is not None:
                self.reader.next = decode_json(entry.value)["next"]


def epochs_of(closed: ClosedLines) -> Words:
    """Before which epoch each line was emitted; AT_END: behind the last."""
    return np.ascontiguousarray(closed.lines[:, BY_EPOCH])
