"""Windows that follow rates: the paper's examples, the samples against their slow twin, and what a resize keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import ROW, Batch
from slackwater.core.rates import RatesSeen, Resize
from slackwater.core.state import decode_words
from slackwater.core.time import BEFORE_ALL, DAY, MAX_TIME, MIN_TIME, MINUTE, SECOND
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.operators.contract import ResizeLog
from slackwater.operators.join import rate_windows
from slackwater.operators.join.count_windows import EVER
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.join.rate_windows import ROUNDS, SLIDING, by_rate
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from tests.kit.drive import NO_GUARD, Outcome, feed, pipeline_of, results_of
from tests.kit.laws import going_on_after_restore_equals_never_stopping
from tests.kit.oracle_join import oracle_join
from tests.kit.oracle_rates import resizes_of
from tests.kit.oracle_release import tuples_of
from tests.kit.oracle_row_join import oracle_rate_join
from tests.kit.traces import cuttings, largest_delay_of, pieces, seeded_trace

PAIRS = WindowJoin((0, 0), (), (), (), ((0, 1), (1, 1)), 2)


def at_rate(stream: int, per_second: float, begin: float, end: float) -> list[tuple[int, int]]:
    """Tuples at an even pace, over some seconds."""
    return [(stream, int((begin + n / per_second) * SECOND)) for n in range(round((end - begin) * per_second))]


def in_order(*streams: list[tuple[int, int]]) -> Batch:
    return Batch.of(sorted((one for stream in streams for one in stream), key=lambda one: one[1]))


def run(spec: WindowJoin, batch: Batch, slack: int = 0) -> tuple[JoinOperator, list[Resize]]:
    operator = spec.build()
    pipeline = Pipeline(spec, operator, FixedSlack(slack), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    feed(pipeline, [batch], Outcome(), end=False)
    return operator, [one for _, one in pipeline.take_resizes()]


def log_of(operator: JoinOperator) -> ResizeLog:
    return operator.resize_logs()[0][1]


def sizes_at(resizes: list[Resize], ts: int, first: int = 100) -> tuple[int, ...]:
    return next((one.sizes for one in reversed(resizes) if one.at <= ts), (first, first))


@pytest.mark.parametrize(("slices", "allowed"), [(SLIDING, 0), (ROUNDS, 4)])
def test_two_seconds_of_a_thousand_and_of_one_a_second_are_2002_events_and_not_4000(slices: int, allowed: int) -> None:
    """The paper's formula divides by what the event times cover, which is a little less than how long it sampled. What
    a window lets go leaves it when time moves on, so an event of the last moment may be there on top."""
    spec = by_rate(PAIRS, (2 * SECOND, 2 * SECOND), slices=slices)
    operator, _ = run(spec, in_order(at_rate(0, 1000, 0, 10), at_rate(1, 1, 0, 10)))
    assert abs(sum(log_of(operator).seen().sizes) - 2002) <= allowed
    assert 0 <= operator.state_rows - sum(log_of(operator).seen().sizes) <= 2


@pytest.mark.parametrize("slices", [SLIDING, ROUNDS])
def test_ten_seconds_of_25_a_second_settle_at_250_and_the_other_stream_follows_its_cycle(slices: int) -> None:
    fast_then_slow = [at_rate(1, 1 if n % 2 else 25, 10 * n, 10 * n + 10) for n in range(18)]
    spec = by_rate(PAIRS, (10 * SECOND, 10 * SECOND), slices=slices)
    _, resizes = run(spec, in_order(at_rate(0, 25, 0, 180), *fast_then_slow))
    steady = [sizes_at(resizes, second * SECOND)[0] for second in range(25, 180)]
    assert min(steady) >= 0.95 * 250
    assert max(steady) <= 1.05 * 250
    assert max(one.sizes[1] for one in resizes) >= 0.95 * 250
    assert min(one.sizes[1] for one in resizes) <= 1.1 * 10 + 1


def test_a_start_from_bad_guesses_is_over_after_a_tenth_of_the_interval() -> None:
    spec = by_rate(PAIRS, (5 * MINUTE, 5 * MINUTE))
    _, resizes = run(spec, in_order(at_rate(0, 0.18, 0, 1200), at_rate(1, 0.39, 0, 1200)))
    settled = resizes[-1]
    for size, wanted in zip(sizes_at(resizes, 2 * MINUTE), settled.sizes, strict=True):
        assert abs(size - wanted) <= 0.2 * wanted
    assert [one.at for one in resizes if one.at > 5 * MINUTE] == []
    assert abs(settled.within - 0.5 * SECOND / 0.18) < 0.05 * SECOND / 0.18


def test_streams_slower_than_their_interval_are_sized_too() -> None:
    """A sample has one tuple or none: windows of one, and half of the ten seconds between two tuples."""
    spec = by_rate(PAIRS, (SECOND, SECOND))
    operator, _ = run(spec, in_order(at_rate(0, 0.2, 0, 300), at_rate(1, 0.1, 0.5, 300)))
    assert log_of(operator).seen().sizes == (1, 1)
    assert log_of(operator).seen().within == 5 * SECOND
    assert operator.state_rows <= 3


def test_a_short_interval_beside_a_long_one_keeps_no_more_than_its_own() -> None:
    spec = by_rate(PAIRS, (10 * MINUTE, SECOND))
    _, resizes = run(spec, in_order(at_rate(0, 1, 0, 1800), at_rate(1, 100, 0, 1200), at_rate(1, 300, 1200, 1800)))
    assert all(95 <= one.sizes[1] <= 105 for one in resizes if one.at < 1200 * SECOND)
    assert resizes[-1].sizes == pytest.approx((600, 300), rel=0.06)
    # A third of the rate for ten minutes does not hold the window back once the slice has told of the new one.
    followed = next(one.at for one in resizes if one.sizes[1] > 0.9 * 300)
    assert followed <= 1262 * SECOND


def test_intervals_of_arrival_are_mapped_to_the_time_that_event_times_cover_meanwhile() -> None:
    """Event time runs eight times as fast as the wall clock, so ten seconds of arrival are eighty of event time."""
    batch = in_order(at_rate(0, 25, 0, 400), at_rate(1, 1, 0, 400))
    spec = by_rate(PAIRS, (10 * SECOND, 5 * SECOND), by_arrival=True)
    _, mapped = run(spec, replace(batch, arrival_time=batch.ts // 8))
    _, as_stated = run(by_rate(PAIRS, (80 * SECOND, 40 * SECOND)), batch)
    assert mapped[-1].sizes == pytest.approx(as_stated[-1].sizes, rel=0.06)
    assert as_stated[-1].sizes == pytest.approx((2000, 40), rel=0.06)


@given(seed=st.integers(0, 10**6), intervals=st.tuples(*[st.integers(2, 40)] * 2), slices=st.sampled_from([1, 2, 5]))
def test_after_they_are_mapped_intervals_of_arrival_are_intervals_of_event_time(
    seed: int, intervals: tuple[int, int], slices: int
) -> None:
    """Event time runs four times as fast; nothing is sampled before the longer interval has passed by arrival."""
    batch = seeded_trace(seed, 2, (), 200, 0)
    batch = batch.take(np.argsort(batch.ts, kind="stable"))
    words = np.array([batch.ts * 4, batch.words[ROW]])
    none = np.full(len(batch), BEFORE_ALL)
    spec = by_rate(PAIRS, intervals, slices=slices, by_arrival=True, first=4)
    operator = spec.build()
    for _ in operator.process(
        OrderedBatch(OrderedTuples(words, batch.stream, none, none, batch.ts, none), BEFORE_ALL, 0, 0), ordered=True
    ):
        pass
    tuples = tuples_of(Batch(batch.stream, words, batch.passes))
    later = [e for e in tuples if e.ts - tuples[0].ts >= 4 * max(intervals)]
    as_stated = by_rate(PAIRS, tuple(4 * one for one in intervals), slices=slices, first=4)
    assert log_of(operator).take_resizes() == resizes_of(as_stated, later)


@pytest.mark.parametrize("arrival_time", [[5] * 400, list(range(400, 0, -1))], ids=["stand still", "go back"])
def test_intervals_of_arrival_wait_to_be_mapped_while_arrival_times_do_not_go_on(arrival_time: list[int]) -> None:
    batch = in_order(at_rate(0, 25, 0, 8), at_rate(1, 25, 0, 8))
    operator, resizes = run(
        by_rate(PAIRS, (SECOND, SECOND), by_arrival=True), replace(batch, arrival_time=np.array(arrival_time))
    )
    assert (resizes, log_of(operator).seen()) == ([], RatesSeen((100, 100), 30 * MINUTE, 0))


@given(
    seed=st.integers(0, 10**6), cuts=cuttings(200), stop=st.integers(0, 200), pace=st.sampled_from([0, 1, 3]),
    epochs=st.sampled_from([Epochs(), Epochs(each_tuple=True)]),
)  # fmt: skip
def test_samples_are_restored_in_the_midst_of_a_slice(
    seed: int, cuts: list[int], stop: int, pace: int, epochs: Epochs
) -> None:
    batch = seeded_trace(seed, 2, (), 200, 5)
    if pace:
        batch = replace(batch, arrival_time=np.maximum.accumulate(batch.ts) // pace)
    spec = by_rate(PAIRS, (20, 12), slices=4, by_arrival=pace > 0, first=4)
    going_on_after_restore_equals_never_stopping(
        spec, pipeline_of(spec), batch, epochs, cuts, min(stop, len(cuts)), lambda: FixedSlack(5)
    )


@pytest.mark.parametrize("each", [1, 7, 400])
def test_what_is_persisted_is_what_stands_in_the_windows_and_a_few_chunks_at_most(each: int) -> None:
    batch = seeded_trace(3, 2, (), 400, 0)
    spec = by_rate(PAIRS, (20, 12), first=4)
    operator = spec.build()
    pipeline = Pipeline(spec, operator, FixedSlack(0), KernelTerms(Epochs()), NO_GUARD)
    chunks: dict[str, int] = {}
    for part in pieces(batch, [*range(each, len(batch), each), len(batch)]):
        feed(pipeline, [part], Outcome(), end=False)
        for entry in operator.snapshot_delta():
            if entry.namespace == "window":
                chunks[entry.key] = 0 if entry.value is None else len(decode_words(entry.value)["w0"])
        standing = [holding.tuples for holding in operator.window_contents(0)]
        for stream, resident in enumerate(standing):
            mine = [n for key, n in chunks.items() if n and key.startswith(f"{stream}-")]
            assert resident <= sum(mine)
            # A chunk goes when all of it has left; and what came since is not counted yet.
            assert sum(mine) <= resident + 4 * max(mine, default=0)
            assert each < len(batch) or sum(mine) == resident


def test_a_window_that_grows_gets_a_little_more_than_it_needs() -> None:
    _, resizes = run(
        by_rate(PAIRS, (10 * SECOND, 10 * SECOND), EVER, 10), in_order(at_rate(0, 200, 0, 0.9), [(1, 950_000)])
    )
    assert [one.sizes[0] for one in resizes][:9] == [104, 108, 112, 116, 120, 124, 128, 133, 138]


def test_while_a_stream_has_not_been_heard_twice_its_interval_is_as_long_as_the_sample() -> None:
    """The first slice is looked at after a 32nd of it (10 s / 10 / 32), and each time twice as much has gone by."""
    spec = by_rate(PAIRS, (10 * SECOND, 10 * SECOND), None, 10)
    _, resizes = run(spec, in_order(at_rate(0, 100, 0, 0.9), [(1, 950_000)]))
    assert [one.within for one in resizes] == [31_250 * 2**n // 2 for n in range(5)]


def test_a_silence_longer_than_the_sample_leaves_the_windows_as_they_are() -> None:
    spec = by_rate(PAIRS, (10 * SECOND, 10 * SECOND))
    before = in_order(at_rate(0, 25, 0, 60), at_rate(1, 5, 0, 60))
    _, resizes = run(spec, in_order(at_rate(0, 25, 0, 60), at_rate(1, 5, 0, 60), [(0, 5000 * SECOND)]))
    assert resizes == run(spec, before)[1]


@given(
    seed=st.integers(0, 10**6), slices=st.sampled_from([1, 2, 5]), intervals=st.tuples(*[st.integers(2, 40)] * 2),
    within=st.sampled_from([None, 3, EVER]), cuts=cuttings(300),
)  # fmt: skip
def test_sizes_are_those_of_the_slow_twin_and_results_exact_for_them(
    seed: int, slices: int, intervals: tuple[int, int], within: int | None, cuts: list[int]
) -> None:
    batch = seeded_trace(seed, 2, (), 300, 9)
    spec = by_rate(PAIRS, intervals, within, slices, first=4)
    operator = spec.build()
    pipeline = Pipeline(spec, operator, FixedSlack(largest_delay_of(batch)), KernelTerms(Epochs()), NO_GUARD)
    outcome = feed(pipeline, pieces(batch, cuts), Outcome(), end=True)
    resizes = [one for _, one in pipeline.take_resizes()]
    assert resizes == resizes_of(spec, (e for e in tuples_of(batch) if e.passes))
    assert results_of(spec, outcome.emissions) == oracle_rate_join(spec, batch, resizes=resizes)


@given(seed=st.integers(0, 10**6), slices=st.sampled_from([1, 4]))
def test_a_resize_loses_nothing_that_the_new_window_should_contain(seed: int, slices: int) -> None:
    """Whatever their times, a tuple of stream 1 meets all of the window of stream 0: the newest tuples without a
    gap, as many as were there and have come since, but no more than are in force."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(1, rng.integers(2, 12, 200), 200))
    batch = Batch.of([(int(stream), int(ts)) for stream, ts in zip(rng.integers(0, 2, 200), times, strict=True)])
    spec = by_rate(PAIRS, (40, 40), EVER, slices, first=5)
    pipeline = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    outcome = feed(pipeline, [batch], Outcome(), end=True)
    resizes = [one for _, one in pipeline.take_resizes()]
    met: dict[int, list[int]] = {}
    for _, (a, b) in results_of(spec, outcome.emissions):
        met.setdefault(b, []).append(a)
    window: list[int] = []
    for row, (stream, ts) in enumerate(zip(batch.stream.tolist(), batch.ts.tolist(), strict=True)):
        size = sizes_at(resizes, ts, 5)[0]
        window = window[-size:]
        if stream == 0:
            window = [*window, row]
        else:
            assert sorted(a for a in met.get(row, []) if a < row) == window


