"""`run --checkpoint`, killed at any moment and repeated, ends with the files of a run that was left alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from tests.kit.processes import LIMIT, QUICK_JVM, Process, python
from tests.spark.streams import pieces

QUERIES = {
    "join": "SELECT a.key, a.v AS av, b.v AS bv FROM a [50 MS], b [50 MS] WHERE a.key = b.key WITH DELAY 100 MS",
    "aggregate": "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 400 MS SLIDE 100 MS] GROUP BY key"
    " WITH DELAY 100 MS",
    "fragments": "SELECT COUNT(*) AS n FROM (SELECT a.v FROM a [50 MS], b [50 MS] WHERE abs(a.v - b.v) < 0.1) j"
    " [RANGE 400 MS SLIDE 100 MS] WITH DELAY 100 MS",
    "target": "SELECT a.key, a.v AS av, b.v AS bv FROM a [50 MS], b [50 MS] WHERE a.key = b.key"
    " WITH RECALL 0.9 OVER 1 SECOND",
}
KILLS = int(os.environ.get("SLACKWATER_KILLS", "4"))
FACTS = ("tuples", "in_time", "late", "filtered", "rejected", "rejected_reasons", "held", "results")

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.long("test_packed_source.py: a cut is made once and found again by whoever comes next"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]


def begun(folder: Path, name: str, checkpoint: Path, out: Path) -> Process:
    """The command, in a session of its own."""
    streams = [f"--stream={alias}={folder / alias}.parquet" for alias in ("a", "b") if f"{alias} [" in QUERIES[name]]
    given = ["--runtime", "spark", "--shards", "2", "--master", "local[2]", "--epoch", "400", "--quiet", "--json"]
    command = python("-m", "slackwater.cli.app", "run", QUERIES[name], *streams, *given)
    command += ["--checkpoint", str(checkpoint), "--out", str(out)]
    return Process(command, folder / "log", {"JDK_JAVA_OPTIONS": QUICK_JVM})


def facts(out: Path) -> dict[str, Any]:
    """What a run has written: its rows as sorted text, and the counts of its report."""
    report = json.loads((out / "report.json").read_text())
    rows = {}
    for folder in sorted(path for path in out.rglob("*") if path.is_dir() and list(path.glob("*.parquet"))):
        table = pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))
        rows[str(folder.relative_to(out))] = sorted(map(str, table.to_pylist()))
    return {"counts": {name: report[name] for name in FACTS}, "rows": rows}


@pytest.mark.parametrize("name", QUERIES)
def test_a_run_that_is_killed_again_and_again_writes_what_one_left_alone_writes(name: str, tmp_path: Path) -> None:
    for seed, alias in enumerate("ab"):
        pq.write_table(pa.concat_tables(pieces(seed, 24, 400)), tmp_path / f"{alias}.parquet")
    alone = begun(tmp_path, name, tmp_path / "alone", tmp_path / "out-alone")
    took = time.monotonic()
    assert alone.ended() == 0
    took = time.monotonic() - took
    wanted = facts(tmp_path / "out-alone")
    assert wanted["counts"]["late"] > 0
    moments, kills, turn = random.Random(name), 0, 0
    while kills < KILLS:
        # A run that has come to its end has been killed a few times; then another one begins.
        turn += 1
        checkpoint, out = tmp_path / f"killed-{turn}", tmp_path / f"out-{turn}"
        ended = False
        while not ended:
            process = begun(tmp_path, name, checkpoint, out)
            try:
                # Early and late: while the JVM starts, while micro-batches are planned, run and committed.
                assert process.ended(moments.uniform(0.3, 1.0) * took if kills < KILLS else LIMIT) == 0
                ended = True
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
        assert facts(out) == wanted
    print(f"{name}: {kills} kills in {turn} runs")
