"""HAVING: which of the windows and groups that an aggregate has computed are emitted.

Invariant: nothing but what leaves is changed. Panes, watermarks and late tuples are those of the aggregate without it,
so a checkpoint does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.state import StateUpdate
from slackwater.disorder.meters import AnswerLog
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import compile_filter
from slackwater.expressions.tree import Expr
from slackwater.operators.contract import BuildContext, Operator
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents


@dataclass(frozen=True)
class Having:
    """Spec: what must all be true of a line."""

    conditions: tuple[Expr, ...]
    columns: tuple[str, ...]
    """The names of the columns of a line: bounds of the window, keys, aggregates."""

    def compiled(self, context: BuildContext) -> Callable[[tuple[Words, ...]], Flags]:
        """Which lines are wanted, given their columns."""
        places = {name: at for at, name in enumerate(self.columns)}
        keep = compile_filter(self.conditions, lambda stream, name: places[name], context.encode_text)

        def wanted(columns: tuple[Words, ...]) -> Flags:
            lines = np.stack(columns)
            return keep(lines, lines.view(np.float64), lines.shape[1])

        return wanted


class HavingOperator(Operator):
    """An aggregate of which not all lines are emitted."""

    def __init__(self, aggregate: Operator, having: Having, context: BuildContext) -> None:
        self._aggregate = aggregate
        self._wanted = having.compiled(context)

    @property
    def spec(self) -> Any:
        return self._aggregate.spec

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        for output in self._aggregate.process(run, ordered):
            kept = np.flatnonzero(self._wanted(output.columns))
            if len(kept) == len(output.ts):
                yield output
            elif len(kept):
                yield output.only(kept)

    def combine_panes(self, partials: Words) -> None:
        self._aggregate.combine_panes(partials)

    @property
    def state_rows(self) -> int:
        return self._aggregate.state_rows

    def answers_for(self, bound: float) -> AnswerLog | None:
        return self._aggregate.answers_for(bound)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        return self._aggregate.window_contents(watermark)

    def snapshot_delta(self) -> list[StateUpdate]:
        return self._aggregate.snapshot_delta()

    def restore(self, entries: list[StateUpdate]) -> None:
        self._aggregate.restore(entries)
