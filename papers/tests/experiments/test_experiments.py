"""Every experiment can be asked for, is complete, and says where it misses."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from papers.experiments import changes, figures, stages, steady_joins
from papers.experiments import experiment as definition
from papers.experiments.catalogue import EXPERIMENTS, experiment_of
from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import write_figure
from papers.experiments.join_targets import recall_trial
from papers.experiments.stages import CHANGES, UNCHANGED, Stage
from papers.experiments.sweep import CLAIRVOYANT, Row, Trial, measure, parts_of, run_all
from papers.reproduce import Reproduced, reproduce_experiment
from slackwater.cli.app import main
from slackwater.core.errors import UsageError

SHORT = Stage("dsyn4", seed=3, minutes=0.6)
PUBLISHED = [f"003-fig{n}" for n in range(6, 12)] + [f"004-fig4.{n}" for n in range(9, 21)]
PUBLISHED += ["002-fig7", "002-fig8", "002-fig9a", "002-fig9b", "002-fig9c", "002-fig13", "002-fig14"]
PUBLISHED += [f"000-fig{n}" for n in range(5, 11)] + ["000-live"]
PUBLISHED += ["001-sec2.3", "001-table2", *(f"001-fig{n}" for n in (5, 6, 8, 9, 10, 11)), "rate-or-time"]
PUBLISHED += ["004-table5.1", "004-fig5.8", "004-fig5.9", "004-fig5.10", "004-table5.2", "004-fig5.11"]
PUBLISHED += ["004-fig6.1", "004-table6.1", "004-table6.2", "004-fig6.6", "004-fig6.7", "004-fig6.8"]
PUBLISHED += ["003-table2", "004-table4.3", "004-table4.4", "changes", "hybrid-holistic", "steady-joins", "zoo"]
TICKS = [60.0 * n for n in range(1, 46)]


def made_up(trials: list[Trial]) -> Iterator[Row]:
    """Rows as trials would give them, with numbers that depend on the place alone."""
    for i, trial in enumerate(trials):
        stage, size = trial.stage, 1 + i % 7
        row: Row = {
            "workload": stage.workload, "seed": stage.seed, "minutes": stage.minutes, "window_s": stage.window_s,
            "change": getattr(trial, "query", stage.change), "way": trial.way, "target": trial.target,
            "period_s": trial.period_s, "parameter": trial.parameter, "value": trial.value,
            "offered": trial.way != "pd", "least_sizes": [10] * 6, "most_sizes": [250] * 6, "cost_us": 1.0,
            "latency_ms": 10.0 * size, "slack_ms": 8.0 * size, "recall": 0.9, "recall_min": 0.8, "phi": 0.99,
            "phi99": 1.0, "measurements": 100, "wrong": 1, "least_error": 0.1, "largest_error": 0.2,
            "share_within": {f"{x:g}": 0.5 for x in (0.0001, 0.001, 0.01, 0.05, 0.1)},
            "adaptation_ms": 0.1 * size, "adaptation_ms_p99": 0.2, "adaptation_share": 0.01,
            "recall_over_time": [(60.0 + t, 0.96) for t in range(600)], "slack_over_time": [(t, 9.0) for t in range(9)],
            "error_distribution": [(0.001, 0.5), (0.1, 0.9)], "results": 7,
            "comparisons": 10.0 * size, "comparisons_over_time": [9.0, 11.0], "service_us": 1.0 * size,
            "service_over_time": [0.9, 1.1], "response_s": 0.1 * size, "load": 0.1 * size, "switches": size % 2,
            "memory": 10.0 * size, "improvement": 0.1, "resident": 10.0 * size, "resident_peak": 20, "mb": 0.1 * size,
            "seconds": TICKS, "sizes": [[size] * 6 for _ in TICKS], "within": [[1.0]] * len(TICKS),
            "resident_over_time": [10 * size for _ in TICKS], "mb_over_time": [0.1 for _ in TICKS],
            "input_ms": 1.0, "window_ms": 2.0, "service_ms": 3.0, "sampling_us": 0.1, "algorithm_us": 0.1,
            "resizing_us": 0.1, "overhead_us": 0.3, "work_us": 1.0, "share": 0.001, "share_of_work": 0.1,
            "d_waits_over_time": [(n, 1.0) for n in range(60, 180)], "input_over_time": [(60, 1.0), (61, 2.0)],
            "computing_us": 1.0 * size, "adapting_us": 2.0, "adapting_total_ms": 3.0, "cursor_us": 0.1,
            "log_memory": 5.0, "candidates": size, "released": ["x"], "adaptations": 9,
            "latency_of": {f"Q{n}": 1.0 for n in range(1, 7)}, "phi_of": {f"Q{n}": 0.9 for n in range(1, 7)},
            "cpu_ms": 1.0 * size, "wall_ms": 2.0 * size, "plan": "rc", "best_plan": "rr", "in_database": 1,
            "operators": 2, "estimated_ms": 1.0,
            "ratio": 1.1, "holds": 9.0, "throughput": 3.0 * size, "row_throughput": 2.0, "column_throughput": 1.0,
            **{f"{name}_ms": 1.0 * size for name in ("chosen", "best", "row", "column", "with", "without")},
            **{f"{name}_wall_ms": 1.0 * size for name in ("chosen", "best", "row", "column")},
            "placements": [["rr", 1.0, 2.0, 3.0], ["rc", 1.5, 1.0, 2.0]], "feasible": True, "same": float(size % 2),
            **{f"{name}_bottleneck": 0.2 * size for name in ("with", "without")}, "with_plan": "rr",
            "without_plan": "rc", **{f"{name}_utilisation": 0.2 * size for name in ("with", "without")},
            **getattr(trial, "described", {}),
        }  # fmt: skip
        yield (
            row
            if row["offered"]
            else {**{k: row[k] for k in definition.SAME}, "seed": 0, "offered": False, "refused": "no"}
        )


def test_every_figure_and_table_of_the_issue_has_an_experiment() -> None:
    assert {experiment_of(name).id for name in PUBLISHED} == {one.id for one in EXPERIMENTS}


def test_no_two_experiments_share_a_name() -> None:
    names = [name for one in EXPERIMENTS for name in (one.id, *one.also)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.id)
def test_an_experiment_runs_several_seeds_and_quickly_only_one(one: Experiment) -> None:
    # What is timed alone on the machine has nothing random in it.
    assert {trial.stage.seed for trial in one.trials(Scale())} == ({0} if one.alone else {0, 1, 2})
    assert {trial.stage.seed for trial in one.trials(Scale(quick=True, seed=7))} == {7}


NOT_ON_WAITING = {
    "adaptation_ms",
    "comparisons",
    "response_s",
    "resident",
    "service_ms",
    "log_memory",
    "parameter",
    "cpu_ms",
}
"""Columns of experiments on something else: work, windows, or slack that is given and shared."""


@pytest.mark.parametrize(
    "one", [one for one in EXPERIMENTS if not NOT_ON_WAITING & set(one.columns)], ids=lambda one: one.id
)
def test_the_best_constant_stands_in_every_experiment_on_waiting(one: Experiment) -> None:
    assert any(trial.way == CLAIRVOYANT for trial in one.trials(Scale(quick=True)))


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.id)
def test_a_figure_is_drawn_and_claims_are_told_also_when_a_controller_is_missing(
    one: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is drawn is the same where its parts overlap; to find room for each of them takes most of the time.
    monkeypatch.setattr(figures, "Figure", lambda **given: Figure(**given | {"layout": "none"}))
    rows = list(made_up(one.trials(Scale(quick=True))))
    claims = one.claims(rows)
    assert claims
    assert all("pd" not in claim.says or claim.holds is None for claim in claims if claim.says.startswith("pd"))
    assert write_figure(one, rows, tmp_path).read_bytes().startswith(b"\x89PNG")


def test_a_controller_that_is_refused_gives_a_row_with_the_reason() -> None:
    (row,) = measure([Trial(SHORT, "oracle", "RECALL 0.9 OVER 10 SECONDS", "controller = 'oracle'")])
    assert not row["offered"]
    assert "oracle" in row["refused"]


def test_the_clairvoyant_row_meets_its_target_with_less_waiting_than_max_k_slack() -> None:
    best, most = measure([recall_trial(SHORT, CLAIRVOYANT, 0.97, 10), Trial(SHORT, "Max-K-slack", "COMPLETE")])
    assert best["phi"] >= 0.97
    assert best["slack_ms"] < most["slack_ms"]


def test_rows_come_in_the_order_of_the_trials_from_one_process_as_from_two() -> None:
    trials = [Trial(SHORT, str(slack), f"DELAY {slack} MILLISECONDS", period_s=10) for slack in (40, 0, 10, 30, 20, 50)]
    alone = run_all(trials, processes=1)
    together = run_all(trials, processes=2)
    assert [row["way"] for row in alone] == [trial.way for trial in trials]
    timeless = [{k: v for k, v in row.items() if k != "seconds"} for row in alone]
    assert timeless == [{k: v for k, v in row.items() if k != "seconds"} for row in together]


def test_searches_over_the_same_streams_stay_together() -> None:
    other = Stage("dsyn4", seed=4, minutes=0.6)
    trials = [recall_trial(stage, CLAIRVOYANT, target) for target in (0.9, 0.99) for stage in (SHORT, other)]
    assert parts_of(trials) == [[0, 2], [1, 3]]


def test_seeds_are_averaged_and_the_worst_is_kept() -> None:
    base = next(made_up([recall_trial(SHORT, "steady", 0.9)]))
    (row,) = over_seeds([base | {"phi": 1.0}, base | {"phi": 0.5, "seed": 9}])
    assert (row["phi"], row["phi_worst"], row["seeds"]) == (0.75, 0.5, 2)


def test_rows_that_are_not_offered_are_never_picked() -> None:
    assert pick([{"way": "pd", "offered": False}], way="pd") == []


def test_a_rise_where_the_paper_sees_a_fall_is_told() -> None:
    base = next(made_up([recall_trial(SHORT, "model", 0.9)]))
    rows = [base | {"target": target, "latency_ms": ms} for target, ms in ((0.9, 10.0), (0.95, 8.0), (0.99, 30.0))]
    assert definition.falls("", rows, "latency_ms", "target", rising=True).holds is False
    assert definition.falls("", rows[1:], "latency_ms", "target", rising=True).holds is True


def test_a_row_with_series_is_plain_data() -> None:
    rows = measure([replace(recall_trial(SHORT, way, 0.9, 10), series=True) for way in ("steady", CLAIRVOYANT)])
    assert json.loads(json.dumps(rows))[0]["recall_over_time"][0][1] == rows[0]["recall_over_time"][0][1]
    reported = changes.claims([row | {"change": change} for row in rows for change in (*CHANGES, UNCHANGED)])
    assert {type(claim.holds) for claim in reported} <= {bool, type(None)}


def test_steady_is_held_against_the_constant_and_the_model_of_its_own_release() -> None:
    rows = list(made_up(steady_joins.trials(Scale())))
    same = {"latency_ms": 100.0, "phi": 1.0, "phi99": 1.0}
    rows = [row | same for row in rows]
    assert all(claim.holds for claim in steady_joins.claims(rows))
    slow = [row | {"latency_ms": 151.0} if (row["way"], row["value"]) == ("steady", 500) else row for row in rows]
    held = {claim.says: claim.holds for claim in steady_joins.claims(slow)}
    assert [says for says, holds in held.items() if not holds] == [
        "epochs of 500 ms: steady waits at most max(1.5 times, + 20 ms) of the best constant",
        "epochs of 500 ms: steady never waits longer than the model",
    ]


def test_a_search_over_absent_recordings_gives_a_row_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLACKWATER_DATA", str(tmp_path))
    stages._made.cache_clear()
    missing = Stage("umts 2, 7")
    for row in measure([recall_trial(missing, way, 0.9) for way in (CLAIRVOYANT, "steady")]):
        assert not row["offered"]
        assert "absent" in row["refused"]


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UsageError, match="--list"):
        reproduce_experiment("003-fig99", True, 0, None, True)


def test_json_has_no_number_that_json_cannot_say() -> None:
    one = EXPERIMENTS[0]
    rows = [row | {"latency_ms": float("inf")} for row in made_up(one.trials(Scale(quick=True)))]
    reported = Reproduced(one, Scale(), rows, [Claim("a", "b", None)], Path("x.png")).as_json()
    assert json.loads(json.dumps(reported, allow_nan=False))["rows"][0]["latency_ms"] is None


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["slackwater", "reproduce", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_the_command_lists_what_there_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(monkeypatch, "--list", "--json") == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [one.id for one in EXPERIMENTS]


def test_the_command_without_an_experiment_says_how_to_find_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(monkeypatch) == 2
    assert "--list" in capsys.readouterr().err
