"""In-order execution: whenever tuples are joined, and however often that changes, results are those of Sync-Filter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.disorder.controllers import FixedSlack
from slackwater.model.ordering import FILTER, SYNC, Ordering
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.join.wjoin.spec import WJoin
from slackwater.operators.ordering.join import OrderedJoin
from slackwater.operators.ordering.operator import OrderedOperator
from slackwater.operators.ordering.tree import OrderedTree
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.testing import laws
from slackwater.testing.drive import NO_GUARD, Outcome, clocked_results_of, feed, pipeline_of
from slackwater.testing.examples import EXAMPLES, KINDS
from slackwater.testing.traces import cuttings, pieces, seeded_trace, traces

BY_TUPLE = Epochs(each_tuple=True)
JOINS = [
    example for example in EXAMPLES
    if isinstance(example.spec, WindowJoin | JoinTree)
    and not isinstance(example.spec, WJoin) and example.spec.streams > 1
]  # fmt: skip
each_join = pytest.mark.parametrize("example", JOINS, ids=lambda example: example.name)
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
        return Pipeline(spec, operator, controller, epochs, NO_GUARD)

    return make


@each_join
@settings(max_examples=12)
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
            told = ordered.observe()
            ordered = make(FixedSlack(slack), BY_TUPLE)
            ordered.restore(stored.read())
            assert replace(ordered.observe(), retained=0) == replace(told, retained=0)
    feed(ordered, [], outcome, end=True)
    wanted = feed(pipeline_of(spec)(FixedSlack(slack), BY_TUPLE), parts, Outcome(), end=True)
    assert clocked_results_of(spec, outcome.emissions) == clocked_results_of(spec, wanted.emissions)
    assert outcome.timestamps == sorted(outcome.timestamps)
    assert outcome.late_rows == wanted.late_rows
    seen, plain = outcome.observed[-1], wanted.observed[-1]
    assert (seen.in_time, seen.late, seen.held, seen.frontier) == (plain.in_time, plain.late, 0, plain.frontier)
    assert seen.ordering.held_results == 0


@each_join
@settings(max_examples=6)
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
