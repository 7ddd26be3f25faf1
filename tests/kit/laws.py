"""The laws every kernel obeys, as checks over any factory of pipelines.

Each check raises AssertionError where the law is broken. Tests try them on every example of `examples`; a runtime of
its own may try them on the pipelines it builds.

Invariant: a check never looks inside a kernel; it uses the five methods of the protocol only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from slackwater.core.batch import ROW, Batch
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.controllers import FixedSlack, SlackController
from slackwater.operators.aggregate.count_windows import CountWindows
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.contract import OperatorSpec
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.operators.session.operator import SessionAggregate
from slackwater.operators.top import TopRows
from slackwater.runtime.driver import Driver
from tests.kit.bounds import Bound
from tests.kit.drive import (
    Make,
    Outcome,
    assert_between,
    assert_same,
    bounds_of_truth,
    clocked_results_of,
    drive,
    expected,
    expected_of_tree,
    feed,
    results_of,
    results_of_graph,
)
from tests.kit.oracle_graph import GraphOutcome
from tests.kit.oracle_join import oracle_join_processing
from tests.kit.oracle_release import Released
from tests.kit.oracle_tree import TreeOutcome
from tests.kit.traces import largest_delay_of, pieces

Cuts = Sequence[int]
Controllers = Callable[[], SlackController]


def any_cutting_gives_the_true_results(
    spec: OperatorSpec, make: Make, batch: Batch, epochs: Epochs | Sequence[Epochs], cuts: Cuts
) -> None:
    """Law 1: when slack covers all delays, the results are those of the oracle, however epochs are cut."""
    slack, true = largest_delay_of(batch), bounds_of_truth(spec, batch)
    for way in (epochs,) if isinstance(epochs, Epochs) else epochs:
        outcome = drive(make(FixedSlack(slack), way), pieces(batch, cuts))
        assert outcome.observed[-1].late == 0, "a tuple was late although slack covers every delay"
        assert_between(results_of(spec, outcome.emissions), *true)


def going_on_after_restore_equals_never_stopping(
    spec: OperatorSpec,
    make: Make,
    batch: Batch,
    epochs: Epochs,
    cuts: Cuts,
    stop: int | Sequence[int],
    controllers: Controllers,
) -> None:
    """Law 2: state persisted after every epoch, restored after `stop` of them, gives the results of an unbroken run."""
    parts = pieces(batch, cuts)
    unbroken = drive(make(controllers(), epochs), parts)
    for place in (stop,) if isinstance(stop, int) else stop:
        _goes_on(spec, make, parts, epochs, place, controllers, unbroken)


def _goes_on(
    spec: OperatorSpec,
    make: Make,
    parts: list[Batch],
    epochs: Epochs,
    stop: int,
    controllers: Controllers,
    unbroken: Outcome,
) -> None:
    first, stored = make(controllers(), epochs), Store()
    outcome = Outcome()
    for part in parts[:stop]:
        feed(first, [part], outcome, end=False)
        stored.write(first)
    if not stored.entries:
        stored.write(first)
    second = make(controllers(), epochs)
    second.restore(stored.read())
    before, after = first.observe(), second.observe()
    # How many expired tuples still stand in a window is free: the first drops them singly, the second by chunk.
    assert replace(after, state_rows=0) == replace(before, state_rows=0), "a restored pipeline contradicts the first"
    for part in parts[stop:]:
        feed(second, [part], outcome, end=False)
        stored.write(second)
    third = make(controllers(), epochs)
    third.restore(stored.read())
    feed(third, [], outcome, end=True)
    assert_same(results_of(spec, outcome.emissions), results_of(spec, unbroken.emissions))
    assert outcome.late_rows == unbroken.late_rows
    last, wanted = outcome.observed[-1], unbroken.observed[-1]
    assert (last.tuples, last.in_time, last.late, last.results, last.rates) == (
        wanted.tuples,
        wanted.in_time,
        wanted.late,
        wanted.results,
        wanted.rates,
    )


def a_history_and_then_the_stream_give_the_true_results(
    spec: OperatorSpec, make: Make, batch: Batch, until: int
) -> None:
    """Law 2, of what was before the stream: rows before a time are read first, by event time, in two pieces; then the
    others as they came. Between them the kernel is restored."""
    slack, true, streams = largest_delay_of(batch), bounds_of_truth(spec, batch), spec.streams
    old, stored, outcome = batch.ts < until, Store(), Outcome()
    past = batch.take(np.flatnonzero(old)[np.argsort(batch.ts[old], kind="stable")])
    middle = int(np.searchsorted(past.ts, past.ts[len(past) // 2])) if len(past) else 0
    edges = [int(past.ts[middle]), until] if len(past) else [until]
    kernel = make(FixedSlack(slack), Epochs())
    for piece, edge in zip((past.take(slice(middle)), past.take(slice(middle, len(past)))), edges, strict=False):
        outcome.emissions.extend(Driver(kernel).remember(piece, [edge] * streams, 0))
        stored.write(kernel)
        kernel = make(FixedSlack(slack), Epochs())
        kernel.restore(stored.read())
    live = batch.take(np.flatnonzero(~old))
    feed(kernel, pieces(live, [len(live) // 3, len(live)]), outcome, end=True)
    seen = outcome.observed[-1]
    assert (seen.history, seen.late) == (len(past), 0)
    assert seen.tuples == seen.in_time + seen.filtered == len(batch), seen
    assert_between(results_of(spec, outcome.emissions), *true)


def taking_turns_equals_never_stopping(
    spec: OperatorSpec, make: Make, batch: Batch, epochs: Epochs, cuts: Cuts, turns: Sequence[int],
    controllers: Controllers,
) -> None:  # fmt: skip
    """Law 2, of kernels that take turns: each is given what changed since its last turn, and goes on as if it had run.

    `turns` says which of the kernels takes each epoch.
    """
    parts = pieces(batch, cuts)
    unbroken = drive(make(controllers(), epochs), parts)
    kernels = {turn: make(controllers(), epochs) for turn in turns}
    seen = dict.fromkeys(kernels, 0)
    stored, outcome = Store(), Outcome()
    for number, part in enumerate([*parts, None]):
        turn = turns[number % len(turns)]
        kernel = kernels[turn]
        if seen[turn] < number:
            kernel.restore(stored.since(seen[turn]))
        feed(kernel, [] if part is None else [part], outcome, end=part is None)
        stored.write(kernel)
        seen[turn] = number + 1
    assert_same(results_of(spec, outcome.emissions), results_of(spec, unbroken.emissions))
    assert outcome.late_rows == unbroken.late_rows
    assert replace(outcome.observed[-1], state_rows=0) == replace(unbroken.observed[-1], state_rows=0)


class Store:
    """Persisted state as a runtime keeps it: entries by (namespace, key), and which of them every epoch touched."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], bytes] = {}
        self._touched: list[list[tuple[str, str]]] = []

    def write(self, pipeline: Pipeline) -> None:
        """Take over what changed; None drops an entry."""
        self._touched.append([])
        for change in pipeline.snapshot_delta():
            self._touched[-1].append((change.namespace, change.key))
            if change.value is None:
                self.entries.pop((change.namespace, change.key), None)
            else:
                self.entries[change.namespace, change.key] = change.value

    def read(self) -> list[StateUpdate]:
        """All entries, in no particular order."""
        return [
            StateUpdate(namespace, key, value) for (namespace, key), value in sorted(self.entries.items(), reverse=True)
        ]

    def since(self, epoch: int) -> list[StateUpdate]:
        """What was written or dropped from this epoch on, as it is now."""
        touched = {place for places in self._touched[epoch:] for place in places}
        return [StateUpdate(*place, self.entries.get(place)) for place in sorted(touched, reverse=True)]


