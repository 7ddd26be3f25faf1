"""Keys that bring a large share of a micro-batch, and how evenly tuples are spread over shards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.values import total
from slackwater.observe.value import QueryProgress
from slackwater.observe.views import ProgressHistory
from slackwater.runtime.spark.members import KeyGroups, member
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.state.hot_keys import FEWEST, LEAST_SHARE, MOST, SAMPLE
from tests.effort import tried
from tests.spark.conftest import write_stream
from tests.spark.in_process import NAME, UNIT, hosted_alone, micro_batch, packer_for, planned

SUM = "SELECT {0}, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY {0} WITH NO WAIT"
JOIN = "SELECT a.v AS av FROM a [RANGE 1 MS], b [RANGE 1 MS] WHERE a.name = b.who WITH NO WAIT"
SHARDS = 4


def stream(names: Any, column: str = "name", **more: Any) -> pa.Table:
    """One tuple a millisecond with these keys."""
    times = pa.array(1_700_000_000_000 + np.arange(len(names)))
    return pa.table({"ts": times, column: names, "v": np.arange(len(names)), **more})


def skewed(n: int, hot: float, seed: int = 0) -> list[str]:
    """Keys of which one has a share of all tuples, and hundreds have the rest."""
    rng = np.random.default_rng(seed)
    return ["hot" if one < hot else f"k{int(one * 1e6) % 500}" for one in rng.random(n).tolist()]


def in_shards(query: str, streams: Mapping[str, pa.Table], folder: Path, shards: int = SHARDS) -> QueryProgress:
    """What shards in this process tell of one micro-batch, each as a task of its own."""
    cut = KeyGroups(shards, shards)
    one = member(NAME, 0, planned(query, streams), cut, UNIT)
    lines = [packer_for([one], source).packed(table, 0) for source, table in streams.items()]
    emitted = micro_batch(hosted_alone(one), cut, lines, str(folder), 0)
    found = total(QueryProgress.of_json(json.loads(line["note"])) for line in emitted if line["kind"] == METRICS)
    assert found is not None
    return found


def test_a_key_with_most_tuples_is_named_with_its_share_and_its_shard(tmp_path: Path) -> None:
    names = skewed(40_000, 0.5)
    seen = in_shards(SUM.format("name"), {"s": stream(names)}, tmp_path)
    share = names.count("hot") / len(names)
    (hot,) = seen.hot_keys
    assert hot.key == {"name": "hot"}
    assert hot.share == pytest.approx(share, abs=0.04)
    assert hot.rows == pytest.approx(names.count("hot"), rel=0.08)
    assert seen.taken == len(names)
    assert sum(seen.shares) == pytest.approx(1)
    assert seen.shares[hot.shard] == max(seen.shares) > share
    assert seen.imbalance == pytest.approx(4 * max(seen.shares))
    text = str(ProgressHistory((seen,)))
    assert f"the busiest of 4 shards had {max(seen.shares):.0%} of the tuples" in text
    assert "name = 'hot' has" in text
    assert "more than 2 shards do not help" in text


@given(seed=st.integers(0, 1000), n=st.integers(0, SAMPLE), keys=st.integers(1, 60))
@tried(24)
def test_small_micro_batches_are_counted_exactly(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, keys: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.minimum(rng.geometric(0.3, n), keys), rng.integers(0, 2, n) > 0
    names = list(map(str, rng.integers(0, 3, n).tolist()))
    query = "SELECT x, y, name, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY x, y, name WITH NO WAIT"
    streams = {"s": stream(pa.array(names, pa.string()), x=pa.array(x, pa.int64()), y=pa.array(y))}
    seen = in_shards(query, streams, tmp_path_factory.mktemp("state"), 2)
    counts = Counter(zip(x.tolist(), y.tolist(), names, strict=True))
    told = {tuple(one.key.values()): one.rows for one in seen.hot_keys}
    assert all(counts[key] == rows for key, rows in told.items())
    # The oracle: every key with a tenth of the tuples, unless a shard has too few to say, or there are many.
    certain = [key for key, count in counts.items() if count > 0.1 * n and count >= max(FEWEST, LEAST_SHARE * n)]
    assert set(told) == set(certain)
    assert [one.rows for one in seen.hot_keys] == sorted(told.values(), reverse=True)


def test_keys_that_come_in_turns_are_not_hot(tmp_path: Path) -> None:
    names = [f"k{number % 1000}" for number in range(512 * SAMPLE)]
    seen = in_shards(SUM.format("name"), {"s": stream(names)}, tmp_path)
    assert seen.hot_keys == ()
    assert seen.imbalance == pytest.approx(1, abs=0.2)
    assert "hot key" not in str(ProgressHistory((seen,)))


def test_a_join_counts_the_tuples_of_both_streams(tmp_path: Path) -> None:
    # Tuples of a key do not meet: there would be millions of pairs.
    a, b = stream(skewed(500, 0.4)), stream(skewed(250, 0.6, 1), "who")
    b = b.set_column(0, "ts", pa.array(1_700_000_900_000 + np.arange(250)))
    seen = in_shards(JOIN, {"a": a, "b": b}, tmp_path)
    both = a["name"].to_pylist().count("hot") + b["who"].to_pylist().count("hot")
    assert [(dict(one.key), one.rows) for one in seen.hot_keys] == [({"name": "hot"}, both)]


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("v % 2", 1, {"v % 2": 1}),
        ("name", None, {"name": None}),
        ("f", 0.5, {"f": 0.5}),
        ("d", "2024-05-01", {"d": "2024-05-01"}),
    ],
)
def test_keys_are_told_as_users_know_them(tmp_path: Path, key: str, value: Any, named: dict[str, Any]) -> None:
    n = 400
    table = stream([None] * n, f=[0.5] * n, d=pa.array(["2024-05-01"] * n).cast(pa.date32()))
    table = table.set_column(1, "name", pa.nulls(n, pa.string())).set_column(2, "v", pa.array([1] * n))
    (hot,) = in_shards(SUM.format(key).replace("SELECT v % 2", "SELECT v % 2 AS g"), {"s": table}, tmp_path).hot_keys
    assert hot.key == named
    assert hot.share == 1
    assert list(hot.key.values()) == [value]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] WITH NO WAIT",
        "SELECT a.v AS av FROM s a [RANGE 1 MS], s b [RANGE 1 MS] WHERE abs(a.v - b.v) < 1 WITH NO WAIT",
    ],
)
def test_a_query_without_a_key_has_no_hot_keys(tmp_path: Path, query: str) -> None:
    seen = in_shards(query, {"s": stream(["hot"] * 500)}, tmp_path)
    assert seen.hot_keys == ()
    assert seen.taken >= 500


def test_at_most_eight_keys_are_told(tmp_path: Path) -> None:
    names = [f"k{number % 11}" for number in range(1100)]
    seen = in_shards(SUM.format("name"), {"s": stream(names)}, tmp_path, 16)
    assert len(seen.hot_keys) == MOST
    assert {one.share for one in seen.hot_keys} == {1 / 11}


@pytest.mark.xdist_group("spark")
def test_spark_tells_the_hot_key_of_a_running_query(spark: SparkSession, tmp_path: Path) -> None:
    names = skewed(6000, 0.7)
    frame = write_stream(spark, tmp_path / "s", [stream(names)])
    query: Any = sw.start(
        spark, SUM.format("name"), s=frame, trigger="available", shards=2,
        results=str(tmp_path / "out"), checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    query.wait()
    seen = query.progress()
    assert seen.taken == len(names)
    assert seen.key_groups == 16
    hot = seen.hot_keys[0]
    assert hot.key == {"name": "hot"}
    assert hot.share == pytest.approx(names.count("hot") / len(names), abs=0.05)
    # Key groups take turns on the two shards.
    assert len(seen.shares) == 2
    assert max(seen.shares) == seen.shares[hot.shard % 2]
    assert seen.imbalance == pytest.approx(2 * max(seen.shares))
    assert seen.imbalance > 1.6
    assert "the busiest of 2 shards had" in str(seen)
    assert "name = 'hot' has" in str(seen)
