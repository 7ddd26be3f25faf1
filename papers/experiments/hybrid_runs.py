"""A query over windows that are full, run slide by slide, whose plan can be changed between two slides.

Windows are filled by restoring state: nothing of the past is computed for it. The tuples of each slide are made before
the clock starts. All placements of a query are then measured over the same windows, one after the other: a change of
plan moves no tuple.

Invariant: what runs is the operator of the product, built from the query's text by its planner; estimates are those of
its planner, for table statistics of the same windows. Times are seconds of the processor, of all threads, for the
tuples of one slide; by the clock they are told beside.

References: 004 §6.4.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from statistics import median

import numpy as np
import pyarrow as pa

from slackwater.core.batch import TS, Words
from slackwater.core.state import encode_json, encode_words, state_update
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.relational import Placement, Relation, operators
from slackwater.operators.contract import PLAIN
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.operators.instant.operator import InstantOperator
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.table_statistics import take_statistics
from slackwater.plan.placement.costs import Costs, load_costs
from slackwater.plan.placement.learning import statistics_of
from slackwater.plan.placement.place import Placed, operator_costs, place
from slackwater.plan.placement.plan_cost import cost_of, parts_of
from slackwater.plan.placement.statistics import Statistics
from slackwater.plan.planner import plan
from slackwater.sources.binding import bind_to_tables

SLIDES = 3
"""Slides that are timed for each plan, after one that is not."""
SECOND = 1_000_000
Columns = Mapping[str, np.ndarray]
Make = Callable[[int, int], Columns]
"""The columns of tuples number `begin` to `end` of a stream, without their times."""


@dataclass(frozen=True)
class Taken:
    """What a slide took, in seconds: of the processor, and by the clock."""

    cpu: float
    wall: float


class FullWindows:
    """A query over one stream at a steady rate, once its windows are full."""

    def __init__(self, text: str, source: str, table: pa.Table, make: Make, rate: float) -> None:
        """`table` has the columns of the source; `rate` is of tuples that pass its filter."""
        spec = plan(bind_to_tables(text, {source: table}, "ts").query).operator
        assert isinstance(spec, InstantRelation), "a query over instantaneous windows"
        self._make, self._rate, self._sent = make, rate, 0
        self._spec, self._places = spec, dict(spec.places[0])
        operator = InstantRelation(spec.as_stated, spec.slide, spec.places, spec.rows).build()
        assert isinstance(operator, InstantOperator)
        self.operator = operator
        self._at = spec.range
        words = self._words(0, spec.range)
        chunk = {f"w{at}": words[row] for at, row in enumerate([TS, *self._places.values()])}
        passed = state_update("instant", "passed", encode_json({"passed": self._at}))
        operator.restore([passed, state_update("window", "0-0", encode_words(chunk))])

    @property
    def stated(self) -> Relation:
        """The tree of the query."""
        return self._spec.as_stated

    @property
    def statistics(self) -> Statistics:
        """Table statistics of the windows."""
        found = take_statistics(self.stated, self.operator.windows.tuples, self._at, PLAIN)
        return statistics_of(self.stated, found, self._spec.slide, rates={0: self._rate})

    def _words(self, begin: int, end: int) -> Words:
        """The tuples of a segment of event time."""
        n = round(self._rate * (end - begin) / SECOND)
        made = self._make(self._sent, self._sent + n)
        self._sent += n
        words = np.zeros((self._spec.rows, n), np.int64)
        words[TS] = begin + np.arange(n) * (end - begin) // max(1, n)
        for name, row in self._places.items():
            column = made[name]
            words[row] = column.astype(np.float64).view(np.int64) if column.dtype.kind == "f" else column
        return words

    def slide(self) -> Taken:
        """The next slide."""
        end = self._at + self._spec.slide
        words = self._words(self._at, end)
        none = np.zeros(words.shape[1], np.int64)
        run = OrderedBatch(OrderedTuples.of(none, words, np.full(words.shape[1], self._at)), end, end, self._at)
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in self.operator.process(run, True):
            pass
        self._at = end
        return Taken(time.process_time() - cpu, time.perf_counter() - wall)

    def measured(self, relation: Relation, placement: Placement, slides: int = SLIDES) -> Taken:
        """What a slide takes with a plan: the median of some, after one that is not counted."""
        self.operator.change((relation, placement))
        self.slide()
        taken = [self.slide() for _ in range(slides)]
        return Taken(median(one.cpu for one in taken), median(one.wall for one in taken))


@dataclass(frozen=True)
class MeasuredPlacement:
    """A placement with what it is estimated to take and what it took, in seconds a slide."""

    placement: Placement
    estimated: float
    taken: Taken

    @property
    def short(self) -> str:
        """Its operators in post-order, r or c each."""
        return "".join(engine[0] for engine in self.placement)


def one_by_one(n: int) -> Iterator[Placement]:
    """All placements of n operators, each but for one operator as the one before: little has to be made anew.

    >>> ["".join(engine[0] for engine in one) for one in one_by_one(2)]
    ['rr', 'rc', 'cc', 'cr']
    """
    for bits in product((False, True), repeat=n):
        found, before = [], False
        for bit in bits:
            found.append(COLUMN if bit != before else ROW)
            before = bit
        yield tuple(found)


def exhausted(windows: FullWindows, placed: Placed, slides: int = SLIDES) -> list[MeasuredPlacement]:
    """Every placement of a tree, measured."""
    n = len(operators(placed.relation))
    costs = operator_costs(placed.relation, placed.statistics, placed.costs)
    seconds = placed.statistics.slide / SECOND
    return [
        MeasuredPlacement(
            one, seconds * cost_of(parts_of(costs, one)).utilisation, windows.measured(placed.relation, one, slides)
        )
        for one in one_by_one(n)
    ]


def chosen(windows: FullWindows, costs: Costs | None = None, feasibility: bool = True, one_core: bool = True) -> Placed:
    """What the planner chooses for these windows."""
    return place(windows.stated, windows.statistics, costs or load_costs(), feasibility, one_core)
