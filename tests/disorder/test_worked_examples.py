"""The examples of the papers, number by number."""

import numpy as np
import pytest

from slackwater.core.batch import FIRST_COLUMN, ROW, Batch
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.operators.pipeline import Epochs
from tests.kit.drive import drive, pipeline_of, results_of


def test_k_slack_sorts_as_in_figure_3_and_example_3_2_1():
    release = Release(ReleaseSpec(streams=1, rows=2, discipline="tuple"), FixedSlack(1))
    drain, late, delays = [], [], []
    for ts in (1, 4, 3, 5, 7, 8, 6, 9):
        runs = list(release.drain(Batch.of([(0, ts)])))
        drain.append([t for run in runs for t in run.ts.tolist()])
        late += [t for run in runs for t in run.ts[run.late].tolist()]
        delays += [d for run in runs for d in run.delay[run.late].tolist()]
    assert drain == [[], [1], [], [3, 4], [5], [7], [], [6, 8]]
    assert late == [6], "e7 appears still out of order in the output"
    assert delays == [2], "its delay on arrival was 8 - 6"
    assert release.watermark - 6 == 2
    assert [run.ts.tolist() for run in release.drain(Batch.of([]), end=True)] == [[9]]


@pytest.mark.parametrize(("slack", "count"), [(0, 8), (1, 9), (3, 10), (20, 10)])
def test_the_count_of_example_3_1_1_grows_with_the_waiting(slack, count):
    # e8 has timestamp 10, e10 has 4 and e13 has 8; (0, 10] is [1, 11) in whole time units.
    arrivals = [1, 2, 3, 5, 6, 7, 9, 10, 11, 4, 12, 13, 8, 14, 15, 16]
    spec = WindowAggregate(10, 1, (), (AggregateSpec("COUNT"),), 2)
    make = pipeline_of(spec)
    outcome = drive(make(FixedSlack(slack), Epochs(each_tuple=True)), [Batch.of([(0, ts) for ts in arrivals])])
    assert results_of(spec, outcome.emissions)[1, ()] == (count,)


@pytest.mark.parametrize(("slack", "count"), [(0, 8), (1, 9), (3, 10)])
def test_epochs_of_one_tuple_count_example_3_1_1_alike(slack, count):
    arrivals = [1, 2, 3, 5, 6, 7, 9, 10, 11, 4, 12, 13, 8, 14, 15, 16]
    spec = WindowAggregate(10, 1, (), (AggregateSpec("COUNT"),), 2)
    outcome = drive(pipeline_of(spec)(FixedSlack(slack), Epochs(tuples=1)), [Batch.of([(0, ts) for ts in arrivals])])
    assert results_of(spec, outcome.emissions)[1, ()] == (count,)


B, C, D, E = 2, 3, 4, 5
FIGURE_1 = (2, [(1, 3, C), (0, 5, E), (0, 6, B), (0, 4, C), (0, 8, D), (1, 7, E)], [(4, (3, 0)), (7, (1, 5))])
EXAMPLE_3_1_2 = (3, [(1, 3, C), (0, 5, E), (0, 6, B), (0, 2, C), (0, 8, D), (1, 7, E)], [(3, (3, 0)), (7, (1, 5))])


def join_of(window):
    on_letter = Equality(0, FIRST_COLUMN, 1, FIRST_COLUMN)
    return WindowJoin((window, window), (on_letter,), (), (), ((0, ROW), (1, ROW)), FIRST_COLUMN + 1)


@pytest.mark.parametrize(("window", "arrivals", "true"), [FIGURE_1, EXAMPLE_3_1_2], ids=["Fig. 1", "Example 3.1.2"])
def test_without_disorder_handling_both_results_are_lost(window, arrivals, true):
    batch = Batch.of(arrivals)
    met = np.maximum.accumulate(np.concatenate([[0], batch.ts[:-1]]))
    run = OrderedBatch(OrderedTuples.of(batch.stream, batch.words, met), int(batch.ts.max()), 8, 8)
    assert run.late.tolist() == [False, False, False, True, False, True]
    assert list(join_of(window).build().process(run, ordered=True)) == []


@pytest.mark.parametrize(("window", "arrivals", "true"), [FIGURE_1, EXAMPLE_3_1_2], ids=["Fig. 1", "Example 3.1.2"])
@pytest.mark.parametrize("epochs", [Epochs(each_tuple=True), Epochs(), Epochs(tuples=1)])
def test_with_enough_slack_both_results_come_in_order(window, arrivals, true, epochs):
    spec = join_of(window)
    outcome = drive(pipeline_of(spec)(FixedSlack(4), epochs), [Batch.of(arrivals)])
    assert outcome.timestamps == [ts for ts, _ in true]
    assert sorted(results_of(spec, outcome.emissions)) == true
