"""DISTINCT within a window: a row leaves unless an equal one has left within the window before it.

Invariant: of two equal rows that leave, the later is more than `range` newer than the earlier; and no tuple in time is
held back unless an equal row has left at most `range` before it. A late tuple leaves nothing and holds nothing back: a
row that stands for it may be out already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL, format_duration
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, Operator, OperatorSpec
from slackwater.operators.description import Described, Shown
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents


@dataclass(frozen=True)
class StreamDistinct(OperatorSpec):
    """Spec: the window, and the rows of a tuple that are compared. Output columns: these rows."""

    range: int
    columns: tuple[int, ...]
    rows: int
    correctable: int | None = None
    """How far behind the watermark rows are corrected; None: not at all."""

    def corrected(self, reach: int) -> StreamDistinct:
        return replace(self, correctable=reach)

    @property
    def looks_back(self) -> int:
        return self.range

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...]:
        return (self.columns,)

    @property
    def key_classes(self) -> list[KeyClass]:
        return [({0: row}, [at]) for at, row in enumerate(self.columns)]

    @property
    def state_identity(self) -> object:
        return self.range, self.columns, self.rows, self.correctable is not None

    def describe(self, shown: Shown) -> Described:
        (stream,), columns = shown.aliases, [shown.name(0, row) for row in self.columns]
        label = f"distinct {', '.join(columns)} of {stream} within {format_duration(self.range)}, in event-time order"
        windows = {stream: {"range_us": self.range, "slide_us": None}}
        attributes = {"streams": [stream], "needs_order": True, "operator": "distinct", "windows": windows}
        return Described(label, attributes | {"keys": columns})

    def build(self, context: BuildContext = PLAIN) -> DistinctOperator:
        if self.correctable is None:
            return DistinctOperator(self)
        # It is told to do more, so it is made of this one.
        from slackwater.operators.corrected_distinct import CorrectedDistinct

        return CorrectedDistinct(self)


@in_place
def first_in_window(of: Words, ts: Words, size: int, left: Words, leaves: Flags) -> None:
    """Mark the tuples that leave: `of` has the number of each one's row, `left` when each row has left last."""
    for i in range(len(ts)):
        leaves[i] = left[of[i]] < ts[i] - size
        if leaves[i]:
            left[of[i]] = ts[i]


class DistinctOperator(Operator):
    """The mutable half of `StreamDistinct`: the rows that have left within the window, and when."""

    spec: StreamDistinct

    def __init__(self, spec: StreamDistinct) -> None:
        self.spec = spec
        self._seen: Words = np.zeros((len(spec.columns), 0), np.int64)
        self._left: Words = np.zeros(0, np.int64)
        self._kept = ArrayCheckpoint("distinct")

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Pass a row on that has not left within the window."""
        in_time = np.flatnonzero(~run.late)
        ts = run.ts[in_time]
        before = self._seen.shape[1]
        both = np.hstack([self._seen, run.words[list(self.spec.columns)][:, in_time]])
        rows, of = np.unique(both, axis=1, return_inverse=True)
        of = of.ravel()
        left = np.full(rows.shape[1], BEFORE_ALL, np.int64)
        left[of[:before]] = self._left
        leaves = np.zeros(len(ts), np.bool_)
        first_in_window(of[before:], ts, self.spec.range, left, leaves)
        # What is older holds nothing back any more.
        kept = np.flatnonzero(left >= run.watermark - self.spec.range)
        self._seen, self._left = np.ascontiguousarray(rows[:, kept]), left[kept]
        passing = in_time[leaves]
        if len(passing):
            columns = tuple(run.words[row, passing] for row in self.spec.columns)
            yield Output(run.ts[passing], columns, passing, None, len(passing))

    @property
    def state_rows(self) -> int:
        """Rows that hold equal ones back."""
        return len(self._left)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        yield WindowContents(0, len(self._left), self._seen.size + len(self._left))

    def snapshot_delta(self) -> list[StateUpdate]:
        return list(self._kept.snapshot_delta({"seen": self._seen, "left": self._left}))

    def restore(self, entries: list[StateUpdate]) -> None:
        arrays = self._kept.restore(entries)
        self._seen, self._left = arrays["seen"], arrays["left"]
