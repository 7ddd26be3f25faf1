"""What the experiments on the W-join report measure, and how they judge it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from papers.experiments import window_graph_joins, window_join_work, window_joins
from papers.experiments.experiment import Scale
from papers.experiments.figures import write_figure
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial, measure
from papers.experiments.window_join_work import CHOSEN, IN_ORDER, IN_TURN, ROWS, WorkTrial


def rows_of(workload: str, taken: str, ways: Sequence[str], streams: int = 3) -> dict[str, Row]:
    stage = Stage(workload, seed=2, minutes=30.0, change=taken)
    trials = [WorkTrial(stage, way, parameter="streams", value=float(streams), tuples=4000) for way in ways]
    return {row["way"]: row for row in measure(trials)}


@pytest.mark.parametrize("workload", ["stores", *window_join_work.RATES])
def test_all_joins_make_the_same_results_and_do_different_work_for_it(workload: str) -> None:
    ways = ("nested_loop", "merge", "hash", "ripple", "xjoin", CHOSEN, "hash" + ROWS, CHOSEN + ROWS)
    rows = rows_of(workload, IN_ORDER, ways)
    assert len({row["results"] for row in rows.values()}) == 1
    assert rows["merge"]["results"] > 0
    assert rows["hash"]["comparisons"] < rows["merge"]["comparisons"] < rows["nested_loop"]["comparisons"]
    assert "comparisons" not in rows[CHOSEN]
    assert all(row["service_us"] > 0 for row in rows.values())


def test_streams_of_different_rates_taken_in_turn_cost_the_nested_loop_far_more_than_the_merge() -> None:
    in_turn = rows_of("variable rates", IN_TURN, ("nested_loop", "merge", "hash", CHOSEN))
    in_order = rows_of("variable rates", IN_ORDER, ("nested_loop", "merge"))
    assert in_turn["nested_loop"]["results"] == in_turn["hash"]["results"] >= in_turn["merge"]["results"] > 0
    assert in_turn[CHOSEN]["results"] == in_turn["merge"]["results"]
    assert in_turn["nested_loop"]["comparisons"] > in_order["nested_loop"]["comparisons"]
    assert in_turn["merge"]["comparisons"] < in_order["merge"]["comparisons"]


def test_the_merge_join_never_sees_a_tuple_ahead_of_the_slowest_stream() -> None:
    stage = Stage("variable rates", seed=1, change=IN_TURN)
    runs = list(window_join_work._runs(stage, 3, 5000, by_event_time=True))
    ts = [int(t) for run in runs for t in run.ts]
    assert ts == sorted(ts)
    assert all(run.ts.max() <= run.watermark for run in runs)
    assert 0 < len(ts) < 5000


def test_a_finding_that_does_not_show_is_told() -> None:
    base: Row = {"workload": "stores", "change": IN_ORDER, "value": 2.0, "seed": 0, "offered": True}
    rows = [
        base | {"way": way, "comparisons": cost, "service_us": cost}
        for way, cost in (("ripple", 12.0), ("nested_loop", 10.0), ("merge", 2.5), (CHOSEN, 3.3), ("hash" + ROWS, 1.0))
    ]
    held = [claim.holds for claim in window_joins.nested_loop_claims(rows)]
    assert held == [True, True, False, False, False]
    assert [claim.holds for claim in window_joins.hash_claims(rows)] == [None, None, False, None]


def graph_rows(trials: Sequence[Trial], **wanted: object) -> dict[str, Row]:
    """The rows of short trials that have these values."""
    picked = [replace(t, tuples=4000) for t in trials if isinstance(t, WorkTrial)]
    picked = [t for t in picked if all(getattr(t, name, None) == value for name, value in wanted.items())]
    return {row["way"]: row for row in measure(picked)}


def test_both_approaches_make_the_same_results_and_the_local_one_does_less_for_it() -> None:
    rows = graph_rows(window_graph_joins.approach_trials(Scale(quick=True)), value=10.0)
    assert len({row["results"] for row in rows.values()}) == 1
    assert rows["merge lca"]["results"] > 0
    for algorithm in ("merge", "nested_loop", "hash"):
        assert rows[f"{algorithm} lca"]["comparisons"] < rows[f"{algorithm} gca"]["comparisons"]


def test_a_path_taken_in_order_has_the_same_results_by_all_ways() -> None:
    stage = Stage("similar rates", 0, change=IN_ORDER)
    rows = graph_rows(window_graph_joins.path_trials(Scale(quick=True)), stage=stage, value=250.0)
    assert set(rows) == {"nested_loop pairwise", "merge lca", CHOSEN}
    assert len({row["results"] for row in rows.values()}) == 1
    assert rows[CHOSEN]["results"] > 0


def test_every_finding_about_windows_that_differ_is_judged_and_drawn(tmp_path: Path) -> None:
    base: Row = {"workload": "comparable rates", "change": IN_ORDER, "seed": 0, "offered": True} | dict.fromkeys(
        ("window_s", "target", "period_s", "parameter")
    )
    costs = {"merge gca": 4.0, "merge lca": 5.0, "nested_loop gca": 9.0, "nested_loop lca": 8.0}
    rows = [
        base | {"way": way, "value": value, "comparisons": cost, "service_us": cost}
        for value in (1.25, 10.0, 2.0)
        for way, cost in costs.items()
    ]
    held = [claim.holds for claim in window_graph_joins.approach_claims(rows)]
    assert held == [False] * 6 + [True, None]
    assert write_figure(window_graph_joins.APPROACHES, rows, tmp_path).exists()
    similar = [
        base | {"way": way, "value": leg, "workload": "similar rates", "comparisons": cost, "service_us": leg}
        for leg in (250.0, 500.0, 1000.0)
        for way, cost in (("nested_loop pairwise", 2.0), ("merge lca", 3.0))
    ]
    assert [claim.holds for claim in window_graph_joins.path_claims(similar)] == [None, None, True, False, *[None] * 4]
    assert write_figure(window_graph_joins.PATH, similar, tmp_path).exists()


def test_the_choice_is_measured_in_every_case_and_beside_the_best_of_those_that_answer_alike() -> None:
    for experiment in (window_joins.NESTED_LOOPS, window_joins.HASHES, window_joins.BY_STREAMS, window_joins.BY_STORES):
        trials = experiment.trials(Scale(quick=True))
        cases = {(trial.stage, trial.value) for trial in trials}
        assert {(trial.stage, trial.value) for trial in trials if trial.way == CHOSEN} == cases
    base: Row = {"workload": "stores", "change": IN_ORDER, "value": 2.0, "seed": 0, "offered": True}
    costs = {"hash": 1.0, CHOSEN: 1.2, "hash" + ROWS: 2.0, CHOSEN + ROWS: 3.0}
    rows = [base | {"way": way, "service_us": cost} for way, cost in costs.items()]
    assert window_joins._chosen(rows).holds
    assert not window_joins._chosen(rows, ROWS).holds
