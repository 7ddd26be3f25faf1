"""`slackwater run --metrics --log`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.cli.options import Shown
from slackwater.cli.prepare import prepare_query, runtime_of
from slackwater.cli.run import run_query
from slackwater.core.errors import UsageError
from slackwater.observe.report import Report


def ran(tmp_path: Path, asked: Shown, text: str = "SELECT SUM(v) AS n FROM s [RANGE 1 S]") -> Report:
    pq.write_table(pa.table({"ts": [1, 1500, 900, 4000], "v": [1, 2, 3, 4]}), tmp_path / "s.parquet")
    where = runtime_of("local", None, None, None, None, None)
    prepared = prepare_query(text + " WITH DELAY 1 S", [f"s={tmp_path / 's.parquet'}"], "ts", "ms", {})
    return run_query(prepared, where, tmp_path / "out", False, None, True, "sums", asked)


def test_a_run_tells_its_events_and_where_its_metrics_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = ran(tmp_path, Shown(metrics=0, log=tmp_path / "events.log"))
    assert "metrics: http://127.0.0.1:" in capsys.readouterr().err
    events = [json.loads(line) for line in (tmp_path / "events.log").read_text().splitlines()]
    assert [event["event"] for event in events] == ["started", "ended"]
    assert events[-1]["query"] == "sums"
    assert events[-1]["results"] == report.as_json()["results"]


def test_a_run_that_fails_says_so_in_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slackwater.sinks.folder.OutputFolder.report", broken)
    monkeypatch.setattr("slackwater.cli.run.interruptible", broken)
    with pytest.raises(OSError, match="No space"):
        ran(tmp_path, Shown(log=tmp_path / "events.log"))
    events = [json.loads(line) for line in (tmp_path / "events.log").read_text().splitlines()]
    assert events[-1]["event"] == "failed"
    assert "No space left" in events[-1]["said"]


def test_what_cannot_be_opened_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        ran(tmp_path, Shown(log=tmp_path / "nowhere" / "events.log"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="choose another port"):
            ran(tmp_path, Shown(metrics=taken.getsockname()[1]))