def output_is_ordered_and_true(
    spec: OperatorSpec, make: Make, batch: Batch, epochs: Epochs, cuts: Cuts, controller: SlackController
) -> None:
    """Law 3: timestamp order, nothing behind the watermark, no inventions, no duplicates; with any slack."""
    pipeline = make(controller, epochs)
    outcome = Outcome()
    parts = pieces(batch, cuts)
    for part in [*parts, None]:
        watermark, before = pipeline.observe().watermark, len(outcome.emissions)
        feed(pipeline, [] if part is None else [part], outcome, end=part is None)
        first = (emission for emission in outcome.emissions[before:] if not emission.amends)
        emitted = [ts for emission in first for ts in emission.ts.tolist()]
        # A window that only the end of the input completes ends with its last tuple, wherever the watermark is.
        cut_short = part is None and isinstance(spec, CountWindows)
        if emitted and watermark != BEFORE_ALL and not cut_short:
            assert min(emitted) >= watermark, "a result was emitted behind the watermark"
    assert all(a <= b for a, b in pairwise(outcome.timestamps)), "results are not in timestamp order"
    if not _only_loses(spec):
        return
    found = results_of(spec, outcome.emissions)
    rejected = [row for ahead in pipeline.take_ahead() for row in ahead.words[ROW].tolist()]
    _, true = bounds_of_truth(spec, batch, [*outcome.late_rows, *rejected])
    assert set(found) <= set(true), "a result was invented"
    if isinstance(spec, WindowJoin | JoinTree):
        assert cast("Counter[object]", found) <= cast("Counter[object]", true), "a result was made twice"


