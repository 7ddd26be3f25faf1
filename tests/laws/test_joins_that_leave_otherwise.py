"""Joins on arrival and with corrections, tried on every join of windows of time among the examples."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import ROW
from slackwater.core.emitting import DELETE
from slackwater.core.join_kinds import JoinKind
from slackwater.disorder.controllers import FixedSlack, LargestDelay
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.leaving import Leaving
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.policy import BY_EVENT_TIME
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.published.in_order.holding import HoldingJoin
from tests.effort import each_with_members, tried
from tests.kit import laws, oracle_absence
from tests.kit.drive import clocked_results_of, drive, expected, pipeline_of, results_of, truth
from tests.kit.examples import EXAMPLES, KINDS, Example
from tests.kit.oracle_join import oracle_join_processing, oracle_join_with_corrections
from tests.kit.oracles import SlackRule, cuts_by_count, cuts_by_span, oracle_epoch_release, oracle_tuple_release
from tests.kit.traces import cuttings, largest_delay_of, pieces, traces

FOR_EVER = 10**9
JOINS = [one for one in EXAMPLES if type(one.spec) is WindowJoin and one.spec.policy == BY_EVENT_TIME]
ABSENT = [one for one in EXAMPLES if isinstance(one.spec, OuterJoin)]
each_join = pytest.mark.parametrize("example", JOINS, ids=lambda example: example.name)
with_members = each_with_members(JOINS)
few = tried(18)
IN_EPOCHS = st.sampled_from([Epochs(), Epochs(tuples=3), Epochs(span=4)])
SLACKS = st.sampled_from([0, 4, None])


def trace_for(example):
    return traces(example.spec.streams, KINDS, most={1: 60, 2: 50, 3: 36, 4: 24}[example.spec.streams], filtered=True)


def controller(slack):
    return LargestDelay() if slack is None else FixedSlack(slack)


def released(batch, streams, epochs, cuts, slack):
    """What the slow release gives of a trace, however time is cut."""
    rule = SlackRule(0, follows=True) if slack is None else SlackRule(slack)
    if epochs.each_tuple:
        return oracle_tuple_release(batch, streams, rule)
    if epochs.tuples:
        cuts = cuts_by_count(batch, epochs.tuples)
    elif epochs.span:
        cuts = cuts_by_span(batch, epochs.span)
    return oracle_epoch_release(batch, streams, cuts, rule)


def leaving(example, **words):
    return Example(example.name, replace(example.spec, leaving=Leaving(**words)))


@each_join
@few
@given(data=st.data())
def test_results_on_arrival_are_those_in_order_with_the_same_slack(example, data):
    batch, spec = data.draw(trace_for(example)), leaving(example, on_arrival=True).spec
    cuts, epochs, slack = data.draw(cuttings(len(batch))), data.draw(IN_EPOCHS), data.draw(SLACKS)
    outcome = drive(pipeline_of(spec)(controller(slack), epochs), pieces(batch, cuts))
    steps = released(batch, spec.streams, epochs, cuts, slack)
    assert sorted(outcome.late_rows) == sorted(step.tuple.row for step in steps if step.late)
    wanted = expected(spec, steps) if spec.streams > 1 else truth(spec, batch)
    assert results_of(spec, outcome.emissions) == wanted


@with_members
@few
@given(data=st.data())
def test_results_that_are_held_leave_as_if_tuples_were_joined_in_their_turn(example, data):
    batch, spec = data.draw(trace_for(example)), leaving(example, on_arrival=True, held=True).spec
    if spec.streams == 1:
        return

    def make(controller, epochs):
        return Pipeline(spec, HoldingJoin(spec, len), controller, KernelTerms(epochs), 2**62)

    cuts, epochs, slack = data.draw(cuttings(len(batch))), data.draw(IN_EPOCHS), data.draw(SLACKS)
    outcome = drive(make(controller(slack), epochs), pieces(batch, cuts))
    steps = released(batch, spec.streams, epochs, cuts, slack)
    assert all(a <= b for a, b in pairwise(outcome.timestamps))
    if spec.count_only:
        assert results_of(spec, outcome.emissions) == expected(spec, steps)
    else:
        assert clocked_results_of(spec, outcome.emissions) == Counter(oracle_join_processing(spec, steps))
    stop = data.draw(st.integers(0, len(cuts)))
    laws.going_on_after_restore_equals_never_stopping(spec, make, batch, epochs, cuts, stop, lambda: controller(slack))


@pytest.mark.parametrize("example", ABSENT, ids=lambda example: example.name)
@few
@given(data=st.data())
def test_rows_without_partner_on_arrival_are_those_in_order_with_the_same_slack(example, data):
    batch, spec = data.draw(traces(2, KINDS, most=50, filtered=True)), example.spec.arriving()
    cuts, epochs, slack = data.draw(cuttings(len(batch))), data.draw(IN_EPOCHS), data.draw(SLACKS)
    outcome = drive(pipeline_of(spec)(controller(slack), epochs), pieces(batch, cuts))
    steps = released(batch, 2, epochs, cuts, slack)
    wanted = expected(example.spec, steps)
    found = results_of(spec, outcome.emissions)
    if spec.kind is JoinKind.SEMI and not spec.counted:
        # A tuple leaves with its first partner to arrive, which may be another than the first in event time.
        assert Counter(columns for _, columns in found.elements()) == Counter(c for _, c in wanted.elements())
    else:
        assert found == wanted
    laws.going_on_after_restore_equals_never_stopping(
        spec, pipeline_of(spec), batch, epochs, cuts, data.draw(st.integers(0, len(cuts))), lambda: controller(slack)
    )


CORRECTED = [one for one in ABSENT if one.spec.kind is not JoinKind.SEMI and not one.spec.counted]


@pytest.mark.parametrize("example", CORRECTED, ids=lambda example: example.name)
@few
@given(data=st.data())
def test_first_answers_changed_by_corrections_are_the_answer_of_who_waits_longer(example, data):
    batch, reach = data.draw(traces(2, KINDS, most=50, filtered=True)), data.draw(st.sampled_from([1, 6, FOR_EVER]))
    spec = example.spec.corrected(reach)
    epochs = data.draw(st.sampled_from([Epochs(), Epochs(tuples=3), Epochs(span=4), Epochs(each_tuple=True)]))
    cuts, slack = data.draw(cuttings(len(batch))), data.draw(SLACKS)
    outcome = drive(pipeline_of(spec)(controller(slack), epochs), pieces(batch, cuts))
    steps = released(batch, 2, epochs, cuts, slack)
    first = results_of(spec, [one for one in outcome.emissions if not one.amends])
    assert first == expected(example.spec, steps)
    there = Counter()
    for emission in outcome.emissions:
        for line, ts in enumerate(emission.ts.tolist()):
            row = ts, tuple(int(column[line]) for column in emission.columns)
            deletes = emission.change is not None and emission.change[line] == DELETE
            version = 0 if emission.version is None else int(emission.version[line])
            assert version == int(deletes)
            there[row] += -1 if deletes else 1
            assert there[row] >= 0, "a row was deleted before it was there"
    assert +there == oracle_absence.corrected(example.spec, steps, reach)
    if reach == FOR_EVER:
        assert +there == truth(example.spec, batch)
    laws.going_on_after_restore_equals_never_stopping(
        spec, pipeline_of(spec), batch, epochs, cuts, data.draw(st.integers(0, len(cuts))), lambda: controller(slack)
    )


@with_members
@few
@given(data=st.data())
def test_a_result_on_arrival_leaves_with_its_last_member(example, data):
    batch, spec = data.draw(trace_for(example)), leaving(example, on_arrival=True).spec
    if spec.count_only:
        return
    pipeline, seen = pipeline_of(spec)(FixedSlack(largest_delay_of(batch)), Epochs(each_tuple=True)), Counter()
    for part in pieces(batch, list(range(1, len(batch) + 1))):
        made, arrived = results_of(spec, drive_on(pipeline, part)), int(part.words[ROW, 0])
        assert all(arrived in members for _, members in made), "a result has waited"
        seen += made
    assert seen == truth(spec, batch), "all results leave before the end of the input"


def drive_on(pipeline, part):
    pipeline.absorb(part)
    return list(pipeline.advance())


@with_members
@few
@given(data=st.data())
def test_tuple_by_tuple_nothing_on_arrival_is_invented_or_doubled(example, data):
    batch, spec = data.draw(trace_for(example)), leaving(example, on_arrival=True).spec
    slack = data.draw(SLACKS)
    found = results_of(spec, drive(pipeline_of(spec)(controller(slack), Epochs(each_tuple=True)), [batch]).emissions)
    assert found <= truth(spec, batch)


@each_join
@few
@given(data=st.data())
def test_first_answers_and_corrections_are_the_answer_over_all_that_came_in_time_to_be_corrected(example, data):
    batch, reach = data.draw(trace_for(example)), data.draw(st.sampled_from([1, 6, FOR_EVER]))
    spec = leaving(example, correctable=reach).spec
    epochs = data.draw(st.sampled_from([Epochs(), Epochs(tuples=3), Epochs(span=4), Epochs(each_tuple=True)]))
    cuts, slack = data.draw(cuttings(len(batch))), data.draw(SLACKS)
    outcome = drive(pipeline_of(spec)(controller(slack), epochs), pieces(batch, cuts))
    steps = released(batch, spec.streams, epochs, cuts, slack)
    first = [one for one in outcome.emissions if not one.amends]
    amended = [one for one in outcome.emissions if one.amends]
    assert results_of(spec, first) == expected(replace(spec, leaving=Leaving()), steps)
    assert all(a <= b for a, b in pairwise(ts for one in first for ts in one.ts.tolist())), "first answers in order"
    if not spec.count_only:
        corrected = Counter(result for result, late in oracle_join_with_corrections(spec, steps, reach) if late)
        assert results_of(spec, amended) == corrected
    if reach == FOR_EVER:
        assert results_of(spec, outcome.emissions) == truth(spec, batch)
    last = outcome.observed[-1]
    assert last.results == sum(results_of(spec, first).values())
    assert last.amended == sum(len(one.ts) for one in amended)


@with_members
@pytest.mark.parametrize("words", [{"on_arrival": True}, {"correctable": 6}], ids=["on arrival", "corrected"])
@few
@given(data=st.data())
def test_going_on_after_a_restore_equals_never_having_stopped(example, words, data):
    batch, spec = data.draw(trace_for(example)), leaving(example, **words).spec
    cuts = data.draw(cuttings(len(batch)))
    stop, slack = data.draw(st.integers(0, len(cuts))), data.draw(SLACKS)
    epochs = data.draw(st.sampled_from([Epochs(), Epochs(tuples=5), Epochs(span=4), Epochs(each_tuple=True)]))
    laws.going_on_after_restore_equals_never_stopping(
        spec, pipeline_of(spec), batch, epochs, cuts, stop, lambda: controller(slack)
    )
    laws.every_tuple_is_accounted_for(pipeline_of(spec, max_ahead=20), batch, epochs, cuts, controller(slack))
