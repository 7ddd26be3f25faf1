"""What a join costs by each algorithm of the W-join report: comparisons and service time per arriving tuple.

The streams arrive in one of two ways. *In order*: by event time over all streams, as behind our release. *In turn*: one
tuple of each stream after the other, whatever their rates, so that the event times of streams of different rates drift
apart; this is how the report's loop takes tuples that are there already. Nested loop and hash join process tuples as
they arrive. The sweep of the merge join (Mode 1) does not: it goes by event time, and a tuple that is ahead of another
stream waits for it; so does the product's own join, behind its release.

Invariant: all algorithms are given the same arrivals, make the same results as far as they have come, and are asked in
segments of 1000 arrivals; the time is that of the process, for the join alone, without machine code being made. What
takes less than half a second is run up to five times, and the best one counts, whatever the algorithm.

References: 002 §4.3 and §5.3.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.workloads import exponential_stream, store_sales
from slackwater.core.batch import FIRST_COLUMN, Words
from slackwater.core.time import BEFORE_ALL, MILLISECOND, SECOND
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.published.wjoin.spec import WJoinOperator, by_algorithm

CHOSEN = "chosen"
"""What the planner takes when nothing is asked for: the product's own join, for which no comparisons are counted."""
ROWS = " with rows"
"""A way that ends so makes its results as rows; the others count them."""
BY_EVENT_TIME = ("merge", CHOSEN)
"""Joins that are given tuples by event time, however they arrive."""
IN_ORDER, IN_TURN = "in order", "in turn"
STORES = "stores"
RATES: dict[str, tuple[tuple[float, ...], ...]] = {
    "variable rates": tuple((rate,) for rate in (1000.0, 100.0, 550.0, 300.0, 800.0, 200.0)),
    "comparable rates": ((1000.0,),) * 6,
    "one varies": ((1000.0,), (1000.0,), (1000.0,), (10.0, 1000.0)),
    "similar rates": ((1000.0,), (900.0,), (950.0,), (850.0,)),
}
"""Rates a second, stream by stream; several alternate every 100 tuples."""
VALUES = 500
STRETCH = 1000
REPEATED, LONG_US = 5, 500_000
KEY = FIRST_COLUMN


@dataclass(frozen=True)
class WorkTrial(Trial):
    """One join by one algorithm; the stage's change says how tuples are taken.

    Its value is the number of streams, unless there are windows between them.
    """

    tuples: int = 20_000
    graph: WindowGraph | None = None
    """Windows that differ from pair to pair; then the way names an approach behind the algorithm."""

    @property
    def streams(self) -> int:
        return int(self.value) if self.graph is None else self.graph.streams

    @property
    def join(self) -> WindowJoin:
        """The join that is asked for, by the way that is tried."""
        streams = self.streams
        size = 3600 * SECOND if self.stage.workload == STORES else SECOND
        equalities = tuple(Equality(s, KEY, s + 1, KEY) for s in range(streams - 1))
        windows = (size,) * streams if self.graph is None else self.graph.windows
        count_only = not self.way.endswith(ROWS)
        emit = () if count_only else tuple((s, KEY) for s in range(streams))
        spec = WindowJoin(windows, equalities, (), (), emit, KEY + 1, count_only, self.graph)
        way = self.way.removesuffix(ROWS)
        return spec if way == CHOSEN else by_algorithm(spec, *way.split())

    def measured(self) -> Row:
        """The row of this trial: what a tuple cost, on average over the second half, and over time."""
        stage = self.stage
        runs = [self._run_once()]
        while len(runs) < REPEATED and sum(sum(spent) for spent, *_ in runs) * STRETCH < LONG_US:
            runs.append(self._run_once())
        half = len(runs[0][0]) // 2
        spent, compared, results, operator = min(runs, key=lambda run: float(np.mean(run[0][half:])))
        row: Row = {
            "workload": stage.workload, "seed": stage.seed, "minutes": stage.minutes, "window_s": stage.window_s,
            "change": stage.change, "way": self.way, "target": None, "period_s": self.period_s,
            "parameter": self.parameter, "value": self.value, "offered": True, "tuples": STRETCH * len(spent),
            "results": results, "service_us": float(np.mean(spent[half:])),
            "service_over_time": np.round(spent, 3).tolist(),
        }  # fmt: skip
        if isinstance(operator, WJoinOperator):
            row |= {
                "comparisons": float(np.mean(compared[half:])),
                "comparisons_over_time": np.round(compared, 1).tolist(),
            }
        return row

    def _run_once(self) -> tuple[list[float], list[float], int, JoinOperator]:
        """Microseconds and comparisons a tuple, segment by segment; how many results; and who made them."""
        operator = _operator(self.join)
        spent, compared, results = [], [], 0
        for run in _runs(self.stage, self.streams, self.tuples, self.way.split()[0] in BY_EVENT_TIME):
            before, begun = _comparisons(operator), time.process_time()
            results += sum(output.results for output in operator.process(run, True))
            spent.append(1e6 * (time.process_time() - begun) / STRETCH)
            compared.append((_comparisons(operator) - before) / STRETCH)
        return spent, compared, results, operator


