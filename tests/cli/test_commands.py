"""verify, explain and workload."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Command, Written

Query = Callable[[str], Path]
JOIN = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.key = b.key AND a.v > 0 WITH "


@pytest.fixture
def two(parquet: Written) -> list[str]:
    times = [1000, 90_000, 92_000, 86_000, 94_000]
    a = parquet("a", arrival=[0, 2, 4, 6, 8], ts=times, key=[1, 2, 9, 2, 2], v=[1, 2, 1, 3, 0])
    b = parquet("b", arrival=[1, 3, 5, 7], ts=[1000, 90_500, 91_000, 95_000], key=[1, 2, 3, 2], v=[1, 2, 3, 4])
    return ["--stream", f"a={a}", "--stream", f"b={b}"]


def test_verify_counts_what_late_tuples_cost(command: Command, query: Query, two: list[str]) -> None:
    done = command("verify", query(JOIN + "NO WAIT"), *two, "--json")
    assert done.code == 0, done.err
    verdict = json.loads(done.out)
    assert {name: verdict[name] for name in ("results", "true_results", "missing", "missing_late")} == {
        "results": 3,
        "true_results": 4,
        "missing": 1,
        "missing_late": 1,
    }
    assert (verdict["missing_unexplained"], verdict["spurious"], verdict["out_of_order"]) == (0, 0, 0)
    assert verdict["recall_overall"] == 0.75
    assert verdict["late"] == 1
    assert verdict["tuples"] == verdict["in_time"] + verdict["late"] + verdict["filtered"] + verdict["rejected"]
    assert set(verdict["fulfilment"]) == {"0.9", "0.95", "0.99", "1"}
    assert [set(measured) for measured in verdict["measured"][:1]] == [{"t_ms", "recall"}]


def test_verify_prints_the_verdict_in_words(command: Command, query: Query, two: list[str]) -> None:
    done = command("verify", query(JOIN + "DELAY 10 SECONDS"), *two, "--epoch", "3")
    assert done.code == 0, done.err
    for word in ("results", "true_results", "missing_unexplained", "spurious", "out_of_order", "recall_overall", "Φ"):
        assert word in done.out


def test_verify_counts_as_it_verifies_rows(command: Command, query: Query, two: list[str]) -> None:
    for waiting in ("NO WAIT", "DELAY 10 SECONDS"):
        rows = json.loads(command("verify", query(JOIN + waiting), *two, "--json").out)
        counted = json.loads(command("verify", query(JOIN + waiting), *two, "--json", "--count").out)
        for name in ("results", "true_results", "missing_late", "missing_unexplained", "spurious", "late"):
            assert rows[name] == counted[name]


def test_verify_measures_the_error_of_aggregates(command: Command, query: Query, parquet: Written) -> None:
    path = parquet("s", ts=[0, 5000, 100, 6000], v=[1, 1, 1, 1], _ts=[0, 0, 0, 0])
    text = "SELECT SUM(v) AS n FROM s [RANGE 1 SECOND] WITH NO WAIT"
    verdict = json.loads(command("verify", query(text), "--stream", f"s={path}", "--json").out)
    assert verdict["measurements"]["of"] == "error"
    assert verdict["measurements"]["worst"] == 0.5
    assert verdict["fulfilment"]["0"] == pytest.approx(2 / 3)


def test_verify_refuses_what_it_cannot_do(command: Command, query: Query, two: list[str], parquet: Written) -> None:
    done = command("verify", query("EXPLAIN " + JOIN + "COMPLETE"), *two)
    assert (done.code, "EXPLAIN" in done.err) == (2, True)
    done = command("verify", query(JOIN + "COMPLETE"), *two, "--interval", "0 s")
    assert done.code == 2
    path = parquet("s", ts=[0, 1], _ts=[1, 2])
    done = command("verify", query("SELECT _ts + 1 AS v FROM s"), "--stream", f"s={path}")
    assert (done.code, "rename it" in done.err) == (2, True)


def test_explain_expects_of_windows_that_follow_rates_what_the_streams_show(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    """20, 5 and 1 a second, in windows of ten seconds: the fastest stream joins last, also where the query runs."""
    streams = []
    for at, (name, step) in enumerate((("a", 50), ("b", 200), ("c", 1000))):
        times = list(range(at, 60_000, step))
        streams += ["--stream", f"{name}={parquet(name, arrival=times, ts=times, v=times)}"]
    text = "SELECT a.v FROM a [RATE 10 s], b [RATE 10 s], c [RATE 10 s] MATCH TIME WITH NO WAIT"
    reported = command("explain", query(text), *streams)
    assert reported.code == 0, reported.err
    assert "order: (b ⨝ c) ⨝ a, because it is expected to keep least" in reported.out
    assert "(b ⨝ c) ⨝ a: 310 tuples in windows, " in reported.out
    assert "(a ⨝ b) ⨝ c: 460 tuples in windows, " in reported.out
    plain = command("explain", query(text + " OPTIONS (order = 'written')"), *streams)
    assert "order: (a ⨝ b) ⨝ c, because the query says so" in plain.out
    done = command("verify", query(text), *streams)
    assert (done.code, "one by one" in done.err) == (2, True), "refused before it runs"


def test_explain_prints_the_plan_as_a_tree(command: Command, query: Query, two: list[str], tmp_path: Path) -> None:
    plain = command("explain", query(JOIN + "DELAY 2 SECONDS"), *two)
    prefixed = command("run", query("EXPLAIN " + JOIN + "DELAY 2 SECONDS"), *two, "--out", tmp_path / "out")
    assert plain.code == prefixed.code == 0
    assert plain.out == prefixed.out
    assert not (tmp_path / "out").exists()
    for words in (
        "window join of 2 streams: a, b",
        "WITH DELAY 2 s",
        "b by hash on key",
        "filter v > 0",
        "output: av, bv, _ts",
    ):
        assert words in plain.out
    assert "counted by second" in command("explain", query(JOIN + "COMPLETE"), *two, "--count").out


def test_explain_gives_the_plan_as_data_and_as_a_picture(
    command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    text = JOIN + "DELAY 2 SECONDS"
    asked = command("explain", query("EXPLAIN (FORMAT JSON) " + text), *two)
    assert asked.code == 0, asked.err
    assert command("explain", query(text), *two, "--json").out == asked.out
    assert command("run", query("EXPLAIN (FORMAT JSON) " + text), *two).out == asked.out
    plan = json.loads(asked.out)
    assert [node["id"] for node in plan["nodes"] if node["kind"] == "slack"] == ["slack.a", "slack.b"]
    for name, magic in (("plan.png", b"\x89PNG"), ("plan.svg", b"<?xml")):
        drawn = command("explain", query(text), *two, "--figure", tmp_path / name)
        assert (drawn.code, drawn.out) == (0, command("explain", query(text), *two).out)
        assert (tmp_path / name).read_bytes().startswith(magic)
    refused = command("explain", query(text), *two, "--figure", tmp_path / "plan.txt")
    assert (refused.code, "name a file that ends in .png, .svg" in refused.err) == (2, True)


@pytest.mark.parametrize("name", ["soccer", "zoo/shift"])
def test_a_workload_can_be_run_as_it_says(command: Command, tmp_path: Path, name: str) -> None:
    done = command("workload", name, "--out", tmp_path / "w", "--minutes", "0.1", "--seed", "3")
    assert done.code == 0, done.err
    line = next(line for line in done.out.splitlines() if line.startswith("run it: slackwater "))
    arguments = line.removeprefix("run it: slackwater ").replace("DIR", str(tmp_path / "out")).split()
    ran = command(*arguments, "--epoch", "1 s")
    assert ran.code == 0, ran.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    written = sum(pq.read_metadata(file).num_rows for file in (tmp_path / "w").glob("*.parquet"))
    assert report["tuples"] == written


def test_an_unknown_workload_is_refused(command: Command, tmp_path: Path) -> None:
    done = command("workload", "dsyn5", "--out", tmp_path / "w")
    assert (done.code, "there is no workload 'dsyn5'" in done.err) == (2, True)
    done = command("workload", "soccer", "--out", tmp_path / "w", "--minutes", "-1")
    assert (done.code, "minutes" in done.err) == (2, True)


def test_reproduce_says_what_it_needs_where_the_experiments_are_not_installed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    done = command("reproduce", "--list")
    assert done.code == 2
    assert " ".join(done.err.split()) == (
        "error: `slackwater reproduce` needs the experiments in papers/ of the repository, which are not installed"
        " here: clone the repository and run `make setup` in it"
    )


def test_the_version_is_told(command: Command) -> None:
    from slackwater import __version__

    done = command("--version")
    assert (done.code, done.out.strip()) == (0, f"slackwater {__version__}")


def test_help_shows_what_options_are_by_default(command: Command) -> None:
    """Text in brackets that begins with a letter would be taken for a style."""
    shown = {
        name: " ".join(command(name, "--help").out.replace("\u2502", " ").split()) for name in ("run", "verify", "demo")
    }
    assert "advanced by it [default: local: 1; spark: 50000]." in shown["run"]
    assert "Spark: where it runs [default: local[*]]." in shown["run"]
    assert "[default: that of WITH RECALL, else 1 minute]" in shown["verify"]
    assert "page of the game [unless --fast]" in shown["demo"]
