"""All shards of a query have one slack, and it is the one that a single shard would choose (004 Theorem 4.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from slackwater.runtime.spark.output_schema import METRICS, ROWS
from slackwater.runtime.spark.state.host import Hosted
from tests.effort import more
from tests.spark.in_process import cut_for, hosted_alone, micro_batch, one_worker, packed, planned, played_member

PAIRS = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE"
KEYED = f"{PAIRS} a.key = b.key WITH RECALL 0.9 OVER 2 S"
NEAR = f"{PAIRS} abs(a.x - b.x) < 3 WITH RECALL 0.9 OVER 2 S"
STAR = """SELECT a.v AS av, b.v AS bv, c.v AS cv FROM a [RANGE 50 MS], b [RANGE 50 MS], c [RANGE 50 MS]
    WHERE a.key = b.key AND a.x = c.x WITH RECALL 0.9 OVER 2 S"""
CHAIN = """SELECT j.v, c.v AS cv FROM
    (SELECT a.key, a.v FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key) j [RANGE 50 MS], c [RANGE 50 MS]
    WHERE j.key = c.key WITH RECALL 0.9 OVER 2 S"""
SUM = "SELECT key, SUM(v) AS total FROM a [RANGE 500 MS SLIDE 100 MS] GROUP BY key WITH ERROR 5% CONFIDENCE 90%"
MEDIAN = "SELECT key, MEDIAN(v) AS middle FROM a [RANGE 500 MS SLIDE 100 MS] GROUP BY key WITH ERROR 5% CONFIDENCE 90%"
ABOVE = """SELECT j.key, COUNT(*) AS n FROM
    (SELECT a.key, a.v FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key) j [RANGE 500 MS SLIDE 100 MS]
    GROUP BY j.key WITH ERROR 5% CONFIDENCE 90%"""
WHOLE = """SELECT SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 500 MS SLIDE 100 MS]
    WITH ERROR 5% CONFIDENCE 90% OPTIONS (shards_by = 'rows')"""
EPOCHS, LENGTH = 24, 200


class Played(NamedTuple):
    """What shards gave in each micro-batch."""

    slack: list[set[int]]
    rows: list[list[str]]
    late: int


def streams(seed: int, names: str = "abc") -> dict[str, pa.Table]:
    """A tuple every 2 ms: a fifth up to 0.8 s late, 2 s after half of them; and one in a hundred up to 4 s."""
    rng = np.random.default_rng(seed)
    n = EPOCHS * LENGTH
    made = {}
    for name in names:
        kind = rng.random(n)
        long = np.where(np.arange(n) < n // 2, 800, 2000)
        delay = np.where(kind < 0.2, rng.integers(0, long, n), np.where(kind > 0.99, rng.integers(0, 4000, n), 0))
        ts = 1_700_000_000_000 + 2 * np.arange(n) - delay
        columns = {"ts": ts, "key": rng.integers(0, 12, n), "x": rng.integers(0, 40, n), "v": rng.integers(0, 1000, n)}
        made[name] = pa.table(columns)
    return made


def play(query: str, tables: dict[str, pa.Table], shards: int, folder: Path) -> Played:
    one = played_member(planned(query, tables), shards)
    assert len(one.shards) == shards
    hosted: Hosted = hosted_alone(one)
    played = Played([], [], 0)
    late = 0
    folder.mkdir()
    read = {packing.plan.stream.source for packing in one.packings}
    for number in range(EPOCHS):
        pieces = {name: table.slice(number * LENGTH, LENGTH) for name, table in tables.items() if name in read}
        slack, rows, late = set(), [], 0
        for line in micro_batch(hosted, cut_for(shards), packed([one], pieces), str(folder), number):
            if line["kind"] == METRICS:
                found = json.loads(line["note"])
                slack.add(found["observed"]["slack"])
                late += found["observed"]["late"]
            elif line["kind"] == ROWS:
                rows += map(str, pa.ipc.open_stream(line["block"]).read_all().to_pylist())
        played.slack.append(slack)
        played.rows.append(sorted(rows))
    return played._replace(late=late)


QUERIES = {
    "keyed": KEYED,
    "near": NEAR,
    "star": STAR,
    "chain": CHAIN,
    "sum": SUM,
    "median": MEDIAN,
    "above": ABOVE,
    "whole": WHOLE,
}
FEW = ("above", "whole")


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        *((name, "one worker") for name in QUERIES),
        *((name, "new workers") for name in FEW),
        *more("one worker; new ones with others", *((name, "new workers") for name in QUERIES if name not in FEW)),
    ],
)
def test_four_shards_have_the_slack_the_results_and_the_late_tuples_of_one(
    name: str, workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = QUERIES[name]
    if workers == "one worker":
        one_worker(monkeypatch)
    tables = streams(5)
    alone = play(query, tables, 1, tmp_path / "one")
    four = play(query, tables, 4, tmp_path / "four")
    assert all(len(slack) == 1 for slack in four.slack)
    assert four.slack == alone.slack
    assert len(set().union(*alone.slack)) > 3, "slack never moved"
    assert four.rows == alone.rows
    assert four.late == alone.late > 0
