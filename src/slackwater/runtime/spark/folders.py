"""Folders that shards write themselves: the job that computes a micro-batch writes its rows as well.

A shard writes what it emits to a parquet file, in place of handing it on, so no row leaves the worker that made it. A
task writes under hidden names and says which files it has written; the driver then moves the files of each output into
the folder of the micro-batch, whole, in place of what the same micro-batch may have written before.

Invariant: `folder/batch=N` appears by one rename with all its files, those of one successful attempt of each task and
no others. Types are those that Spark gives the same rows. Only folders that this machine can reach as files are written
like this; any other sink gets its rows from Spark's own writers.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from slackwater.core.errors import SlackwaterError, writing
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.spark.output_schema import COLUMNS, ROWS, written_schema
from slackwater.runtime.spark.sinks import BATCH, Sink, Writer, local_path

WRITTEN = "written"
"""The kind of a line that tells of a file: its note has the kind of the rows in it, and its name."""
HIDDEN = ".slackwater"
"""Where a folder keeps files that are not published yet; Spark and Arrow pass by names that begin with a dot."""
DONE = "_SUCCESS"
"""An empty file in every published folder, as Spark's writers leave it."""
ROWS_AT_ONCE = 1 << 17
"""Rows of a row group, where there are as many."""
CODECS = {"uncompressed": "none", "none": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4_raw": "lz4"}
"""Spark's names of what compresses parquet files, and Arrow's."""
KINDS = {"results": ROWS, "late": LATE, "rejected": REJECTED}
"""What users call the outputs of a query, and the kinds of lines that they are emitted as."""


class Folder(NamedTuple):
    """A folder of parquet files on this machine, as the rows of one output go there."""

    path: str
    schema: pa.Schema
    columns: tuple[str, ...]
    """The emitted columns that are written, under the names of the schema."""
    codec: str


def folder_of(spark: SparkSession, plan: PhysicalPlan, what: str, sink: Writer) -> Folder | None:
    """The folder that an output can be written to here; None where Spark must write it."""
    if not isinstance(sink, Sink) or sink.format != "parquet" or set(sink.options) != {"path"}:
        return None
    path = local_path(spark, sink.options["path"])
    codec = CODECS.get(str(spark.conf.get("spark.sql.parquet.compression.codec", "snappy")))
    kind = KINDS[what]
    schema = written_schema(plan, kind)
    # Spark tells names apart without regard to case, and says so where it writes them itself.
    if path is None or codec is None or len({name.lower() for name in schema.names}) < len(schema.names):
        return None
    return Folder(path, schema, tuple(COLUMNS.get(kind, schema.names)), codec)


class FolderFile:
    """A file of a folder, written under a hidden name that nobody else has."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.name = f"part-{secrets.token_hex(8)}.parquet"
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        """Take rows; they are written as soon as there are enough for a row group."""
        self._waiting.append(fitted(rows, self._folder))
        self._rows += rows.num_rows
        if self._rows >= ROWS_AT_ONCE:
            self._write()

    def _write(self) -> None:
        with writing(Path(self._folder.path)):
            if self._writer is None:
                place = Path(self._folder.path, HIDDEN)
                place.mkdir(parents=True, exist_ok=True)
                self._writer = pq.ParquetWriter(place / self.name, self._folder.schema, compression=self._folder.codec)
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROWS_AT_ONCE)
        self._waiting, self._rows = [], 0

    def close(self) -> str:
        """Write what is left; the name of the file."""
        if self._waiting or self._writer is None:
            self._write()
        assert self._writer is not None
        self._writer.close()
        return self.name


class TaskFiles:
    """The files that one task writes, one for each output whatever number of shards it runs."""

    def __init__(self) -> None:
        self._files: dict[Any, FolderFile] = {}

    def add(self, output: Any, folder: Folder, rows: pa.Table) -> None:
        """Write rows of an output."""
        if output not in self._files:
            self._files[output] = FolderFile(folder)
        self._files[output].add(rows)

    def close(self) -> list[tuple[Any, str]]:
        """The names of the files by their outputs, now that all is written."""
        return [(output, file.close()) for output, file in self._files.items()]


def fitted(rows: pa.Table, folder: Folder) -> pa.Table:
    """Emitted rows with the columns and types that a folder has."""
    return rows.select(list(folder.columns)).rename_columns(folder.schema.names).cast(folder.schema)


def publish(folder: Folder, files: Sequence[str], number: int) -> None:
    """Let the rows of a micro-batch appear in a folder, in place of what it may have written before."""
    place = Path(folder.path, HIDDEN)
    for name in files:
        if not (place / name).exists():
            raise SlackwaterError(
                f"{folder.path}: {name}, which a worker has written, is not there on {socket.gethostname()}; name a"
                " folder that all machines share"
            )
    with writing(Path(folder.path)):
        whole, seen = place / "whole", Path(folder.path, f"{BATCH}={number}")
        whole.mkdir(parents=True)
        for name in files:
            os.rename(place / name, whole / name)
        if not files:
            # Who reads a folder without rows still finds its columns.
            pq.write_table(folder.schema.empty_table(), whole / "part-none.parquet", compression=folder.codec)
        (whole / DONE).touch()
        if seen.exists():
            os.rename(seen, place / "replaced")
        os.rename(whole, seen)


def tidy(folders: Iterable[Folder]) -> None:
    """Remove hidden files, which nobody needs between two micro-batches; a start may find those of one that died."""
    for folder in folders:
        shutil.rmtree(Path(folder.path, HIDDEN), ignore_errors=True)
