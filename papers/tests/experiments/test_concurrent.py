"""Experiments on concurrent queries: what is reported when, what the log holds, and claims that can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from papers.chains.subplan import Subplan
from papers.experiments.concurrent_plans import PLANS, QueryStage, stages_of
from papers.experiments.concurrent_queries import (
    adaptation_claims,
    adaptation_trials,
    baseline_claims,
    placement_claims,
    placement_trials,
)
from papers.experiments.concurrent_replay import replayed
from papers.experiments.concurrent_runs import ConcurrentTrial, Source, alone, run_source, sources
from papers.experiments.experiment import Scale
from papers.experiments.sweep import parts_of
from slackwater.workloads import EPOCH_MS

MINUTES = 0.3


def a_source(kappas: list[tuple[int, int, int]]) -> Source:
    plan = Subplan.of({"S": ("F", "Q2"), "F": ("Q1",)}, "S")
    ts = np.array([10, 20, 15, 30, 40, 35, 60], np.int64)
    passes = np.array([1, 0, 1, 0, 1, 1, 0], np.int64) << plan.number("F")
    through = np.array([np.ones(7), passes > 0, passes > 0, np.ones(7)], np.int64)
    reached = np.hstack((np.zeros((4, 1), np.int64), np.cumsum(through, axis=1)))
    return Source(plan, ts, passes, reached, tuple(kappas), np.ones(7, np.int64))


def test_the_log_keeps_a_tuple_until_the_last_query_that_wants_it_has_had_it() -> None:
    # After two arrivals Q1 waits for 20, Q2 never waits: the log holds what passes F and is younger than 20.
    source = a_source([(2, 2, 20)])
    run = run_source(source, "UNSHARED", "eager", smart=True)
    clock = np.maximum.accumulate(source.ts)
    expected = [
        sum(1 for i in range(now + 1) if i >= 2 and source.passes[i] and source.ts[i] + 20 > clock[now])
        for now in range(7)
    ]
    assert run.log_held.tolist() == expected
    assert expected[5] == 2
    assert run.held.tolist() == expected, "a buffer of its own for the only query that waits"
    assert run.adaptations == 1
    assert run.in_force == [(20, {"Q1": 20, "Q2": 0})]


def test_selectivity_is_what_has_been_seen_so_far() -> None:
    source = a_source([])
    assert source.selectivity(0) == [1, 1, 1, 1]
    assert source.selectivity(4)[1] == 0.5
    assert source.selectivity(7)[1] == pytest.approx(4 / 7)


@pytest.mark.parametrize("name", PLANS)
def test_filters_of_a_plan_let_pass_what_their_conditions_say(name: str) -> None:
    stage = stages_of(PLANS[name], 0, 1.0)[0]
    for stream, subplan in PLANS[name].subplans.items():
        table = stage.streams.streams[stream]
        for v in subplan.filters:
            condition = PLANS[name].conditions[subplan.names[v]]
            assert condition.holds(table).mean() == pytest.approx(condition.selectivity, abs=0.03)
        assert max(map(len, subplan.children)) <= 3, "as the paper has it"
        assert subplan.fused
    for query in PLANS[name].queries:
        text = PLANS[name].text(query)
        assert text.count("WHERE") == 1
        assert text.startswith("SELECT * FROM s1" if query.joins else "SELECT SUM(")


def test_a_plan_gives_every_query_the_same_under_every_placement() -> None:
    stage = QueryStage("soccer", 0, MINUTES, plan="GQPlan2")
    rows = [ConcurrentTrial(stage, way).measured() for way in ("UNSHARED", "OPT")]
    assert rows[0]["released"] == rows[1]["released"]
    assert rows[0]["latency_of"] == rows[1]["latency_of"]
    assert rows[0]["memory"] >= rows[0]["log_memory"] > 0
    assert rows[0]["adaptations"] > 20
    reports = [report for source in sources("GQPlan2", 0, MINUTES).values() for report in source.reports]
    asked = [
        len(alone(one).slack_over_time) * len(one.asked.streams) for one in stages_of(PLANS["GQPlan2"], 0, MINUTES)
    ]
    assert len(reports) == sum(asked), "a join reports to both of its streams"


def test_a_query_that_is_told_its_own_slacks_answers_as_before() -> None:
    stage = next(one for one in stages_of(PLANS["GQPlan2"], 0, MINUTES) if one.name == "Q4")
    found = alone(stage)
    told = [(EPOCH_MS * 1000 + round(since * 1_000_000), round(ms * 1000)) for since, ms in found.slack_over_time]
    assert replayed(stage, told) == found.by_time
    assert replayed(stage, []) != found.by_time


def test_all_trials_of_a_plan_run_in_one_process() -> None:
    for made, each in ((placement_trials, 4), (adaptation_trials, 9)):
        assert [len(part) for part in parts_of(made(Scale(quick=True)))] == [each] * 3


def row(workload: str, way: str, **others: Any) -> dict[str, Any]:
    queries = [query.name for query in PLANS[workload].queries]
    base = {
        "workload": workload, "seed": 0, "way": way, "change": "smart", "parameter": "eager", "offered": True,
        "computing_us": 10.0, "adapting_us": 20.0, "adapting_total_ms": 5.0, "cursor_us": 0.1, "memory": 100.0,
        "log_memory": 90.0, "candidates": 4, "released": ["x"], "latency_of": dict.fromkeys(queries, 1.0),
        "phi_of": dict.fromkeys(queries, 0.95), "window_s": None, "target": None, "period_s": 60, "value": 0.0,
    }  # fmt: skip
    return base | others


def test_claims_about_placements_can_fail() -> None:
    memory = {"UNSHARED": 200.0, "GREEDY": 300.0, "OPT": 100.0, "NAIVE": 100.0}
    took = {"UNSHARED": 10.0, "GREEDY": 10.0, "OPT": 10.0, "NAIVE": 40.0}
    rows = [
        row(name, way, memory=100.0 if name == "GQPlan2" else memory[way], computing_us=took[way])
        for name in PLANS for way in memory
    ]  # fmt: skip
    assert all(claim.holds for claim in placement_claims(rows))
    rows[-1]["released"] = ["y"]
    rows[0]["memory"] = 50.0
    failed = [claim.says for claim in placement_claims(rows) if not claim.holds]
    assert len(failed) == 3, failed


def test_claims_about_adaptations_can_fail() -> None:
    total = {"eager": 9.0, "0.5-lazy": 5.0, "lazy": 2.0}
    rows = [
        row(name, way, change=reuse, parameter=trigger, adapting_us=3.0 if way == "UNSHARED" else 20.0,
            adapting_total_ms=total[trigger] * (2 if reuse == "naive" else 1),
            latency_of={query.name: 1.0 + (reuse == "naive") for query in PLANS[name].queries})
        for name in PLANS
        for way, reuse in (("UNSHARED", "smart"), ("OPT", "smart"), ("OPT", "naive"))
        for trigger in total
    ]  # fmt: skip
    assert all(claim.holds for claim in adaptation_claims(rows))
    for one in rows:
        one["cursor_us"], one["adapting_total_ms"] = 1.0, 3.0
    assert sum(not claim.holds for claim in adaptation_claims(rows)) == 3


def test_claims_about_baselines_can_fail() -> None:
    rows = [
        row(name, way, parameter=f"{name} {query.name}", phi=phi if way != "No-K-slack" or query.joins else 0.6,
            latency_ms=latency)
        for name, plan in PLANS.items()
        for query in plan.queries
        for way, phi, latency in (("No-K-slack", 0.08, 100.0), ("Max-K-slack", 0.995, 9000.0))
    ]  # fmt: skip
    assert all(claim.holds for claim in baseline_claims(rows))
    rows[1]["phi"], rows[1]["latency_ms"] = 0.5, 30_000.0
    assert sum(not claim.holds for claim in baseline_claims(rows)) == 2
