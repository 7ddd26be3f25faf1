"""Engines as a user meets them: `calibrate` keeps costs, EXPLAIN goes by them and by what the recording has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.cli import calibrate
from slackwater.plan.placement.calibration import PlanToRun
from slackwater.plan.placement.costs import FILE, Costs, load_costs, save_costs
from slackwater.plan.placement.place import operator_costs
from slackwater.plan.placement.plan_cost import cost_of, parts_of
from tests.cli.conftest import Command

HIGH = """SELECT p.k, COUNT(*) AS high FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] p,
(SELECT k, l, MAX(v) AS top FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] WHERE w = 1 GROUP BY k, l) m
WHERE p.w = 1 AND p.k = m.k AND p.l = m.l AND p.v > 0.5 * m.top GROUP BY p.k"""


@pytest.fixture
def stream(tmp_path: Path) -> str:
    """A hundred tuples a second, every fourth of which is wanted, of five keys that go together with others."""
    n = np.arange(3000)
    key = n * 7 % 5
    table = pa.table({"ts": n * 10, "k": key, "l": key * 10, "w": (n % 4 == 0).astype(int), "v": (n % 100) / 100.0})
    pq.write_table(table, tmp_path / "s.parquet")
    return f"s={tmp_path / 's.parquet'}"


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(FILE, str(tmp_path / "costs.json"))
    return tmp_path / "costs.json"


def test_calibrate_keeps_costs_that_plans_go_by(
    command: Command, stream: str, costs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def three_times_slower(plan: PlanToRun) -> float:
        operators = operator_costs(plan.relation, plan.statistics, Costs())
        return 3 * cost_of(parts_of(operators, plan.placement)).utilisation

    monkeypatch.setattr(calibrate, "run_plan", three_times_slower)
    done = command("calibrate", "--json")
    told = json.loads(done.out)
    assert (done.code, told["file"]) == (0, str(costs))
    slower = [cost["measured"] / cost["shipped"] for cost in told["costs"].values()]
    assert np.median(slower) == pytest.approx(3, rel=0.1), "constants that hardly matter stay what they were"
    assert load_costs().measured.startswith("measured ")
    assert f"costs: {load_costs().measured}" in command("explain", HIGH, "--stream", stream).out
    assert "written to" in command("calibrate").out


def test_explain_counts_what_the_recording_has(command: Command, stream: str, costs: Path) -> None:
    text = command("explain", HIGH, "--stream", stream).out
    assert "made for 25 tuples/s of p (measured on the recording)" in text
    assert "aggregate MAX(v) by k, l" in text
    assert "│  · 5 rows at an instant" in text, "k and l go together"
    assert "runner-up: " in text
    assert "costs: shipped with slackwater" in text


def test_a_program_is_told_the_same_plan(command: Command, stream: str, costs: Path) -> None:
    table = pq.read_table(stream.removeprefix("s="))
    assert sw.explain(HIGH, s=table) == command("explain", HIGH, "--stream", stream).out.strip()
    assert "made for 1,000 tuples/s of p" in sw.explain(HIGH, s=table.schema), "no rows, so nothing is known"
    assert "made for 0 tuples/s of p (measured" in sw.explain(HIGH, s=table, time_unit="s")


def test_explain_says_when_no_plan_keeps_up_and_which_rate_is_held(command: Command, stream: str, costs: Path) -> None:
    save_costs(Costs(row_pair=0.1, column_pair=0.1, measured="a very slow machine"), costs)
    text = command("explain", HIGH, "--stream", stream).out
    assert "no plan keeps up with 25 tuples/s; this one holds " in text
    assert "No tuples are dropped" in text


def test_an_engine_that_is_asked_for_stays(command: Command, stream: str, costs: Path, tmp_path: Path) -> None:
    text = command("explain", f"{HIGH} OPTIONS (engine = 'column')", "--stream", stream).out
    assert "all in the database (column)" in text
    assert "as asked for" in text
    assert "changes while the query runs" not in text
    done = command("run", f"{HIGH} OPTIONS (engine = 'column')", "--stream", stream, "--out", tmp_path / "out")
    assert "3 in the database; as planned" in done.out
    refused = command("explain", "SELECT k FROM s OPTIONS (expected_rate = 5)", "--stream", stream)
    assert "option expected_rate is for queries over windows that slide together" in refused.err
