"""One writer for the folders of all queries: the job that computes a micro-batch writes its rows as well.

The stateful operator writes what each query emits to a parquet file, in place of handing it on, so no row leaves the
worker that made it, and no query needs a job of its own. A task writes under hidden names and says which files it has
written; the driver then moves the files of each output into the folder of the micro-batch, whole, in place of what the
same micro-batch may have written before.

Invariant: `folder/batch=N` appears by one rename with all its files, those of one successful attempt of each task and
no others. Types are those that Spark gives the same rows. Only folders that this machine can reach as files are written
like this; any other sink gets its rows from Spark's own writers.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from slackwater.runtime.spark.output_schema import COLUMNS, METRICS, written_schema
from slackwater.runtime.spark.outputs import KINDS, Told
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.sinks import BATCH, Called, Sink, local_path
from slackwater.sinks.folder import writing

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
Output = tuple[str, str]
"""The key of a query, and a kind of rows."""


class Folder(NamedTuple):
    """A folder of parquet files on this machine, as the rows of one output go there."""

    path: str
    schema: pa.Schema
    columns: tuple[str, ...]
    """The emitted columns that are written, under the names of the schema."""
    codec: str


def folder_of(spark: SparkSession, member: Member, what: str, sink: Sink | Called) -> Folder | None:
    """The folder that an output can be written to here; None where Spark must write it."""
    if isinstance(sink, Called) or sink.format != "parquet" or set(sink.options) != {"path"}:
        return None
    path = local_path(spark, sink.options["path"])
    codec = CODECS.get(str(spark.conf.get("spark.sql.parquet.compression.codec", "snappy")))
    kind = KINDS[what]
    schema = written_schema(member.plan, kind)
    # Spark tells names apart without regard to case, and says so where it writes them itself.
    if path is None or codec is None or len({name.lower() for name in schema.names}) < len(schema.names):
        return None
    return Folder(path, schema, tuple(COLUMNS.get(kind, schema.names)), codec)


class Answered(NamedTuple):
    """What the job of a micro-batch has said."""

    told: dict[str, Told]
    """Of every query, by its key, which outputs have rows and what its shards say."""
    files: dict[Output, list[str]]
    """Files that are written and not yet published."""


def answered(emitted: DataFrame, members: Sequence[Member]) -> Answered:
    """Compute a micro-batch in one job; what goes to folders is then written there, under hidden names."""
    kinds: dict[str, set[str]] = {one.key: set() for one in members}
    shards: dict[str, list[Any]] = {one.key: [] for one in members}
    files: dict[Output, list[str]] = defaultdict(list)
    for key, kind, note in emitted.select("query", "kind", "note").collect():
        if kind == METRICS:
            shards[key].append(json.loads(note))
        elif kind == WRITTEN:
            what, _, name = note.partition("/")
            kinds[key].add(what)
            files[key, what].append(name)
        else:
            kinds[key].add(kind)
    return Answered({key: Told(frozenset(kinds[key]), shards[key]) for key in kinds}, files)


def write_file(folder: Folder, tables: Sequence[pa.Table]) -> str:
    """Write rows under a hidden name that nobody else has; the name of the file."""
    name = f"part-{secrets.token_hex(8)}.parquet"
    with writing(Path(folder.path)):
        place = Path(folder.path, HIDDEN)
        place.mkdir(parents=True, exist_ok=True)
        rows = pa.concat_tables(fitted(table, folder) for table in tables)
        pq.write_table(rows, place / name, compression=folder.codec, row_group_size=ROWS_AT_ONCE)
    return name


def fitted(rows: pa.Table, folder: Folder) -> pa.Table:
    """Emitted rows with the columns and types that a folder has."""
    return rows.select(list(folder.columns)).rename_columns(folder.schema.names).cast(folder.schema)


def publish(folder: Folder, files: Sequence[str], number: int) -> None:
    """Let the rows of a micro-batch appear in a folder, in place of what it may have written before."""
    with writing(Path(folder.path)):
        place = Path(folder.path, HIDDEN)
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


def local_folders(
    spark: SparkSession, members: Sequence[Member], writers: Mapping[str, Mapping[str, Sink | Called]]
) -> dict[Output, Folder]:
    """Those outputs that are written by the one job; the others need a writer of Spark, or a function, each."""
    found = {}
    for one in members:
        for what, writer in writers.get(one.name, {}).items():
            folder = folder_of(spark, one, what, writer)
            if folder is not None:
                found[one.key, KINDS[what]] = folder
    return found