def _only_loses(spec: OperatorSpec) -> bool:
    """Whether a late tuple can only make a result go missing: not where rows say what has no partner, nor where an
    aggregate has another operator above it, which then reads another value."""
    if isinstance(spec, InstantRelation | OuterJoin | AsOfJoin | SessionAggregate | TopRows):
        return False
    if not isinstance(spec, OperatorGraph):
        return True
    below, absent = spec.nodes[:-1], any(isinstance(node.operator, OuterJoin | AsOfJoin) for node in spec.nodes)
    return not absent and not any(isinstance(node.operator, WindowAggregate) for node in below)


def every_tuple_is_accounted_for(
    make: Make, batch: Batch, epochs: Epochs, cuts: Cuts, controller: SlackController
) -> None:
    """Law 4: at every moment each tuple is held, in time, late, filtered or rejected; at the end none is held."""
    pipeline = make(controller, epochs)
    late = 0
    driver = Driver(pipeline, on_epoch=lambda: _adds_up(pipeline))
    for part in [*pieces(batch, cuts), None]:
        if part is not None:
            pipeline.absorb(part)
            _adds_up(pipeline)
        for emission in driver.epoch(end=part is None):
            late += len(emission.late.row)
        assert pipeline.observe().late == late, "a late tuple was counted, and not handed out"
    last = pipeline.observe()
    assert last.tuples == len(batch)
    assert last.held == 0, "the input has ended and a tuple is still held"
    assert last.ahead == sum(map(len, pipeline.take_ahead()))


def _adds_up(pipeline: Pipeline) -> None:
    o = pipeline.observe()
    assert o.tuples == o.in_time + o.late + o.filtered + o.ahead + o.held, f"the counts do not add up: {o}"


def state_is_bounded(spec: OperatorSpec, make: Make, batch: Batch, epochs: Epochs, cuts: Cuts, slack: int) -> int:
    """Law 5: what is held and retained stays within `Bound`; returns the largest bound that was needed."""
    pipeline = make(FixedSlack(slack), epochs)
    bound = Bound(cast(Any, spec))
    largest = 0
    for part in pieces(batch, cuts):
        allowed = bound.after(part, watermark_before=pipeline.observe().watermark)
        feed(pipeline, [part], Outcome(), end=False)
        o = pipeline.observe()
        allowed += bound.held(o.watermark)
        assert o.held + o.state_rows <= allowed, f"{o.held} held and {o.state_rows} retained; {allowed} would do"
        largest = max(largest, allowed)
    return largest


def late_tuples_count_as_published(
    spec: OperatorSpec,
    make: Make,
    batch: Batch,
    epochs: Epochs,
    cuts: Cuts,
    controller: SlackController,
    released: list[Released],
) -> None:
    """With any slack: exactly the results and the late tuples of the line-by-line oracles (Alg. 1, Alg. 2)."""
    outcome = drive(make(controller, epochs), pieces(batch, cuts))
    assert sorted(outcome.late_rows) == sorted(step.tuple.row for step in released if step.late)
    if isinstance(spec, WindowJoin) and not spec.count_only:
        # With the clock at which each result left, so the results themselves need no second look.
        assert_same(clocked_results_of(spec, outcome.emissions), Counter(oracle_join_processing(spec, released)))
    else:
        assert_same(results_of(spec, outcome.emissions), expected(spec, released))


def late_tuples_count_as_in_the_graph(
    spec: OperatorGraph,
    make: Make,
    batch: Batch,
    epochs: Epochs,
    cuts: Cuts,
    controller: SlackController,
    wanted: GraphOutcome,
) -> None:
    """With any slack: exactly the results, the clocks and the late tuples of the slow oracle of graphs."""
    outcome = drive(make(controller, epochs), pieces(batch, cuts))
    assert sorted(outcome.late_rows) == sorted(step.tuple.row for step in wanted.released if step.late)
    assert_same(results_of(spec, outcome.emissions), results_of_graph(spec, (made for made, _ in wanted.results)))
    found = Counter((ts, clock) for (ts, _), clock in clocked_results_of(spec, outcome.emissions).elements())
    assert found == Counter((ts, clock) for (ts, _), clock in wanted.results), "results left at other moments"


def late_tuples_count_as_in_the_tree(
    spec: JoinTree,
    make: Make,
    batch: Batch,
    epochs: Epochs,
    cuts: Cuts,
    controller: SlackController,
    wanted: TreeOutcome,
) -> None:
    """With any slack: exactly the results and the late tuples of the slow oracle of trees."""
    outcome = drive(make(controller, epochs), pieces(batch, cuts))
    assert sorted(outcome.late_rows) == sorted(step.tuple.row for step in wanted.released if step.late)
    if spec.count_only:
        assert_same(results_of(spec, outcome.emissions), expected_of_tree(spec, wanted))
    else:
        assert_same(clocked_results_of(spec, outcome.emissions), Counter(wanted.results))
