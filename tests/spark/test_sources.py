"""Sources and sinks that people have: the rate source, JSON, CSV and parquet files; memory, parquet and functions."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import slackwater as sw

pytestmark = pytest.mark.xdist_group("spark")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = [(NOON + timedelta(seconds=i), f"k{i % 2}", float(i)) for i in range(20)]
SCHEMA = "ts timestamp, k string, v double"
SUMS = "SELECT form, k, SUM(v) AS total FROM s [RANGE 10 SECONDS] GROUP BY form, k WITH NO WAIT"
TOTALS = {("k0", 20.0), ("k1", 25.0), ("k0", 70.0), ("k1", 75.0)}


def as_json(folder: Path) -> None:
    lines = [json.dumps({"ts": ts.isoformat(), "k": k, "v": v}) for ts, k, v in ROWS]
    (folder / "rows.json").write_text("\n".join(lines) + "\n")


def as_csv(folder: Path) -> None:
    (folder / "rows.csv").write_text("".join(f"{ts.isoformat()},{k},{v}\n" for ts, k, v in ROWS))


def as_parquet(folder: Path) -> None:
    columns = [list(column) for column in zip(*ROWS, strict=True)]
    pq.write_table(pa.table(columns, names=["ts", "k", "v"]), folder / "rows.parquet")


def test_files_of_any_format_are_read_and_flushed(spark: SparkSession, tmp_path: Path) -> None:
    """One stream of files of all formats; the sums of each are told apart."""
    streams = []
    for form, write in (("json", as_json), ("csv", as_csv), ("parquet", as_parquet)):
        (tmp_path / form).mkdir()
        write(tmp_path / form)
        read = spark.readStream.schema(SCHEMA).format(form).load(str(tmp_path / form))
        streams.append(read.withColumn("form", fn.lit(form)))
    seen: dict[str, list[tuple[str, float]]] = {"json": [], "csv": [], "parquet": []}

    def take(frame: DataFrame, number: int) -> None:
        for row in frame.collect():
            seen[row.form].append((row.k, row.total))

    query = sw.start(
        spark, SUMS, trigger="available", flush=True, results=take, s=streams[0].union(streams[1]).union(streams[2])
    )
    assert isinstance(query, sw.RunningQuery)
    query.wait()
    for form, totals in seen.items():
        assert set(totals) == TOTALS, form
        assert len(totals) == len(TOTALS), form


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
