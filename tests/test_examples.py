"""The examples run as they stand, and their last words are true."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="no Java: install one of 17 or newer")


@pytest.mark.xdist_group("spark")
def test_the_job_of_impressions_and_clicks_runs_from_start_to_flush(
    spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, on the session that tests share."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    program = runpy.run_path(str(EXAMPLES / "clicks.py"))
    assert program["main"]() == 0
    assert_it_tells_what_it_did(capsys.readouterr().out)


@pytest.mark.xdist_group("processes on spark")
@pytest.mark.long("the same in this process, above; tests/cli/test_spark.py has a process that is silent on Spark")
def test_the_job_of_impressions_and_clicks_is_a_process_that_says_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "clicks.py")], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert_it_tells_what_it_did(done.stdout)
    # All that Spark says on its own goes to its log.
    assert "WARN" not in done.stderr


def assert_it_tells_what_it_did(reported: str) -> None:
    assert reported.count("RECALL 0.95 OVER 1 min") >= 2
    assert "RECALL 0.99 OVER 1 min" in reported
    assert "the input has ended" in reported
    counts = re.search(r"([\d,]+) pairs, ([\d,]+) late rows, ([\d,]+) rejected rows", reported)
    assert counts is not None
    assert [int(count.replace(",", "")) > 0 for count in counts.groups()] == [True, True, True]
