"""The command as a process of its own: exit codes, Ctrl-C, and nothing but words on its streams."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.cli.terminal import RunProgress
from tests.cli.conftest import Command, rows

SLACKWATER = [sys.executable, "-m", "slackwater.cli.app"]


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    pq.write_table(pa.table({"ts": [1, 2], "v": [1, 2]}), tmp_path / "s.parquet")
    (tmp_path / "query.sql").write_text("SELECT v FROM s WITH NO WAIT")
    return [str(tmp_path / "query.sql"), "--stream", f"s={tmp_path}/s.parquet"]


def test_exit_codes_tell_what_went_wrong(small: list[str], tmp_path: Path) -> None:
    query, _, stream = small
    out = ["--out", str(tmp_path / "out")]
    expected = {
        0: [query, "--stream", stream, *out],
        2: [query, "--stream", stream, "--epoch", "never", *out],
        3: [query, "--stream", "s=absent.parquet", *out],
    }
    for code, arguments in expected.items():
        done = subprocess.run([*SLACKWATER, "run", *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert (done.stderr == "") == (code == 0)


def test_ctrl_c_ends_a_long_run_cleanly(tmp_path: Path) -> None:
    """A join without a key over long windows takes far longer than this test waits."""
    count = 400_000
    times = np.arange(count, dtype=np.int64)
    for name in ("a", "b"):
        arrival = 2 * times + (name == "b")
        pq.write_table(pa.table({"arrival": arrival, "ts": times, "v": times % 1000}), tmp_path / f"{name}.parquet")
    text = "SELECT a.v AS av, b.v AS bv FROM a [60 SEC], b [60 SEC] WHERE abs(a.v - b.v * 7) < 0.5"
    (tmp_path / "query.sql").write_text(text)
    streams = [part for name in ("a", "b") for part in ("--stream", f"{name}={tmp_path}/{name}.parquet")]
    arguments = [*SLACKWATER, "run", str(tmp_path / "query.sql"), *streams, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # The folder is made when the run begins.
        deadline = time.monotonic() + 60
        while not (tmp_path / "out").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(3.0)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"] is True
    assert 0 < report["tuples"] < 2 * count
    parts = ("in_time", "late", "filtered", "rejected", "held")
    assert report["tuples"] == sum(report[part] for part in parts)
    assert report["results"] == rows(tmp_path / "out" / "results").num_rows


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_rows_are_written_is_an_interruption_too(
    command: Command, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, presses: int
) -> None:
    def press(bar: RunProgress) -> None:
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(RunProgress, "tick", press)
    assert command("run", *small, "--out", tmp_path / "out").code == 130
    assert command("verify", *small).code == 130
    assert (tmp_path / "out" / "report.json").exists() == (presses == 1), "a second Ctrl-C does not wait"
    assert signal.getsignal(signal.SIGINT) is before
