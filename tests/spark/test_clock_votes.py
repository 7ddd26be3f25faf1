"""Shards hold the same vote about clocks as the local runtime does in epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.cli.prepare import Runtime, prepare, runtime_of
from slackwater.cli.run import run_query
from slackwater.core.time import SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.workloads import disorder
from tests.spark.in_process import InProcess


def outcome(member: str, folder: Path, runtime: Runtime) -> dict[str, Any]:
    """The verdicts on the tuples of a member."""
    workload = disorder.zoo(member, seed=3, minutes=0.5)
    folder.mkdir(parents=True)
    for name, table in workload.streams.items():
        pq.write_table(table, folder / f"{name}.parquet")
    (folder / "query.sql").write_text(workload.query.replace("COMPLETE", "DELAY 1 SECOND"))
    given = [f"{name}={folder / name}.parquet" for name in workload.streams]
    prepared = prepare(folder / "query.sql", given, "ts", "ms", {})
    run_query(prepared, runtime, folder / "out", False, None, quiet=True)
    reported: dict[str, Any] = {}
    for what in ("late", "rejected"):
        rows = [
            row
            for part in sorted((folder / "out" / what).glob("*/*.parquet"))
            for row in pq.read_table(part).to_pylist()
        ]
        reported[what] = sorted((row["stream"], row["arrival"], row.get("watermark")) for row in rows)
    results = [
        row
        for part in sorted((folder / "out" / "results").glob("*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]
    return reported | {"results": sorted((row["_ts"], row["one"], row["other"]) for row in results)}


@pytest.mark.xdist_group("spark")
@pytest.mark.long("the same of shards in process, below")
@pytest.mark.parametrize(("member", "counts"), [("jumps", (1, 2, 4)), ("ahead", (2,)), ("behind", (2,))])
def test_shards_decide_as_the_local_runtime_does(
    spark: Any, tmp_path: Path, member: str, counts: tuple[int, ...]
) -> None:
    local = outcome(member, tmp_path / "local", runtime_of("local", "5 s"))
    assert local["rejected"] or member == "behind"
    assert local["results"]
    for shards in counts:
        assert outcome(member, tmp_path / str(shards), runtime_of("spark", "5 s", shards)) == local, shards


@pytest.mark.parametrize("member", ["jumps", "ahead", "behind"])
def test_one_two_and_four_shards_decide_as_the_local_runtime_does(tmp_path: Path, member: str) -> None:
    local = outcome(member, tmp_path / "local", runtime_of("local", "5 s"))
    assert local["rejected"] or member == "behind"
    assert local["results"]
    for shards in (1, 2, 4):
        runtime = InProcess(Epochs(span=5 * SECOND), shards, tmp_path / f"run{shards}")
        assert outcome(member, tmp_path / str(shards), runtime) == local, shards
