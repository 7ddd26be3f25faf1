"""What is expected of rows of open windows, and when the first of them leaves."""

import numpy as np
import pytest

from slackwater.core.schema import Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.expected_error import FEWEST, ExpectedError, stages_of
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.pipeline import Epochs
from tests.kit.drive import Outcome, drive, feed, pipeline_of
from tests.kit.examples import KINDS, ROWS, K, V
from tests.kit.laws import Store
from tests.kit.oracle_changing import Table
from tests.kit.traces import largest_delay_of, pieces, seeded_trace

AGGREGATE = WindowAggregate(100, 50, (K,), (AggregateSpec("COUNT"), AggregateSpec("MAX", V, Kind.FLOAT)), ROWS)


def test_expected_completeness_is_the_share_of_event_times_whose_tuples_have_come():
    random, expected = np.random.default_rng(3), ExpectedError(AGGREGATE)
    delays = np.where(random.random(500) < 0.6, 0, random.integers(0, 60, 500))
    expected.saw(delays)
    for start, clock in ((0, 0), (0, 1), (0, 50), (0, 100), (0, 130), (-20, 100), (0, 10**6)):
        # Delays are whole numbers here, and so are the times that are counted.
        times = np.linspace(start, start + 100, 4001)[:-1] + 100 / 8000
        slow = np.mean([np.mean(delays <= np.floor(clock - t)) if t <= clock else 0.0 for t in times])
        found = expected.completeness(np.array([start]), clock)[0]
        assert found == pytest.approx(slow, abs=0.012)


def test_nothing_is_expected_before_enough_rows_were_tried_and_then_what_they_kept_to():
    expected, full = ExpectedError(AGGREGATE), np.array([0.5])
    for window in range(FEWEST + 1):
        assert np.isnan(expected.of(full)[0]) == (window < FEWEST)
        one, key = np.array([window]), np.zeros((1, 1), np.int64)
        expected.try_out(one, key, np.array([[100 - window, 0]]), full)
        expected.closed(one, key, np.array([[100, 0]]))
    assert expected.of(full)[0] == pytest.approx(FEWEST / 100)


def test_a_stage_is_never_expected_to_be_better_than_a_later_one():
    expected = ExpectedError(AGGREGATE)
    for window in range(2 * FEWEST):
        one, key, late = np.array([window]), np.zeros((1, 1), np.int64), window % 2 == 1
        expected.try_out(one, key, np.array([[50 if late else 90, 0]]), np.array([0.9 if late else 0.2]))
        expected.closed(one, key, np.array([[100, 0]]))
    assert stages_of(np.array([0.2]))[0] < stages_of(np.array([0.9]))[0]
    assert expected.of(np.array([0.2, 0.9])).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("epochs", [Epochs(each_tuple=True), Epochs(span=5)], ids=str)
def test_the_first_row_leaves_once_and_is_as_wrong_as_expected_at_most_in_most_cases(epochs):
    batch = seeded_trace(23, 1, KINDS, tuples=20_000, largest_delay=30, longest_step=1, keys=4)
    counts = WindowAggregate(100, 50, (K,), (AggregateSpec("COUNT"),), ROWS)
    spec = Changing(counts, error=0.25)
    outcome = drive(pipeline_of(spec)(FixedSlack(largest_delay_of(batch)), epochs), [batch])
    Table(counts).apply(outcome.emissions)
    final = {}
    for one in outcome.emissions:
        if not one.amends:
            final |= {
                place: int(n) for place, n in zip(zip(*one.columns[:3], strict=True), one.columns[3], strict=True)
            }
    kept = []
    for one in outcome.emissions:
        if one.amends:
            assert (one.expected_error <= 0.25).all()
            assert (one.version == 0).all()
            true = np.array([final[place] for place in zip(*one.columns[:3], strict=True)])
            kept += (np.abs(one.columns[3] - true) / true <= one.expected_error).tolist()
    assert len(kept) > 0.7 * len(final)
    assert np.mean(kept) > 0.93


def test_what_was_learned_survives_a_restart():
    batch = seeded_trace(29, 1, KINDS, tuples=4000, largest_delay=30, longest_step=1, keys=4)
    spec = Changing(WindowAggregate(100, 50, (K,), (AggregateSpec("COUNT"),), ROWS), error=0.3)
    parts = pieces(batch, list(range(500, 4001, 500)))
    unbroken = drive(pipeline_of(spec)(FixedSlack(30), Epochs(span=5)), parts)
    outcome, stored = Outcome(), Store()
    for part in parts:
        pipeline = pipeline_of(spec)(FixedSlack(30), Epochs(span=5))
        if stored.entries:
            pipeline.restore(stored.read())
        feed(pipeline, [part], outcome, end=part is parts[-1])
        stored.write(pipeline)
    assert any(one.amends for one in unbroken.emissions)
    assert rows_of(outcome) == rows_of(unbroken)


def rows_of(outcome):
    return sorted(
        (one.amends, *row)
        for one in outcome.emissions
        for row in zip(*(column.tolist() for column in one.columns), one.version.tolist(), strict=True)
    )
