"""What a run with a target says of its own quality is what the judge says of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.verify import Verdict
from tests.effort import more, tried
from tests.runtime.streams import Runtime, arrived

COLUMNS = {"k": pa.int64(), "x": pa.float64()}
JOINS = {
    "two by key": "SELECT a.x AS ax FROM a [300 MS], b [500 MS] WHERE a.k = b.k",
    "three by key": "SELECT a.x AS ax FROM a [300 MS], b [500 MS], c [200 MS] WHERE a.k = b.k AND b.k = c.k",
    "by distance": "SELECT a.x AS ax FROM a [300 MS], b [300 MS] WHERE ABS(a.x - b.x) < 0.2",
    "one": "SELECT k, x FROM a WHERE k <> 1",
}
CASES = [
    ("two by key", "steady"), ("three by key", "steady"), ("by distance", "pd"), ("three by key", "model"),
    ("one", "steady"),
]  # fmt: skip


def disordered(streams: str, tuples: int, seed: int, longest: float = 4000.0) -> dict[str, pa.Table]:
    """Some tuples are far behind."""
    rng = np.random.default_rng(seed)
    ts = np.arange(tuples) * 20 // len(streams)
    late = rng.random(tuples) < 0.2
    delay = np.where(late, rng.exponential(longest / 4, tuples).clip(0, longest), rng.integers(0, 30, tuples))
    order = np.argsort(ts + delay, kind="stable")
    rows = [(streams[i % len(streams)], int(ts[i]), int(rng.integers(4)), float(rng.random())) for i in order]
    return arrived(COLUMNS, *rows)


def measured(runtime: Runtime, query: str, streams: dict[str, pa.Table], epoch: str) -> dict[str, Any]:
    report = runtime.run(query, streams, epoch).report
    assert isinstance(report["measured_quality"], dict)
    return report["measured_quality"]


def judged(runtime: Runtime, query: str, streams: dict[str, pa.Table], epoch: str) -> tuple[dict[str, Any], Verdict]:
    """The same, and what the judge says of the same run."""
    report, verdict = runtime.judged(query, streams, epoch)
    assert isinstance(report["measured_quality"], dict)
    return report["measured_quality"], verdict


@pytest.mark.parametrize(("name", "controller"), CASES)
@pytest.mark.parametrize("seed", [1, *more("another seed, here", 2)])
def test_measured_recall_is_that_of_the_judge(runtime: Runtime, name: str, controller: str, seed: int) -> None:
    streams = disordered("abc" if "c [" in JOINS[name] else "a" if name == "one" else "ab", 1500, seed)
    query = f"{JOINS[name]} WITH RECALL 0.8 OVER 2 SECONDS OPTIONS (controller = '{controller}')"
    for epoch in runtime.offered("1", "1500 ms", "300 ms"):
        seen, verdict = judged(runtime, query, streams, epoch)
        assert seen["good"] == verdict.results
        assert seen["good"] + seen["bad"] == verdict.true_results
        assert seen["low"] == seen["measured"] == seen["high"] == verdict.recall_overall < 1
        assert (seen["of"], seen["target"], seen["unknown_late"]) == ("results", 0.8, 0)
        assert seen["provisional_from"] is None
        assert 0 <= seen["phi"] <= 1
        assert seen["periods"] > 20


def test_with_a_short_retention_the_true_recall_lies_between_low_and_high(runtime: Runtime) -> None:
    streams = disordered("ab", 1500, 3)
    query = f"{JOINS['two by key']} WITH RECALL 0.8 OVER 2 SECONDS OPTIONS (retention = 1 SECOND)"
    for epoch in runtime.offered("1", "1500 ms", "300 ms"):
        seen, verdict = judged(runtime, query, streams, epoch)
        assert seen["unknown_late"] > 0
        assert seen["low"] <= verdict.recall_overall <= seen["high"]
        assert seen["low"] < seen["high"]


def test_without_a_target_nothing_is_measured(runtime: Runtime) -> None:
    report = runtime.run(f"{JOINS['two by key']} WITH DELAY 1 SECOND", disordered("ab", 200, 4)).report
    assert report["measured_quality"] is None


def test_shares_of_a_run_over_nothing_are_unknown(runtime: Runtime) -> None:
    streams = {name: table.slice(0, 0) for name, table in disordered("ab", 4, 5).items()}
    seen = measured(runtime, f"{JOINS['two by key']} WITH RECALL 0.8 OVER 2 SECONDS", streams, "2 s")
    assert [seen[name] for name in ("measured", "low", "high", "latest", "phi")] == [None] * 5


WINDOWS = [
    ("COUNT(*)", 500, "5% CONFIDENCE 90%", "steady"), ("SUM(x)", 200, "1% CONFIDENCE 60%", "steady"),
    ("AVG(x)", 200, "1% CONFIDENCE 60%", "steady"), ("SUM(k - 1)", 300, "5% CONFIDENCE 60%", "model"),
    ("COUNT(*)", 200, "5% CONFIDENCE 60%", "pd"), ("SUM(x)", 1000, "2% CONFIDENCE 60%", "steady"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "slide", "target", "controller"), WINDOWS)
def test_the_share_of_windows_within_the_bound_is_that_of_the_judge(
    runtime: Runtime, call: str, slide: int, target: str, controller: str
) -> None:
    streams = disordered("a", 2000, 6)
    query = f"SELECT {call} AS n FROM a [1 SECOND SLIDE {slide} MS] WITH ERROR {target}"
    query += f" OPTIONS (controller = '{controller}')"
    for epoch in runtime.offered("1", "4 s", "300 ms"):
        seen, verdict = judged(runtime, query, streams, epoch)
        assert (seen["of"], seen["by"]) == ("windows", "value")
        assert seen["good"] + seen["bad"] == len(verdict.measurements)
        bound = float(target.split("%")[0]) / 100
        assert seen["low"] == seen["measured"] == seen["high"] == pytest.approx(verdict.fulfilment(bound))
        assert seen["bad"] > 0


def test_of_a_window_the_worst_group_decides(runtime: Runtime) -> None:
    streams = disordered("a", 2000, 7)
    query = "SELECT k, COUNT(*) AS n FROM a [1 SECOND SLIDE 500 MS] GROUP BY k WITH ERROR 1% CONFIDENCE 60%"
    for epoch in runtime.offered("1", "4 s", "300 ms"):
        seen, verdict = judged(runtime, query, streams, epoch)
        worst: dict[int, float] = {}
        for end, error in verdict.measurements:
            worst[end] = max(error, worst.get(end, 0.0))
        within = sum(error <= 0.01 for error in worst.values())
        if seen["good"] + seen["bad"] == len(worst):
            assert (seen["good"], seen["bad"]) == (within, len(worst) - within)
        else:
            # Shards judge their own groups.
            assert len(worst) < seen["good"] + seen["bad"] <= len(verdict.measurements)
            assert seen["measured"] >= within / len(worst)


# What no sum tells: the answer itself is held against the late values.
CALLS = [
    "MIN(x)", "MAX(x)", "MEDIAN(x)", "QUANTILE(x, 0.9)", "MIN(n)", "MAX(n)", "MEDIAN(n)", "VAR(x)", "STDDEV(n)",
    "MAX(d)", "SUM(x), MEDIAN(x)",
]  # fmt: skip
UNKNOWN = ["COUNT(DISTINCT n)", "COUNT(DISTINCT t), MEDIAN(n)"]
"""Where nothing is retained that would say what late values change."""
DELAYS = ["some are late", "large values are late", "small values are late", "nearly half are late"]
MEASURED = {"n": pa.int64(), "x": pa.float64(), "k": pa.int64(), "d": pa.decimal128(9, 2), "t": pa.string()}


def delayed(delays: str, tuples: int, seed: int) -> dict[str, pa.Table]:
    """Tuples whose delay may hang on their value; values of both signs, some equal, some null."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 10 * tuples, tuples))
    x = rng.gamma(3.0, 2.0, tuples) - rng.choice([0.0, 4.0, 20.0])
    n = rng.integers(-3, 12, tuples)
    late = {
        "some are late": rng.random(tuples) < 0.2,
        "large values are late": (x > np.quantile(x, 0.5)) | (n > 8),
        "small values are late": (x < np.quantile(x, 0.3)) | (n < 0),
        "nearly half are late": rng.random(tuples) < 0.45,
    }[delays]
    delay = np.where(late & (rng.random(tuples) < 0.9), rng.integers(300, 4000, tuples), rng.integers(0, 30, tuples))
    rows = []
    for i in np.argsort(ts + delay, kind="stable").tolist():
        value = None if rng.random() < 0.03 else float(x[i])
        cents = Decimal(int(n[i])).scaleb(-2)
        rows.append(("a", int(ts[i]), int(n[i]), value, int(rng.integers(3)), cents, f"t{rng.integers(40):02}"))
    return arrived(MEASURED, *rows)


