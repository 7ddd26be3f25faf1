"""Aggregates and DISTINCT that change what has left, in shards: the table in the end is that of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

import slackwater as sw
from tests.spark.test_partials import counted, ran_by_files

__all__ = ["counted"]

ALL = "COUNT(*) AS n, SUM(v) AS total, MIN(v) AS low"
WINDOW = "FROM a [RANGE 200 MS SLIDE 100 MS]"
QUERIES = {
    "of partials": f"SELECT k, {ALL} {WINDOW} GROUP BY k EMIT IN ORDER WITH CORRECTIONS",
    "without groups": f"SELECT {ALL} {WINDOW} EMIT IN ORDER WITH CORRECTIONS",
    "kept whole": f"SELECT k, MEDIAN(v) AS mid {WINDOW} GROUP BY k EMIT IN ORDER WITH CORRECTIONS",
    "having": f"SELECT k, SUM(v) AS total {WINDOW} GROUP BY k HAVING total > 60 EMIT IN ORDER WITH CORRECTIONS",
    "early": f"SELECT k, {ALL} {WINDOW} GROUP BY k EMIT EARLY EVERY 50 MS WITH CORRECTIONS",
    "above a join": (
        "SELECT k, COUNT(*) AS n FROM (SELECT a.k, b.v FROM a [20 MS], b [20 MS] WHERE a.k = b.k) j [100 MS]"
        " GROUP BY k EMIT IN ORDER WITH CORRECTIONS"
    ),
    "above a join, by another key": (
        "SELECT v, COUNT(*) AS n FROM (SELECT a.k, b.v FROM a [20 MS], b [20 MS] WHERE a.k = b.k) j [100 MS]"
        " GROUP BY v EMIT IN ORDER WITH CORRECTIONS"
    ),
    "distinct": "SELECT DISTINCT k, v FROM a [RANGE 50 MS] EMIT IN ORDER WITH CORRECTIONS",
}
PACKED = ("of partials", "without groups", "having")
"""Those whose tuples travel as partial results."""


def stream(seed: int, tuples: int = 3000) -> pa.Table:
    random = np.random.default_rng(seed)
    ts = np.arange(tuples) + 10**6
    came = np.argsort(ts + (random.random(tuples) < 0.3) * random.integers(0, 600, tuples), kind="stable")
    k, v = random.integers(0, 6, tuples), random.integers(0, 4, tuples)
    arrival = 2 * np.arange(tuples) + seed
    return pa.table({"ts": ts[came], "arrival": arrival, "k": k, "v": v})


def table_of(rows: pa.Table) -> dict[Any, Any]:
    """What is there in the end, and versions without a hole."""
    names = [name for name in rows.column_names if name not in ("_change", "_version", "_expected_error")]
    keys = [name for name in names if name in ("window_start", "k", "_ts") or ("_ts" in names and name == "v")]
    keys += [] if "k" in keys or "v" not in names else ["v"]
    versions: dict[Any, dict[int, Any]] = {}
    for row in rows.to_pylist():
        versions.setdefault(tuple(row[name] for name in keys), {})[row["_version"]] = row
    for key, by_version in versions.items():
        assert sorted(by_version) == list(range(len(by_version))), f"versions of {key}"
    last = {key: by_version[max(by_version)] for key, by_version in versions.items()}
    return {key: tuple(row[n] for n in names) for key, row in last.items() if row["_change"] != "delete"}


@pytest.mark.parametrize("name", QUERIES)
def test_the_table_in_the_end_is_that_of_all_tuples(name: str, tmp_path: Path, counted: dict[str, int]) -> None:
    query = QUERIES[name]
    streams = {one: stream(seed) for seed, one in enumerate("ab") if f" {one} [" in query}
    shards = ran_by_files(f"{query} WITH DELAY 100 MS", streams, sw.Epochs(tuples=400), 3, tmp_path / "run")
    local = sw.replay(f"{query} WITH DELAY 100 MS", streams, epochs=sw.Epochs(tuples=400))
    true = sw.replay(f"{query} WITH DELAY 10 MINUTES", streams)
    assert table_of(shards.results) == table_of(local.results) == table_of(true.results)
    assert shards.results.num_rows > len(table_of(shards.results)), "nothing was corrected"
    assert (counted["partials"] > 0) == (name in PACKED)
