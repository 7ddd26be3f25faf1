"""A recall target on a query of several operators: the steady controller, shown the rows that should reach the top.

A row is to the top what a tuple is to a selection: it has an event time and a slack it needs, and it is there iff that
much was waited. So the controller of a join is given one stream, of true rows, with a window of nothing; the model's
loss under slack k is then the share of rows that need more, as counted.

Invariant: the ledger beside it have what was really made; nothing of the needs goes into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.measured import MeasuredQuality
from slackwater.core.quality import Recall
from slackwater.disorder.controllers import DelayObservations
from slackwater.disorder.meters import Measurable, QualityMeter
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.composed.row_ledger import RowLedger
from slackwater.operators.composed.true_rows import FollowerMeter, TrueRows
from slackwater.quality.recall.steady import ControllerConfig, SteadyRecall


class ComposedRecall(SteadyRecall):
    """Slack for the recall of the rows that reach the top; `whole`: of those that the top itself makes."""

    def __init__(
        self,
        target: Recall,
        config: ControllerConfig,
        retention: int,
        slack: int,
        max_behind: int,
        rows: TrueRows,
        whole: bool,
    ) -> None:
        super().__init__(target, (0,), config, retention, slack, max_behind)
        self._rows, self._whole = rows, whole
        self._row_ledger = RowLedger(target, config.interval, self.memory, retention, rows.reach)
        self.ledger = self._row_ledger

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        return (FollowerMeter(self),)

    def learn(self, arrived: DelayObservations) -> None:
        rows = self._rows.take(arrived, self.slack)
        if len(rows):
            self._row_ledger.take(rows.ts)
            super().learn(DelayObservations(np.zeros(len(rows), np.int64), rows.words, rows.need, rows.need))

    def made(self, ts: Words) -> None:
        """The top has made results."""
        if self._whole:
            self._row_ledger.made(ts[ts >= self._rows.known_from])

    def reached_top(self, run: OrderedBatch) -> None:
        """What the top has been given, and how far it has come."""
        if not self._whole:
            self._row_ledger.made(run.ts[run.ts >= self._rows.known_from])
        self._row_ledger.pass_watermark(run.watermark, run.max_ts)

    def measured(self) -> MeasuredQuality:
        """The recall of all rows so far."""
        return self._row_ledger.measured_with(self._rows.unknown, self._rows.most)

    def begin_at(self, clock: int) -> None:
        """Begin in the middle of a run, in which nobody has looked so far."""
        self._rows.begin_at(clock)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        found = super().as_arrays()
        found |= {f"books_{name}": array for name, array in self._row_ledger.as_arrays().items()}
        return found | {f"rows_{name}": array for name, array in self._rows.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self._row_ledger.restore({n.removeprefix("books_"): a for n, a in arrays.items() if n.startswith("books_")})
        self._rows.restore({n.removeprefix("rows_"): a for n, a in arrays.items() if n.startswith("rows_")})

    def describe(self) -> str:
        of = "what the query gives" if self._whole else "the rows that reach the aggregate"
        return f"{super().describe()}; recall is that of {of}"
