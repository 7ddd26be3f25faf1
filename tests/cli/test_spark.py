"""The command line on Spark: the outputs of the local runtime, errors in one sentence, Ctrl-C, silence."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Command, rows

on_spark = pytest.mark.xdist_group("spark")

Query = Callable[[str], Path]
JOIN = "SELECT a.v AS av, b.v AS bv FROM a [100 MS], b [100 MS] WHERE a.k = b.k AND a.v <> 3 WITH DELAY 20 MS"
MICRO_BATCHES = 6


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(1)
    given = []
    for place, name in enumerate("ab"):
        n = 50 * MICRO_BATCHES
        ts = 10 * np.arange(n) - np.where(rng.random(n) < 0.2, rng.integers(0, 300, n), 0)
        times = pa.array(ts, mask=np.arange(n) == 7)
        columns = {"arrival": 2 * np.arange(n) + place, "ts": times, "k": rng.integers(0, 5, n), "v": np.arange(n)}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        given += ["--stream", f"{name}={tmp_path / name}.parquet"]
    return given


@on_spark
def test_a_folder_written_on_spark_is_the_one_written_locally(
    spark: Any, command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    outs = {name: tmp_path / name for name in ("local", "spark")}
    for name, out in outs.items():
        done = command("run", query(JOIN), *two, "--runtime", name, "--epoch", "400", "--out", out)
        assert (done.code, done.err) == (0, "")
        assert f"written to {out}" in done.out.replace("\n", "")
    files = [{path.relative_to(out) for path in out.rglob("*") if path.is_file()} for out in outs.values()]
    assert files[0] == files[1]
    reports = {name: json.loads((out / "report.json").read_text()) for name, out in outs.items()}
    assert set(reports["spark"]) - set(reports["local"]) == {"shards"}
    assert set(reports["local"]) <= set(reports["spark"])
    for fact in ("tuples", "in_time", "late", "filtered", "rejected", "rejected_reasons", "held", "results"):
        assert reports["spark"][fact] == reports["local"][fact]
    assert reports["local"]["late"] > 0 < reports["local"]["rejected"]
    for folder in ("results", "late/a", "late/b", "rejected/a", "rejected/b"):
        tables = [rows(out / folder) for out in outs.values()]
        assert tables[0].schema.equals(tables[1].schema), folder
        assert sorted(map(str, tables[0].drop_columns(_loose(folder)).to_pylist())) == sorted(
            map(str, tables[1].drop_columns(_loose(folder)).to_pylist())
        ), folder


def _loose(folder: str) -> list[str]:
    """The delay is measured against the clock as a shard knows it when the tuple comes."""
    return ["delay"] if folder.startswith("late") else []


WIDE = JOIN.replace("100 MS", "300 MS").replace("a.v <> 3", "a.v > 5")
FILE = f"""
CREATE QUERY pairs AS {JOIN};
CREATE QUERY "wide/pairs" AS {WIDE};
CREATE QUERY sums AS SELECT k, SUM(v) AS s FROM a [1 SECOND] WHERE v > 2 GROUP BY k WITH DELAY 1 SECOND;
CREATE QUERY fails AS SELECT k, v * 9000000000000000 * v AS s FROM b WHERE v < 200 WITH NO WAIT;
"""
"""Epochs are cut by the arrivals of all streams: so those that read both are cut as they are locally."""


@on_spark
def test_a_file_of_queries_is_one_set_on_spark(
    spark: Any, command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    outs = {name: tmp_path / name for name in ("local", "spark")}
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
    for name, out in outs.items():
        more = checkpoint if name == "spark" else []
        done = command("run", query(FILE), *two, "--runtime", name, "--epoch", "200", "--out", out, *more)
        assert done.code == 3
        assert "query fails failed: integer overflow" in done.out.replace("\n", "")
    streams = [path.name for path in (tmp_path / "checkpoint" / "streams").iterdir()]
    assert sorted(streams) == ["a", "b"], "each stream is there once, whoever reads it"
    for name in ("pairs", "wide%2Fpairs", "sums"):
        reports = {where: json.loads((out / name / "report.json").read_text()) for where, out in outs.items()}
        facts = ("tuples", "in_time", "late", "filtered", "rejected", "held", "results")
        if name == "sums":
            facts = ("tuples", "filtered", "rejected", "held", "results")
        else:
            assert reports["local"]["late"] > 0
            assert reports["spark"]["latency_ms"].keys() == reports["local"]["latency_ms"].keys()
        for fact in facts:
            assert reports["spark"][fact] == reports["local"][fact], (name, fact)
        tables = [sorted(map(str, rows(out / name / "results").to_pylist())) for out in outs.values()]
        assert tables[0] == tables[1] != [], name
        assert (outs["spark"] / name / "rejected" / "a").is_dir()
    failed = json.loads((outs["spark"] / "fails" / "report.json").read_text())
    assert "integer overflow" in failed["error"]
    # The same command finds everything done.
    again = command("run", query(FILE), *two, "--runtime", "spark", "--epoch", "200", "--out", tmp_path / "again",
                    *checkpoint)  # fmt: skip
    assert again.code == 3
    assert rows(tmp_path / "again" / "pairs" / "results").equals(rows(outs["spark"] / "pairs" / "results"))
    other = query(FILE.replace("v > 2", "v > 1"))
    refused = command("run", other, *two, "--runtime", "spark", "--epoch", "200", "--out", tmp_path / "x", *checkpoint)
    assert (refused.code, "it belongs to a run with other query and shards" in refused.err) == (2, True)


@on_spark
def test_verify_of_a_file_on_spark_judges_every_query(
    spark: Any, command: Command, query: Query, two: list[str]
) -> None:
    text = FILE.replace("20 MS", "1 SECOND")
    done = command("verify", query(text), *two, "--runtime", "spark", "--epoch", "1 s", "--shards", "2", "--json")
    assert done.code == 1
    judged = json.loads(done.out)["queries"]
    assert [name for name, one in judged.items() if one["sound"]] == ["pairs", "wide/pairs", "sums"]
    assert "integer overflow" in judged["fails"]["error"]
    for name in ("pairs", "wide/pairs", "sums"):
        assert (judged[name]["missing"], judged[name]["spurious"]) == (0, 0)
        assert judged[name]["results"] > 0


@on_spark
def test_verify_on_spark_gives_a_verdict(spark: Any, command: Command, query: Query, two: list[str]) -> None:
    patient = JOIN.replace("20 MS", "1 SECOND")
    done = command("verify", query(patient), *two, "--runtime", "spark", "--epoch", "2 s", "--shards", "2", "--json")
    assert (done.code, done.err) == (0, "")
    verdict = json.loads(done.out)
    assert (verdict["missing"], verdict["spurious"], verdict["out_of_order"]) == (0, 0, 0)
    assert verdict["results"] == verdict["true_results"] > 0
    assert (verdict["runtime"], verdict["shards"]) == ("spark", 2)


@on_spark
def test_an_error_in_a_worker_is_told_as_locally(spark: Any, command: Command, query: Query, tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [0, 1], "v": [2**62, 2**62]}), tmp_path / "s.parquet")
    text = query("SELECT SUM(v) AS w FROM s [1 SEC]")
    stream = ["--stream", f"s={tmp_path}/s.parquet"]
    reported = [command("verify", text, *stream, "--runtime", name) for name in ("local", "spark")]
    assert reported[0] == reported[1]
    assert reported[0].code == 3
    assert "integer overflow" in reported[0].err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--runtime", "spark", "--epoch", "1"], "Spark works in micro-batches and has no tuple release"),
        (["--runtime", "spark", "--shards", "0"], "--shards 0: there are from 1 to 100,000"),
        (["--runtime", "spark", "--trigger", "often"], "--trigger: "),
        (["--runtime", "spark", "--arrival-time", "arrival"], "--arrival-time is not offered on Spark"),
        (["--runtime", "flink"], "--runtime flink: it is local or spark"),
        (["--shards", "2"], "--shards is an option of --runtime spark"),
        (["--checkpoint", "x"], "--checkpoint is an option of --runtime spark"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_runtime_does_not_offer_is_refused(
    command: Command, query: Query, two: list[str], options: list[str], sentence: str
) -> None:
    done = command("verify", query(JOIN), *two, *options)
    assert (done.code, sentence in done.err) == (2, True), done.err
    assert len(done.err.splitlines()) == 1


def test_without_java_one_sentence_says_so(
    command: Command, query: Query, two: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = command("verify", query(JOIN), *two, "--runtime", "spark")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "Java 17 or newer is not found" in done.err


@on_spark
def test_a_process_on_spark_is_silent_stops_on_ctrl_c_and_goes_on(
    spark: Any, command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    """Micro-batches that begin five seconds apart leave half a minute to press the keys in."""
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    same = ["run", str(query(JOIN)), *two, "--runtime", "spark", "--shards", "2", "--epoch", "100"]
    same += ["--checkpoint", str(checkpoint), "--out", str(out)]
    arguments = [sys.executable, "-m", "slackwater.cli.app", *same, "--trigger", "5 s"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 180
        while not (checkpoint / "epochs" / "epoch-00000000.arrow").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        printed, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "")
    assert "interrupted" in printed
    report = json.loads((out / "report.json").read_text())
    parts = ("in_time", "late", "filtered", "rejected", "held")
    assert 0 < report["tuples"] == sum(report[part] for part in parts) < 100 * MICRO_BATCHES
    done = command(*same)
    assert (done.code, done.err) == (0, "")
    report = json.loads((out / "report.json").read_text())
    assert (report["interrupted"], report["tuples"]) == (False, 100 * MICRO_BATCHES)
    assert report["results"] == rows(out / "results").num_rows
