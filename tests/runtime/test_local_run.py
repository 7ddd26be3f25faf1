"""The local runtime itself: its clock is injected, and an interruption loses no account of any tuple."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slackwater.language.bind import bind
from slackwater.operators.pipeline import Epochs
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import BATCH, LocalRun
from slackwater.sources.files import schema_of
from slackwater.sources.replay import replay

COUNT = 5 * BATCH + 17


def local_run(query: str, clock: list[float] | None = None, epochs: Epochs | None = None) -> LocalRun:
    times = np.arange(COUNT) // 7
    times[::11] -= 3
    table = pa.table({"ts": times, "v": np.arange(COUNT) % 5})
    physical = plan(bind(query, {"s": schema_of("s", table, "ts")}).query)
    ticks = iter(clock or [])
    arrivals = replay(physical, {"s": table}, "ms")
    run_epochs = epochs or Epochs(each_tuple=True)
    return (
        LocalRun(physical, arrivals, run_epochs, lambda: next(ticks), BATCH)
        if clock
        else LocalRun(physical, arrivals, run_epochs, batch=BATCH)
    )


def test_the_clock_serves_only_the_report() -> None:
    query = "SELECT v FROM s WITH NO WAIT"
    slow = local_run(query, [float(i) for i in range(10_000)])
    fast = local_run(query, [0.0] * 10_000)
    results = [sum(len(emission.ts) for emission in run.emissions()) for run in (slow, fast)]
    assert results[0] == results[1] > 0
    reports = [run.report().as_json() for run in (slow, fast)]
    assert reports[0]["seconds"] > 5
    assert reports[0]["throughput_tps"] == pytest.approx(COUNT / reports[0]["seconds"], rel=1e-3)
    assert (reports[1]["seconds"], reports[1]["throughput_tps"]) == (0.0, None)
    timing = ("seconds", "throughput_tps", "compute_ms_per_tuple")
    assert {k: v for k, v in reports[0].items() if k not in timing} == {
        k: v for k, v in reports[1].items() if k not in timing
    }


@pytest.mark.parametrize("epochs", [Epochs(each_tuple=True), Epochs(tuples=1000), Epochs(span=100_000)])
def test_an_interrupted_run_accounts_for_every_tuple_it_took_in(epochs: Epochs) -> None:
    run = local_run("SELECT v FROM s WHERE v > 0 WITH DELAY 200 MS", epochs=epochs)
    results = 0
    for emission in run.emissions():
        assert not emission.flushed
        results += len(emission.ts)
        if run.done >= 2 * BATCH:
            run.interrupt()
    report = run.report().as_json()
    assert report["interrupted"] is True
    assert report["tuples"] == run.done == 2 * BATCH
    assert report["tuples"] == sum(report[part] for part in ("in_time", "late", "filtered", "rejected", "held"))
    assert report["held"] > 0
    assert report["results"] == results


def test_warming_up_changes_nothing() -> None:
    query = "SELECT v, COUNT(*) AS n FROM s [100 MS] GROUP BY v"
    warm, cold = local_run(query), local_run(query)
    warm.warm_up()
    ends = [[emission.ts.tolist() for emission in run.emissions()] for run in (warm, cold)]
    assert ends[0] == ends[1]
    assert warm.report().as_json()["tuples"] == COUNT


def test_a_run_without_tuples_has_a_report() -> None:
    table = pa.table({"ts": pa.array([], pa.int64())})
    physical = plan(bind("SELECT ts FROM s", {"s": schema_of("s", table, "ts")}).query)
    run = LocalRun(physical, replay(physical, {"s": table}, "ms"), Epochs(each_tuple=True))
    run.warm_up()
    assert list(run.emissions()) == []
    report = run.report().as_json()
    assert (report["tuples"], report["results"], report["compute_ms_per_tuple"]) == (0, 0, None)
    assert report["latency_ms"] == {"avg": None, "p50": None, "p95": None, "p99": None}
