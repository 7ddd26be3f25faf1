"""The guard against poisoned clocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.disorder.admission import Admission
from slackwater.disorder.controllers import FixedSlack
from slackwater.model.batch import ROW, Batch
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.algebra import AggregateSpec
from slackwater.operators.pipeline import Epochs
from slackwater.testing.drive import drive, pipeline_of
from slackwater.testing.traces import cuttings, pieces


def judged(arrivals, streams=1, max_ahead=10, end=False):
    guard = Admission(streams, max_ahead)
    seen = guard.admit(Batch.of(arrivals), end)
    return seen.batch.words[ROW].tolist(), seen.ahead.words[ROW].tolist(), guard.aside


def test_a_tuple_within_the_guard_is_admitted_at_once():
    assert judged([(0, 1), (0, 11), (0, 21)]) == ([0, 1, 2], [], 0)


def test_the_first_tuple_of_all_is_admitted_whatever_its_time():
    assert judged([(0, 10**15)]) == ([0], [], 0)


def test_a_tuple_too_far_ahead_waits_aside():
    assert judged([(0, 1), (0, 13), (0, 2)]) == ([0, 2], [], 1)


def test_three_later_tuples_confirm_a_real_gap_and_come_in_after_it():
    assert judged([(0, 1), (0, 100), (0, 101), (0, 102)]) == ([0], [], 3)
    assert judged([(0, 1), (0, 100), (0, 101), (0, 102), (0, 103)]) == ([0, 1, 2, 3, 4], [], 0)


def test_tuples_of_any_stream_confirm_a_jump():
    arrivals = [(0, 1), (1, 1), (0, 100), (1, 100), (1, 101), (1, 102)]
    let_in, ahead, aside = judged(arrivals, streams=2)
    assert let_in[:3] == [0, 1, 2]
    assert ahead == []
    assert aside == 3, "the other stream's own jump still needs its third confirmation"


def test_old_tuples_confirm_nothing():
    assert judged([(0, 1), (0, 1000), (0, 2), (0, 3), (0, 4), (0, 5)]) == ([0, 2, 3, 4, 5], [], 1)


def test_a_tuple_confirms_a_jump_if_it_is_at_most_the_guard_behind_it():
    let_in, ahead, aside = judged([(0, 1), (0, 100), (0, 90), (0, 90), (0, 90)])
    assert (sorted(let_in), ahead, aside) == ([0, 1, 2, 3, 4], [], 0)
    assert judged([(0, 1), (0, 100), (0, 89), (0, 89), (0, 89)]) == ([0], [], 4)


def test_a_stream_that_reaches_the_place_by_itself_refutes_the_poisoned_tuple():
    assert judged([(0, 1), (0, 30), (0, 9), (0, 19), (0, 29)]) == ([0, 2, 3, 4], [], 1)
    assert judged([(0, 1), (0, 30), (0, 9), (0, 19), (0, 29), (0, 30)]) == ([0, 2, 3, 4, 5], [1], 0)


def test_a_tuple_just_beyond_the_guard_can_still_be_confirmed_after_the_stream_moved_on():
    let_in, ahead, aside = judged([(0, 1), (0, 12), (0, 2), (0, 13), (0, 14), (0, 15)])
    assert (sorted(let_in), ahead, aside) == ([0, 1, 2, 3, 4, 5], [], 0)


def test_the_moment_of_arrival_confirms_a_real_gap_and_exposes_a_poisoned_first_tuple():
    arrivals = Batch.of([(0, 1), (0, 1000), (0, 5000)])
    told = Batch(arrivals.stream, arrivals.words, arrivals.passes, np.array([1, 1001, 1002]))
    seen = Admission(1, 10).admit(told, end=True)
    assert (seen.batch.ts.tolist(), seen.ahead.ts.tolist()) == ([1, 1000], [5000])
    first = Batch(arrivals.stream[2:], arrivals.words[:, 2:], arrivals.passes[2:], np.array([3]))
    assert Admission(1, 10).admit(first).batch.ts.tolist() == []


def test_what_is_still_aside_when_the_input_ends_is_rejected():
    assert judged([(0, 1), (0, 1000), (0, 2)], end=True) == ([0, 2], [1], 0)


def test_a_stream_without_a_clock_is_measured_against_the_others():
    assert judged([(0, 1), (1, 500)], streams=2) == ([0], [], 1)
    assert judged([(0, 1), (1, 8)], streams=2) == ([0, 1], [], 0)


@pytest.mark.parametrize("epochs", [Epochs(), Epochs(each_tuple=True), Epochs(tuples=2)])
def test_a_poisoned_tuple_moves_no_clock_and_nothing_else_is_lost(epochs):
    spec = WindowAggregate(10, None, (), (AggregateSpec("COUNT"),), 2)
    arrivals = [(0, t) for t in range(50)]
    arrivals.insert(7, (0, 10**9))
    pipeline = pipeline_of(spec, max_ahead=10)(FixedSlack(0), epochs)
    outcome = drive(pipeline, [Batch.of(arrivals)])
    assert [int(n) for emission in outcome.emissions for n in emission.columns[2]] == [10] * 5
    assert outcome.observed[-1].clocks == (49,)
    assert outcome.observed[-1].ahead == 1
    assert outcome.observed[-1].late == 0
    assert [batch.ts.tolist() for batch in pipeline.take_ahead()] == [[10**9]]


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.integers(0, 30), st.sampled_from([100, 101, 105, 112, 300]))),
    max_size=25,
)


@given(ARRIVALS, st.data())
def test_admission_does_not_depend_on_how_arrivals_are_cut(arrivals, data):
    batch = Batch.of(arrivals)
    whole = Admission(2, 10).admit(batch, end=True)
    guard = Admission(2, 10)
    seen = [guard.admit(piece) for piece in pieces(batch, data.draw(cuttings(len(batch))))]
    seen.append(guard.admit(Batch.of([]), end=True))
    assert np.concatenate([s.batch.words[ROW] for s in seen]).tolist() == whole.batch.words[ROW].tolist()
    assert np.concatenate([s.ahead.words[ROW] for s in seen]).tolist() == whole.ahead.words[ROW].tolist()


@given(ARRIVALS)
def test_every_tuple_is_either_admitted_or_rejected_once(arrivals):
    let_in, ahead, aside = judged(arrivals, streams=2, end=True)
    assert sorted(let_in + ahead) == list(range(len(arrivals)))
    assert aside == 0


@given(ARRIVALS)
def test_no_single_tuple_moves_a_clock_further_than_the_guard_allows(arrivals):
    # A jump needs the one that jumps and three that confirm it.
    let_in, _, _ = judged(arrivals, streams=2)
    clocks = {}
    for position, row in enumerate(let_in):
        stream, ts = arrivals[row]
        reference = clocks.get(stream, max(clocks.values(), default=None))
        if reference is not None and ts > reference + 10:
            shown_later = arrivals[row + 1 :]
            assert sum(t >= ts - 10 for _, t in shown_later) >= 3, position
        clocks[stream] = max(ts, clocks.get(stream, ts))


def test_an_empty_epoch_does_not_make_a_waiting_tuple_forget_when_it_arrived():
    guard = Admission(1, 10)
    batch = Batch.of([(0, 1), (0, 100)])
    guard.admit(Batch(batch.stream, batch.words, batch.passes, np.array([5, 6])))
    guard.admit(Batch.of([]))
    batch = Batch.of([(0, 101), (0, 102), (0, 103)])
    seen = guard.admit(Batch(batch.stream, batch.words, batch.passes, np.array([7, 8, 9])))
    assert seen.batch.heard is not None
    assert seen.batch.heard.tolist() == [6, 7, 8, 9]


def test_a_restored_guard_remembers_who_waits_and_how_often_he_was_confirmed():
    first = Admission(1, 10)
    first.admit(Batch.of([(0, 1), (0, 100), (0, 101), (0, 102)]))
    second = Admission(1, 10)
    second.restore(first.changes())
    assert second.aside == 3
    assert second.admit(Batch.of([(0, 103)])).batch.ts.tolist() == [100, 101, 102, 103]
