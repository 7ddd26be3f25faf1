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
from pyspark.sql.pandas.types import from_arrow_schema

from benchmarks.inputs import FIELD_M, LATE_SHARE, MAX_DELAY_MS
from papers.workloads import dsyn3, uniform_stream

KEYS = 1000


@dataclass(frozen=True)
class Recorded:
    """Streams on disk."""

    folders: dict[str, Path]
    each: int
    """Tuples a file."""

    def streams(self, spark: SparkSession, size: int, format: str = "parquet") -> dict[str, DataFrame]:
        """File streams which together give `size` tuples a micro-batch; our own format reads the same files."""
        files = max(1, size // self.each // len(self.folders))
        made = {}
        for name, folder in self.folders.items():
            schema = from_arrow_schema(pq.read_schema(next(folder.iterdir())))
            reader = spark.readStream.format(format).schema(schema).option("maxFilesPerTrigger", files)
            made[name] = reader.load(str(folder))
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


def places_on_disk(folder: Path, tuples: int) -> Recorded:
    """Two streams of 330 tuples/s each, spread over a square field."""
    each = 3_300
    names = enumerate(("a", "b"))
    return Recorded(
        {
            name: _written(folder / f"{name}-at-{tuples}", tuples // 2, each, rate=330, seed=seed)
            for seed, name in names
        },
        each,
    )


def synthetic_on_disk(folder: Path, tuples: int) -> Recorded:
    """D_syn x3, 100 tuples/s each of three streams, with the delays of its recipe, in files of 100 s."""
    each = 10_000
    streams = dsyn3(seed=0, minutes=tuples / 18_000).streams
    return Recorded({name: _cut(folder / f"{name}-{tuples}", table, each) for name, table in streams.items()}, each)


def _written(folder: Path, tuples: int, each: int, rate: float, seed: int) -> Path:
    return _cut(
        folder,
        uniform_stream(tuples, rate, KEYS, seed, max_delay_ms=MAX_DELAY_MS, late_share=LATE_SHARE, field_m=FIELD_M),
        each,
    )


def _cut(folder: Path, table: pa.Table, each: int) -> Path:
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    for number, begin in enumerate(range(0, table.num_rows, each)):
        file = folder / f"{number:06d}.parquet"
        pq.write_table(table.slice(begin, each), file)
        # File streams go by modification time; files written in a row may share it.
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    return folder
