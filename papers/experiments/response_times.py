"""Response times of a join by strategy for order, in virtual time: one server, and tuples that come when they come.

The product's own kernel is driven one arrival at a time, as a live runtime does that takes what has arrived; what its
work would take is added up in virtual time: c for every two tuples that it compares. A tuple is done when it has been
joined and its turn has come, so that its results are out: its response time is from its arrival until then.

Invariant: the server does one thing at a time, in the order of arrival; the kernel is told what its work took, and
nothing else about time but when tuples arrived.

References: 000 §7.1 (average response time per input tuple).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from slackwater.core.batch import ROW, Batch, Floats, Words
from slackwater.core.results import Ordering, OrderingSeen
from slackwater.core.time import SECOND
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.eager import ENTERS, LEAVES, Events
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.output import Output
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.published.in_order.join import OrderedJoin
from slackwater.published.in_order.operator import OrderedOperator
from slackwater.runtime.driver import Driver

NO_GUARD = 2**62


class CountingJoin(OrderedJoin):
    """Always compares by the search that counts, also while tuples are joined in their turn."""

    def __init__(self, spec: WindowJoin) -> None:
        super().__init__(spec)
        self.go_out_of_order()

    def go_in_order(self) -> None:
        """It stays as it is."""


@dataclass(frozen=True)
class Done:
    """What was done at one go, event by event."""

    events: OrderedBatch
    kind: Words
    compared: Words
    results: tuple[Output, ...]


class CountingOperator(OrderedOperator):
    """Notes what was done."""

    def __init__(self, spec: WindowJoin, ordering: Ordering) -> None:
        super().__init__(CountingJoin(spec), ordering, always_apart=True)
        self.done: list[Done] = []

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        made = tuple(super().process(run, ordered))
        kind = run.kind if isinstance(run, Events) and run.kind is not None else np.zeros(len(run), np.int64)
        self.done.append(Done(run, kind, self.join.compared, made))
        yield from made

    @property
    def memory(self) -> int:
        """Tuples in synchronizer and windows, and results in the hold buffer."""
        return self.pending() + self.state_rows + self.join.hold.held


@dataclass
class Measured:
    """What a drive has shown; times are seconds."""

    done: Floats
    """By row, when it was done; NaN where its turn has not come."""
    seen: OrderingSeen | None = None
    memory: list[int] = field(default_factory=list)
    """After every arrival, what is kept."""
    filters: list[bool] = field(default_factory=list)
    """After every arrival, whether tuples are joined before their turn."""
    results: list[tuple[int, float]] = field(default_factory=list)
    """Timestamps of results, and when each was out."""


def drive(spec: WindowJoin, ordering: Ordering, batch: Batch, c: float, per_tuple: float = 0.0) -> Measured:
    """Arrivals one by one; `batch.arrival_time` has when they come, row i of it is tuple i.

    A comparison takes c seconds; where `per_tuple` is given, joining a tuple takes so much more.
    """
    operator = CountingOperator(spec, ordering)
    kernel = Pipeline(spec, operator, FixedSlack(0), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    assert batch.arrival_time is not None, "response times need arrival times"
    driver, measured = Driver(kernel), Measured(np.full(len(batch), np.nan))
    free = 0.0
    for i, moment in enumerate((batch.arrival_time / SECOND).tolist()):
        begun = max(free, moment)
        driver.discard(batch.take(slice(i, i + 1)))
        free = begun
        for done in operator.done:
            finished = free + np.cumsum(c * done.compared + per_tuple * (done.kind != LEAVES))
            turn = done.kind != ENTERS
            measured.done[done.events.words[ROW, turn]] = finished[turn]
            for output in done.results:
                measured.results += zip(output.ts.tolist(), finished[output.by].tolist(), strict=True)
            free = float(finished[-1]) if len(finished) else free
        operator.done.clear()
        measured.memory.append(operator.memory)
        measured.filters.append(operator.strategy.filters)
        kernel.report_busy_time(free - begun)
    measured.seen = operator.ordering
    return measured
