"""Static relations on Spark: joined with streams by Spark itself, with the rows that tables give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.errors import DataError, UsageError
from tests.spark.conftest import Streamed
from tests.spark.streams import pieces

pytestmark = pytest.mark.xdist_group("spark")

NAMES = [{"id": f"k{key}", "number": None if key == 1 else key} for key in (0, 1, 2, 2)]
JOIN = (
    "SELECT a.v AS av, b.v AS bv, c.id, c.number FROM a [RANGE 50 MS] {} JOIN names c ON a.key = c.id"
    " JOIN b [RANGE 50 MS] ON a.key = b.key WITH DELAY 1 SECOND"
)


def counted(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter((row["av"], row["bv"], row["id"], row["number"]) for row in rows)


@pytest.mark.parametrize("form", ["", "LEFT"])
def test_batch_rows_are_those_of_tables(spark: SparkSession, form: str) -> None:
    a, b = (pa.concat_tables(pieces(number, 2)) for number in (0, 1))
    local = sw.replay(JOIN.format(form), {"a": a, "b": b, "names": sw.lookup(NAMES)}, epochs=sw.Epochs())
    frames = {"a": spark.createDataFrame(a.to_pandas()), "b": spark.createDataFrame(b.to_pandas())}
    found = sw.sql(spark, JOIN.format(form), names=sw.lookup(NAMES), shards=2, **frames).toArrow().to_pylist()
    assert counted(found) == counted(local.results.to_pylist())
    assert {row["number"] for row in found} == {0, None, 2}


def test_a_started_query_joins_every_micro_batch_with_a_batch_dataframe(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    a, b = pieces(0, 3), pieces(1, 3)
    streams = {"a": pa.concat_tables(a), "b": pa.concat_tables(b), "names": sw.lookup(NAMES)}
    local = sw.replay(JOIN.format(""), streams, epochs=sw.Epochs(tuples=2000))
    names = spark.createDataFrame([(row["id"], row["number"]) for row in NAMES], "id string, number int")
    query = sw.start(
        spark, JOIN.format(""), trigger="available", flush=True, results=str(tmp_path / "out"),
        checkpoint=str(tmp_path / "checkpoint"), a=streamed("a", a), b=streamed("b", b), names=sw.lookup(names),
    )  # fmt: skip
    assert query.wait()
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    assert counted(found) == counted(local.results.to_pylist())
    assert len(found) > 100


def test_what_is_refused_is_said_by_its_name(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pieces(0, 1)[0].to_pandas())
    query = "SELECT a.v FROM a JOIN names c ON a.key = c.id"
    with pytest.raises(DataError, match="static relation names has id = 'k2' 2 times"):
        sw.sql(spark, query, a=frame, names=sw.lookup(NAMES, unique=True))
    with pytest.raises(DataError, match="keys are both whole numbers"):
        sw.sql(spark, query.replace("c.id", "c.number"), a=frame, names=sw.lookup(NAMES))
    with pytest.raises(UsageError, match="there is no 'it' in static relation names"):
        sw.sql(spark, query.replace("c.id", "c.it"), a=frame, names=sw.lookup(NAMES))
    rate = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="a streaming DataFrame"):
        sw.sql(spark, query, a=frame, names=sw.lookup(rate))
    with pytest.raises(UsageError, match="a set of queries does not take"):
        sw.queries(spark, streams={"a": frame, "names": sw.lookup(NAMES)}, queries={"q": query})