def test_resizes_that_nobody_takes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_windows, "REMEMBERED", 5)
    batch = seeded_trace(5, 2, (), 400, 0)
    spec = by_rate(PAIRS, (20, 20), EVER)
    operators = [spec.build(), spec.build()]
    for operator, each in zip(operators, (len(batch), 20), strict=True):
        pipeline = Pipeline(spec, operator, FixedSlack(0), KernelTerms(Epochs()), NO_GUARD)
        feed(pipeline, pieces(batch, [*range(each, len(batch), each), len(batch)]), Outcome(), end=False)
    at_once, bit_by_bit = (log_of(operator).take_resizes() for operator in operators)
    assert len(at_once) > 50
    assert len(bit_by_bit) <= 5 + 20 < len(at_once)
    assert at_once[-len(bit_by_bit) :] == bit_by_bit
    assert log_of(operators[0]).seen() == log_of(operators[1]).seen()


def test_late_tuples_are_counted_and_enter_no_window() -> None:
    spec = by_rate(PAIRS, (10 * SECOND, 10 * SECOND))
    batch = in_order(at_rate(0, 5, 0, 60), at_rate(1, 5, 0, 60))
    late = Batch.of([*zip(batch.stream.tolist(), batch.ts.tolist(), strict=True), (0, 1 * SECOND), (1, 70 * SECOND)])
    pipeline = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    outcome = feed(pipeline, [late], Outcome(), end=True)
    assert outcome.late_rows == [len(batch)]
    members = {row for emission in outcome.emissions for row in np.concatenate([*emission.columns, []]).tolist()}
    assert len(batch) not in members


