"""The examples run as they stand, in a process of their own, and their last words are true."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.xdist_group("spark, second half")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java: install one of 17 or newer")
def test_the_job_of_impressions_and_clicks_runs_from_start_to_flush() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "clicks.py")], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    reported = done.stdout
    assert reported.count("RECALL 0.95 OVER 1 min") >= 2
    assert "RECALL 0.99 OVER 1 min" in reported
    assert "the input has ended" in reported
    counts = re.search(r"([\d,]+) pairs, ([\d,]+) late rows, ([\d,]+) rejected rows", reported)
    assert counts is not None
    assert [int(count.replace(",", "")) > 0 for count in counts.groups()] == [True, True, True]
    # All that Spark says on its own goes to its log.
    assert "WARN" not in done.stderr
