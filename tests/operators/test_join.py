"""What a join does in the corners; the laws cover the rest."""

from dataclasses import replace

import numpy as np
import pytest

from slackwater.core.batch import FIRST_COLUMN, ROW, Batch
from slackwater.core.errors import DataError
from slackwater.core.schema import NULL_WORD
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.join import operator
from slackwater.operators.join.cells import ANY_KEY, HashIndex
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality, Linkage, first_plan
from slackwater.operators.pipeline import Epochs
from tests.kit.drive import Outcome, drive, feed, pipeline_of, results_of
from tests.kit.laws import Store
from tests.kit.oracles import oracle_join
from tests.kit.traces import pieces, seeded_trace

K, L = FIRST_COLUMN, FIRST_COLUMN + 1
ON_K = Equality(0, K, 1, K)
BY_CALL = Epochs()


def join(windows, *equalities, count_only=False):
    emit = () if count_only else tuple((s, ROW) for s in range(len(windows)))
    return WindowJoin(windows, equalities, (), (), emit, L + 1, count_only)


def joined(spec, arrivals, slack=100, epochs=BY_CALL):
    outcome = drive(pipeline_of(spec)(FixedSlack(slack), epochs), [Batch.of(arrivals, spec.rows)])
    return results_of(spec, outcome.emissions)


def test_a_null_key_never_joins():
    assert joined(join((5, 5), ON_K), [(0, 1, NULL_WORD), (1, 1, NULL_WORD)]) == {}
    assert joined(join((5, 5), ON_K, count_only=True), [(0, 1, NULL_WORD), (1, 1, NULL_WORD)]) == {}


def test_both_ends_of_a_window_are_closed():
    assert set(joined(join((3, 5), ON_K), [(0, 10, 7), (1, 13, 7), (1, 14, 7), (1, 5, 7), (1, 4, 7)])) == {
        (13, (0, 1)),
        (10, (0, 3)),
    }


def test_a_window_of_zero_joins_equal_timestamps_only():
    assert set(joined(join((0, 0), ON_K), [(0, 1, 7), (1, 1, 7), (1, 2, 7)])) == {(1, (0, 1))}


@pytest.mark.parametrize("epochs", [Epochs(), Epochs(each_tuple=True)])
def test_a_window_of_zero_survives_a_restore(epochs):
    make = pipeline_of(join((0, 0), ON_K))
    first, stored, outcome = make(FixedSlack(0), epochs), Store(), Outcome()
    feed(first, [Batch.of([(0, 5, 7), (1, 5, 8)], L + 1)], outcome, end=False)
    stored.write(first)
    second = make(FixedSlack(0), epochs)
    second.restore(stored.read())
    feed(second, [Batch.of([(1, 5, 7)], L + 1)], outcome, end=True)
    assert outcome.timestamps == [5]


@pytest.mark.parametrize("count_only", [False, True])
@pytest.mark.parametrize("arriving", [0, 1])
def test_a_column_equal_to_two_columns_of_another_stream_makes_those_equal_too(arriving, count_only):
    spec = join((5, 5), ON_K, Equality(0, L, 1, K), count_only=count_only)
    tuples = [(0, 1, 7, 8), (0, 1, 7, 7), (1, 1, 7, 0)]
    late_one = [t for t in tuples if t[0] != arriving] + [(s, 2, *w) for s, _, *w in tuples if s == arriving]
    assert sum(joined(spec, late_one).values()) == 1


@pytest.mark.parametrize("count_only", [False, True])
def test_two_columns_equal_to_one_are_equal_also_where_an_unlinked_stream_arrives_last(count_only):
    spec = join((5, 5, 5), Equality(0, K, 2, K), Equality(0, L, 2, K), count_only=count_only)
    arrivals = [(0, 1, 7, 8), (0, 1, 7, 7), (2, 1, 7, 0), (1, 2, 0, 0)]
    assert sum(joined(spec, arrivals).values()) == 1


def test_a_duplicated_tuple_is_a_tuple_of_its_own():
    assert sum(joined(join((5, 5), ON_K), [(0, 1, 7), (0, 1, 7), (1, 2, 7)]).values()) == 2


