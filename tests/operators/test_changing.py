"""Aggregates that change what they have emitted, against an oracle that recomputes every window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import Batch
from slackwater.disorder.controllers import FixedSlack, LargestDelay
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.distinct import StreamDistinct
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.pipeline import Epochs
from slackwater.operators.union import StreamUnion
from tests.effort import tried
from tests.kit import laws
from tests.kit.drive import Outcome, assert_same, drive, expected, feed, pipeline_of, results_of, truth
from tests.kit.examples import EXAMPLES, KINDS
from tests.kit.oracle_aggregate import oracle_aggregate_processing
from tests.kit.oracle_changing import Table, oracle_corrected
from tests.kit.oracles import SlackRule, cuts_by_count, cuts_by_span, oracle_epoch_release, oracle_tuple_release
from tests.kit.traces import cuttings, largest_delay_of, pieces, seeded_trace, traces

FOR_EVER = 10**9
AGGREGATES = [one for one in EXAMPLES if type(one.spec) is WindowAggregate]
each_aggregate = pytest.mark.parametrize("example", AGGREGATES, ids=lambda example: example.name)
few = tried(24)
EPOCHS = st.sampled_from([Epochs(), Epochs(tuples=3), Epochs(span=4), Epochs(each_tuple=True)])
SLACKS = st.sampled_from([0, 4, None])


def controller(slack):
    return LargestDelay() if slack is None else FixedSlack(slack)


def released(batch, epochs, cuts, slack, streams=1):
    """What the slow release gives of a trace, however time is cut."""
    rule = SlackRule(0, follows=True) if slack is None else SlackRule(slack)
    if epochs.each_tuple:
        return oracle_tuple_release(batch, streams, rule)
    if epochs.tuples:
        cuts = cuts_by_count(batch, epochs.tuples)
    elif epochs.span:
        cuts = cuts_by_span(batch, epochs.span)
    return oracle_epoch_release(batch, streams, cuts, rule)


@each_aggregate
@few
@given(data=st.data())
def test_first_answers_and_corrections_are_the_answer_over_all_that_came_in_time_to_be_corrected(example, data):
    batch, reach = data.draw(traces(1, KINDS, most=60, filtered=True)), data.draw(st.sampled_from([1, 6, FOR_EVER]))
    spec = Changing(example.spec, reach)
    epochs, cuts, slack = data.draw(EPOCHS), data.draw(cuttings(len(batch))), data.draw(SLACKS)
    outcome = drive(pipeline_of(spec)(controller(slack), epochs), pieces(batch, cuts))
    steps = released(batch, epochs, cuts, slack)
    plain = drive(pipeline_of(example.spec)(controller(slack), epochs), pieces(batch, cuts))
    assert_same(results_of(spec, outcome.emissions), results_of(example.spec, plain.emissions))
    assert_same(results_of(spec, outcome.emissions), expected(spec, steps))
    assert outcome.timestamps == plain.timestamps
    assert_same(Table(example.spec).apply(outcome.emissions).answer, oracle_corrected(spec, steps))
    if reach == FOR_EVER:
        assert_same(Table(example.spec).apply(outcome.emissions).answer, truth(example.spec, batch))
    last, amended = outcome.observed[-1], [one for one in outcome.emissions if one.amends]
    assert (last.results, last.amended) == (plain.observed[-1].results, sum(len(one.ts) for one in amended))


@each_aggregate
def test_long_traces_are_corrected_as_the_oracle_says(example):
    batch = seeded_trace(17, 1, KINDS, tuples=500, largest_delay=40, longest_step=2)
    cuts = list(range(50, 501, 50))
    spec = Changing(example.spec, 15)
    for epochs in (Epochs(), Epochs(tuples=7), Epochs(each_tuple=True)):
        outcome = drive(pipeline_of(spec)(FixedSlack(0), epochs), pieces(batch, cuts))
        steps = released(batch, epochs, cuts, 0)
        assert any(one.amends for one in outcome.emissions)
        assert_same(Table(example.spec).apply(outcome.emissions).answer, oracle_corrected(spec, steps))


@each_aggregate
@few
@given(data=st.data())
def test_going_on_after_a_restore_gives_the_same_table(example, data):
    batch, reach = data.draw(traces(1, KINDS, most=60, filtered=True)), data.draw(st.sampled_from([2, FOR_EVER]))
    spec, epochs = Changing(example.spec, reach), data.draw(EPOCHS)
    cuts, slack = data.draw(cuttings(len(batch))), data.draw(SLACKS)
    stop = data.draw(st.integers(0, len(cuts)))
    first, stored, outcome = pipeline_of(spec)(controller(slack), epochs), laws.Store(), Outcome()
    for part in pieces(batch, cuts)[:stop]:
        feed(first, [part], outcome, end=False)
        stored.write(first)
    stored.write(first)
    second = pipeline_of(spec)(controller(slack), epochs)
    second.restore(stored.read())
    feed(second, pieces(batch, cuts)[stop:], outcome, end=True)
    steps = released(batch, epochs, cuts, slack)
    assert_same(Table(example.spec).apply(outcome.emissions).answer, oracle_corrected(spec, steps))


def test_what_comes_too_late_for_a_window_is_no_part_of_it_when_it_is_corrected():
    """Both late tuples are of one pane, and only the first of them comes in time for the older window."""
    aggregate = WindowAggregate(4, 2, (), (AggregateSpec("COUNT"),), 2)
    spec = Changing(aggregate, 3)
    batch = Batch.of([(0, ts) for ts in (0, 6, 2, 9, 2)], 2)
    for epochs in (Epochs(each_tuple=True), Epochs(tuples=1)):
        outcome = drive(pipeline_of(spec)(FixedSlack(0), epochs), [batch])
        table = Table(aggregate).apply(outcome.emissions).answer
        assert (table[0, ()], table[2, ()]) == ((2,), (2,))


@each_aggregate
@few
@given(data=st.data())
def test_rows_of_open_windows_are_what_has_arrived_and_final_rows_are_those_of_the_plain_query(example, data):
    batch, every = data.draw(traces(1, KINDS, most=60)), data.draw(st.sampled_from([1, 5]))
    spec = Changing(example.spec, data.draw(st.sampled_from([None, 2, FOR_EVER])), every)
    epochs, cuts, slack = data.draw(EPOCHS), data.draw(cuttings(len(batch))), data.draw(SLACKS)
    make, steps = pipeline_of(spec)(controller(slack), epochs), released(batch, epochs, cuts, slack)
    plain = drive(pipeline_of(example.spec)(controller(slack), epochs), pieces(batch, cuts))
    outcome = drive(make, pieces(batch, cuts))
    final = [one for one in outcome.emissions if not one.amends]
    assert_same(results_of(spec, outcome.emissions), results_of(example.spec, plain.emissions))
    assert outcome.timestamps == plain.timestamps
    assert clocks_of(final) == clocks_of(plain.emissions), "a final row left at another moment"
    assert sorted(outcome.late_rows) == sorted(plain.late_rows)
    corrected = (
        oracle_aggregate_processing(example.spec, steps) if spec.correctable is None else oracle_corrected(spec, steps)
    )
    assert_same(Table(example.spec).apply(outcome.emissions).answer, corrected)


def clocks_of(emissions):
    return [clock for one in emissions for clock in one.clock.tolist()]


@each_aggregate
@few
@given(data=st.data())
def test_rows_leave_early_when_the_clock_has_passed_a_multiple_of_the_period(example, data):
    """Tuple by tuple, with all the slack that is needed: then a row is of all that has come, and none is late."""
    batch, every = data.draw(traces(1, KINDS, most=40)), data.draw(st.sampled_from([1, 4]))
    slack = largest_delay_of(batch)
    spec = Changing(example.spec, None, every)
    pipeline, table = pipeline_of(spec)(FixedSlack(slack), Epochs(each_tuple=True)), Table(example.spec)
    passed = None
    for at, part in enumerate(pieces(batch, list(range(1, len(batch) + 1))), 1):
        pipeline.absorb(part)
        table.apply(pipeline.advance())
        clock = int(batch.ts[:at].max())
        if passed is not None and clock // every > passed:
            assert_same(table.answer, truth(example.spec, batch.take(slice(at))))
        passed = clock // every


GRAPHS = [one for one in EXAMPLES if isinstance(one.spec, OperatorGraph)]
UNCORRECTED = (WindowAggregate, StreamDistinct)
"""Operators whose rows no other one corrects: the language refuses corrections above them."""
CORRECTED = [
    one
    for one in GRAPHS
    if one.spec.corrected(1) is not None
    and not any(isinstance(node.operator, UNCORRECTED) for node in one.spec.nodes[:-1])
] + [one for one in EXAMPLES if isinstance(one.spec, StreamUnion)]


@pytest.mark.parametrize("example", CORRECTED, ids=lambda example: example.name)
@few
@given(data=st.data())
def test_what_a_node_corrects_is_corrected_by_the_nodes_above(example, data):
    plain, streams = example.spec, example.spec.streams
    spec, most = plain.corrected(FOR_EVER), {2: 50, 3: 36, 4: 24}[streams]
    batch = data.draw(traces(streams, KINDS, most=most, filtered=True))
    epochs, cuts, slack = data.draw(EPOCHS), data.draw(cuttings(len(batch))), data.draw(SLACKS)
    stop = data.draw(st.integers(0, len(cuts)))
    first, stored, outcome = pipeline_of(spec)(controller(slack), epochs), laws.Store(), Outcome()
    for part in pieces(batch, cuts)[:stop]:
        feed(first, [part], outcome, end=False)
        stored.write(first)
    stored.write(first)
    second = pipeline_of(spec)(controller(slack), epochs)
    second.restore(stored.read())
    feed(second, pieces(batch, cuts)[stop:], outcome, end=True)
    in_order = [ts for one in outcome.emissions if not one.amends for ts in one.ts.tolist()]
    assert in_order == sorted(in_order)
    if isinstance(plain, OperatorGraph) and isinstance(plain.top, WindowAggregate):
        assert_same(Table(plain.top).apply(outcome.emissions).answer, truth(plain, batch))
    else:
        assert_same(results_of(plain, outcome.emissions), truth(plain, batch))


def test_a_node_below_corrects_for_as_much_longer_as_the_ones_above_look_back():
    spec = next(one.spec for one in CORRECTED if one.name == "aggregate above a join").corrected(7)
    assert [spec.nodes[0].operator.leaving.correctable, spec.top.correctable] == [7 + spec.top.made_by.range, 7]
