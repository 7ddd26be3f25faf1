"""Outer, semi and anti joins in shards: what one shard gives, and the local runtime; null keys among them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

import slackwater as sw
from slackwater import Epochs
from tests.effort import tried
from tests.spark.test_grids import CASES, check_shards, in_shards, rows, streams_of

LEFT = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 60 MS] LEFT JOIN b [RANGE 90 MS] ON a.name = b.name"
QUERIES = {
    "left": LEFT,
    "left, on arrival": f"{LEFT} EMIT ON ARRIVAL",
    "full": """SELECT a.v AS av, b.v AS bv, coalesce(a.name, b.name) AS who FROM a [RANGE 60 MS]
        FULL JOIN b [RANGE 90 MS] ON a.name = b.name AND a.x < b.x WHERE b.v IS NULL OR b.v <> 3""",
    "exists": """SELECT v, name FROM a [RANGE 60 MS]
        WHERE EXISTS (SELECT 1 FROM b [RANGE 90 MS] WHERE b.name = a.name)""",
    "anti": "SELECT v FROM a [RANGE 60 MS] LEFT ANTI JOIN b [RANGE 90 MS] ON a.name = b.name",
    "counted, above": """SELECT name, COUNT(*) AS n, COUNT(bv) AS found FROM (SELECT a.name, b.v AS bv
        FROM a [RANGE 60 MS] LEFT JOIN b [RANGE 90 MS] ON a.name = b.name) j [200 MS] GROUP BY name""",
    "three": f"{LEFT} LEFT JOIN c [80 MS] ON c.name = a.name AND c.x > b.x".replace("AS bv", "AS bv, c.v AS cv"),
    "by what may be missing": """SELECT a.v AS av, b.v AS bv, c.v AS cv FROM a [60 MS] FULL JOIN b [90 MS]
        ON a.name = b.name LEFT JOIN c [80 MS] ON c.name = b.name AND c.x > b.x""",
    "without a key": "SELECT a.v AS av, b.v AS bv FROM a [RANGE 9 MS] LEFT JOIN b [RANGE 9 MS] ON abs(a.x - b.x) < 0.2",
}


@pytest.mark.parametrize("name", QUERIES)
@tried(6)
@given(**CASES)
def test_any_number_of_shards_gives_what_one_gives(
    name: str, seed: int, target: str, tuples: int, shards: list[int]
) -> None:
    query = QUERIES[name]
    streams = streams_of(seed, "abc" if " c [" in query else "ab", 120)
    check_shards(f"{query} WITH {target}", streams, tuples, shards)


@tried(6)
@given(**CASES)
def test_corrections_are_alike_in_any_number_of_shards_and_come_to_what_a_local_run_comes_to(
    seed: int, target: str, tuples: int, shards: list[int]
) -> None:
    query = f"{LEFT} AND abs(a.x - b.x) < 0.1 EMIT IN ORDER WITH CORRECTIONS WITH {target}"
    streams, epochs = streams_of(seed, "ab", 120), Epochs(tuples=tuples)
    with TemporaryDirectory() as folder:
        made = [in_shards(query, streams, epochs, n, Path(folder, str(n)))[0].results for n in (1, *shards)]
    assert [rows(one) for one in made[1:]] == [rows(made[0])] * len(shards)
    # How late tuples fall into runs may differ, and so what is said and taken back at once.
    assert applied(made[0]) == applied(sw.replay(query, streams, epochs=epochs).results)


def applied(changes: pa.Table) -> Counter[tuple[str, ...]]:
    """What is there after all changes."""
    deletes = pc.equal(changes["_change"], "delete")
    plain = changes.drop_columns(["_change", "_version"])
    there = rows(plain.filter(pc.invert(deletes)))
    there.subtract(rows(plain.filter(deletes)))
    return +there


def test_a_target_on_recall_and_precision_is_measured_alike_in_any_number_of_shards(tmp_path: Path) -> None:
    query = f"{LEFT} AND abs(a.x - b.x) < 0.1 WITH RECALL 0.9 PRECISION 0.99 OVER 200 MS AT MOST 1 MS"
    streams, measured = streams_of(3, "ab", 300), []
    for shards in (1, 3):
        answer, _ = in_shards(query, streams, Epochs(tuples=40), shards, tmp_path / str(shards))
        seen = next(one for one in answer.report.values() if isinstance(one, dict) and "precision" in one)
        measured.append({name: seen[name] for name in ("good", "bad", "false", "precision")})
    assert measured[0] == measured[1]
    assert measured[0]["false"] > 0
