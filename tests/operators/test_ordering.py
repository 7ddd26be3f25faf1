"""In-order execution: whenever tuples are joined, and however often that changes, results are those of Sync-Filter."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import Batch
from slackwater.core.quality import Recall
from slackwater.core.results import FILTER, SYNC, Ordering
from slackwater.core.time import SECOND
from slackwater.disorder.controllers import FixedSlack, KeepsLedger
from slackwater.operators.join.count_windows import RowWindows
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.published.in_order.join import OrderedJoin
from slackwater.published.in_order.operator import OrderedOperator, OrderedTree
from slackwater.published.wjoin.spec import WJoin
from tests.effort import each_with_members, tried
from tests.kit import laws
from tests.kit.drive import NO_GUARD, Outcome, clocked_results_of, feed, pipeline_of
from tests.kit.examples import EXAMPLES, KINDS
from tests.kit.oracles import SlackRule, oracle_filter_order
from tests.kit.traces import cuttings, pieces, seeded_trace, traces

BY_TUPLE = Epochs(each_tuple=True)
JOINS = [
    example for example in EXAMPLES
    if isinstance(example.spec, WindowJoin | JoinTree)
    and not isinstance(example.spec, WJoin) and example.spec.streams > 1
    and not isinstance(getattr(example.spec, "policy", None), RowWindows)
]  # fmt: skip
each_join = each_with_members(JOINS)
MOST = {2: 60, 3: 50, 4: 36}


def any_trace(streams):
    """Traces in which many tuples join and many are late, and traces in which anything happens."""
    dense = st.integers(0, 10**6).map(
        lambda seed: seeded_trace(seed, streams, KINDS, MOST[streams], largest_delay=6, longest_step=1, keys=2)
    )
    return st.one_of(dense, traces(streams, KINDS, most=MOST[streams], filtered=True))


def ordered_by(spec, strategy=FILTER, always_apart=False):
    """A factory of pipelines with this strategy."""

    def make(controller, epochs):
        if isinstance(spec, JoinTree):
            operator = OrderedTree(spec.whole, spec.nodes, lambda text: 0, Ordering(strategy))
        else:
            operator = OrderedOperator(OrderedJoin(spec), Ordering(strategy), always_apart)
        return Pipeline(spec, operator, controller, KernelTerms(epochs), NO_GUARD)

    return make


@each_join
@tried(8)
@given(data=st.data())
def test_whatever_is_switched_when_the_results_are_those_of_sync_filter(example, data):
    spec = example.spec
    batch = data.draw(any_trace(spec.streams))
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(st.sampled_from([0, 2, 6]))
    strategies = data.draw(st.lists(st.sampled_from([SYNC, FILTER]), min_size=1, max_size=9))
    restarts = data.draw(st.sets(st.integers(0, 12), max_size=2))
    make = ordered_by(spec, strategies[0], data.draw(st.booleans()))
    ordered, stored, outcome = make(FixedSlack(slack), BY_TUPLE), laws.Store(), Outcome()
    parts = pieces(batch, cuts)
    for number, part in enumerate(parts):
        ordered._operator.strategy.switch_to(strategies[number % len(strategies)])
        feed(ordered, [part], outcome, end=False)
        stored.write(ordered)
        if number in restarts:
            reported = ordered.observe()
            ordered = make(FixedSlack(slack), BY_TUPLE)
            ordered.restore(stored.read())
            assert replace(ordered.observe(), state_rows=0) == replace(reported, state_rows=0)
    feed(ordered, [], outcome, end=True)
    wanted = feed(pipeline_of(spec)(FixedSlack(slack), BY_TUPLE), parts, Outcome(), end=True)
    assert clocked_results_of(spec, outcome.emissions) == clocked_results_of(spec, wanted.emissions)
    assert outcome.timestamps == sorted(outcome.timestamps)
    assert outcome.late_rows == wanted.late_rows
    seen, plain = outcome.observed[-1], wanted.observed[-1]
    assert (seen.in_time, seen.late, seen.held, seen.watermark) == (plain.in_time, plain.late, 0, plain.watermark)
    assert seen.ordering.held_results == 0


FEW = ("equi-join", "three-way chain, counted", "three-way path, either way", "theta join", "four-way star, as a tree")


@pytest.mark.parametrize("example", [one for one in JOINS if one.name in FEW], ids=lambda example: example.name)
@tried(8)
@given(data=st.data())
def test_the_laws_hold_for_tuples_joined_before_their_turn(example, data):
    spec = example.spec
    batch = data.draw(any_trace(spec.streams))
    cuts = data.draw(cuttings(len(batch)))
    make = ordered_by(spec)
    laws.any_cutting_gives_the_true_results(spec, make, batch, BY_TUPLE, cuts)
    slack = data.draw(st.sampled_from([0, 4]))
    laws.output_is_ordered_and_true(spec, make, batch, BY_TUPLE, cuts, FixedSlack(slack))
    laws.every_tuple_is_accounted_for(make, batch, BY_TUPLE, cuts, FixedSlack(slack))
    turns = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=9))
    laws.taking_turns_equals_never_stopping(spec, make, batch, BY_TUPLE, cuts, turns, lambda: FixedSlack(slack))


ROWS_OUT = [
    one for one in JOINS if isinstance(one.spec, WindowJoin) and not one.spec.count_only and one.spec.streams < 4
]


@pytest.mark.parametrize("example", ROWS_OUT[::3], ids=lambda example: example.name)
@tried(8)
@given(data=st.data())
def test_results_leave_when_the_slow_twin_lets_them_out(example, data):
    spec = example.spec
    seed = data.draw(st.integers(0, 10**6))
    batch = seeded_trace(seed, spec.streams, KINDS, 30, largest_delay=6, longest_step=1, keys=2)
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(st.sampled_from([0, 2, 6]))
    strategies = data.draw(st.lists(st.sampled_from([SYNC, FILTER]), min_size=1, max_size=9))
    ordered, outcome = ordered_by(spec, strategies[0])(FixedSlack(slack), BY_TUPLE), Outcome()
    in_force = []
    for number, part in enumerate(pieces(batch, cuts)):
        chosen = strategies[number % len(strategies)]
        ordered._operator.strategy.switch_to(chosen)
        feed(ordered, [part], outcome, end=False)
        in_force += [chosen == FILTER] * len(part)
    feed(ordered, [], outcome, end=True)
    twin = oracle_filter_order(spec, batch, SlackRule(slack), lambda number: in_force[number])
    assert clocked_results_of(spec, outcome.emissions) == Counter(twin)
    assert outcome.timestamps == [ts for (ts, _), _ in twin]


class Watching(KeepsLedger, FixedSlack):
    """A fixed slack whose user looks into the ledger."""

    def __init__(self, slack):
        super().__init__(slack)
        self.ledger, self.retention, self.interval, self.memory = None, 1000, 1, 100
        self.target = Recall(0.9, 20)


@pytest.mark.parametrize("seed", range(6))
def test_the_ledger_is_that_of_sync_filter(seed):
    (spec,) = (one.spec for one in JOINS if one.name == "three-way chain")
    batch = seeded_trace(seed, 3, KINDS, 120, largest_delay=6, longest_step=1, keys=2)
    reported = []
    for make in (pipeline_of(spec), ordered_by(spec)):
        pipeline, stored = make(Watching(1), BY_TUPLE), laws.Store()
        for number, part in enumerate(pieces(batch, range(20, 121, 20))):
            feed(pipeline, [part], Outcome(), end=False)
            stored.write(pipeline)
            if number == seed:
                pipeline = make(Watching(1), BY_TUPLE)
                pipeline.restore(stored.read())
        feed(pipeline, [], Outcome(), end=True)
        reported.append(pipeline.observe().quality)
    assert reported[0] == reported[1]
    assert reported[0].bad > 0


def arrival_time(batch, moments):
    return Batch(batch.stream, batch.words, batch.passes, np.asarray(moments))


def two_streams():
    return next(one.spec for one in JOINS if one.name == "equi-join")


def test_adaptive_begins_with_sync_follows_the_load_and_is_plain_again():
    spec, seconds = two_streams(), 200
    pipeline = Pipeline(
        spec, OrderedOperator(OrderedJoin(spec), Ordering()), FixedSlack(0), KernelTerms(BY_TUPLE), NO_GUARD
    )
    external_sync, strategies = [], []
    for second in range(seconds):
        # Work for 80 % of the time in the middle of the run, next to none before and after.
        busy = 0.8 if 40 <= second < 100 else 0.01
        arrivals = Batch.of([(second % 2, second, 1, 1, 0)], spec.rows)
        pipeline.absorb(arrival_time(arrivals, [second * SECOND]))
        list(pipeline.advance())
        pipeline.report_busy_time(busy)
        external_sync.append(pipeline._operator.synchronizes_here)
        strategies.append(pipeline.observe().ordering.strategy)
    assert strategies[39] == SYNC
    assert strategies[99] == FILTER
    assert strategies[-1] == SYNC
    assert external_sync == [strategy == FILTER for strategy in strategies] or not external_sync[-1]
    seen = pipeline.observe().ordering
    assert seen.switches == 2, "it does not flap"
    assert seen.rates == pytest.approx((0.5, 0.5), abs=0.05)
    assert seen.load < 0.05


def test_without_arrival_times_adaptive_stays_with_sync():
    spec = two_streams()
    pipeline = Pipeline(
        spec, OrderedOperator(OrderedJoin(spec), Ordering()), FixedSlack(0), KernelTerms(BY_TUPLE), NO_GUARD
    )
    for ts in range(100):
        pipeline.absorb(Batch.of([(ts % 2, ts * SECOND, 1, 1, 0)], spec.rows))
        list(pipeline.advance())
        pipeline.report_busy_time(10.0)
    seen = pipeline.observe().ordering
    assert (seen.strategy, seen.load, seen.switches) == (SYNC, None, 0)


def test_a_tuple_that_waits_is_joined_as_soon_as_the_strategy_says_so():
    spec = two_streams()
    pipeline = ordered_by(spec, SYNC)(FixedSlack(0), BY_TUPLE)
    pipeline.absorb(Batch.of([(0, 5, 1, 1, 0), (1, 7, 1, 1, 0), (1, 8, 1, 1, 0)], spec.rows))
    list(pipeline.advance())
    assert pipeline.observe().ordering.held_results == 0
    pipeline._operator.strategy.switch_to(FILTER)
    list(pipeline.advance())
    assert pipeline.observe().ordering.held_results == 2


def test_waiting_is_told_where_arrival_times_are_known():
    spec = two_streams()
    pipeline = ordered_by(spec, SYNC)(FixedSlack(0), BY_TUPLE)
    batch = Batch.of([(0, 5, 1, 1, 0), (1, 7, 1, 1, 0), (0, 8, 1, 1, 0)], spec.rows)
    pipeline.absorb(arrival_time(batch, [100, 130, 170]))
    list(pipeline.advance())
    # The first one waits for 30 and the second for 40; the third has waited for nothing yet.
    assert pipeline.observe().waited == pytest.approx(70 / 3)
