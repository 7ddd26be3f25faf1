"""Plans that are run to find out what units of work cost, and the costs that follow.

Small trees over streams of a key and a value: each operator on either engine, alone and together, with windows, rates
and numbers of groups that tell a cost by tuple from a cost by row, by group and by instant. What each takes is put into
equations (`plan/placement/fitting.py`). So constants are those of the engines as they are, with all that goes on around
an operator, and a better kernel needs no other calibration.

A plan is run by the operator that runs queries over instantaneous windows. These are filled at one stroke: the
watermark is moved on first, so that the tuples of the past are late, enter the windows, and no instant of the past is
computed for them. Then some slides are run and timed.

Invariant: plans and tuples are the same on every machine and every run, and tuples are made before the clock starts.

References: 004 §6.3.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Words
from slackwater.core.schema import Field, Kind
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Join,
    Placement,
    Project,
    Relation,
    Scan,
    Select,
    scans,
)
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.operators.contract import Operator
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.operators.instant.spec import InstantRelation
from slackwater.plan.placement.costs import Costs
from slackwater.plan.placement.fitting import MeasuredPlan, fitted
from slackwater.plan.placement.statistics import Statistics

KEY, VALUE = Field("k", Kind.INT, pa.int64()), Field("v", Kind.FLOAT, pa.float64())
FURTHER = (Field("l", Kind.INT, pa.int64()), Field("m", Kind.INT, pa.int64()))
"""Keys that follow from the first, its seventh and what is left: together they have as many values as it alone."""
SEVEN = 7
_KEY, _VALUE = Column(0, "k", Kind.INT), Column(0, "v", Kind.FLOAT)
LONG, SHORT = 40 * SECOND, 2 * SECOND
STREAMS = ((1000.0, 100), (1000.0, 2000), (8000.0, 100), (8000.0, 2000))
"""Tuples a second, and keys. Values are even in 0 to 1."""
SHARE = 0.5
"""Of values that pass a filter."""


@dataclass(frozen=True)
class PlanToRun:
    """A plan, and the streams it is to be run over."""

    relation: Relation
    placement: Placement
    rate: float
    keys: int

    @property
    def statistics(self) -> Statistics:
        """What is known of these streams."""
        streams = [window.stream for window in scans(self.relation)]
        values = {"k": self.keys, "l": -(-self.keys // SEVEN), "m": SEVEN}
        known = {(stream, name): float(count) for stream in streams for name, count in values.items()}
        shares: dict[Expr, float] = {
            Call(">", (Column(stream, "v", Kind.FLOAT), Literal(SHARE, Kind.FLOAT)), Kind.BOOL): SHARE
            for stream in streams
        }
        for stream in streams:
            half = Call("*", (Literal(SHARE, Kind.FLOAT), Call("MAX", (Column(stream, "v", Kind.FLOAT),), Kind.FLOAT)),
                        Kind.FLOAT)  # fmt: skip
            shares |= {Call(">", (Column(0, "v", Kind.FLOAT), half), Kind.BOOL): SHARE}
        together: dict[frozenset[Expr], float] = {
            frozenset(Column(stream, name, Kind.INT) for name in names): float(self.keys)
            for stream in streams
            for names in ("klm", "lm")
        }
        return Statistics(SECOND, dict.fromkeys(streams, self.rate), known, shares, together)


Run = Callable[[PlanToRun], float]


def _window(stream: int, range_: int = LONG) -> Scan:
    return Scan(stream, range_, (KEY, VALUE))


def _above(below: Relation) -> Select:
    return Select(below, Call(">", (_VALUE, Literal(SHARE, Kind.FLOAT)), Kind.BOOL))


def _aggregate(below: Relation, function: str = "MAX") -> Aggregate:
    made = Field("v", Kind.INT, pa.int64()) if function == "COUNT_DISTINCT" else VALUE
    return Aggregate(below, (_KEY,), (KEY,), (AggregateCall(function, _VALUE, None, made),))


def _join(left: Relation, right: Relation) -> Join:
    others = (Field("k2", KEY.kind, KEY.arrow), Field("v2", VALUE.kind, VALUE.arrow))
    return Join(left, right, ((_KEY, _KEY),), None, "inner", (*left.columns, *others))


def _by_keys(below: Relation, function: str, argument: Expr | None, by: Sequence[str] = ("k", "l", "m")) -> Aggregate:
    made = AggregateCall(
        function, argument, None, Field("v", Kind.INT if argument is None else Kind.FLOAT, VALUE.arrow)
    )
    keys = tuple(one for one in (KEY, *FURTHER) if one.name in by)
    return Aggregate(below, tuple(Column(0, one.name, one.kind) for one in keys), keys, (made,))


def _correlated(by: Sequence[str] = ("k", "l", "m")) -> Aggregate:
    """As Q1: by three keys, with a condition between a tuple and the aggregate of its window. By fewer keys the groups
    are not those of the join."""
    left = Scan(0, LONG, (KEY, *FURTHER, VALUE))
    right = _by_keys(Scan(1, LONG, (KEY, *FURTHER, VALUE)), "MAX", _VALUE)
    keys = tuple((Column(0, one.name, one.kind), Column(0, one.name, one.kind)) for one in (KEY, *FURTHER))
    half = Call("*", (Literal(SHARE, Kind.FLOAT), Column(1, "v", Kind.FLOAT)), Kind.FLOAT)
    columns = (*left.columns, *(replace(one, name=f"{one.name}2") for one in right.columns))
    above = Call(">", (_VALUE, half), Kind.BOOL)
    return _by_keys(Join(left, right, keys, above, "inner", columns), "COUNT", None, by)


def _doubled(below: Relation) -> Project:
    return Project(below, (_KEY, Call("*", (_VALUE, _VALUE), Kind.FLOAT)), (KEY, VALUE))


def plans_to_run() -> Iterator[PlanToRun]:
    """The plans of a calibration."""
    r, c = ROW, COLUMN
    correlated = _join(_window(0), _aggregate(_window(1)))
    trees: list[tuple[Relation, list[Placement]]] = [
        (_aggregate(_window(0)), [(r,), (c,)]),
        (_by_keys(Scan(0, LONG, (KEY, *FURTHER, VALUE)), "MAX", _VALUE), [(r,), (c,)]),
        (_aggregate(_window(0), "MEDIAN"), [(r,), (c,)]),
        (_aggregate(_window(0), "COUNT_DISTINCT"), [(r,), (c,)]),
        (_aggregate(_above(_window(0))), [(r, r), (r, c), (c, c), (c, r)]),
        (_aggregate(_above(_window(0)), "MEDIAN"), [(c, r)]),
        (_aggregate(_above(_window(0)), "COUNT_DISTINCT"), [(c, r)]),
        (_aggregate(_doubled(_aggregate(_window(0)))), [(r, r, r), (r, r, c), (c, c, c)]),
        (_join(_aggregate(_window(0)), _aggregate(_window(1))), [(r, r, r), (r, r, c), (c, c, c)]),
        (_aggregate(correlated, "SUM"), [(r, r, r), (r, r, c), (r, c, c), (c, c, c)]),
        (_aggregate(_above(correlated), "MEDIAN"), [(r, r, r, r), (r, c, c, c)]),
        (_aggregate(_above(correlated), "COUNT_DISTINCT"), [(r, r, r, r), (r, c, c, c)]),
        (_aggregate(_join(_window(0, SHORT), _window(1, SHORT))), [(r, r), (c, c)]),
        (_correlated(), [(r, r, r), (r, r, c), (r, c, c), (c, c, c)]),
        (_correlated(("l", "m")), [(r, r, r)]),
        (_correlated(("l",)), [(r, r, r)]),
    ]
    for relation, placements in trees:
        for placement in placements:
            for rate, keys in STREAMS:
                if _pairs(relation, rate, keys) <= MOST_PAIRS:
                    yield PlanToRun(relation, placement, rate, keys)


MOST_PAIRS = 1_000_000
"""Of windows that are joined with each other, at an instant; more would take a minute alone."""


def _pairs(relation: Relation, rate: float, keys: int) -> float:
    short = [window for window in scans(relation) if window.range == SHORT]
    return (rate * SHORT / SECOND) ** len(short) / keys if len(short) > 1 else 0.0


def calibrated(run: Run, measured: str) -> tuple[Costs, list[MeasuredPlan]]:
    """The costs that follow from running all plans, and what each took."""
    plans = [
        MeasuredPlan(plan.relation, plan.placement, plan.statistics, run(plan)) for plan in plans_to_run()
    ]  # fmt: skip
    return fitted(plans, Costs(), measured), plans


SLIDES = 4
"""Slides that are timed, after one that is not."""
_AT_KEY, _AT_VALUE, _AT_FURTHER, _WIDTH = 2, 3, 4, 6
_PLACES = {"k": _AT_KEY, "v": _AT_VALUE, "l": _AT_FURTHER, "m": _AT_FURTHER + 1}


def _tuples(plan: PlanToRun, begin: int, seconds: int, rng: np.random.Generator) -> tuple[Words, Words]:
    """Streams and words of the tuples of some seconds, in order of event time."""
    streams = len(plan.statistics.rates)
    n = int(plan.rate) * streams * seconds
    words = np.empty((_WIDTH, n), np.int64)
    words[0] = begin * SECOND + np.sort(rng.integers(0, seconds * SECOND, n))
    words[1] = np.arange(n)
    words[_AT_KEY] = rng.integers(0, plan.keys, n)
    words[_AT_VALUE] = rng.random(n).view(np.int64)
    words[_AT_FURTHER], words[_AT_FURTHER + 1] = words[_AT_KEY] // SEVEN, words[_AT_KEY] % SEVEN
    return rng.integers(0, streams, n), words


def _run(stream: Words, words: Words, met: int, watermark: int) -> OrderedBatch:
    return OrderedBatch(OrderedTuples.of(stream, words, np.full(words.shape[1], met)), watermark, 0, 0)


def operator_of(plan: PlanToRun) -> Operator:
    """The operator that runs a plan."""
    read = {window.stream: window.columns for window in scans(plan.relation)}
    places = tuple(
        tuple((column.name, _PLACES[column.name]) for column in read[stream])
        for stream in sorted(plan.statistics.rates)
    )
    return InstantRelation(plan.relation, SECOND, places, _WIDTH, plan.placement).build()


def runs_of(plan: PlanToRun) -> list[OrderedBatch]:
    """Two runs that fill the windows, then one for each slide."""
    rng = np.random.default_rng(7)
    longest = max(window.range for window in scans(plan.relation)) // SECOND
    full = longest * SECOND
    stream, words = _tuples(plan, 0, longest, rng)
    runs = [_run(stream[-1:], words[:, -1:], BEFORE_ALL, full), _run(stream[:-1], words[:, :-1], full, full)]
    for second in range(longest, longest + SLIDES + 1):
        runs.append(_run(*_tuples(plan, second, 1, rng), second * SECOND, (second + 1) * SECOND))
    return runs


def run_plan(plan: PlanToRun) -> float:
    """Seconds of the processor for the tuples of one second, once the windows are full."""
    operator, taken = operator_of(plan), []
    for run in runs_of(plan):
        begun = time.process_time()
        for _ in operator.process(run, False):
            pass
        taken.append(time.process_time() - begun)
    return median(taken[-SLIDES:])