@given(seed=st.integers(0, 10**6), intervals=st.tuples(*[st.integers(10, 60)] * 2), within=st.integers(0, 40))
def test_no_match_is_lost_to_a_change_of_rates(seed: int, intervals: tuple[int, int], within: int) -> None:
    """Sliding samples keep at least nine tenths of the longer interval, and all of a shorter one but a slice."""
    rng = np.random.default_rng(seed)
    # Bursts and lulls: the step between two tuples changes a hundredfold every now and then.
    steps = np.repeat(rng.choice([0, 1, 10, 50], 10), 40) * rng.integers(0, 3, 400)
    batch = Batch.of([(int(s), int(ts)) for s, ts in zip(rng.integers(0, 2, 400), np.cumsum(steps), strict=True)])
    slice_ = -(-max(intervals) // SLIDING)
    within = min(within, *(interval - slice_ for interval in intervals))
    spec = by_rate(PAIRS, intervals, within, first=1)
    pipeline = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    outcome = feed(pipeline, [batch], Outcome(), end=True)
    assert results_of(spec, outcome.emissions) == oracle_join(replace(PAIRS, windows=(within, within)), batch)


@given(
    origin=st.sampled_from([MIN_TIME, -10, MAX_TIME - 10**4, MAX_TIME - 10**17]),
    steps=st.lists(st.sampled_from([0, 1, 3, 10**3, 10**12, 10**15, 10**18]), min_size=2, max_size=40),
    intervals=st.tuples(*[st.sampled_from([1, 7, SECOND, 100 * 365 * DAY, MAX_TIME])] * 2),
    within=st.sampled_from([None, 0, MAX_TIME]), slices=st.sampled_from([ROUNDS, SLIDING]), seed=st.integers(0, 99),
)  # fmt: skip
def test_nothing_overflows_at_the_bounds_of_time_or_with_intervals_of_any_length(
    origin: int, steps: list[int], intervals: tuple[int, int], within: int | None, slices: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    times = [min(origin + sum(steps[: n + 1]), MAX_TIME) for n in range(len(steps))]
    batch = Batch.of([(int(rng.integers(2)), ts) for ts in times])
    spec = by_rate(PAIRS, intervals, within, slices, first=3)
    pipeline = Pipeline(spec, spec.build(), FixedSlack(0), KernelTerms(Epochs(each_tuple=True)), NO_GUARD)
    outcome = feed(pipeline, [batch], Outcome(), end=True)
    resizes = [one for _, one in pipeline.take_resizes()]
    wanted = resizes_of(spec, tuples_of(batch))
    assert [(one.at, one.within) for one in resizes] == [(one.at, one.within) for one in wanted]
    for found, one in zip(resizes, wanted, strict=True):
        # Beyond 2^53 the kernel divides by what is next to the span.
        assert found.sizes == pytest.approx(one.sizes, rel=1e-12, abs=0)
    assert results_of(spec, outcome.emissions) == oracle_rate_join(spec, batch, resizes=resizes)


def test_a_round_at_the_last_moment_of_time_is_not_looked_at_early() -> None:
    spec = by_rate(PAIRS, (SECOND, SECOND), slices=ROUNDS)
    assert run(spec, Batch.of([(0, MAX_TIME - 500), (1, MAX_TIME - 400), (0, MAX_TIME)]))[1] == []
