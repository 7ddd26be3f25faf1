"""The end of a lower fragment: what would reach the last operator of a query is handed on, as words.

The last operator runs elsewhere, on what all shards of the fragment below it hand on. Tuples stand as they would stand
before that operator, in time or late. An aggregate of a stream hands on partials of the tuples in time, which are far
fewer, and its late tuples one by one.

Invariant: a handed tuple is late above iff it is late here, for the fragment above stands at the watermark that this
one had when the epoch began. So nothing is kept here, and nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.disorder.meters import Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.pane_partials import PANE, all_partials_of
from slackwater.operators.contract import PLAIN, BuildContext, Operator, OperatorSpec
from slackwater.operators.description import Described, Shown
from slackwater.operators.output import Output

PARTIALS = -1
"""In place of an input: the words are partials of `pane_partials`."""


@dataclass(frozen=True)
class Handing(OperatorSpec):
    """Spec: hands on the tuples of so many inputs. Output columns: the input of each, then its words."""

    inputs: int
    rows: int
    summed: Watched | None = None
    """The windows above, where sums of rows by piece are enough to judge them."""

    @property
    def streams(self) -> int:
        return self.inputs

    def describe(self, shown: Shown) -> Described:
        return Described(f"hand on {', '.join(shown.aliases)}", {"operator": "handing"})

    def build(self, context: BuildContext = PLAIN) -> Operator:
        return HandingOperator(self)


@dataclass(frozen=True)
class PanePartials(OperatorSpec):
    """Spec: hands on partials of the tuples of a stream, as an aggregate makes them. Output columns: PARTIALS, then the
    words of partials; or 0, then those of late tuples."""

    aggregate: WindowAggregate

    @property
    def pane_partials(self) -> WindowAggregate | None:
        """The aggregate, where it has partials."""
        return self.aggregate.pane_partials

    @property
    def rows(self) -> int:
        return self.aggregate.rows

    @property
    def needs_order(self) -> bool:
        return False

    @property
    def windowed(self) -> bool:
        return True

    def describe(self, shown: Shown) -> Described:
        return Described(f"partials of {', '.join(shown.aliases)}", {"operator": "partials"})

    def build(self, context: BuildContext = PLAIN) -> Operator:
        return PanePartialsOperator(self)


class HandingOperator(Operator):
    """The mutable half of `Handing`, which has no state."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        if len(run):
            yield handed(run.words[TS], run.stream, run.words)


class PanePartialsOperator(HandingOperator):
    """The mutable half of `PanePartials`."""

    def __init__(self, spec: PanePartials) -> None:
        super().__init__(spec)
        self._taken: list[Words] = []

    def combine_panes(self, partials: Words) -> None:
        """Partials that somebody else has made are handed on with the next run."""
        self._taken.append(partials)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        made, self._taken = self._taken, []
        late = run.late
        if not late.all():
            in_time = run.words if not late.any() else run.words[:, ~late]
            made.append(all_partials_of(self.spec.aggregate, in_time))
        for partials in made:
            yield handed(partials[PANE], np.full(partials.shape[1], PARTIALS), partials)
        if late.any():
            words = run.words[:, late]
            yield handed(words[TS], np.zeros(words.shape[1], np.int64), words)


def handed(ts: Words, inputs: Words, words: Words) -> Output:
    """Words that are handed on; they count as no results."""
    return Output(ts, (inputs, *words), np.zeros(len(ts), np.int64), None, 0)
