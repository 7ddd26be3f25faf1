"""Streams that have parts: the clock of a stream is the smallest of its parts'."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.errors import UsageError
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.state import NO_PARTITION

PART = FIRST_COLUMN
ARRIVALS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=40)


@given(arrivals=ARRIVALS, size=st.integers(1, 7), discipline=st.sampled_from(["epoch", "tuple"]))
def test_a_stream_goes_by_the_smallest_clock_of_its_parts_and_never_back(arrivals, size, discipline):
    release = Release(ReleaseSpec(2, 3, discipline, partition_slots=(PART, NO_PARTITION)), FixedSlack(0))
    parts: dict[int, int] = {}
    clocks = [BEFORE_ALL, BEFORE_ALL]
    for begin in range(0, len(arrivals), size):
        some = arrivals[begin : begin + size]
        list(release.drain(Batch.of(some)))
        names = [part for stream, _, part in some if stream == 0]
        # A part counts from the batch on in which it is first heard of.
        parts |= {part: BEFORE_ALL for part in names if part not in parts}
        for stream, ts, part in some:
            if stream == 0:
                parts[part] = max(parts[part], ts)
                clocks[0] = max(clocks[0], min(parts.values()))
            else:
                clocks[1] = max(clocks[1], ts)
        assert list(release.clocks) == clocks


@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 9), st.integers(0, 12)), min_size=1, max_size=60
    ),
    size=st.integers(1, 9),
    max_behind=st.sampled_from([5, 20, 10**9]),
)
def test_the_slowest_part_is_that_which_is_found_by_looking_at_all(arrivals, size, max_behind):
    """Whatever falls silent, is far behind, or is new: the trees are left out in the second release."""
    spec = ReleaseSpec(2, 3, "epoch", idle_timeout=15, max_behind=max_behind, partition_slots=(PART, PART))
    ranked, plain = Release(spec, FixedSlack(0)), Release(spec, FixedSlack(0))
    plain._rank = lambda: None  # type: ignore[method-assign]
    moments = np.cumsum([after for *_, after in arrivals])
    for number, begin in enumerate(range(0, len(arrivals), size)):
        some = [one[:3] for one in arrivals[begin : begin + size]]
        batch = replace(Batch.of(some), arrival_time=moments[begin : begin + size])
        for release in (ranked, plain):
            list(release.drain(batch))
            if number % 3 == 2:
                release.on_processing_time(int(moments[begin]) + 8)
        assert ranked.clocks == plain.clocks
        if number == 4:
            entries = ranked.snapshot_delta()
            ranked = Release(spec, FixedSlack(0))
            ranked.restore(entries)


def seconds_of(parts: int) -> float:
    """What a stream with so many parts costs, each of which is heard four times, in the order of time."""
    count = 4 * parts
    table = pa.table({"ts": np.arange(count) // 10, "part": np.arange(count) % parts})
    query = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] WITH NO WAIT OPTIONS (clock_by = 'part')"
    costs = []
    for _ in range(2):
        begun = process_time()
        answer = sw.replay(query, {"s": table}, epochs=sw.Epochs(tuples=parts))
        costs.append(process_time() - begun)
        assert sum(answer.results["n"].to_pylist()) == count
    return min(costs)


def test_what_parts_cost_grows_with_their_number_and_no_faster():
    """Eight times as many cost eight times as much, where a look at all of them for each would cost 64 times."""
    seconds_of(100)
    assert seconds_of(12_000) < 24 * seconds_of(1_500)


@pytest.mark.parametrize("discipline", ["epoch", "tuple"])
def test_parts_survive_a_restart(discipline):
    spec = ReleaseSpec(1, 3, discipline, partition_slots=(PART,))
    first, second = Release(spec, FixedSlack(0)), Release(spec, FixedSlack(0))
    list(first.drain(Batch.of([(0, 10, 7), (0, 2, 8)])))
    second.restore(first.snapshot_delta())
    for release in (first, second):
        list(release.drain(Batch.of([(0, 5, 8)])))
        assert release.clocks == (5,)


def test_a_silent_part_no_longer_holds_its_stream_back():
    release = Release(ReleaseSpec(1, 3, idle_timeout=10, partition_slots=(PART,)), FixedSlack(0))
    list(release.drain(replace(Batch.of([(0, 10, 7), (0, 2, 8)]), arrival_time=np.array([0, 0]))))
    assert release.clocks == (2,)
    list(release.drain(replace(Batch.of([(0, 30, 7)]), arrival_time=np.array([20]))))
    assert release.clocks == (30,)


QUERY = "SELECT COUNT(*) AS n FROM s [RANGE 10 MS] WITH NO WAIT"


def test_a_backlog_that_is_read_beside_the_present_is_not_late():
    present, backlog = range(1000, 1100), range(100)
    ts = [moment for pair in zip(present, backlog, strict=True) for moment in pair]
    table = pa.table({"ts": ts, "source": ["now", "then"] * 100})
    alone = sw.replay(QUERY, {"s": table}, epochs=sw.Epochs(tuples=20))
    by_part = sw.replay(f"{QUERY} OPTIONS (clock_by = 'source')", {"s": table}, epochs=sw.Epochs(tuples=20))
    assert alone.report["late"] > 80
    assert by_part.report["late"] == 0
    assert sum(by_part.results["n"].to_pylist()) == 200


def test_a_part_column_that_no_stream_has_is_refused():
    with pytest.raises(UsageError, match="no column of that name in s"):
        sw.replay(f"{QUERY} OPTIONS (clock_by = 'source')", {"s": pa.table({"ts": [1]})})


def test_a_part_with_a_wrong_clock_is_told_by_name_and_its_tuples_are_kept():
    rows = [(t, name) for t in range(0, 60_000, 100) for name in ("a", "b", "c", "d", "e")]
    wrong = {"d": 1_800_000, "e": -400 * 86_400_000}
    table = pa.table(
        {
            "arrival": list(range(len(rows))),
            "ts": [1_700_000_000_000 + t + wrong.get(name, 0) for t, name in rows],
            "receiver": [name for _, name in rows],
        }
    )
    query = "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS] WITH NO WAIT OPTIONS (clock_by = 'receiver')"
    answer = sw.replay(query, {"s": table}, epochs=sw.Epochs(span=1_000_000))
    assert [(one["part"], round(one["ahead_ms"] / 60_000)) for one in answer.report["wrong_clocks"]] == [
        ("d", 30),
        ("e", -400 * 24 * 60),
    ]
    assert answer.report["rejected"] == 0, "its tuples are kept until their time comes"
    assert answer.report["slack_ms"]["max"] == 0
    counts = dict(zip(answer.results["window_start"].to_pylist(), answer.results["n"].to_pylist(), strict=True))
    assert sum(counts.values()) >= 4 * 600, "the one behind is late, and all others count"
    late = answer.report["late"]
    assert late <= 600


def test_a_first_row_dated_1970_does_not_weigh_in_the_average_slack():
    times = [0, *(1_700_000_000_000 + 10 * i for i in range(500))]
    table = pa.table({"ts": times, "v": [1] * len(times)})
    report = sw.replay("SELECT SUM(v) AS n FROM s [RANGE 1 SECOND] WITH DELAY 300 MS", {"s": table}).report
    assert report["slack_ms"]["avg"] == 300


def test_idle_after_is_refused_tuple_by_tuple():
    table = pa.table({"ts": [1, 2], "arrival": [0, 1], "v": [1, 1]})
    query = "SELECT a.v FROM a [1 s], b [1 s] WITH NO WAIT OPTIONS (idle_after = 3)"
    with pytest.raises(UsageError, match="option idle_after is for epochs"):
        sw.replay(query, {"a": table, "b": table})
    assert sw.replay(query, {"a": table, "b": table}, epochs=sw.Epochs(tuples=2)).report["tuples"] == 4
