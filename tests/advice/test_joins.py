"""What advice says of a join is what a run with that slack gives, result by result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.advice.tally import lost_at
from tests.advice.streams import EPOCHS, SLACKS, advised, both_ways, disordered, kept_by_runs
from tests.effort import tried

PAIRS = "SELECT a.v AS v FROM a [RANGE 300 MS], b [RANGE 500 MS] WHERE a.key = b.key AND a.v >= 0"
TRIPLES = (
    "SELECT a.v AS v FROM a [RANGE 300 MS], b [RANGE 500 MS], c [RANGE 200 MS] WHERE a.key = b.key AND b.key = c.key"
)
TWO_KEYS = "SELECT a.v AS v FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.key = b.key AND a.v = b.v"
CONDITION = "SELECT a.v AS v FROM a [RANGE 200 MS], b [RANGE 300 MS] WHERE a.v + b.v > 7"
WINDOWS = (
    "SELECT a.v AS v FROM a, b, c WINDOW (a, b) = 100 MS AND (b, c) = 150 MS WHERE a.key = b.key AND b.key = c.key"
)
ALONE = "SELECT v FROM a WHERE v > 2"
QUERIES = {"pairs": (PAIRS, 2), "triples": (TRIPLES, 3), "two keys": (TWO_KEYS, 2), "condition": (CONDITION, 2),
           "windows": (WINDOWS, 3), "alone": (ALONE, 1)}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
@tried(12)
@given(seed=st.integers(0, 10_000), step=st.sampled_from([1, 10, 50]), epochs=st.sampled_from(EPOCHS))
def test_results_with_a_slack_are_as_many_as_advised(name: str, seed: int, step: int, epochs: sw.Epochs) -> None:
    query, streams = QUERIES[name]
    tables = disordered(seed, streams, 150 if streams < 3 else 60, step)
    advice = advised(query, tables, epochs)
    kept = [round(advice.point(1000 * k).kept * advice.curve.of) for k in SLACKS]
    assert kept == kept_by_runs(query, tables, epochs, SLACKS)


@tried(24)
@given(seed=st.integers(0, 10_000), step=st.sampled_from([1, 10, 50]), epochs=st.sampled_from(EPOCHS),
       query=st.sampled_from([PAIRS, TRIPLES, TWO_KEYS]))  # fmt: skip
def test_counting_by_key_agrees_with_all_results(seed: int, step: int, epochs: sw.Epochs, query: str) -> None:
    counted, made = both_ways(query, disordered(seed, 3 if query == TRIPLES else 2, 80, step), epochs)
    assert counted.true == made.true
    assert np.array_equal(counted.by_stream[:, 1:], made.by_stream[:, 1:])
    assert np.array_equal(counted.by_hour[:, 1:], made.by_hour[:, 1:])
    assert np.array_equal(counted.true_by_hour, made.true_by_hour)
    assert counted.made.sum() == made.made.sum() == made.true


def test_the_streams_of_these_tests_do_lose_results_with_little_slack() -> None:
    advice = advised(PAIRS, disordered(1, 2, 150, 10), EPOCHS[0])
    assert advice.curve.at(0) < 0.8
    assert advice.curve.kept[-1] == 1
    assert list(advice.curve.kept) == sorted(advice.curve.kept)


def test_losses_of_streams_add_up_and_so_do_hours() -> None:
    advice = advised(PAIRS, disordered(2, 2, 150, 10), EPOCHS[1])
    for point in advice.points:
        assert sum(point.lost_by_stream.values()) == pytest.approx(1 - point.kept)
    assert sum(curve.of for curve in advice.by_hour.values()) == advice.curve.of


def test_hours_are_told_apart() -> None:
    hour = 3_600_000
    late = [0, 400, 200, hour, hour + 500, hour + 700, hour + 100]
    a = pa.table({"ts": late, "arrival": range(0, 14, 2), "key": [1] * 7})
    b = pa.table({"ts": sorted(late), "arrival": range(1, 15, 2), "key": [1] * 7})
    text = "SELECT a.ts FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.key = b.key OPTIONS (max_ahead = 1 DAY)"
    advice = sw.advise(text, a=a, b=b)
    assert set(advice.by_hour) == {0, 1}
    assert advice.by_hour[0].of + advice.by_hour[1].of == advice.curve.of


def test_an_empty_stream_has_nothing_to_lose() -> None:
    nothing = disordered(1, 1, 10, 10)["a"].slice(0, 0)
    advice = sw.advise(PAIRS, a=nothing, b=nothing)
    assert advice.curve.of == 0
    assert advice.curve.least(0.99) == 0
    assert "nothing to lose" in str(advice)


def test_parts_with_clocks_of_their_own_are_followed_as_in_a_run() -> None:
    tables = disordered(5, 2, 150, 10)
    text = PAIRS + " OPTIONS (clock_by = v)"
    for epochs in EPOCHS[:2]:
        advice = advised(text, tables, epochs)
        kept = [round(advice.point(1000 * k).kept * advice.curve.of) for k in SLACKS]
        head, _, options = text.partition(" OPTIONS")
        given = [
            sw.replay(f"{head} WITH DELAY {k} MS OPTIONS{options}", tables, epochs=epochs).results.num_rows
            for k in SLACKS
        ]
        assert kept == given


@pytest.mark.parametrize("epochs", EPOCHS[:2])
def test_latency_is_what_a_run_reports(epochs: sw.Epochs) -> None:
    tables = disordered(3, 2, 1500, 1, late=0.1)
    advice = advised(PAIRS, tables, epochs)
    for k in (100, 400, 777):
        report = sw.replay(f"{PAIRS} WITH DELAY {k} MS", tables, epochs=epochs).report
        latency = advice.point(1000 * k).waiting.latency
        assert latency is not None
        assert latency / 1000 == pytest.approx(report["latency_ms"]["avg"], rel=0.03)


def test_lost_at_counts_what_lies_beyond_each_point() -> None:
    assert lost_at(np.array([[5, 2, 1], [0, 0, 4]])).tolist() == [[3, 1], [4, 4]]
