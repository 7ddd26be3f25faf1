"""Emissions on Spark: sinks that take changes and those that do not, DataFrames of changes, restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.core.errors import UsageError
from tests.spark.conftest import Streamed
from tests.spark.streams import counted, pieces

pytestmark = pytest.mark.xdist_group("spark")

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key"
CORRECTED = f"{JOIN} EMIT IN ORDER WITH CORRECTIONS WITH DELAY 20 MS"
AT_ONCE = f"{JOIN} EMIT ON ARRIVAL WITH DELAY 20 MS"


def test_sinks_that_only_append_refuse_changes_and_a_function_takes_them(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    frames = {"a": streamed("a", pieces(0, 3)), "b": streamed("b", pieces(1, 3))}
    with pytest.raises(UsageError, match="this sink only appends; name a table that is kept up to date"):
        sw.start(spark, CORRECTED, results=tmp_path / "out", checkpoint=tmp_path / "c", **frames)
    upsert = sw.upsert("postgres", "pairs", dsn="dbname=nowhere")
    with pytest.raises(UsageError, match="an upsert needs a key"):
        sw.start(spark, CORRECTED, results=upsert, checkpoint=tmp_path / "c", **frames)
    with pytest.raises(UsageError, match=r"slackwater.changes\(spark, query, ...\) gives them as a DataFrame"):
        sw.sql(spark, CORRECTED, **frames)
    with pytest.raises(UsageError, match="rows of this query change nothing"):
        sw.changes(spark, AT_ONCE, **frames)
    taken: list[dict[str, object]] = []

    def take(frame: DataFrame, number: int) -> None:
        taken.extend(row.asDict() for row in frame.collect())

    query = sw.start(
        spark, CORRECTED, results=take, late=tmp_path / "late", checkpoint=tmp_path / "checkpoint",
        trigger="available", flush=True, **frames,
    )  # fmt: skip
    assert isinstance(query, sw.RunningQuery)
    assert query.wait()
    done = query.progress().latest
    assert done is not None
    assert len(taken) == done.results + done.observed.amended > done.results
    assert {row["_change"] for row in taken} == {"insert"}


def test_changes_are_a_dataframe_and_results_on_arrival_are_those_of_one_process(
    spark: SparkSession, streamed: Streamed, finished: Callable[..., pa.Table]
) -> None:
    a, b = pieces(0, 3), pieces(1, 3)
    frames = {"a": streamed("a", a), "b": streamed("b", b)}
    arrived = finished(sw.sql(spark, AT_ONCE, shards=2, **frames))
    local = sw.replay(AT_ONCE, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2000))
    assert counted(arrived, "key", "av", "bv") == counted(local.results, "key", "av", "bv")
    changed = finished(sw.changes(spark, CORRECTED, shards=2, **frames), "changed")
    assert changed.column_names[-2:] == ["_change", "_version"]
    assert changed.num_rows > arrived.num_rows