def test_a_late_tuple_makes_nothing_itself_and_joins_what_comes_after_it():
    arrivals = [(0, 10, 7), (1, 10, 7), (0, 8, 7), (1, 11, 7), (0, 12, 9)]
    found = joined(join((5, 5), ON_K), arrivals, slack=0, epochs=Epochs(tuples=1))
    assert set(found) == {(10, (0, 1)), (11, (0, 3)), (11, (2, 3))}


@pytest.mark.parametrize("room", [1, 5, 64])
def test_results_that_have_no_room_in_one_chunk_come_whole_in_the_next(monkeypatch, room):
    monkeypatch.setattr(operator, "ENOUGH", room)
    spec = join((50, 50), ON_K)
    arrivals = [(s, t, 7) for t in range(12) for s in (0, 1)] + [(0, 40, 8)]
    batch = Batch.of(arrivals, spec.rows)
    outcome = drive(pipeline_of(spec)(FixedSlack(0), BY_CALL), [batch])
    assert results_of(spec, outcome.emissions) == oracle_join(spec, batch)
    newest = [emission.ts[-1] for emission in outcome.emissions if len(emission.ts)]
    assert len(newest) > 2


def test_counting_gives_the_number_of_results_per_timestamp():
    batch = seeded_trace(3, streams=3, tuples=90, longest_step=1, keys=2)
    words = np.vstack([batch.words, np.arange(90) % 2, np.arange(90) % 3])
    batch = Batch(batch.stream, words, batch.passes)
    spec = join((6, 6, 6), ON_K, Equality(1, K, 2, K))
    count_only = replace(spec, count_only=True, emit=())
    outcome = drive(pipeline_of(count_only)(FixedSlack(12), Epochs()), pieces(batch, [30, 60, 90]))
    true = oracle_join(spec, batch)
    assert sum(results_of(count_only, outcome.emissions).values()) == sum(true.values()) > 0
    assert outcome.observed[-1].results == sum(true.values())


def test_a_count_beyond_64_bits_is_an_error_and_not_a_wrap():
    spec = join((5,) * 8, *(Equality(0, K, s, K) for s in range(1, 8)), count_only=True)
    arrivals = [(s, 1, 7) for s in range(1, 8) for _ in range(600)] + [(0, 2, 7)]
    with pytest.raises(DataError, match="64 bits"):
        joined(spec, arrivals)


def test_a_stream_that_one_class_links_is_a_factor_of_the_count():
    plan = first_plan(Linkage(3, (ON_K, Equality(1, K, 2, K)), (), count_only=True))
    assert plan.leaves.tolist() == [0, 0, 0]
    chain = first_plan(Linkage(3, (ON_K, Equality(1, L, 2, L)), (), count_only=True))
    assert chain.leaves.tolist() == [1, 0, 1], "the middle of a chain must be enumerated"
    assert HashIndex(2, ANY_KEY) in first_plan(Linkage(3, (ON_K,), (), count_only=True)).indexes


def test_a_join_that_is_never_persisted_does_not_pile_up_what_it_would_persist():
    spec = join((5, 5), ON_K)
    built = spec.build()
    pipeline = pipeline_of(replace(spec))(FixedSlack(12), Epochs())
    pipeline._operator = built
    batch = seeded_trace(5, streams=2, tuples=4000)
    words = np.vstack([batch.words, np.zeros((2, 4000), np.int64)])
    feed(pipeline, pieces(Batch(batch.stream, words, batch.passes), range(20, 4001, 20)), Outcome(), end=False)
    assert sum(words.shape[1] for _, _, words in built._persisted._fresh) < 200


def test_persisted_chunks_are_dropped_when_all_their_tuples_have_expired():
    pipeline, stored = pipeline_of(join((5, 5), ON_K))(FixedSlack(0), Epochs()), Store()
    for t in range(0, 200, 2):
        feed(pipeline, [Batch.of([(0, t, 1), (1, t, 2)], L + 1)], Outcome(), end=False)
        stored.write(pipeline)
    assert len([key for namespace, key in stored.entries if namespace == "operator/window"]) <= 8
