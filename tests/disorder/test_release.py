"""Release against its line-by-line oracles; watermarks, slack, idle streams."""

import heapq
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import ROW, Batch
from slackwater.core.errors import UsageError
from slackwater.core.jit import in_place
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Delay, NoWait, Recall, RelativeError
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.controllers import FixedSlack, LargestDelay
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.slack_heap import pop, push
from slackwater.disorder.release.state import buffers
from slackwater.quality.registry import controller_for
from tests.kit.oracle_release import NEVER, SlackRule, oracle_epoch_release, oracle_tuple_release
from tests.kit.traces import cuttings, pieces, traces

TIMES = st.integers(-1000, 1000)


def sequence(runs):
    return [
        (
            run.words[ROW, i],
            run.words[0, i],
            bool(run.late[i]),
            max(int(run.watermark_at_arrival[i]), BEFORE_ALL),
            run.clock[i],
        )
        for run in runs
        for i in range(len(run))
    ]


def wanted(released):
    return [(r.tuple.row, r.tuple.ts, r.late, BEFORE_ALL if r.met == NEVER else r.met, r.clock) for r in released]


def controllers(draw_slack):
    slack, follows = draw_slack
    return (LargestDelay(slack) if follows else FixedSlack(slack)), SlackRule(slack, follows)


SLACK = st.tuples(st.sampled_from([0, 1, 4, 30]), st.booleans())


