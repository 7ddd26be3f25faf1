"""Outer, semi and anti joins in shards: what one shard gives, and what the local runtime gives; null keys among them."""

from __future__ import annotations

import pytest
from hypothesis import given

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from tests.effort import tried
from tests.spark.test_grids import CASES, check_shards, streams_of

QUERIES = {
    "left": "SELECT a.v AS av, b.v AS bv FROM a [RANGE 60 MS] LEFT JOIN b [RANGE 90 MS] ON a.name = b.name",
    "full": """SELECT a.v AS av, b.v AS bv, coalesce(a.name, b.name) AS who FROM a [RANGE 60 MS]
        FULL JOIN b [RANGE 90 MS] ON a.name = b.name AND a.x < b.x WHERE b.v IS NULL OR b.v <> 3""",
    "exists": """SELECT v, name FROM a [RANGE 60 MS]
        WHERE EXISTS (SELECT 1 FROM b [RANGE 90 MS] WHERE b.name = a.name)""",
    "anti": "SELECT v FROM a [RANGE 60 MS] LEFT ANTI JOIN b [RANGE 90 MS] ON a.name = b.name",
    "without a key": "SELECT a.v AS av, b.v AS bv FROM a [RANGE 9 MS] LEFT JOIN b [RANGE 9 MS] ON abs(a.x - b.x) < 0.2",
}


@pytest.mark.parametrize("name", QUERIES)
@tried(6)
@given(**CASES)
def test_any_number_of_shards_gives_what_one_gives(
    name: str, seed: int, target: str, tuples: int, shards: list[int]
) -> None:
    check_shards(f"{QUERIES[name]} WITH {target}", streams_of(seed, "ab", 120), tuples, shards)


def test_a_target_on_recall_and_precision_is_measured_alike_in_any_number_of_shards(tmp_path) -> None:
    from slackwater import Epochs
    from tests.spark.test_grids import in_shards

    query = f"{QUERIES['left']} WITH RECALL 0.9 PRECISION 0.99 OVER 200 MS AT MOST 1 MS"
    streams, measured = streams_of(3, "ab", 300), []
    for shards in (1, 3):
        answer, _ = in_shards(query, streams, Epochs(tuples=40), shards, tmp_path / str(shards))
        seen = next(one for one in answer.report.values() if isinstance(one, dict) and "precision" in one)
        measured.append({name: seen[name] for name in ("good", "bad", "false", "precision")})
    assert measured[0] == measured[1]
    assert measured[0]["false"] > 0
