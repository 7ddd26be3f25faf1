"""A bound on the error of an aggregate above other operators: the steady controller, shown the rows it should get.

What a window lacks are rows: results that a join below has lost, tuples that came too late for a union, shares of
windows below that were closed too early. Each has a value, a window and a slack it needs; so the slack that a window
needs, and whether its answer was within the bound, follow as for an aggregate of raw tuples.

Invariant: for COUNT, SUM and AVG nothing is modelled. Whether a window was within the bound is told by the true rows
and by those that really reached the aggregate, of MIN and MAX by their values. What neither tells of is never said to
be better than it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.measured import MeasuredQuality
from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.controllers import DelayObservations
from slackwater.disorder.meters import Measurable, QualityMeter, Scaling, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.composed.error_rows import absorb_rows, mark_ended
from slackwater.operators.composed.row_tally import RowTally, with_sums
from slackwater.operators.composed.true_rows import KnownRows
from slackwater.quality.error.meter import Answers
from slackwater.quality.error.remembered_windows import ENTERED
from slackwater.quality.error.steady import SteadyError
from slackwater.quality.error.window_losses import CLOCK
from slackwater.quality.error.windows import ErrorMeter
from slackwater.quality.stats.keyed_sums import tidied

SPARE = 256
"""Records that there is room for at least."""


class ComposedError(SteadyError):
    """Slack for a bound on the error of the top aggregate. `coarse`: its rows are those of an aggregate below."""

    def __init__(
        self, target: RelativeError, options: Options, retention: int, rows: KnownRows, watched: Watched, coarse: bool,
        scaling: Scaling | None = None,
    ) -> None:  # fmt: skip
        # A row is noted in all its windows when it becomes known, so these are kept for a window longer.
        super().__init__(target, replace(options, retention=retention + watched.range))
        self._rows, self.scaling = rows, scaling
        self.watch(watched)
        losses = self._losses
        self._tally = RowTally(
            losses.watch, watched.aggregates, losses.components, len(losses.ledger.totals.lines), retention, coarse,
            target.bound,
        )  # fmt: skip
        if self._estimates is not None:
            self._tally.factors = self._estimates.factors_between

    @property
    def meter(self) -> QualityMeter:
        """What is told of the rows that were made."""
        return ErrorMeter(self, None)

    def meters(self, query: Measurable, automatic_retention: bool, max_behind: int) -> tuple[QualityMeter, ...]:
        return (self.meter,)

    def learn(self, arrived: DelayObservations) -> None:
        rows = self._rows.take(arrived, self.slack)
        self.learn_rows(rows.words, rows.need)

    def learn_rows(self, words: Words, need: Words) -> None:
        """Note true rows, with the slack that each needs."""
        words = np.ascontiguousarray(words)
        self._tally.took(words)
        if self._models:
            self._modelled.absorb(words)
        losses, done = self._losses, 0
        while done < len(need):
            done = absorb_rows(losses.watch, losses.ledger, words, words.view(np.float64), need, done, self._entered)
            if done < len(need):
                self._reserve()

    def learn_sums(self, sums: Words) -> None:
        """Note true rows that need no slack, as sums."""
        ledger = self._losses.ledger
        ledger.marks[CLOCK] = max(int(ledger.marks[CLOCK]), int(sums[1].max(initial=BEFORE_ALL)))
        self._losses.ledger = ledger._replace(totals=with_sums(ledger.totals, sums))

    def take_sums(self, sums: Words) -> None:
        """Note rows that were made, as sums."""
        self._tally.take_sums(sums)

    def _reserve(self) -> None:
        """Space for more rows, each in all its windows."""
        watch, ledger = self._losses.watch, self._losses.ledger
        most = watch.range // watch.slide + SPARE
        self._losses.ledger = ledger._replace(
            totals=tidied(ledger.totals, SPARE, 0), late=tidied(ledger.late, most, most)
        )

    @property
    def _entered(self) -> int:
        """The newest window that has ended, as far as was looked."""
        return int(self._required.marks[ENTERED])

    def _look(self, clock: int) -> None:
        self._tally.count(self._losses.ledger)
        mark_ended(self._losses.ledger, self._entered + 1, self._losses.last_ended(clock))
        super()._look(clock)

    def observe_batch(self, run: OrderedBatch, raw: OrderedBatch, answers: Sequence[Answers]) -> None:
        """What the top has been given, and how far it has come; windows are judged by their rows."""
        self._note_closed(run)
        self._tally.observe_batch(run)

    def measured(self) -> MeasuredQuality:
        return self._tally.measured(self.target.confidence, self._losses.ledger, self._rows.unknown)

    def begin_at(self, clock: int) -> None:
        """Begin in the middle of a run, in which nobody has looked so far."""
        self._rows.begin_at(clock)
        self._tally.known_from = self._rows.known_from

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        found = super().as_arrays()
        found |= {f"tallied_{name}": array for name, array in self._tally.as_arrays().items()}
        return found | {f"rows_{name}": array for name, array in self._rows.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(arrays)
        self._tally.restore({n.removeprefix("tallied_"): a for n, a in arrays.items() if n.startswith("tallied_")})
        self._rows.restore({n.removeprefix("rows_"): a for n, a in arrays.items() if n.startswith("rows_")})

    def describe(self) -> str:
        return f"{super().describe()}; a late tuple weighs what is missing above because of it"