def _comparisons(operator: JoinOperator) -> int:
    return operator.comparisons if isinstance(operator, WJoinOperator) else 0


def _operator(join: WindowJoin) -> JoinOperator:
    one = np.zeros(1, np.int64)
    list(join.build().process(_run(one, one, one, BEFORE_ALL), True))  # loads the machine code
    return join.build()


def _runs(stage: Stage, streams: int, tuples: int, by_event_time: bool) -> Iterator[OrderedBatch]:
    """The arrivals in segments; by event time, a segment has what the slowest stream has reached."""
    stream, ts, value = _arrivals(stage, streams, tuples)
    reached = np.full(streams, BEFORE_ALL)
    gone = np.zeros(len(ts), np.bool_)
    for begin in range(0, len(ts) - STRETCH + 1, STRETCH):
        now = slice(begin, begin + STRETCH)
        if stage.change == IN_ORDER:
            yield _run(stream[now], ts[now], value[now], int(ts[now][-1]))
        elif not by_event_time:
            yield _run(stream[now], ts[now], value[now], BEFORE_ALL)
        else:
            np.maximum.at(reached, stream[now], ts[now])
            ready = np.flatnonzero(~gone[: now.stop] & (ts[: now.stop] <= reached.min()))
            gone[ready] = True
            ready = ready[np.argsort(ts[ready], kind="stable")]
            yield _run(stream[ready], ts[ready], value[ready], int(reached.min()))


def _run(stream: Words, ts: Words, value: Words, watermark: int) -> OrderedBatch:
    words = np.stack([ts, np.arange(len(ts)), value])
    return OrderedBatch(OrderedTuples.of(stream, words, np.full(len(ts), BEFORE_ALL)), watermark, 0, 0)


@lru_cache(maxsize=2)
def _arrivals(stage: Stage, streams: int, tuples: int) -> tuple[Words, Words, Words]:
    """Stream, event time and value of all tuples, as they arrive."""
    if stage.workload == STORES:
        sales = store_sales(stage.seed, stage.minutes or 1440.0, streams).streams.values()
        made = [(MILLISECOND * table["ts"].to_numpy(), table["item"].to_numpy()) for table in sales]
    else:
        rates = RATES[stage.workload][:streams]
        made = [exponential_stream(stage.seed, s, tuples, rates[s], VALUES) for s in range(streams)]
    stream = np.repeat(np.arange(streams), [len(ts) for ts, _ in made])
    ts, value = (np.concatenate(column) for column in zip(*made, strict=True))
    turn = np.concatenate([np.arange(len(times)) for times, _ in made])
    order = np.argsort(ts if stage.change == IN_ORDER else turn, kind="stable")
    if stage.workload != STORES:
        order = order[:tuples]
    return stream[order], ts[order], value[order]
