"""Folders that shards write themselves: the job that computes a micro-batch writes its rows as well.

A shard writes what it emits to a parquet file, in place of handing it on, so no row leaves the worker that made it. A
task says which files it has written; any other sink gets its rows from Spark's own writers.

On a disk a task writes under hidden names; the driver then moves the files of each output into the folder of the
micro-batch, whole, in place of what the same micro-batch may have written before. On another store nothing can be
moved. There a task writes into the folder of the micro-batch under a name of its own, which all attempts have in
common: a micro-batch makes the same of the same, so any whole file of that name is right. What has no business there,
since it was written by other tasks, the driver removes, and then says that the folder is whole.

Invariant: on a disk `folder/batch=N` appears by one rename with all its files; elsewhere it is whole once it has
`_SUCCESS`. Then it has the files of one successful attempt of each task and no others. Types are those that Spark gives
the same rows.
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

from slackwater.core.errors import SlackwaterError, UsageError, writing
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.output_schema import COLUMNS, ROWS, written_schema
from slackwater.runtime.spark.outputs import Writer
from slackwater.runtime.spark.sinks import BATCH, Sink
from slackwater.runtime.spark.state.root import ONE_TASK, Share
from slackwater.runtime.spark.store import At, Location, Store, store_at

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
    """A folder of parquet files, as the rows of one output go there."""

    at: At
    schema: pa.Schema
    columns: tuple[str, ...]
    """The emitted columns that are written, under the names of the schema."""
    codec: str


def folder_of(spark: SparkSession, plan: PhysicalPlan, what: str, sink: Writer, state: At) -> Folder | None:
    """The folder that an output can be written to here; None where Spark must write it. A folder that is not on this
    machine is on a store of the kind that state is kept on, so workers are known to reach it."""
    if not isinstance(sink, Sink) or sink.format != "parquet" or set(sink.options) != {"path"}:
        return None
    at = reached_from(spark, sink.options["path"], state)
    codec = CODECS.get(str(spark.conf.get("spark.sql.parquet.compression.codec", "snappy")))
    kind = KINDS[what]
    schema = written_schema(plan, kind)
    # Spark tells names apart without regard to case, and says so where it writes them itself.
    if at is None or codec is None or len({name.lower() for name in schema.names}) < len(schema.names):
        return None
    return Folder(at, schema, tuple(COLUMNS.get(kind, schema.names)), codec)


def reached_from(spark: SparkSession, path: str, state: At) -> At | None:
    """A folder as Python reaches it; None where it may not."""
    try:
        found = location_of(spark, path)
    except UsageError:
        return None
    if isinstance(found, Location):
        alike = isinstance(state, Location) and (scheme_of(found), found.settings) == (scheme_of(state), state.settings)
        return found if alike else None
    return found


def scheme_of(location: Location) -> str:
    """The kind of file system that it is on."""
    return location.uri.partition("://")[0]


class FolderFile:
    """A file of a folder, written under a hidden name that nobody else has, or as the file of a task in the folder of a
    micro-batch, and then all at once when it is whole."""

    def __init__(self, folder: Folder, number: int, share: Share) -> None:
        self._folder = folder
        self._number = number
        self._far: pa.BufferOutputStream | None = None
        if isinstance(folder.at, Location):
            self._far = pa.BufferOutputStream()
            self.name = f"part-{share.task:05d}-of-{share.tasks:05d}.parquet"
        else:
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
        with writing(self._folder.at):
            if self._writer is None:
                into: Any = self._far
                if isinstance(self._folder.at, str):
                    place = Path(self._folder.at, HIDDEN)
                    place.mkdir(parents=True, exist_ok=True)
                    into = place / self.name
                self._writer = pq.ParquetWriter(into, self._folder.schema, compression=self._folder.codec)
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROWS_AT_ONCE)
        self._waiting, self._rows = [], 0

    def close(self) -> str:
        """Write what is left; the name of the file."""
        if self._waiting or self._writer is None:
            self._write()
        assert self._writer is not None
        self._writer.close()
        if self._far is not None:
            batch_in(self._folder, self._number).write(self.name, self._far.getvalue())
        return self.name


class TaskFiles:
    """The files that one task writes in a micro-batch, one for each output whatever number of shards it runs."""

    def __init__(self, number: int = 0, share: Share = ONE_TASK) -> None:
        self._number, self._share = number, share
        self._files: dict[Any, FolderFile] = {}

    def add(self, output: Any, folder: Folder, rows: pa.Table) -> None:
        if output not in self._files:
            self._files[output] = FolderFile(folder, self._number, self._share)
        self._files[output].add(rows)

    def close(self) -> list[tuple[Any, str]]:
        """The names of the files by their outputs, now that all is written."""
        return [(output, file.close()) for output, file in self._files.items()]


def fitted(rows: pa.Table, folder: Folder) -> pa.Table:
    """Emitted rows with the columns and types that a folder has."""
    return rows.select(list(folder.columns)).rename_columns(folder.schema.names).cast(folder.schema)


def batch_in(folder: Folder, number: int) -> Store:
    """The files of a micro-batch."""
    return store_at(folder.at, f"{BATCH}={number}")


def publish(folder: Folder, files: Sequence[str], number: int, again: bool = True) -> None:
    """Publish the rows of a micro-batch in a folder, in place of what it may have written before, if it is one that
    may run `again`."""
    if isinstance(folder.at, Location):
        batch = batch_in(folder, number)
        if again:
            batch.remove(*(name for name in batch.names() if name not in files))
        _complete(folder, files, batch)
        return
    place = Path(folder.at, HIDDEN)
    for name in files:
        if not (place / name).exists():
            raise SlackwaterError(
                f"{folder.at}: {name}, which a worker has written, is not there on {socket.gethostname()}; name a"
                " folder that all machines share"
            )
    with writing(folder.at):
        whole, seen = place / "whole", Path(folder.at, f"{BATCH}={number}")
        whole.mkdir(parents=True)
        for name in files:
            os.rename(place / name, whole / name)
        _complete(folder, files, store_at(str(whole)))
        if seen.exists():
            os.rename(seen, place / "replaced")
        os.rename(whole, seen)


def _complete(folder: Folder, files: Sequence[str], batch: Store) -> None:
    """Say that the files of a micro-batch are all."""
    if not files:
        # Who reads a folder without rows still finds its columns.
        empty = pa.BufferOutputStream()
        pq.write_table(folder.schema.empty_table(), empty, compression=folder.codec)
        batch.write("part-none.parquet", empty.getvalue())
    batch.write(DONE, b"")


def withdraw(folder: Folder, files: Sequence[str], number: int) -> None:
    """Remove what tasks have written into the folder of a micro-batch that a query has failed in."""
    if isinstance(folder.at, Location):
        batch_in(folder, number).remove(*files)


def tidy(folders: Iterable[Folder]) -> None:
    """Remove hidden files, which nobody needs between two micro-batches; a start may find those of one that died."""
    for folder in folders:
        if isinstance(folder.at, str):
            shutil.rmtree(Path(folder.at, HIDDEN), ignore_errors=True)
