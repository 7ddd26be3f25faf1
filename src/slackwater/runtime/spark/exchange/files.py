"""Reading files with Arrow, in tables of about the same size.

Invariant: a column that a file does not have is null, and a file that cannot be read is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.store import At, Location, file_system, path_in

SMALL = 4 << 20
"""Bytes of a file that are read at once where it is far."""
MOST_ROWS = 1 << 19
"""Rows of a block at most."""


@dataclass(frozen=True)
class Folder:
    """A stream of files."""

    path: str
    format: str
    schema: pa.Schema
    """What is read; a column that a file does not have is null."""
    most_files: int | None
    """Of a micro-batch; None: all that are there."""
    settings: tuple[tuple[str, str], ...] = ()
    """How its file system is reached, where that is not the one of this machine."""

    @property
    def at(self) -> At:
        return Location(self.path, self.settings) if "://" in self.path else self.path


def rows_of(folder: Folder, columns: Iterable[str], files: Iterable[str], part: int, parts: int) -> Iterator[pa.Table]:
    """These columns of the k-th of n parts of files, in tables of about the same size."""
    schema = pa.schema([folder.schema.field(name) for name in columns])
    return gathered(part_of(read_file(file, folder.format, schema, folder.at), part, parts) for file in files)


def opened(file: str, at: At) -> Any:
    """What Arrow reads a file of a folder by."""
    if isinstance(at, str):
        return file
    source = file_system(at)[0].open_input_file(path_in(file))
    # Footer and columns of a small file would be requests of their own.
    return pa.BufferReader(source.read()) if source.size() <= SMALL else source


def read_file(file: str, format: str, schema: pa.Schema, at: At = "") -> pa.Table:
    """The rows of a file with these columns."""
    try:
        where = opened(file, at)
        if format == "parquet":
            with pq.ParquetFile(where, pre_buffer=True, coerce_int96_timestamp_unit="us") as source:
                there = [name for name in schema.names if name in source.schema_arrow.names]
                table = source.read(columns=there, use_threads=False)
        elif format == "json":
            lines = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            table = pyarrow.json.read_json(where, parse_options=lines)
        else:
            wanted = pyarrow.csv.ConvertOptions(
                column_types=schema, include_columns=schema.names, include_missing_columns=True
            )
            table = pyarrow.csv.read_csv(where, convert_options=wanted)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{file} cannot be read as {format}: {error}") from None
    return fitted(table, schema, file)


def fitted(table: pa.Table, schema: pa.Schema, file: str) -> pa.Table:
    """A table with the columns of a schema, in its order."""
    columns = []
    for field in schema:
        if field.name in table.column_names:
            column = table.column(field.name)
            try:
                columns.append(column if column.type == field.type else column.cast(field.type))
            except pa.ArrowException as error:
                raise UsageError(f"{file}: column {field.name} is {column.type}, not {field.type}: {error}") from None
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.table(columns, schema=schema)


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows in tables of about the same size, in place of many small ones or a few large ones."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(one.num_rows for one in waiting) >= MOST_ROWS:
            together = pa.concat_tables(waiting)
            whole = together.num_rows - together.num_rows % MOST_ROWS
            for first in range(0, whole, MOST_ROWS):
                yield together.slice(first, MOST_ROWS).combine_chunks()
            waiting = [together.slice(whole)]
    if sum(one.num_rows for one in waiting):
        yield pa.concat_tables(waiting).combine_chunks()


def part_of(table: pa.Table, part: int, parts: int) -> pa.Table:
    """The k-th of n parts of a table."""
    first, last = (round(k * table.num_rows / parts) for k in (part, part + 1))
    return table.slice(first, last - first)