@given(data=st.data(), streams=st.integers(1, 4), slack=SLACK)
def test_tuple_release_lets_out_what_algorithm_1_lets_out_in_its_order(data, streams, slack):
    batch = data.draw(traces(streams, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    controller, rule = controllers(slack)
    release = Release(ReleaseSpec(streams, 2, "tuple"), controller)
    runs = [run for piece in pieces(batch, cuts) for run in release.drain(piece)]
    runs += release.drain(Batch.of([]), end=True)
    assert sequence(runs) == wanted(oracle_tuple_release(batch, streams, rule))
    assert release.slack == rule.slack


@given(data=st.data(), streams=st.integers(1, 4), slack=SLACK, sorts=st.lists(st.booleans(), min_size=1, max_size=5))
def test_epoch_release_lets_out_each_epoch_sorted_up_to_the_watermark(data, streams, slack, sorts):
    batch = data.draw(traces(streams, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    controller, rule = controllers(slack)
    release = Release(ReleaseSpec(streams, 2, "epoch"), controller)
    # By a heap or by sorting, in turns.
    turn = cycle(sorts)
    release._sorts = lambda new, policy: next(turn)
    runs = [run for piece in pieces(batch, cuts) for run in release.drain(piece)]
    runs += release.drain(Batch.of([]), end=True)
    assert sequence(runs) == wanted(oracle_epoch_release(batch, streams, cuts, rule))


@given(data=st.data(), slack=SLACK)
def test_unsorted_release_marks_the_same_tuples_late_as_sorted_release(data, slack):
    batch = data.draw(traces(1, filtered=True))
    cuts = data.draw(cuttings(len(batch)))
    late = []
    for ordered in (True, False):
        release = Release(ReleaseSpec(1, 2, "epoch", sorted=ordered), controllers(slack)[0])
        runs = [run for piece in pieces(batch, cuts) for run in release.drain(piece)]
        runs += release.drain(Batch.of([]), end=True)
        late.append(sorted((row, met) for row, _, is_late, met, _ in sequence(runs) if is_late))
    assert late[0] == late[1]


@given(st.lists(st.tuples(TIMES, st.integers(0, 50)), min_size=1, max_size=4))
def test_one_slack_for_all_streams_moves_the_watermark_like_any_choice_of_slacks(streams):
    # Theorem 4.1 on watermarks, and Proposition 4.1: the skew is what it was.
    clocks = [clock for clock, _ in streams]
    k = min(clocks) - min(clock - own for clock, own in streams)
    release = Release(ReleaseSpec(len(clocks), 2), FixedSlack(k))
    list(release.drain(Batch.of(list(enumerate(clocks)))))
    assert release.watermark == min(clock - own for clock, own in streams)
    assert release.watermark == min(clock - k for clock in clocks)
    assert list(release.clocks) == clocks


@in_place
def push_one(held, h, ts, seq, slot):
    push(held, h, ts, seq, slot)


@in_place
def pop_one(held, h):
    return pop(held, h)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60))
def test_the_heap_gives_back_equal_times_in_the_order_they_came(steps):
    held, model = buffers(heaps=2, rows=2, capacity=64), []
    for number, step in enumerate(steps):
        if step is not None:
            push_one(held, 1, step, number, 100 + number)
            heapq.heappush(model, (step, number, 100 + number))
        elif model:
            head = held.ts[1, 0], held.seq[1, 0], pop_one(held, 1)
            assert head == heapq.heappop(model)
        assert held.sizes.tolist() == [0, len(model)]


def test_the_slack_log_tells_every_new_largest_delay_with_the_clock():
    release = Release(ReleaseSpec(1, 2, "tuple"), LargestDelay())
    list(release.drain(Batch.of([(0, 10), (0, 8), (0, 20), (0, 19), (0, 13)])))
    assert release.slack_log() == [(10, 2), (20, 7)]
    assert release.slack_log() == []


def test_more_changes_of_slack_than_the_log_has_room_for_are_all_told():
    arrivals = [(0, ts) for i in range(600) for ts in (10_000 * i, 10_000 * i - i - 1)]
    release = Release(ReleaseSpec(1, 2, "tuple"), LargestDelay())
    list(release.drain(Batch.of(arrivals)))
    assert release.slack_log() == [(10_000 * i, i + 1) for i in range(600)]


def test_a_tuple_that_sets_a_new_largest_delay_is_itself_late():
    release = Release(ReleaseSpec(1, 2, "epoch", epoch_tuples=1), LargestDelay())
    runs = list(release.drain(Batch.of([(0, 10), (0, 7), (0, 12), (0, 9)])))
    assert [(ts, late) for _, ts, late, _, _ in sequence(runs)] == [(10, False), (7, True), (9, True)]
    assert release.watermark == 10


def test_initial_slack_saves_the_first_late_tuple():
    release = Release(ReleaseSpec(1, 2, "epoch", epoch_tuples=1), controller_for(Complete(), Options(initial_slack=3)))
    runs = list(release.drain(Batch.of([(0, 10), (0, 7), (0, 12)]), end=True))
    assert not any(late for _, _, late, _, _ in sequence(runs))


def test_every_quality_target_has_a_controller_and_an_unknown_one_is_refused():
    assert controller_for(NoWait(), Options()).slack == 0
    assert controller_for(Delay(5), Options()).slack == 5
    for name in (None, "steady", "model", "pd"):
        assert "slack" in controller_for(Recall(0.9, 20), Options(controller=name), (5, 5)).describe()
    with pytest.raises(UsageError, match="controller = 'psychic'"):
        controller_for(Recall(0.9, 20), Options(controller="psychic"), (5, 5))
    with pytest.raises(UsageError, match="for recall targets alone"):
        controller_for(RelativeError(0.01, 0.95), Options(selectivity="eqsel"))


DISCIPLINES = pytest.mark.parametrize("discipline", ["tuple", "epoch"])


def two_streams(discipline, timeout):
    spec = ReleaseSpec(2, 2, discipline, epoch_tuples=1 if discipline == "epoch" else 0, idle_timeout=timeout)
    return Release(spec, FixedSlack(0))


def arrival_time(arrivals, times):
    batch = Batch.of(arrivals)
    return Batch(batch.stream, batch.words, batch.passes, np.array(times, np.int64))


@DISCIPLINES
def test_without_a_timeout_a_silent_stream_holds_everyone_back_for_ever(discipline):
    release = two_streams(discipline, None)
    runs = list(release.drain(Batch.of([(1, 0), *((0, t) for t in range(0, 100, 5))])))
    assert [ts for _, ts, *_ in sequence(runs)] == [0, 0]
    assert release.idle_timeouts == (0, 0)


@DISCIPLINES
def test_a_stream_silent_for_longer_than_the_timeout_no_longer_holds_the_others(discipline):
    release = two_streams(discipline, 20)
    runs = list(release.drain(Batch.of([(1, 0), *((0, t) for t in range(0, 25, 5))])))
    assert [ts for _, ts, *_ in sequence(runs)] == [0, 0], "20 units of silence are not more than 20"
    runs = list(release.drain(Batch.of([(0, 25)])))
    assert [ts for _, ts, *_ in sequence(runs)] == [5, 10, 15, 20, 25]
    assert release.idle_timeouts == (0, 1)


@DISCIPLINES
def test_a_stream_that_speaks_again_is_waited_for_again(discipline):
    release = two_streams(discipline, 20)
    list(release.drain(Batch.of([(1, 0), *((0, t) for t in range(0, 30, 5))])))
    back = list(release.drain(Batch.of([(1, 10), (1, 26)])))
    assert sequence(back)[0][1:3] == (10, True)
    assert release.watermark == 25, "it never goes back, and the slower of the two is now at 25"
    after = list(release.drain(Batch.of([(0, 30), (0, 40)])))
    assert 40 not in [ts for _, ts, *_ in sequence(after)]
    assert release.idle_timeouts == (0, 1)


@DISCIPLINES
def test_silence_is_measured_in_arrival_time_where_it_is_known(discipline):
    release = two_streams(discipline, 20)
    list(release.drain(arrival_time([(1, 0), (0, 0), (0, 1000)], [1, 2, 3])))
    assert release.idle_timeouts == (0, 0)
    runs = list(release.drain(arrival_time([(0, 1001)], [22])))
    assert [ts for _, ts, *_ in sequence(runs)] == [1000, 1001]
    assert release.idle_timeouts == (0, 1)


def test_a_silent_epoch_ends_the_waiting_for_streams_that_fell_silent():
    release = Release(ReleaseSpec(streams=2, rows=2, idle_timeout=10), FixedSlack(0))
    spoken = replace(Batch.of([(0, 2), (1, 5)]), arrival_time=np.array([0, 3]))
    assert [run.ts.tolist() for run in release.drain(spoken)] == [[2]]
    assert release.on_processing_time(11).ts.tolist() == [5]
    assert release.idle_timeouts == (1, 0)
    assert release.on_processing_time(14).watermark == 5


@pytest.mark.parametrize("discipline", ["tuple", "epoch"])
def test_a_stream_left_behind_by_many_of_its_usual_gaps_holds_nobody_back(discipline):
    spec = ReleaseSpec(2, 2, discipline, epoch_tuples=1 if discipline == "epoch" else 0, idle_after=3.0)
    release = Release(spec, FixedSlack(0))
    together = [(s, t) for t in range(0, 1000, 10) for s in (0, 1)]
    list(release.drain(Batch.of(together)))
    alone = [run.ts.tolist() for t in range(1000, 1100, 10) for run in release.drain(Batch.of([(0, t)]))]
    drain = [ts for run in alone for ts in run]
    # Its usual gap is 10, so from 30 behind on it is not waited for.
    assert max(drain, default=0) == 1090
    assert release.idle_timeouts == (0, 1)
    still = Release(ReleaseSpec(2, 2, discipline, epoch_tuples=spec.epoch_tuples), FixedSlack(0))
    list(still.drain(Batch.of(together)))
    assert [run.ts.tolist() for run in still.drain(Batch.of([(0, 1050)]))] in ([], [[]])
    back = list(release.drain(Batch.of([(1, 1000), (1, 1095), (0, 1100)])))
    assert sum(int(run.late.sum()) for run in back) == 1


@given(
    data=st.data(), streams=st.integers(1, 3), slack=SLACK, is_sorted=st.booleans(), external=st.booleans(),
    timeout=st.sampled_from([None, 3]), timed=st.booleans(),
)  # fmt: skip
def test_clocks_that_are_set_move_as_by_tuples_that_read_the_same(
    data, streams, slack, is_sorted, external, timeout, timed
):
    batch = data.draw(traces(streams, filtered=True))
    spec = ReleaseSpec(streams, 2, "epoch", is_sorted, idle_timeout=timeout, external_sync=external and is_sorted)
    told, shown = (Release(spec, controllers(slack)[0]) for _ in range(2))
    made = {id(told): [], id(shown): []}
    for now, part in enumerate([*pieces(batch, data.draw(cuttings(len(batch)))), batch.take(slice(0))]):
        newest = [(s, None, int(part.ts[part.stream == s].max())) for s in np.unique(part.stream).tolist()]
        clocks = ClockReadings.of(data.draw(st.permutations(newest)), 10 * now if timed else None)
        tuples = clocks.heard(part)
        moving = Batch(clocks.stream, np.stack([clocks.reading] * 2), np.zeros(len(clocks.stream), np.bool_))
        moving = replace(clocks.heard(moving), reading=clocks.reading)
        told.set_clocks(clocks)
        made[id(told)] += told.drain(tuples)
        made[id(shown)] += shown.drain(Batch.concat([tuples, moving]))
        assert (told.clocks, told.watermark, told.slack) == (shown.clocks, shown.watermark, shown.slack)
        assert (told.epochs, told.epoch_clock, told.idle_timeouts) == (
            shown.epochs,
            shown.epoch_clock,
            shown.idle_timeouts,
        )
    assert sequence(made[id(told)]) == sequence(made[id(shown)])
    assert not told.is_told
