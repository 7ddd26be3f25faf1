"""Static relations on Spark: joined with streams by Spark itself, with the rows that tables give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.errors import DataError, UsageError
from slackwater.runtime.spark.relations import read
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
    with pytest.raises(UsageError, match=r"on Spark refresh is for sw\.start"):
        sw.sql(spark, query, a=frame, names=sw.lookup(lambda: NAMES, refresh="1 s"))
    with pytest.raises(UsageError, match="with refresh give checkpoint='folder'"):
        sw.start(spark, query, a=rate, results="nowhere", names=sw.lookup(lambda: NAMES, refresh="1 s"))


def test_queries_of_a_set_read_a_stream_with_their_relations_and_as_it_is(spark: SparkSession) -> None:
    a = pieces(0, 1)[0]
    streams: dict[str, Any] = {"a": spark.createDataFrame(a.to_pandas()), "names": sw.lookup(NAMES)}
    texts = {"named": "SELECT a.v, c.number FROM a JOIN names c ON a.key = c.id", "all": "SELECT v FROM a"}
    texts = {name: f"{text} WITH DELAY 1 MINUTE" for name, text in texts.items()}
    batch = sw.queries(spark, streams=streams, queries=texts, shards=2).all()
    for name, text in texts.items():
        alone = sw.replay(text, {"a": a, "names": sw.lookup(NAMES)}).results.drop_columns(["_ts"]).to_pylist()
        found = batch[name].results.drop("_ts").toArrow().to_pylist()
        assert Counter(map(repr, found)) == Counter(map(repr, alone))


def test_a_dataframe_looks_again_which_files_there_are(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7]}), tmp_path / "0.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert read(frame)["id"].to_pylist() == [7]
    pq.write_table(pa.table({"id": [8]}), tmp_path / "1.parquet")
    assert sorted(read(frame)["id"].to_pylist()) == [7, 8]


class Names:
    """Names that are others whenever they are read."""

    def __init__(self, first: int) -> None:
        self.read = first

    def __call__(self) -> list[dict[str, Any]]:
        self.read += 1
        return [{"id": f"k{key}", "number": 100 * self.read + key} for key in range(9)]


def test_a_micro_batch_that_runs_again_sees_the_version_that_it_saw_before(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    a = pieces(0, 5)
    frame, seen = streamed("a", a), {}

    def started(first: int, fails_at: int | None) -> Any:
        def each(batch: sw.MicroBatch) -> None:
            rows = batch.results.toArrow().to_pylist()
            numbers = {row["number"] // 100 for row in rows}
            assert len(numbers) <= 1, "all rows of a micro-batch see one version"
            seen.setdefault(batch.number, []).append(numbers)
            if batch.number == fails_at:
                raise RuntimeError("the driver dies")

        return sw.start(
            spark, "SELECT a.v, c.number FROM a JOIN names c ON a.key = c.id WITH NO WAIT EMIT ON ARRIVAL",
            trigger="available", foreach=each, checkpoint=str(tmp_path / "checkpoint"), a=frame,
            names=sw.lookup(Names(first), refresh="1 ms"),
        )  # fmt: skip

    with pytest.raises(Exception, match="the driver dies"):
        started(0, fails_at=2).wait()
    assert started(20, fails_at=None).wait()
    # The first version was read at the start, and one more with every micro-batch; the third one runs again.
    assert [seen[number] for number in range(5)] == [[{1}], [{2}], [{3}, {3}], [{22}], [{23}]]
    kept = sorted(path.name for path in (tmp_path / "checkpoint" / "slackwater-relations" / "c").iterdir())
    assert kept == ["0000000002.arrow", "0000000003.arrow", "0000000004.arrow"]
