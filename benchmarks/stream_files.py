"""Benchmark streams as files: one micro-batch reads so many of them.

Invariant: a stream is cut into files of equal size in arrival order; file times give Spark their order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.inputs import LATE_SHARE, MAX_DELAY_MS
from slackwater.workloads import uniform_stream

KEYS = 1000


@dataclass(frozen=True)
class Recorded:
    """Streams on disk."""

    folders: dict[str, Path]
    each: int
    """Tuples a file."""

    def streams(self, spark: SparkSession, size: int) -> dict[str, DataFrame]:
        """File streams which together give `size` tuples a micro-batch."""
        files = max(1, size // self.each // len(self.folders))
        made = {}
        for name, folder in self.folders.items():
            schema = spark.read.parquet(str(folder)).schema
            made[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))
        return made


def readings_on_disk(folder: Path, tuples: int) -> Recorded:
    """One stream of 10,000 tuples/s."""
    each = 100_000
    return Recorded({"s": _written(folder / f"readings-{tuples}", tuples, each, rate=10_000, seed=1)}, each)


def pairs_on_disk(folder: Path, tuples: int) -> Recorded:
    """Two streams of 1,000 tuples/s each."""
    each = 10_000
    names = enumerate(("a", "b"))
    return Recorded(
        {name: _written(folder / f"{name}-{tuples}", tuples // 2, each, rate=1_000, seed=seed) for seed, name in names},
        each,
    )


def _written(folder: Path, tuples: int, each: int, rate: float, seed: int) -> Path:
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    table: pa.Table = uniform_stream(tuples, rate, KEYS, seed, max_delay_ms=MAX_DELAY_MS, late_share=LATE_SHARE)
    for number, begin in enumerate(range(0, tuples, each)):
        file = folder / f"{number:06d}.parquet"
        pq.write_table(table.slice(begin, each), file)
        # File streams go by modification time; files written in a row may share it.
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    return folder
