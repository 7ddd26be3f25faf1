"""Where waiting comes from: the parts add up, streams made for it give the parts they were made for, and the slowest
stream is named."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.core.batch import Batch
from slackwater.core.state import InForce
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.controllers import FixedSlack
from slackwater.disorder.release.release import Release, ReleaseSpec, Watch
from slackwater.observe.waiting import PARTS, Causes, SlowestUse, parts_of

TIMES = st.integers(0, 10**12)
FORCES = st.builds(InForce, TIMES, TIMES, TIMES | st.just(AFTER_ALL), TIMES | st.just(AFTER_ALL), st.booleans())
BOTH = "SELECT v FROM a UNION ALL SELECT v FROM b WITH {}"


def slowly(wait: int, force: InForce) -> tuple[int, int, int]:
    """`parts_of` for one wait, as its definition reads."""
    slack = min(force.slack, wait)
    if force.known and force.moved:
        behind = max(0, wait - force.lag)
        ready = behind if force.epoch >= AFTER_ALL else round(min(behind / force.moved, 1.0) * force.epoch)
    else:
        ready = force.epoch // 2
    epoch = min(ready, wait - slack)
    return slack, wait - slack - epoch, epoch


@given(st.lists(TIMES, max_size=20), FORCES)
def test_the_parts_are_those_of_the_definition_and_add_up(waits: list[int], force: InForce) -> None:
    parts = parts_of(np.array(waits, np.int64), force)
    assert list(zip(*(part.tolist() for part in parts), strict=True)) == [slowly(wait, force) for wait in waits]
    assert (sum(parts) == np.array(waits, np.int64)).all()
    assert all((part >= 0).all() for part in parts)


@given(st.lists(st.tuples(st.lists(st.tuples(TIMES, st.integers(1, 9)), min_size=1, max_size=5), FORCES), max_size=6))
def test_what_several_processes_tell_is_what_one_would_have_counted(runs: list[tuple[list[Any], InForce]]) -> None:
    whole, shards = Causes(), [Causes(), Causes()]
    for at, (pairs, force) in enumerate(runs):
        waits, weights = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
        for causes in (whole, shards[at % 2]):
            causes.note(waits, weights, force)
    assert (shards[0].so_far + shards[1].so_far).average() == whole.average()
    total = sum(wait * weight for pairs, _ in runs for wait, weight in pairs)
    count = sum(weight for pairs, _ in runs for _, weight in pairs)
    assert sum((whole.average() or {}).values()) == pytest.approx(total / count if count else 0, abs=1e-3)


def test_what_the_end_lets_out_is_counted_by_itself() -> None:
    causes = Causes()
    causes.end(7, InForce(slack=5, lag=100))
    assert (causes.average(), causes.so_far.at_end, causes.so_far.stuck) == (None, 7, 95)


@given(st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1000)), min_size=1, max_size=6), max_size=8))
def test_a_watch_sees_what_plain_clocks_say(epochs: list[list[tuple[int, int]]]) -> None:
    release = Release(ReleaseSpec(streams=2, rows=2), FixedSlack(50))
    watch = Watch(release)
    clocks: list[int | None] = [None, None]
    before: tuple[int, int] | None = None
    for arrivals in epochs:
        watch.begin(release.watermark)
        for _ in release.drain(Batch.of(arrivals)):
            pass
        watch.look(release.watermark)
        for stream, ts in arrivals:
            known = clocks[stream]
            clocks[stream] = ts if known is None else max(known, ts)
        if None in clocks:
            continue
        largest = max(clock for clock in clocks if clock is not None)
        watermark = min(clock for clock in clocks if clock is not None) - 50
        seen = watch.last
        assert (seen.slack, seen.lag, seen.known) == (50, largest - watermark, True)
        if before is not None:
            assert (seen.epoch, seen.moved) == (largest - before[0], watermark - before[1])
        before = largest, watermark


def lagging(minutes: int, behind: int, gap: int = 100) -> dict[str, pa.Table]:
    """Two streams in order; b comes so many milliseconds after a, and has a tuple so often."""
    a, b = np.arange(0, minutes * 60_000, 100), np.arange(50, minutes * 60_000, gap)
    return {
        "a": pa.table({"ts": a, "arrival": a, "v": a}),
        "b": pa.table({"ts": b, "arrival": b + behind, "v": b}),
    }


@pytest.mark.parametrize(
    ("epochs", "epoch"),
    [(sw.Epochs(each_tuple=True), 0), (sw.Epochs(span=10_000_000), 5000), (sw.Epochs(tuples=200), 5000)],
)
def test_streams_made_for_it_wait_for_what_they_were_made_for(epochs: sw.Epochs, epoch: int) -> None:
    """Slack 2 s, b 5 s behind, and in epochs of 10 s everything waits half of one."""
    report = sw.replay(BOTH.format("DELAY 2 SECONDS"), lagging(10, behind=5000), epochs=epochs).report
    causes = report["latency_by_cause_ms"]
    assert sum(causes.values()) == pytest.approx(report["latency_ms"]["avg"], abs=0.002)
    assert causes == pytest.approx({"slack": 2000, "slowest_stream": 5000, "epoch": epoch}, abs=400)
    slowest = report["slowest_stream"]
    assert slowest["stream"] == "b"
    assert slowest["share"] > 0.95
    assert slowest["behind_ms"] == pytest.approx(5000, abs=200)


@pytest.mark.parametrize("epochs", [sw.Epochs(each_tuple=True), sw.Epochs(span=1_000_000), sw.Epochs(tuples=500)])
@pytest.mark.parametrize("waiting", ["COMPLETE", "NO WAIT", "DELAY 300 MS"])
def test_the_parts_of_a_report_add_up(waiting: str, epochs: sw.Epochs) -> None:
    rng = np.random.default_rng(5)
    streams = {}
    for name in ("a", "b"):
        ts = rng.integers(0, 60_000, 2000)
        arrival = ts + rng.exponential(400, 2000).astype(int)
        order = np.argsort(arrival, kind="stable")
        streams[name] = pa.table({"ts": ts[order], "arrival": arrival[order], "v": ts[order] % 7})
    query = f"SELECT a.v FROM a [1 s], b [1 s] WHERE a.v = b.v WITH {waiting}"
    for count_only in (False, True):
        report = sw.replay(query, streams, epochs=epochs, count=count_only).report
        causes = report["latency_by_cause_ms"]
        assert sum(causes.values()) == pytest.approx(report["latency_ms"]["avg"], abs=0.002)
        assert min(causes.values()) >= -0.001
        assert epochs.each_tuple == (causes["epoch"] == 0)
        assert waiting != "NO WAIT" or causes["slack"] == 0


def test_a_sparse_stream_is_named_and_what_helps_is_offered() -> None:
    streams = lagging(10, behind=0, gap=60_000)
    query = "SELECT a.v FROM a [100 s], b [100 s] WITH DELAY 1 SECOND"
    each, cut = (sw.replay(query, streams, epochs=epochs).report for epochs in (None, sw.Epochs(tuples=10)))
    for report in (each, cut):
        assert report["waiting_advice"].startswith("results wait mostly for stream b, ")
        assert "idle_timeout, with --arrival-time" in report["waiting_advice"]
    assert "idle_after" not in each["waiting_advice"]
    assert "idle_after" in cut["waiting_advice"]
    # What is offered is what helps.
    for report, epochs in ((each, None), (cut, sw.Epochs(tuples=10))):
        helped = sw.replay(f"{query} OPTIONS (idle_timeout = 2 SECONDS)", streams, epochs=epochs).report
        assert helped["waiting_advice"] is None
        assert helped["latency_ms"]["avg"] < 0.05 * report["latency_ms"]["avg"]


def test_nothing_is_offered_where_streams_keep_up() -> None:
    report = sw.replay(BOTH.format("DELAY 10 SECONDS"), lagging(2, behind=100)).report
    assert report["waiting_advice"] is None
    alone = sw.replay("SELECT v FROM a WITH DELAY 1 SECOND", {"a": lagging(1, 0)["a"]}).report
    assert (alone["waiting_advice"], alone["slowest_stream"]) == (None, None)


def test_a_stream_that_stops_is_to_blame_for_what_only_the_end_lets_out() -> None:
    streams = lagging(10, behind=0)
    streams["b"] = streams["b"].slice(0, 300)
    report = sw.replay(BOTH.format("DELAY 1 SECOND"), streams).report
    assert report["emitted_at_end"] > 5000
    assert report["waiting_advice"].startswith(f"{report['emitted_at_end']:,} of 6,300 results left only at the end")
    assert "stream b" in report["waiting_advice"]


def test_a_stream_that_has_not_spoken_is_the_slowest() -> None:
    streams = lagging(1, behind=0)
    streams["b"] = streams["b"].slice(0, 0)
    report = sw.replay(BOTH.format("NO WAIT"), streams).report
    assert report["slowest_stream"] == {"stream": "b", "share": 1.0, "behind_ms": None}
    assert "which has not spoken yet" in report["waiting_advice"]


@given(st.lists(st.lists(st.integers(0, 10**9), min_size=3, max_size=3), min_size=1, max_size=12))
def test_the_slowest_is_the_one_that_was_it_for_the_longest_time(looks: list[list[int]]) -> None:
    clocks = np.maximum.accumulate(np.array(looks), axis=0)
    use, time = SlowestUse(), {0: 0, 1: 0, 2: 0}
    use.note(clocks[0].tolist())
    for before, now in pairwise(clocks):
        use.note(now.tolist())
        if now.max() > now.min():
            time[int(now.argmin())] += int(now.max() - before.max())
    reported = use.reported("abc")
    if not sum(time.values()):
        assert reported is None
    else:
        assert reported is not None
        assert time["abc".index(reported.stream)] == max(time.values())
        assert reported.share == pytest.approx(max(time.values()) / sum(time.values()))


def test_the_parts_have_names() -> None:
    assert PARTS == ("slack", "slowest_stream", "epoch")
