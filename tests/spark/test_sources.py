"""Sources and sinks that people have: the rate source, JSON, CSV and parquet files; memory, parquet and functions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw

pytestmark = pytest.mark.xdist_group("spark")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = [(NOON + timedelta(seconds=i), f"k{i % 2}", float(i)) for i in range(20)]
SCHEMA = "ts timestamp, k string, v double"
SUMS = "SELECT k, SUM(v) AS total FROM s [RANGE 10 SECONDS] GROUP BY k WITH NO WAIT"
TOTALS = {("k0", 20.0), ("k1", 25.0), ("k0", 70.0), ("k1", 75.0)}


def as_json(folder: Path) -> None:
    lines = [json.dumps({"ts": ts.isoformat(), "k": k, "v": v}) for ts, k, v in ROWS]
    (folder / "rows.json").write_text("\n".join(lines) + "\n")


def as_csv(folder: Path) -> None:
    (folder / "rows.csv").write_text("".join(f"{ts.isoformat()},{k},{v}\n" for ts, k, v in ROWS))


def as_parquet(folder: Path) -> None:
    columns = [list(column) for column in zip(*ROWS, strict=True)]
    pq.write_table(pa.table(columns, names=["ts", "k", "v"]), folder / "rows.parquet")


@pytest.mark.parametrize("write", [as_json, as_csv, as_parquet], ids=["json", "csv", "parquet"])
def test_files_of_any_format_are_read_and_flushed(
    spark: SparkSession, tmp_path: Path, write: Callable[[Path], None]
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    write(folder)
    form = write.__name__.removeprefix("as_")
    stream = spark.readStream.schema(SCHEMA).format(form).load(str(folder))
    seen: list[tuple[str, float]] = []

    def take(frame: DataFrame, number: int) -> None:
        seen.extend((row.k, row.total) for row in frame.collect())

    query = sw.start(spark, SUMS, trigger="available", flush=True, results=take, s=stream)
    assert isinstance(query, sw.RunningQuery)
    query.wait()
    assert set(seen) == TOTALS
    assert len(seen) == len(TOTALS)


def test_the_rate_source_goes_into_memory_and_into_files(spark: SparkSession, tmp_path: Path) -> None:
    rates = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    counts = sw.aggregate(rates, time="timestamp", window="1 second", select={"n": "COUNT(*)"}, quality=sw.no_wait())
    memory = counts.writeStream.format("memory").queryName("rated").start()
    files = counts.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    written = files.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    until = time.monotonic() + 120
    while time.monotonic() < until and not (
        spark.table("rated").count() and written.lastProgress and written.lastProgress["batchId"] >= 3
    ):
        time.sleep(0.5)
    for query in (memory, written):
        query.stop()
        assert query.exception() is None
    assert spark.table("rated").count() > 0
    # A second has two hundred rows, where its first and its last one are whole.
    assert spark.read.parquet(str(tmp_path / "rows")).where("n > 200").count() == 0
