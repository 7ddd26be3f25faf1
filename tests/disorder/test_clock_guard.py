"""Clocks that follow a vote, and the guard against tuples that are too far ahead of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import ROW, Batch
from slackwater.core.state import NOTHING
from slackwater.core.time import BEFORE_ALL, DAY, HOUR, MAX_TIME, MILLISECOND, MINUTE, SECOND
from slackwater.disorder.clock_guard import UNGUARDED, ClockGuard
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.cutting import Cutting, epochs_by_span
from slackwater.disorder.event_times import as_reported, of_sampled
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.pipeline import Epochs
from tests.kit.drive import drive, pipeline_of
from tests.kit.oracle_clock_vote import OracleClockVote
from tests.kit.traces import cuttings, pieces

EACH, CALLS, BY_TWENTY, BY_SECOND = (
    Cutting(True, 0, 0),
    Cutting(False, 0, 0),
    Cutting(False, 20, 0),
    Cutting(False, 0, SECOND),
)
MAX_AHEAD = 10 * MINUTE
START = 1_700_000_000 * SECOND


def seen_by(arrivals, cutting=EACH, streams=1, max_ahead=MAX_AHEAD, end=True):
    """Clocks by row of arrival (as the release would have them), rows admitted and rows rejected."""
    guard = ClockGuard(streams, max_ahead, cutting)
    seen = guard.admit(Batch.of(arrivals), end)
    clocks = np.full(streams, BEFORE_ALL)
    by_row = {}
    for i, row in enumerate(seen.batch.words[ROW].tolist()):
        s = int(seen.batch.stream[i])
        clocks[s] = max(clocks[s], seen.batch.reading[i])
        by_row[row] = clocks.copy()
    return by_row, seen.ahead.words[ROW].tolist(), guard


def steady(seconds, rate=50, start=START, stream=0):
    return [(stream, start + i * SECOND // rate) for i in range(seconds * rate)]


BOTH = pytest.mark.parametrize("cutting", [EACH, BY_TWENTY, BY_SECOND])


@BOTH
def test_without_wrong_clocks_a_clock_is_the_largest_event_time(cutting):
    rng = np.random.default_rng(1)
    sent = np.arange(3000) * 20 * MILLISECOND
    order = np.argsort(sent + rng.exponential(SECOND, 3000), kind="stable")
    arrivals = [(0, START + int(t)) for t in sent[order]]
    clocks, ahead, _ = seen_by(arrivals, cutting)
    assert ahead == []
    if cutting is EACH:
        largest = np.maximum.accumulate([t for _, t in arrivals])
        assert sum(clocks[row][0] != largest[row] for row in range(3000)) <= 60, "one in fifty at most waits for others"
    assert max(clock[0] for clock in clocks.values()) == max(t for _, t in arrivals)


@BOTH
def test_a_tuple_of_the_last_date_there_is_moves_no_clock(cutting):
    arrivals = steady(60)
    arrivals[1500] = (0, MAX_TIME)
    _, ahead, guard = seen_by(arrivals, cutting)
    assert ahead == [1500]
    assert guard.clocks.tolist() == [arrivals[-1][1]]


@BOTH
@pytest.mark.parametrize("ahead_by", [5 * SECOND, 5 * MINUTE, HOUR, 2000 * DAY])
@pytest.mark.parametrize("one_in", [20, 50])
def test_a_minority_with_wrong_clocks_moves_no_clock(cutting, ahead_by, one_in):
    right = steady(60)
    rng = np.random.default_rng(one_in)
    arrivals = [
        (0, t + ahead_by) if wrong else (0, t)
        for (_, t), wrong in zip(right, rng.random(len(right)) < 1 / one_in, strict=True)
    ]
    wrong = {row for row, ((_, t), (_, true)) in enumerate(zip(arrivals, right, strict=True)) if t != true}
    clocks, ahead, guard = seen_by(arrivals, cutting, end=False)
    for row, clock in clocks.items():
        if clock[0] != BEFORE_ALL:
            assert clock[0] <= right[row][1] + (SECOND if cutting is EACH else 3 * SECOND)
    assert set(ahead) <= wrong
    assert guard.pending <= 200
    _, ahead, _ = seen_by(arrivals, cutting)
    assert set(ahead) == (wrong if ahead_by > MAX_AHEAD + MINUTE else set())


@BOTH
def test_wrong_clocks_that_come_in_bursts_move_no_clock(cutting):
    arrivals = []
    for at, one in enumerate(steady(60)):
        arrivals.append(one)
        if at % 200 == 100:
            arrivals += [(0, one[1] + HOUR + i) for i in range(8)]
    clocks, ahead, _ = seen_by(arrivals, cutting)
    assert max(clock[0] for clock in clocks.values()) == START + 60 * SECOND - SECOND // 50
    assert len(ahead) == 8 * 15


@BOTH
def test_a_real_gap_is_followed_and_nothing_is_lost(cutting):
    arrivals = steady(10) + steady(10, start=START + HOUR)
    clocks, ahead, _ = seen_by(arrivals, cutting)
    assert ahead == []
    assert sorted(clocks) == list(range(len(arrivals)))
    # Sixteen of the last 63 must have come along, where every fourth is asked; an epoch in which it begins counts too.
    assert clocks[600][0] >= START + HOUR


@pytest.mark.parametrize("cutting", [EACH, CALLS])
def test_a_slow_stream_is_followed_at_once_and_after_an_hour_within_a_few_tuples(cutting):
    minutes = [(0, START + i * MINUTE) for i in range(30)]
    later = [(0, START + 90 * MINUTE + i * MINUTE) for i in range(10)]
    guard = ClockGuard(1, MAX_AHEAD, cutting)
    clock = BEFORE_ALL
    reached = []
    for row, one in enumerate(minutes + later):
        seen = guard.admit(Batch.of([one]))
        clock = max([clock, *seen.batch.reading.tolist()])
        reached.append(clock)
        assert len(seen.ahead) == 0, row
    assert reached[3:30] == [t for _, t in minutes[3:]]
    assert reached[30 + 5] == later[5][1], "five of nine have come along"


@BOTH
def test_a_stream_may_begin_with_a_wrong_clock(cutting):
    arrivals = [(0, START + 7 * DAY), *steady(10)]
    clocks, ahead, _ = seen_by(arrivals, cutting)
    assert ahead == [0]
    assert max(clock[0] for clock in clocks.values()) < START + 11 * SECOND


@BOTH
def test_a_backlog_read_beside_the_present_does_not_stop_the_present(cutting):
    arrivals = [one for pair in zip(steady(20), steady(20, start=START + HOUR), strict=True) for one in pair]
    clocks, ahead, _ = seen_by(arrivals, cutting)
    assert ahead == []
    assert clocks[len(arrivals) - 1][0] == arrivals[-1][1]


def test_days_apart_are_no_wrong_clocks():
    for count in (1, 2, 3, 4, 12, 40):
        days = [(0, START + i * DAY) for i in range(count)]
        for cutting in (EACH, CALLS, BY_SECOND):
            _, ahead, _ = seen_by(days, cutting)
            assert ahead == [], (count, cutting)


def test_a_stream_that_begins_where_others_are_needs_no_vote():
    arrivals = [*steady(2), (1, START + SECOND)]
    clocks, _, _ = seen_by(arrivals, streams=2, end=False)
    assert clocks[100].tolist() == [START + 2 * SECOND - SECOND // 50, START + SECOND]


def test_the_moment_of_arrival_vouches_for_a_tuple():
    arrivals = Batch.of([(0, START), (0, START + HOUR), (0, START + 5 * HOUR)])
    arrival_time = np.array([START, START + HOUR + 1, START + HOUR + 2])
    seen = ClockGuard(1, MAX_AHEAD, EACH).admit(Batch(arrivals.stream, arrivals.words, arrivals.passes, arrival_time))
    assert seen.batch.ts.tolist() == [START, START + HOUR]
    assert seen.batch.reading.tolist() == [START, START + HOUR]


def test_what_is_pending_when_the_input_ends_is_rejected_if_most_did_not_come_along():
    far = START + HOUR
    assert seen_by([*steady(1), (0, far), (0, START + SECOND)])[1] == [50]
    assert seen_by([*steady(1), (0, far)])[1] == []
    assert seen_by([*steady(1), (0, far), (0, START + SECOND)], CALLS)[1] == [50]


def test_a_guard_without_a_bound_moves_clocks_with_every_tuple():
    guard = ClockGuard(1, UNGUARDED)
    batch = Batch.of([(0, 1), (0, 10**15)])
    seen = guard.admit(batch)
    assert seen.batch is batch
    assert seen.batch.reading is None


TIMES = st.lists(
    st.one_of(
        st.integers(0, 3000).map(lambda n: n * MILLISECOND),
        st.sampled_from([HOUR, HOUR + 1, 2 * HOUR, 30 * DAY]),
    ),
    max_size=300,
)


@given(TIMES)
def test_the_clock_is_that_of_the_slow_twin(times):
    twin = OracleClockVote(MAX_AHEAD)
    guard = ClockGuard(1, MAX_AHEAD, EACH)
    for t in times:
        twin.advance_clock(t)
        seen = guard.admit(Batch.of([(0, t)]))
        assert guard.clocks[0] == (BEFORE_ALL if twin.clock is None else twin.clock)
        assert not len(seen.batch) or seen.batch.reading[-1] == twin.clock


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), max_size=60), st.data())
def test_the_guard_does_not_depend_on_how_arrivals_are_cut_into_calls(arrivals, data):
    arrivals = [(s, t * SECOND if t < 36 else t * HOUR) for s, t in arrivals]
    cutting = data.draw(st.sampled_from([EACH, Cutting(False, 4, 0), BY_SECOND]))
    batch = Batch.of(arrivals)
    whole = ClockGuard(2, MAX_AHEAD, cutting).admit(batch, end=True)
    guard = ClockGuard(2, MAX_AHEAD, cutting)
    seen = []
    for piece in pieces(batch, data.draw(cuttings(len(batch)))):
        other = ClockGuard(2, MAX_AHEAD, cutting)
        other.restore(guard.snapshot_delta())
        guard = other
        seen.append(guard.admit(piece))
    seen.append(guard.admit(Batch.of([]), end=True))
    assert np.concatenate([s.batch.words[ROW] for s in seen]).tolist() == whole.batch.words[ROW].tolist()
    assert np.concatenate([s.batch.reading for s in seen]).tolist() == whole.batch.reading.tolist()
    assert np.concatenate([s.ahead.words[ROW] for s in seen]).tolist() == whole.ahead.words[ROW].tolist()


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60)), max_size=60), st.sampled_from([EACH, CALLS, BY_SECOND])
)
def test_every_tuple_is_either_let_in_or_rejected_once(arrivals, cutting):
    arrivals = [(s, t * SECOND if t < 50 else t * HOUR) for s, t in arrivals]
    clocks, ahead, guard = seen_by(arrivals, cutting, streams=2)
    assert sorted([*clocks, *ahead]) == list(range(len(arrivals)))
    assert guard.pending == 0


@given(TIMES, st.integers(1, 4), st.integers(1, 4), st.data())
def test_shards_that_hear_headers_decide_as_an_epoch_does_locally(times, shards, parts, data):
    """Partitions of an epoch go into headers; every shard has some of the tuples, and all together have all."""
    arrivals = [(0, START + t) for t in times]
    batch = Batch.of(arrivals)
    epochs = list(pieces(batch, data.draw(cuttings(len(batch)))))
    local = ClockGuard(1, MAX_AHEAD, CALLS)
    guards = [ClockGuard(1, MAX_AHEAD, max_behind=DAY) for _ in range(shards)]
    clock = np.full(1 + shards, BEFORE_ALL)
    for number, epoch in enumerate(epochs):
        end = number == len(epochs) - 1
        seen = local.admit(epoch, end)
        clock[0] = local.clocks[0]
        admit, ahead = [], []
        part = np.array([data.draw(st.integers(0, parts - 1)) for _ in range(len(epoch))], np.int64)
        for shard, guard in enumerate(guards):
            for p in range(parts):
                ts = epoch.ts[part == p]
                shift, buckets = as_reported(ts, np.ones(len(ts), np.int64), MAX_AHEAD)
                guard.note(0, None, shift, of_sampled(buckets))
            for reached in guard.move(None).reading.tolist():
                clock[1 + shard] = max(clock[1 + shard], reached)
            mine = np.flatnonzero(epoch.words[ROW] % shards == shard)
            judged = guard.admit(epoch.take(mine), end)
            admit += judged.batch.words[ROW].tolist()
            ahead += judged.ahead.words[ROW].tolist()
        assert sorted(admit) == sorted(seen.batch.words[ROW].tolist())
        assert sorted(ahead) == sorted(seen.ahead.words[ROW].tolist())
        assert len(set(clock.tolist())) == 1


def test_recorded_streams_are_cut_as_the_guard_cuts_them():
    rng = np.random.default_rng(0)
    ts = START + np.sort(rng.integers(0, 20 * SECOND, 500)) + np.where(rng.random(500) < 0.05, 3 * DAY, 0)
    arrivals = [(0, int(t)) for t in ts]
    epoch = epochs_by_span(np.zeros(500, np.int64), ts, NOTHING, 1, SECOND, MAX_AHEAD)
    seen = ClockGuard(1, MAX_AHEAD, BY_SECOND).admit(Batch.of(arrivals), end=True)
    assert 15 <= epoch[-1] <= 21
    last = [int(row) for row, ends in zip(seen.batch.words[ROW], seen.ends, strict=True) if ends]
    assert len({int(epoch[row]) for row in last}) == len(last)


@pytest.mark.parametrize("epochs", [Epochs(), Epochs(each_tuple=True), Epochs(tuples=2)])
def test_a_wrong_tuple_moves_no_clock_and_nothing_else_is_lost(epochs):
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


def test_an_empty_epoch_does_not_make_a_waiting_tuple_forget_when_it_arrived():
    guard = ClockGuard(1, 10)
    batch = Batch.of([(0, 1), (0, 500)])
    guard.admit(Batch(batch.stream, batch.words, batch.passes, np.array([5000, 5001])))
    guard.admit(Batch.of([]))
    batch = Batch.of([(0, 501), (0, 502), (0, 503)])
    seen = guard.admit(Batch(batch.stream, batch.words, batch.passes, np.array([7000, 8000, 9000])), end=True)
    assert seen.batch.arrival_time is not None
    assert 5001 in seen.batch.arrival_time.tolist()


def late_of(times, cutting):
    """How many tuples arrive more than a minute behind the clock."""
    clocks, ahead, _ = seen_by([(0, START + int(t)) for t in times], cutting)
    return sum(START + int(times[row]) < clock[0] - MINUTE for row, clock in clocks.items()), ahead


@BOTH
@pytest.mark.parametrize(("old", "ahead"), [(0, 5), (0, 20), (50, 80)])
def test_one_row_dated_1970_does_not_open_the_door_to_one_ahead(cutting, old, ahead):
    times = np.arange(3000) * 10 * MILLISECOND
    times[old], times[ahead] = -START, 365 * DAY
    late, rejected = late_of(times, cutting)
    assert late <= 1
    assert rejected == [ahead]


@pytest.mark.parametrize("cutting", [EACH, BY_TWENTY, BY_SECOND])
@pytest.mark.parametrize(("first", "size"), [(20, 5), (17, 8), (28, 8), (41, 8), (4000, 8), (4000, 30), (4000, 100)])
def test_one_burst_of_wrong_rows_moves_nothing(cutting, first, size):
    times = np.arange(12000) * 10 * MILLISECOND
    times[first : first + size] += HOUR
    late, rejected = late_of(times, cutting)
    assert late == 0
    assert rejected == list(range(first, first + size))


@pytest.mark.parametrize("size", [8, 20, 30, 200])
@pytest.mark.parametrize("cutting", [EACH, BY_SECOND])
def test_what_comes_after_a_gap_at_the_end_is_not_lost(cutting, size):
    times = np.arange(1000 + size) * 10 * MILLISECOND
    times[1000:] += 700 * SECOND
    _, rejected = late_of(times, cutting)
    assert rejected == []


@BOTH
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_stream_does_not_begin_where_one_wrong_row_is(cutting, wrong):
    times = np.arange(6000) * 10 * MILLISECOND
    times[wrong] += 5 * MINUTE
    late, rejected = late_of(times, cutting)
    assert (late, rejected) == (0, [])


@pytest.mark.parametrize("seconds", [20, 100, 400])
def test_a_dense_stream_takes_its_clock_to_the_end_of_a_long_epoch(seconds):
    """Buckets of its histogram are then wider than the steps that a clock of such a stream is allowed."""
    guard, rng = ClockGuard(1, MAX_AHEAD, max_behind=DAY), np.random.default_rng(0)
    for epoch in range(6):
        ts = START + np.arange(epoch * seconds * 1000, (epoch + 1) * seconds * 1000) * MILLISECOND
        ts -= np.where(rng.random(len(ts)) < 0.5, rng.integers(0, SECOND, len(ts)), 0)
        for part in np.array_split(ts, 10):
            shift, buckets = as_reported(part, np.ones(len(part), np.int64), MAX_AHEAD)
            guard.note(0, None, shift, of_sampled(buckets))
        assert guard.move(None).reading.tolist() == [int(ts.max())]
