"""UNION ALL: several inputs as one stream, in event-time order.

Invariant: every tuple in time leaves once, in the order in which it is processed; a late one does not leave, or follows
as a correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import FIRST_COLUMN, Flags
from slackwater.core.emitting import INSERT
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, Operator, OperatorSpec, WithoutKey
from slackwater.operators.description import Described, Shown
from slackwater.operators.output import Output


@dataclass(frozen=True)
class StreamUnion(OperatorSpec):
    """Spec of a union. Output columns: the rows from FIRST_COLUMN on, which mean the same in every input."""

    inputs: int
    width: int
    """How many columns there are."""
    rows: int
    correctable: int | None = None
    """How far behind the watermark late tuples follow as corrections; None: not at all."""

    @property
    def streams(self) -> int:
        return self.inputs

    def corrected(self, reach: int) -> StreamUnion:
        return replace(self, correctable=reach)

    @property
    def key_classes(self) -> list[KeyClass]:
        return [(dict.fromkeys(range(self.streams), row), [at]) for at, row in enumerate(self.rows_of_columns())]

    @property
    def without_key(self) -> WithoutKey:
        return WithoutKey.FREELY

    def describe(self, shown: Shown) -> Described:
        label = f"union of {self.streams} queries, in event-time order"
        return Described(label, {"operator": "union", "streams": list(shown.aliases)})

    def rows_of_columns(self) -> range:
        """The row of every column."""
        return range(FIRST_COLUMN, FIRST_COLUMN + self.width)

    def build(self, context: BuildContext = PLAIN) -> UnionOperator:
        return UnionOperator(self)


class UnionOperator(Operator):
    """The mutable half of `StreamUnion`; it has nothing to remember."""

    def __init__(self, spec: StreamUnion) -> None:
        self.spec = spec

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Pass the tuples in time on, and then late ones that are corrections."""
        yield from self._passing(run, ~run.late)
        if self.spec.correctable is not None:
            near = run.ts >= run.watermark_at_arrival - self.spec.correctable
            for late in self._passing(run, run.late & near):
                yield replace(late, change=np.full(len(late.ts), INSERT), amends=True)

    def _passing(self, run: OrderedBatch, which: Flags) -> Iterator[Output]:
        passing = np.flatnonzero(which)
        if len(passing):
            columns = tuple(run.words[row, passing] for row in self.spec.rows_of_columns())
            yield Output(run.ts[passing], columns, passing, None, len(passing))
