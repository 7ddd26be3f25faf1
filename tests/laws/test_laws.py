"""The laws, tried on every example of every operator spec.

An example is one case of a law: the ways to cut epochs, the slacks and the places to stop at are tried inside of it.
"""

from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.disorder.controllers import FixedSlack, LargestDelay
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.pipeline import Epochs
from tests.effort import AS_WRITTEN, each_with_members, tried, tries
from tests.effort import EXAMPLES as EFFORT
from tests.kit import laws
from tests.kit.drive import pipeline_of
from tests.kit.examples import EXAMPLES, KINDS, specs_without_example
from tests.kit.oracles import (
    SlackRule,
    cuts_by_count,
    cuts_by_span,
    oracle_epoch_release,
    oracle_graph_by_epoch,
    oracle_graph_by_tuple,
    oracle_tree_by_epoch,
    oracle_tree_by_tuple,
    oracle_tuple_release,
)
from tests.kit.traces import cuttings, seeded_trace, traces

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
with_members = each_with_members(EXAMPLES)
TREES = [example for example in EXAMPLES if isinstance(example.spec, JoinTree)]
GRAPHS = [example for example in EXAMPLES if isinstance(example.spec, OperatorGraph)]
SINGLE = [example for example in EXAMPLES if example not in TREES and example not in GRAPHS]
each_single = pytest.mark.parametrize("example", SINGLE, ids=lambda example: example.name)
each_graph = pytest.mark.parametrize("example", GRAPHS, ids=lambda example: example.name)
each_tree = pytest.mark.parametrize("example", TREES, ids=lambda example: example.name)
few = tried(18)
WAYS = (Epochs(), Epochs(each_tuple=True))
a_trace = cache(seeded_trace)

EPOCHS = st.sampled_from([Epochs(), Epochs(each_tuple=True), Epochs(tuples=5), Epochs(span=4)])
SLACKS = st.sampled_from(["none", "small", "largest delay"])


def trace_for(example, filtered=False):
    streams = example.spec.streams
    return traces(streams, KINDS, most={1: 60, 2: 50, 3: 36, 4: 24}[streams], filtered=filtered)


def controller(slack):
    return {"none": FixedSlack(0), "small": FixedSlack(4), "largest delay": LargestDelay()}[slack]


def rule(slack):
    return {"none": SlackRule(0), "small": SlackRule(4), "largest delay": SlackRule(0, follows=True)}[slack]


def test_every_operator_spec_has_an_example():
    assert specs_without_example() == []