def windows_within(verdict: Verdict, bound: float) -> tuple[int, int]:
    """Windows with all groups within a bound, and those with one further off."""
    worst: dict[int, float] = {}
    for end, error in verdict.measurements:
        worst[end] = max(error, worst.get(end, 0.0))
    within = sum(error <= bound + 1e-12 for error in worst.values())
    return within, len(worst) - within


@pytest.mark.parametrize("delays", DELAYS)
@tried(24, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    call=st.sampled_from(CALLS),
    target=st.sampled_from(["5%", "20% AT MOST 300 MS", "1% AT MOST 1 MS"]),
    by=st.sampled_from(["", " GROUP BY k"]),
    slide=st.sampled_from([1000, 400, 250]),
    epoch=st.sampled_from(["1", "300 ms", "2 s"]),
    seed=st.integers(0, 2**32),
)
def test_answers_that_no_sum_tells_of_are_measured_as_the_judge_measures_them(
    runtime: Runtime, delays: str, call: str, target: str, by: str, slide: int, epoch: str, seed: int
) -> None:
    keys = "k, " if by else ""
    query = f"SELECT {keys}{named(call)} FROM a [1 SECOND SLIDE {slide} MS]{by} WITH ERROR {target} CONFIDENCE 90%"
    for one in runtime.offered(epoch) or runtime.offered("300 ms"):
        seen, verdict = judged(runtime, query, delayed(delays, 500, seed), one)
        good, bad = windows_within(verdict, float(target.split("%")[0]) / 100)
        assert (seen["by"], seen["unknown_late"]) == ("value", 0)
        assert seen["low"] == seen["measured"] <= seen["high"]
        # Of the values beside a quantile so many are retained: what so many late ones pass is in doubt.
        assert seen["measured"] == seen["high"] or "MEDIAN" in call or "QUANTILE" in call
        if seen["good"] + seen["bad"] == good + bad:
            assert (seen["good"], seen["bad"]) == (good, bad)
        else:
            # Shards judge their own groups.
            assert by
            assert bad <= seen["bad"] <= len(verdict.measurements)


