"""What differs between versions of PySpark, each way tried on the one that is installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.runtime.spark import packed_source, versions
from slackwater.runtime.spark.packed_source import FileStream, PackedReader, folder_read_by

pytestmark = pytest.mark.xdist_group("spark")
SCHEMA = pa.schema([("ts", pa.int64())])


def test_an_old_pyspark_and_a_python_without_distutils_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions.check_version()
    monkeypatch.setattr(versions, "VERSION", (3, 4))
    with pytest.raises(UsageError, match=r"is too old; install a newer one: pip install 'pyspark>=3.5'$"):
        versions.check_version()
    monkeypatch.setattr(versions, "VERSION", (3, 5))
    monkeypatch.setattr(versions, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the module distutils, which Python .*, or setuptools$"):
        versions.check_version()


def test_where_sources_cannot_be_written_in_python_ours_is_refused_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Reader:
        def format(self, given: str) -> str:
            return given

    monkeypatch.setattr(versions, "HAS_DATA_SOURCES", False)
    session: Any = SimpleNamespace(readStream=Reader())
    for _ in range(2):
        versions.register(session, FileStream)
    assert session.readStream.format("parquet") == "parquet"
    with pytest.raises(UsageError, match=r"^format\('slackwater'\) needs PySpark 4.0 or newer, and this is \S+; .*par"):
        session.readStream.format("slackwater")


def test_a_read_limit_is_refused_where_a_source_may_not_stop_short(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"ts": [1]}), tmp_path / "0.parquet")
    monkeypatch.setattr(packed_source, "HAS_READ_LIMITS", False)
    read = spark.readStream.format("slackwater")
    assert folder_read_by(read.load(str(tmp_path)), SCHEMA, True) is not None
    limited = read.option("maxFilesPerTrigger", 1).load(str(tmp_path))
    with pytest.raises(
        UsageError, match=r"maxFilesPerTrigger needs PySpark 4.2 or newer, and this is .*, or leave max"
    ):
        folder_read_by(limited, SCHEMA, True)


def test_a_source_that_is_not_told_where_it_stands_cuts_what_is_new(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    reads: Any = SimpleNamespace(folder=SimpleNamespace(at=str(folder), most_files=None), keys=["query.1"])
    for name, cut in (("0", 1), ("1", 2)):
        pq.write_table(pa.table({"ts": [1]}), folder / name)
        reader = PackedReader([reads], str(tmp_path / "log"), 1)
        # Whoever asks again, or is another process, is told the same.
        assert [reader.latestOffset(), reader.latestOffset()] == [{"cut": cut}, {"cut": cut}]
    partitions: list[Any] = list(reader.partitions({"cut": 0}, {"cut": 2}))
    assert [Path(file).name for one in partitions for file in one.files] == ["0", "1"]


def test_rows_are_in_the_partition_of_their_number_in_any_version(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(50).select((fn.col("id") % 5).cast("int").alias("shard"))
    for version in ((4, 0), versions.VERSION):
        monkeypatch.setattr(versions, "VERSION", version)
        found = versions.in_partition_of(rows, 5, fn.col("shard")).select("shard", fn.spark_partition_id()).distinct()
        assert sorted(map(tuple, found.collect())) == [(i, i) for i in range(5)]


def test_the_rows_of_a_dataframe_are_fetched_alike_in_any_version(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in (spark.range(3), spark.range(0)):
        wanted = versions.as_table(rows)
        with monkeypatch.context() as before:
            before.setattr(versions, "VERSION", (3, 5))
            assert versions.as_table(rows) == wanted
