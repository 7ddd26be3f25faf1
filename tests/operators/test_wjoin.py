"""The algorithms of the W-join report: what they answer, and what work they do for it."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, ROW, Batch
from slackwater.core.errors import UsageError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.published.wjoin import spec as wjoin
from slackwater.published.wjoin.spec import ALGORITHMS, by_algorithm
from tests.effort import tried
from tests.kit.oracle_release import Released, SlackRule, Tuple, oracle_tuple_release
from tests.kit.oracle_wjoin import SlowWJoin
from tests.kit.oracles import oracle_join, oracle_join_processing
from tests.kit.traces import cuttings, seeded_trace, traces

K = FIRST_COLUMN
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def equi_join(streams, window, *conditions):
    equalities = tuple(Equality(s, K, s + 1, K) for s in range(streams - 1))
    columns = tuple((s, "k", K) for s in range(streams))
    emit = tuple((s, ROW) for s in range(streams))
    return WindowJoin((window,) * streams, equalities, conditions, columns, emit, K + 1)


def tuples(*rows):
    """(stream, ts, key) in time, in processing order."""
    return [Released(Tuple(s, ts, (ts, i, key)), BEFORE_ALL, 0) for i, (s, ts, key) in enumerate(rows)]


def run_of(released, watermark=BEFORE_ALL):
    n = len(released)
    words = np.array([step.tuple.words for step in released], np.int64).reshape(n, K + 1).T
    met = np.array([max(step.met, BEFORE_ALL) for step in released], np.int64)
    stream = np.array([step.tuple.stream for step in released], np.int64)
    return OrderedBatch(OrderedTuples.of(stream, words, met), watermark, 0, 0)


def results(operator, run):
    found = []
    for output in operator.process(run, True):
        lines = zip(output.ts.tolist(), *(column.tolist() for column in output.columns), strict=True)
        found += [(ts, tuple(members)) for ts, *members in lines]
    return found


def processed(spec, runs):
    """What operator and slow twin make of the same runs: results and comparisons of both."""
    operator, slow = spec.build(), SlowWJoin(spec)
    found = []
    for released, watermark in runs:
        found += results(operator, run_of(released, watermark))
        slow.take(released, watermark)
    return found, operator.comparisons, slow


@st.composite
def wjoins(draw, algorithm):
    streams = draw(st.integers(2, 6))
    condition = typed_call("<>", (Column(0, "k", Kind.INT), Column(streams - 1, "k", Kind.INT)))
    window = draw(st.sampled_from([0, 3, 9]))
    spec = equi_join(streams, window)
    if algorithm in ("nested_loop", "merge", "ripple") and draw(st.booleans()):
        spec = WindowJoin(spec.windows, spec.equalities[1:], (condition,), spec.columns, spec.emit, spec.rows)
    return by_algorithm(spec, algorithm, buckets=draw(st.sampled_from([1, 4])), clean_every=7)


def assert_as_in_the_pseudo_code(spec, data, most):
    """Results and comparisons are those of the slow twin, over drawn tuples, slacks and cuttings of the run."""
    batch = data.draw(traces(spec.streams, (Kind.INT,), most=most))
    released = oracle_tuple_release(batch, spec.streams, SlackRule(data.draw(st.sampled_from([0, 4, 12]))))
    runs = []
    for begin, end in pairwise([0, *data.draw(cuttings(len(released)))]):
        met = max([BEFORE_ALL, *(step.met for step in released[begin:end])])
        runs.append((released[begin:end], met))
    found, comparisons, slow = processed(spec, runs)
    assert Counter(found) == Counter(result for result, _ in oracle_join_processing(spec, released))
    assert Counter(found) == Counter(slow.results)
    assert comparisons == slow.comparisons
    assert [ts for ts, _ in found] == sorted(ts for ts, _ in found)


@each_algorithm
@tried(60)
@given(data=st.data())
def test_results_and_comparisons_are_those_of_the_pseudo_code_however_runs_are_cut(algorithm, data):
    spec = data.draw(wjoins(algorithm))
    assert_as_in_the_pseudo_code(spec, data, most={2: 60, 3: 40}.get(spec.streams, 26))


@each_algorithm
@pytest.mark.parametrize("streams", [2, 3, 4])
def test_late_tuples_stand_in_their_place(algorithm, streams):
    """Long enough for late tuples to be overtaken by the window before those that came ahead of them."""
    spec = by_algorithm(equi_join(streams, 9), algorithm, buckets=4, clean_every=15)
    tuples_of_all = {2: 200, 3: 150, 4: 100}[streams]
    batch = seeded_trace(
        streams, streams, (Kind.INT,), tuples_of_all, largest_delay=12, longest_step=1, keys=streams - 1
    )
    released = oracle_tuple_release(batch, streams, SlackRule(0))
    assert sum(step.late and step.tuple.ts >= step.met - 9 for step in released) > 10
    found, comparisons, slow = processed(spec, [(released, BEFORE_ALL)])
    assert Counter(found) == Counter(result for result, _ in oracle_join_processing(spec, released))
    assert len(found) > 100
    assert comparisons == slow.comparisons


@pytest.mark.parametrize("algorithm", ["nested_loop", "hash", "ripple", "xjoin"])
@tried(40)
@given(data=st.data())
def test_streams_that_are_taken_in_turn_and_not_in_one_order_give_the_true_results(algorithm, data):
    """As the report takes them: each stream is in order, and runs ahead of the others or behind them."""
    spec = data.draw(wjoins(algorithm))
    most = {2: 50, 3: 36}.get(spec.streams, 24)
    arrivals = data.draw(
        st.lists(
            st.tuples(st.integers(0, spec.streams - 1), st.integers(0, 4), st.sampled_from([1, 2, NULL_WORD])),
            max_size=most,
        )
    )
    clocks, rows = [0] * spec.streams, []
    for s, step, key in arrivals:
        clocks[s] += step * (s + 1)
        rows.append((s, clocks[s], key))
    found, comparisons, slow = processed(spec, [(tuples(*rows), BEFORE_ALL)])
    wanted = oracle_join(spec, Batch.of(rows, spec.rows))
    assert Counter(members for _, members in found) == Counter({m: n for (_, m), n in wanted.items()})
    assert comparisons == slow.comparisons


def test_a_tuple_stays_while_one_stream_may_still_join_it():
    """Fig. 3: e1 is more than a window behind b4, and c2 joins it all the same."""
    spec = by_algorithm(equi_join(3, 5), "nested_loop")
    e1, b4, c2 = (0, 0, 7), (1, 5, 7), (2, 4, 7)
    far_ahead = (1, 20, 7)
    found, _, _ = processed(spec, [(tuples(e1, b4, far_ahead, c2), BEFORE_ALL)])
    assert [members for _, members in found] == [(0, 1, 3)]


@pytest.mark.parametrize(("algorithm", "left"), [("nested_loop", 2), ("merge", 2), ("ripple", 5)])
def test_only_the_ripple_join_keeps_tuples_that_are_out_of_reach(algorithm, left):
    operator = by_algorithm(equi_join(2, 5), algorithm).build()
    assert results(operator, run_of(tuples((0, 0, 1), (1, 1, 2), (0, 2, 1), (1, 30, 2), (0, 31, 3)))) == []
    assert operator.state_rows == left


@pytest.mark.parametrize(("algorithm", "left"), [("hash", 0), ("xjoin", 40)])
def test_buckets_that_nobody_probes_are_emptied_by_the_hash_join_alone(algorithm, left):
    operator = by_algorithm(equi_join(2, 50), algorithm, buckets=8).build()
    forgotten, busy = [(0, 0, key) for key in range(40)], [(s, 100 + t, 99) for t in range(9) for s in (1, 0)]
    results(operator, run_of(tuples(*forgotten, *busy)))
    assert operator.state_rows - len(busy) == left


def test_nothing_is_compared_by_merge_while_a_stream_has_nothing_in_the_window():
    operator = by_algorithm(equi_join(3, 5), "merge").build()
    results(operator, run_of(tuples(*[(t % 2, t // 2, 7) for t in range(8)])))
    without_third = operator.comparisons
    results(operator, run_of(tuples((2, 4, 7))))
    assert without_third <= 8 * 2
    assert operator.comparisons > without_third


@each_algorithm
@pytest.mark.parametrize("room", [1, 5])
def test_results_that_have_no_room_come_whole_in_the_next_chunk(monkeypatch, algorithm, room):
    monkeypatch.setattr(wjoin, "ENOUGH", room)
    spec = by_algorithm(equi_join(2, 50), algorithm)
    found, comparisons, slow = processed(spec, [(tuples(*[(s, t, 7) for t in range(12) for s in (0, 1)]), BEFORE_ALL)])
    assert Counter(found) == Counter(slow.results)
    assert comparisons == slow.comparisons


@each_algorithm
def test_buffers_grow_and_forget_over_long_streams(algorithm):
    spec = by_algorithm(equi_join(3, 40), algorithm, clean_every=500)
    random = np.random.default_rng(5)
    rows = [(int(random.integers(3)), t // 3, int(random.integers(4))) for t in range(3000)]
    operator, engine = spec.build(), equi_join(3, 40).build()
    for begin in range(0, len(rows), 700):
        released = tuples(*rows[begin : begin + 700])
        run = run_of(released, released[-1].tuple.ts)
        assert Counter(results(operator, run)) == Counter(results(engine, run))
    assert operator.state_rows < 1500


def test_an_algorithm_is_refused_where_it_does_not_apply():
    with pytest.raises(UsageError, match="equal in all streams"):
        by_algorithm(WindowJoin((5, 5, 5), (Equality(0, K, 1, K),), (), (), (), K + 1), "hash")
    with pytest.raises(UsageError, match="two streams or more"):
        by_algorithm(WindowJoin((5,), (), (), (), (), 2), "nested_loop")
    with pytest.raises(UsageError, match="hash, nested_loop, merge"):
        by_algorithm(WindowJoin((5, 5), (), (), (), (), 2), "sort")