@pytest.mark.parametrize("delays", DELAYS)
@tried(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    call=st.sampled_from([*CALLS, *UNKNOWN, *UNKNOWN]),
    options=st.sampled_from(["", "OPTIONS (retention = 1 s)", "OPTIONS (controller = 'model')"]),
    by=st.sampled_from(["", " GROUP BY k"]),
    epoch=st.sampled_from(["1", "300 ms", "2 s"]),
    seed=st.integers(0, 2**32),
)
@pytest.mark.local_only("the bounds are the kernel's, and what shards measure of it is asked above")
def test_where_not_all_is_known_of_answers_the_truth_lies_within_bounds_and_is_no_worse_than_measured(
    runtime: Runtime, delays: str, call: str, options: str, by: str, epoch: str, seed: int
) -> None:
    keys = "k, " if by else ""
    query = f"SELECT {keys}{named(call)} FROM a [1 SECOND SLIDE 250 MS]{by}"
    query += f" WITH ERROR 10% AT MOST 500 MS CONFIDENCE 90% {options}"
    if "controller" in options:
        query = query.replace(" AT MOST 500 MS", "")
    seen, verdict = judged(runtime, query, delayed(delays, 800, seed), epoch)
    good, bad = windows_within(verdict, 0.1)
    assert seen["by"] == ("coverage" if call in UNKNOWN else "value")
    assert seen["low"] == seen["measured"] <= good / (good + bad) <= seen["high"]


def named(calls: str) -> str:
    return ", ".join(
        f"{call} AS n{i}" for i, call in enumerate(calls.split(", ") if "QUANTILE" not in calls else [calls])
    )


@pytest.mark.local_only("the bound is the kernel's, and joins have it tested on Spark")
@pytest.mark.parametrize("call", ["SUM(x)", "AVG(x)", "SUM(k - 1)"])
def test_with_a_short_retention_the_true_share_of_windows_lies_between_low_and_high(
    runtime: Runtime, call: str
) -> None:
    streams = disordered("a", 2000, 8)
    query = f"SELECT {call} AS n FROM a [1 SECOND SLIDE 200 MS] WITH ERROR 1% CONFIDENCE 60%"
    for epoch in runtime.offered("1", "4 s", "300 ms"):
        seen, verdict = judged(runtime, f"{query} OPTIONS (retention = 2 s)", streams, epoch)
        true = verdict.fulfilment(0.01)
        assert true is not None
        assert seen["unknown_late"] > 0
        assert seen["low"] <= true <= seen["high"]