@each_example
@few
@given(data=st.data())
def test_any_cutting_into_epochs_gives_the_true_results(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    epochs = (Epochs(), Epochs(each_tuple=True), Epochs(tuples=7), Epochs(span=5))
    laws.any_cutting_gives_the_true_results(example.spec, pipeline_of(example.spec), batch, epochs, cuts)


@each_example
@few
@given(data=st.data())
def test_going_on_after_a_restore_equals_never_having_stopped(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    stop = data.draw(st.integers(0, len(cuts)))
    epochs, slack = data.draw(EPOCHS), data.draw(SLACKS)
    laws.going_on_after_restore_equals_never_stopping(
        example.spec, pipeline_of(example.spec), batch, epochs, cuts, stop, lambda: controller(slack)
    )


@with_members
def test_a_history_and_then_the_stream_give_the_true_results(example):
    streams = example.spec.streams
    most = {1: 120, 2: 90, 3: 48, 4: 26}[streams]
    batch = a_trace(13, streams, KINDS, tuples=most, largest_delay=6, longest_step=1, keys=2)
    until = int(batch.ts[most // 2])
    laws.a_history_and_then_the_stream_give_the_true_results(example.spec, pipeline_of(example.spec), batch, until)


@with_members
@few
@given(data=st.data())
def test_kernels_that_take_turns_equal_one_that_never_stopped(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    turns = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=9))
    epochs, slack = data.draw(EPOCHS), data.draw(SLACKS)
    laws.taking_turns_equals_never_stopping(
        example.spec, pipeline_of(example.spec), batch, epochs, cuts, turns, lambda: controller(slack)
    )


@with_members
@few
@given(data=st.data())
def test_output_is_in_order_and_true_and_every_tuple_is_accounted_for_with_any_slack(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    epochs, slack = data.draw(EPOCHS), data.draw(SLACKS)
    guard = data.draw(st.sampled_from([5, 20, 2**62]))
    make = pipeline_of(example.spec, max_ahead=guard)
    laws.output_is_ordered_and_true(example.spec, make, batch, epochs, cuts, controller(slack))
    laws.every_tuple_is_accounted_for(make, batch, epochs, cuts, controller(slack))


@each_single
@few
@given(data=st.data())
def test_late_tuples_count_exactly_as_in_the_published_algorithms(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(SLACKS)
    streams = example.spec.streams
    releases = {
        Epochs(each_tuple=True): oracle_tuple_release(batch, streams, rule(slack)),
        Epochs(): oracle_epoch_release(batch, streams, cuts, rule(slack)),
        Epochs(tuples=3): oracle_epoch_release(batch, streams, cuts_by_count(batch, 3), rule(slack)),
        Epochs(span=4): oracle_epoch_release(batch, streams, cuts_by_span(batch, 4), rule(slack)),
    }
    for epochs, released in releases.items():
        laws.late_tuples_count_as_published(
            example.spec, pipeline_of(example.spec), batch, epochs, cuts, controller(slack), released
        )


@each_tree
@few
@given(data=st.data())
def test_late_tuples_count_in_trees_as_in_their_slow_twin(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(SLACKS)
    whole = example.spec.whole
    wanted = {
        Epochs(each_tuple=True): oracle_tree_by_tuple(whole, batch, rule(slack)),
        Epochs(): oracle_tree_by_epoch(whole, batch, cuts, rule(slack)),
        Epochs(tuples=3): oracle_tree_by_epoch(whole, batch, cuts_by_count(batch, 3), rule(slack)),
        Epochs(span=4): oracle_tree_by_epoch(whole, batch, cuts_by_span(batch, 4), rule(slack)),
    }
    for epochs, outcome in wanted.items():
        laws.late_tuples_count_as_in_the_tree(
            example.spec, pipeline_of(example.spec), batch, epochs, cuts, controller(slack), outcome
        )


@each_graph
@few
@given(data=st.data())
def test_late_tuples_count_in_graphs_as_in_their_slow_twin(example, data):
    batch = data.draw(trace_for(example, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    slack = data.draw(SLACKS)
    spec = example.spec
    wanted = {
        Epochs(each_tuple=True): oracle_graph_by_tuple(spec, batch, rule(slack)),
        Epochs(): oracle_graph_by_epoch(spec, batch, cuts, rule(slack)),
        Epochs(tuples=3): oracle_graph_by_epoch(spec, batch, cuts_by_count(batch, 3), rule(slack)),
        Epochs(span=4): oracle_graph_by_epoch(spec, batch, cuts_by_span(batch, 4), rule(slack)),
    }
    for epochs, outcome in wanted.items():
        laws.late_tuples_count_as_in_the_graph(spec, pipeline_of(spec), batch, epochs, cuts, controller(slack), outcome)


@pytest.mark.parametrize("example", [*SINGLE, *TREES], ids=lambda example: example.name)
def test_what_is_kept_is_bounded_by_slack_windows_skew_and_epoch(example):
    # Sparse enough that windows stay small, long enough that a leak would show.
    batch = a_trace(7, example.spec.streams, KINDS, tuples=4000, largest_delay=12)
    cuts = list(range(50, len(batch) + 1, 50))
    for epochs in WAYS:
        needed = laws.state_is_bounded(example.spec, pipeline_of(example.spec), batch, epochs, cuts, slack=12)
        assert needed < 2000


@cache
def released_of_long_trace(streams, slack):
    """A long trace, its cuts, and what the published algorithms release of it, by the way epochs are cut."""
    most = 600 if EFFORT > AS_WRITTEN else 320
    batch = a_trace(11, streams, KINDS, tuples=most, largest_delay=15, longest_step=2)
    cuts = list(range(40, most + 1, 40))
    released = (
        oracle_epoch_release(batch, streams, cuts, rule(slack)),
        oracle_tuple_release(batch, streams, rule(slack)),
    )
    return batch, cuts, dict(zip(WAYS, released, strict=True))


@pytest.mark.parametrize("example", [e for e in SINGLE if e.spec.streams < 3], ids=lambda example: example.name)
def test_long_traces_with_late_tuples_agree_with_the_published_algorithms(example):
    for slack in ("none", "small", "largest delay"):
        batch, cuts, releases = released_of_long_trace(example.spec.streams, slack)
        for epochs, released in releases.items():
            assert slack == "largest delay" or any(step.late for step in released)
            laws.late_tuples_count_as_published(
                example.spec, pipeline_of(example.spec), batch, epochs, cuts, controller(slack), released
            )


@with_members
def test_long_traces_survive_a_restart(example):
    batch = a_trace(13, example.spec.streams, KINDS, tuples=160, largest_delay=6, longest_step=1, keys=2)
    every = list(product(WAYS, ("none", "largest delay")))
    # `make test` tries two of the four: one slack with epochs, the other tuple by tuple.
    for epochs, slack in every if EFFORT >= AS_WRITTEN else (every[0], every[3]):
        restarted(example.spec, batch, epochs, list(range(16, 161, 16)), slack)


@with_members
def test_what_lies_exactly_at_the_watermark_survives_a_restart(example):
    batch = a_trace(13, example.spec.streams, KINDS, tuples=28, largest_delay=1, longest_step=0, keys=2)
    for epochs in WAYS:
        restarted(example.spec, batch, epochs, list(range(4, 29, 4)), "none")


@each_tree
@pytest.mark.parametrize("slack", ["none", "small"])
def test_long_traces_with_late_tuples_agree_with_the_slow_twin_of_trees(example, slack):
    most = 400 if example.spec.streams < 4 else 200
    batch = a_trace(11, example.spec.streams, KINDS, tuples=most, largest_delay=15, longest_step=2)
    cuts = list(range(40, most + 1, 40))
    wanted = {
        Epochs(each_tuple=True): oracle_tree_by_tuple(example.spec.whole, batch, rule(slack)),
        Epochs(): oracle_tree_by_epoch(example.spec.whole, batch, cuts, rule(slack)),
    }
    for epochs, outcome in wanted.items():
        assert any(step.late for step in outcome.released)
        laws.late_tuples_count_as_in_the_tree(
            example.spec, pipeline_of(example.spec), batch, epochs, cuts, controller(slack), outcome
        )


def restarted(spec, batch, epochs, cuts, slack):
    stops = range(1, len(cuts), 2)
    # Where there are many, `make test` takes the second and the last but one.
    stops = stops if len(stops) <= tries(12) else (stops[1], stops[-2])
    laws.going_on_after_restore_equals_never_stopping(
        spec, pipeline_of(spec), batch, epochs, cuts, stops, lambda: controller(slack)
    )
