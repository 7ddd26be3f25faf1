"""When what is held leaves; the laws cover the rest."""

from slackwater.core.batch import ROW, TS, Batch
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.pipeline import Epochs
from slackwater.operators.relation_to_stream import RelationToStream
from tests.kit.drive import Outcome, feed, pipeline_of

SELECTION = WindowJoin((3,), (), (), (), ((0, ROW), (0, TS)), 2)


def fed(spec, *times):
    pipeline, outcome = pipeline_of(spec)(FixedSlack(0), Epochs(each_tuple=True)), Outcome()
    feed(pipeline, [Batch.of([(0, t)], 2) for t in times], outcome, end=False)
    return pipeline, outcome


def test_a_result_leaves_with_the_tuple_that_ends_it_and_not_before():
    _, before = fed(RelationToStream(SELECTION), 10, 12, 13)
    _, after = fed(RelationToStream(SELECTION), 10, 12, 14)
    assert (before.timestamps, after.timestamps) == ([], [14])
    assert [emission.clock.tolist() for emission in after.emissions] == [[14]]


def test_a_tick_waits_until_no_result_can_be_made_at_it():
    _, at_it = fed(RelationToStream(SELECTION, every=5), 9, 10)
    pipeline, behind_it = fed(RelationToStream(SELECTION, every=5), 9, 10, 11)
    assert (at_it.timestamps, behind_it.timestamps) == ([], [10, 10])
    feed(pipeline, [], behind_it, end=True)
    assert behind_it.timestamps == [10, 10], "none of them is in force at 15"


def test_the_rows_of_a_window_leave_a_slide_after_its_end_and_are_all_emitted_at_the_end():
    pipeline, outcome = fed(RelationToStream(WindowAggregate(4, 2, (), (AggregateSpec("COUNT"),), 2)), 1, 5)
    assert outcome.timestamps == [4], "the window up to 2; the one up to 4 is in force until the next ends"
    feed(pipeline, [], outcome, end=True)
    assert outcome.timestamps == [4, 6, 8, 10]
    assert pipeline.observe().state_rows == 0


def test_results_that_have_left_are_dropped():
    pipeline, _ = fed(RelationToStream(SELECTION), *range(0, 4000, 2))
    assert pipeline.observe().state_rows < 600
