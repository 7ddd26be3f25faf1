"""Streams that give one table a micro-batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import DataFrame, SparkSession

Streamed = Callable[[str, Sequence[pa.Table]], DataFrame]


def write_stream(spark: SparkSession, folder: Path, tables: Sequence[pa.Table]) -> DataFrame:
    """A file stream of these tables, one a micro-batch; more can be added to the same folder."""
    folder.mkdir(exist_ok=True)
    begin = len(list(folder.iterdir()))
    for i, table in enumerate(tables, begin):
        file = folder / f"{i:05d}.parquet"
        pq.write_table(table, file)
        # File streams go by modification time.
        os.utime(file, (1_000_000 + i, 1_000_000 + i))
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


@pytest.fixture
def streamed(spark: SparkSession, tmp_path: Path) -> Streamed:
    """File streams by their names."""
    return lambda name, tables: write_stream(spark, tmp_path / name, tables)


@pytest.fixture
def finished(tmp_path: Path) -> Callable[..., pa.Table]:
    """Run a streaming DataFrame over all that is there now; everything it has written so far."""

    def run(frame: DataFrame, name: str = "out") -> pa.Table:
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / name / "rows"))
            .option("checkpointLocation", str(tmp_path / name / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        run.progress = query.recentProgress  # type: ignore[attr-defined]
        return frame.sparkSession.read.parquet(str(tmp_path / name / "rows")).toArrow()

    return run
