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

from slackwater.core.batch import TS, Words
from slackwater.core.quality import Recall
from slackwater.disorder.controllers import DelayObservations
from slackwater.disorder.meters import LedgerTerms, Measurable, QualityMeter
from slackwater.operators.composed.row_ledger import RowLedger
from slackwater.operators.composed.true_rows import KnownRows
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
        rows: KnownRows,
        whole: bool,
    ) -> None:
        super().__init__(target, (0,), config, retention, slack, max_behind)
        self._rows, self._whole = rows, whole
        self._row_ledger = RowLedger(LedgerTerms(target, retention, config.interval, self.memory), rows, whole)
        self.ledger = self._row_ledger

    @property
    def meter(self) -> QualityMeter:
        """What is told of the rows that were made."""
        return self._row_ledger

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        return (self.meter,)

    def learn(self, arrived: DelayObservations) -> None:
        rows = self._rows.take(arrived, self.slack)
        if len(rows):
            self.learn_rows(rows.words, rows.need)

    def learn_rows(self, words: Words, need: Words) -> None:
        """Note true rows, with the slack that each needs."""
        self._row_ledger.take(words[TS])
        super().learn(DelayObservations(np.zeros(len(need), np.int64), words, need, need))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return super().as_arrays() | {f"rows_{name}": array for name, array in self._rows.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self._rows.restore({n.removeprefix("rows_"): a for n, a in arrays.items() if n.startswith("rows_")})

    def describe(self) -> str:
        of = "what the query gives" if self._whole else "the rows that reach the aggregate"
        return f"{super().describe()}; recall is that of {of}"
