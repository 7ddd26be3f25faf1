"""Over Spark Connect, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs the extra: pip install 'slackwater[connect]'")

pytestmark = pytest.mark.xdist_group("processes on spark")
PROGRAM = Path(__file__).parent / "connected.py"


def test_streams_and_batches_are_answered_over_connect(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        rows = [{"ts": f"2026-01-01T00:00:0{i}.000Z", "k": f"k{i % 2}", "v": i} for i in range(1, 5)]
        (tmp_path / name / "0.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    reported = json.loads(done.stdout.strip().splitlines()[-1])
    # Pairs of one key that are at most two seconds apart.
    assert reported == {"plain": 8, "results": 8, "batch": 8}
