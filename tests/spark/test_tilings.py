"""Joins by bands and distances in shards by place: what one shard gives, of whatever is told, and what the judge says.

Shards in process begin every micro-batch with what was written to their state, so each of them is a restart too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.plan.planner import plan
from slackwater.plan.tiling import Tiling
from slackwater.runtime.spark.members import KeyGroups, member
from slackwater.runtime.spark.query import packings_of
from slackwater.runtime.spark.state.checkpoint import difference, structure
from slackwater.sources.binding import bind_to_tables
from tests.effort import tried
from tests.spark.conftest import write_stream
from tests.spark.in_process import packer_for
from tests.spark.streams import counted
from tests.spark.test_grids import CASES, _tuples, check_missing, check_shards

PAIR = "SELECT a.v AS av, b.v AS bv, b.name AS who FROM a [RANGE 60 MS], b [RANGE 90 MS] WHERE "
QUERIES = {
    "a distance": PAIR + "dist(a.x, a.y, b.x, b.y) < 5",
    "a band": PAIR + "abs(a.x - b.x) < 5 AND a.v <> 3",
    "a band of integers": PAIR + "abs(a.k - b.k) <= 2",
    "a band of decimals": PAIR + "a.n BETWEEN b.n - 0.5 AND b.n + 1.5",
    "a band far away": PAIR + "a.x BETWEEN b.x + 40 AND b.x + 48 AND abs(a.k - b.k) < 9",
    "an integer and a float": PAIR + "abs(a.k - b.x) < 2.5",
    "held until they leave": PAIR.replace("SELECT", "SELECT DSTREAM") + "abs(a.x - b.x) < 5",
    "held and given again": PAIR.replace("SELECT", "SELECT RSTREAM EVERY 50 MS") + "dist(a.x, a.y, b.x, b.y) < 4",
    "of one stream": "SELECT p.v AS av, q.v AS bv FROM a AS p [RANGE 60 MS], a AS q [RANGE 90 MS]"
    " WHERE dist(p.x, p.y, q.x, q.y) < 5",
}


def streams_of(seed: int, n: int) -> dict[str, pa.Table]:
    """Two streams over a field; some tuples late, some far ahead, some without a time, some twice, some at borders of
    tiles, some nowhere."""
    rng = np.random.default_rng(seed)
    streams = {}
    for place, name in enumerate("ab"):
        count = n // (1 + place)
        ts = 1_700_000_000_000 + np.arange(count) * 4 * (1 + place)
        ts += np.where(rng.random(count) < 0.3, rng.integers(-60, 0, count), 0)
        ts += np.where(rng.random(count) < 0.03, 5000, 0)
        same = np.maximum(np.arange(count) - (rng.random(count) < 0.1), 0)
        k = rng.integers(-40, 40, count)[same]
        table = {
            "ts": pa.array(ts[same], mask=rng.random(count) < 0.03),
            "x": _coordinates(rng, count),
            "y": _coordinates(rng, count),
            "k": pa.array(k, mask=rng.random(count) < 0.05),
            "n": pa.array([None if rng.random() < 0.05 else Decimal(int(one)) / 4 for one in k], pa.decimal128(10, 2)),
            "v": np.arange(count)[same] % 50,
            "name": pa.array([f"n{at}" for at in rng.integers(0, 4, count)], mask=rng.random(count) < 0.2),
        }
        streams[name] = pa.table({"arrival": np.arange(count) * (1 + place) * 2 + place, **table})
    return streams


def _coordinates(rng: np.random.Generator, count: int) -> pa.Array:
    values = rng.random(count) * 120 - 60
    at_borders = rng.random(count) < 0.3
    values[at_borders] = rng.integers(-4, 5, at_borders.sum()) * 20.0 + rng.choice([-5.0, 0.0, 5.0], at_borders.sum())
    odd = rng.random(count) < 0.05
    values[odd] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -0.0], odd.sum())
    return pa.array(values, mask=rng.random(count) < 0.05)


@pytest.mark.parametrize("name", QUERIES)
@tried(6)
@given(**CASES)
def test_any_number_of_shards_gives_what_one_gives(
    name: str, seed: int, target: str, tuples: int, shards: list[int]
) -> None:
    # A row that is read under two names comes to both in one micro-batch; locally an odd epoch would part the two.
    check_shards(f"{QUERIES[name]} WITH {target}", streams_of(seed, 160), tuples + tuples % 2, shards)


def test_what_is_missing_is_explained_by_late_tuples(tmp_path: Path) -> None:
    query = f"{QUERIES['a distance']} WITH DELAY 15 MS OPTIONS (max_ahead = 100 ms)"
    check_missing(query, streams_of(7, 1200), tmp_path)


def packings(query: str, streams: dict[str, pa.Table], shards: int = 4) -> list[Any]:
    return packings_of(plan(bind_to_tables(query, streams, "ts").query), (5, 1, 2, 0)[:shards], "ms", tasks=2)


def test_where_a_tuple_goes_hangs_on_its_words_alone() -> None:
    """A micro-batch that runs again may be cut differently into partitions, and one shard of it may have been done."""
    streams = streams_of(3, 600)
    a, b = packings(QUERIES["a distance"], streams)
    assert isinstance(a.cut, Tiling)
    for packing, table in ((a, streams["a"]), (b, streams["b"])):
        straight = _tuples(packing, [table])
        again = _tuples(packing, [table.slice(200).take(pa.array(range(99, -1, -1))), table.slice(300), table[:200]])
        assert again == straight
        assert min(sum(one.values()) for one in straight) > 50
    # Streams are sent in their order, whatever the number of shards.
    alone = _tuples(packings(QUERIES["a distance"], streams, 1)[0], [streams["a"]])
    assert sum(_tuples(a, [streams["a"]]), Counter()) == alone[0]
    copied = sum(_tuples(b, [streams["b"]]), Counter())
    assert 1.2 < copied.total() / len(copied) < 2.0


@pytest.mark.parametrize("condition", ["dist(a.x, a.y, b.x, b.y) < 5", "a.v <> b.v"])
def test_queries_of_a_set_share_no_lines_where_a_stream_has_another_part(condition: str) -> None:
    """In one query it is the home stream, in the other it is copied; or it is cut along another side of the grid."""
    streams, labels = streams_of(0, 20), (3, 0, 2, 1)
    texts = [
        f"SELECT a.v AS av, b.v AS bv FROM {order} WHERE {condition} WITH NO WAIT"
        for order in ("a [60 MS], b [60 MS]", "b [60 MS], a [60 MS]", "a [60 MS], b [60 MS]")
    ]
    plans = [plan(bind_to_tables(text, streams, "ts").query) for text in texts]
    members = [member(f"q{n}", n, one, KeyGroups(4, 2), "ms") for n, one in enumerate(plans)]
    # Those of one name have their shards in the same order.
    members = [replace(one, packings=tuple(replace(p, shards=labels) for p in one.packings)) for one in members]
    assert [one.keys for one in packer_for(members, "a").readers] == [["q0.0", "q2.2"], ["q1.1"]]


def test_a_checkpoint_that_was_cut_in_another_way_is_refused() -> None:
    streams = streams_of(0, 20)

    def kept(condition: str, labels: tuple[int, ...], **rates: float) -> str:
        physical = plan(bind_to_tables(f"{PAIR}{condition} WITH NO WAIT", streams, "ts").query)
        return structure(physical, labels, "ms", timed=False)

    four = (0, 1, 2, 3)
    tiles = kept("abs(a.x - b.x) < 5", four)
    assert difference(tiles, kept("abs(a.x - b.x) < 5", four)) is None
    assert "conditions differ" in (difference(tiles, kept("abs(a.x - b.x) < 6", four)) or "")
    assert "another number of shards" in (difference(tiles, kept("abs(a.x - b.x) < 5", (0, 1))) or "")


@pytest.mark.xdist_group("spark")
def test_any_number_of_tasks_goes_on_with_a_checkpoint_and_gives_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams = streams_of(5, 1800)
    query = f"{QUERIES['a distance']} WITH DELAY 15 MS"
    found = {}
    for name, shards, groups in (("one", (1, 1, 1), 1), ("many", (2, 4, 3), 4)):
        place = tmp_path / name
        place.mkdir()
        for turn, count in enumerate(shards):
            frames = {}
            for alias, table in streams.items():
                each = table.num_rows // 6
                write_stream(spark, place / alias, [table.slice((2 * turn + at) * each, each) for at in (0, 1)])
                reader = spark.readStream.format("slackwater").option("maxFilesPerTrigger", 1)
                frames[alias] = reader.load(str(place / alias))
            folders = {kind: str(place / kind) for kind in ("results", "late", "rejected", "checkpoint")}
            running = sw.start(
                spark, query, shards=count, key_groups=groups, trigger="available", flush=turn == 2, **folders, **frames
            )
            assert isinstance(running, sw.RunningQuery)
            assert running.wait()
        rows = {kind: spark.read.parquet(folders[kind]).toArrow() for kind in ("results", "late", "rejected")}
        seen = running.progress()
        assert seen.late == rows["late"].num_rows > 0
        counts = (seen.in_time, seen.late, seen.rejected, seen.filtered, seen.held, seen.results)
        found[name] = counts, {kind: counted(table) for kind, table in rows.items()}
        assert seen.key_groups == groups
        assert len(list((place / "checkpoint" / "slackwater-state" / str(count)).glob("[0-9]*"))) == count
    assert found["one"] == found["many"]
