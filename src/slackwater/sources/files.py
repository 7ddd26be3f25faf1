"""Streams in files, parquet, CSV and JSON lines: `NAME=FILE[?column=value&...]`, where FILE may be a folder, or a
pattern such as orders-*.csv.

Invariant: rows keep their order, files by name and rows by position, which is their arrival order; a selection takes
rows out and never reorders. Files that are read as one have the same columns. Types are found over a whole file, never
over its beginning: a column is what all its values can be. Arrow's views are made the types they are views of
(`plain`), for Arrow can read the former, but hardly select or take them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from slackwater.core.batch import Words
from slackwater.core.errors import DataError, QueryError, UsageError
from slackwater.core.nested import leaves
from slackwater.core.schema import Field, Kind, Schema, kind_of, time_type, type_name

KNOWN = ".parquet, .csv, .csv.gz, .jsonl, .ndjson or .json"
_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_PATTERN = "*["
"""What makes a path a pattern; a question mark begins a selection."""
_LARGEST_BLOCK = 2**31 - 2
_ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}|$)"


def read_path(stream: str, path: Path) -> pa.Table:
    """The rows of a file, of all files of a folder, or of all files that a pattern names."""
    try:
        return _read(stream, path.expanduser())
    # A name may be longer than names can be, or a folder closed.
    except OSError as error:
        raise DataError(f"stream {stream}: {str(path)[:200]} cannot be read: {error.strerror or error}") from None


def _read(stream: str, path: Path) -> pa.Table:
    if path.is_dir():
        files = [file for file in path.rglob("*") if _is_data(file, path)]
        if not files:
            raise DataError(f"stream {stream}: there is no file in folder {path}; streams are in files {KNOWN}")
        return _read_all(stream, sorted(files), path)
    if path.exists():
        return _read_file(stream, path, _format_of(stream, path))
    if any(mark in str(path) for mark in _PATTERN):
        named = [Path(one) for one in glob(str(path), recursive=True)]
        found = [file for one in named for file in ([one] if one.is_file() else one.rglob("*")) if file.is_file()]
        if not found:
            raise DataError(f"stream {stream}: no file has a name like {path}")
        return _read_all(stream, sorted(set(found)), path)
    hint = "; only files of this machine are read" if re.match(r"[a-z][a-z0-9+]+:/", str(path)) else ""
    raise DataError(f"stream {stream}: there is no file {path}{hint}")


def _is_data(file: Path, folder: Path) -> bool:
    """Whether a file holds rows: what begins with a dot or an underscore is what writers leave for themselves."""
    inside = file.relative_to(folder).parts
    return file.is_file() and not any(part.startswith((".", "_")) for part in inside)


def _format_of(stream: str, file: Path) -> str:
    name = file.name.lower().removesuffix(".gz")
    known = _ENDINGS.get(Path(name).suffix)
    if known is not None and (known != "parquet" or not file.name.lower().endswith(".gz")):
        return known
    try:
        with file.open("rb") as opened:
            if opened.read(4) == b"PAR1":
                return "parquet"
    except OSError as error:
        raise DataError(f"stream {stream}: {file} cannot be read: {error.strerror}") from None
    raise DataError(
        f"stream {stream}: {file} cannot be read: what it holds is not told by its name; a stream is in files {KNOWN}"
    )


def _read_all(stream: str, files: Sequence[Path], where: Path) -> pa.Table:
    formats = {_format_of(stream, file): file for file in files}
    if len(formats) > 1:
        named = " and ".join(file.name for file in formats.values())
        raise DataError(f"stream {stream}: {where} has files of several formats, {named}; name those of one format")
    (form,) = formats
    nested = where.is_dir() and any("=" in file.parent.name for file in files if file.parent != where)
    if form == "parquet" and nested:
        # Folders called column=value are a column of their own; Arrow reads them so, in the order of names.
        return _guarded(stream, where, form, lambda: pq.read_table(where))
    tables = [_read_file(stream, file, form) for file in files]
    # A file with a heading and no rows says nothing about the types of its columns.
    for table, file in zip(tables[1:], files[1:], strict=True):
        if set(table.column_names) != set(tables[0].column_names):
            raise DataError(
                f"stream {stream}: {files[0].name} has columns {', '.join(tables[0].column_names)}, and {file.name} has"
                f" {', '.join(table.column_names)}; files that are read as one stream need the same"
            )
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        raise DataError(f"stream {stream}: {_conflict(tables, files)}; make them the same") from None


def _conflict(tables: Sequence[pa.Table], files: Sequence[Path]) -> str:
    """The column whose types no common type holds."""
    for field in tables[0].schema:
        for table, file in zip(tables[1:], files[1:], strict=True):
            other = table.schema.field(field.name).type
            try:
                pa.unify_schemas([pa.schema([field]), pa.schema([(field.name, other)])], promote_options="permissive")
            except pa.ArrowException:
                return f"column '{field.name}' holds {field.type} in {files[0].name} and {other} in {file.name}"
    return f"the files {files[0].name} to {files[-1].name} hold columns of different types"


def _read_file(stream: str, file: Path, form: str) -> pa.Table:
    read = {"parquet": pq.read_table, "csv": _read_csv, "json": _read_json}[form]
    return _guarded(stream, file, "JSON lines" if form == "json" else form, lambda: read(file))


def _guarded(stream: str, path: Path, form: str, read: Callable[[], pa.Table]) -> pa.Table:
    try:
        return read()
    # Text that is no UTF-8 or no JSON is a ValueError, and so is most that Arrow complains about.
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"stream {stream}: {path} cannot be read as {form}: {reason}") from None


def _read_csv(file: Path) -> pa.Table:
    content = _content(file)
    options = pyarrow.csv.ReadOptions(block_size=_block(content))
    # An empty cell is a null, whatever the other cells of the file hold.
    nulls = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    table = pyarrow.csv.read_csv(pa.BufferReader(content), read_options=options, convert_options=nulls)
    for at, field in enumerate(table.schema):
        if pa.types.is_time(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.string()))
    return table


def _read_json(file: Path) -> pa.Table:
    content = _content(file)
    start = content.to_pybytes()[:64].lstrip() if content.size else b""
    if not content.size or not content.to_pybytes().strip():
        return pa.table({})
    if start.startswith(b"["):
        rows = json.loads(content.to_pybytes())
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("its list holds values that are no objects; write one object a line")
        table = pa.Table.from_pylist(rows, pa.schema(_fields(rows)))
    else:
        options = pyarrow.json.ReadOptions(block_size=_block(content))
        table = pyarrow.json.read_json(pa.BufferReader(content), read_options=options)
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(at, field.name, _moments(table.column(at)))
    return table


def _fields(rows: Sequence[dict[str, object]]) -> list[pa.Field]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [pa.field(name, pa.array([row.get(name) for row in rows]).type) for name in names]


def _moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as timestamps, if all of it is ISO 8601; else as it is.

    >>> _moments(pa.chunked_array([["2026-01-02T03:04:05.5Z", None]])).type
    TimestampType(timestamp[us, tz=UTC])
    >>> _moments(pa.chunked_array([["2026-01-02T03:04:05", "soon"]])).type
    DataType(string)
    """
    if column.null_count == len(column) or not pc.all(pc.match_substring_regex(column, _ISO)).as_py():
        return column
    for moment in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return column.cast(moment)
        except pa.ArrowException:
            continue
    return column


def _content(file: Path) -> pa.Buffer:
    """All bytes of a file, unpacked."""
    compression = "gzip" if file.name.lower().endswith(".gz") else None
    with pa.input_stream(str(file), compression=compression) as opened:
        return opened.read_buffer()


def _block(content: pa.Buffer) -> int:
    """So large that Arrow sees all values of a column before it settles for a type."""
    return min(content.size + 1, _LARGEST_BLOCK)


def plain(table: pa.Table) -> pa.Table:
    """A table of which rows can be taken.

    >>> plain(pa.table({"b": pa.array([b"x"], pa.binary_view())})).schema.field("b").type
    DataType(binary)
    """
    for i, field in enumerate(table.schema):
        column, type_ = table.column(i), plain_type(field.type)
        if pa.types.is_run_end_encoded(field.type):
            decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
            table = table.set_column(i, field.name, pa.chunked_array(decoded, type_))
        elif type_ != field.type:
            table = table.set_column(i, field.name, column.cast(type_))
    return table


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type without views, at any depth."""
    if pa.types.is_string_view(arrow):
        return pa.string()
    if pa.types.is_binary_view(arrow):
        return pa.binary()
    if pa.types.is_run_end_encoded(arrow):
        return plain_type(arrow.value_type)
    if pa.types.is_map(arrow):
        return pa.map_(plain_type(arrow.key_type), plain_type(arrow.item_type))
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(plain_type(arrow.value_type), arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(plain_type(arrow.value_type))
    if pa.types.is_list(arrow):
        return pa.list_(plain_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(plain_type(field.type)) for field in arrow])
    return arrow


ARRIVAL = "arrival"


@dataclass(frozen=True)
class Recorded:
    """The rows of a stream, and the place each of them had in its file."""

    table: pa.Table
    ranks: Words


@dataclass(frozen=True)
class StreamFile:
    """Where a stream is read from, and which of the file's rows belong to it."""

    name: str
    path: Path
    selection: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str) -> StreamFile:
        """Read `NAME=FILE?column=value`; `&` narrows down, a column named twice takes either value.

        A value may have its `&` and `%` written as %26 and %25.

        >>> StreamFile.parse("a=ticks.parquet?stream=spot").selection
        (('stream', 'spot'),)
        """
        name, equals, rest = text.partition("=")
        if not equals or not name.strip() or not rest:
            raise UsageError(f"--stream {text}: write it as NAME=FILE.parquet or NAME=FILE.parquet?column=value")
        path, mark, query = rest.partition("?")
        selection = []
        for part in query.split("&") if mark else ():
            column, equals, value = part.partition("=")
            if not column or not equals:
                raise UsageError(f"--stream {text}: after ? comes column=value, and & between two of them")
            selection.append((unquote(column), unquote(value)))
        return StreamFile(name.strip(), Path(path), tuple(selection))

    def read(self) -> Recorded:
        table = plain(read_path(self.name, self.path))
        wanted: dict[str, list[str]] = {}
        for column, value in self.selection:
            wanted.setdefault(column, []).append(value)
        ranks = np.arange(table.num_rows)
        for column, values in wanted.items():
            mine = self._matches(table, column, values)
            table, ranks = table.filter(mine), ranks[mine.to_numpy()]
        return Recorded(table, ranks)

    def _matches(self, table: pa.Table, column: str, values: list[str]) -> pa.ChunkedArray:
        if table.column_names.count(column) != 1:
            raise UsageError(
                f"stream {self.name}: {self.path.name} has no column '{column}'; it has {', '.join(table.column_names)}"
            )
        array = table.column(column)
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        try:
            return pc.is_in(array, value_set=pa.array(values).cast(array.type))
        except pa.ArrowException:
            raise UsageError(
                f"stream {self.name}: '{', '.join(values)}' is no value of column '{column}', which holds {array.type}"
            ) from None


def read_streams(files: Sequence[StreamFile]) -> tuple[dict[str, pa.Table], dict[str, Words] | None]:
    """The rows of every stream; and, where all come out of one file, their ranks in it."""
    recorded = {file.name: file.read() for file in files}
    one_file = len({file.path.resolve() for file in files}) == 1
    ranks = {name: stream.ranks for name, stream in recorded.items()} if one_file else None
    return {name: stream.table for name, stream in recorded.items()}, ranks


def schema_of(name: str, table: pa.Table, time: str) -> Schema:
    """The schema of a stream, fields of nested columns by their path; columns of types that no query can read are left
    out, and refused when named."""
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise QueryError(f"stream {name} has two columns called '{twice}'")
    found = leaves(table.schema)
    if time not in found and time not in names:
        raise QueryError(
            f"stream {name} has no time column '{time}'; it has {', '.join(found)}. Name it with time= or"
            " --time; a table without times is a static relation, given as sw.lookup(...)"
        )
    fields = []
    for column, leaf in found.items():
        kind = kind_of(leaf.type)
        # Of an event time micros are kept, so a decimal that is too wide for a column may be one.
        if column == time and (kind not in (None, Kind.BOOL) or pa.types.is_decimal(leaf.type)):
            fields.append(Field(time, Kind.TIME, time_type(leaf.type)))
        elif column != time and kind is not None:
            # The scale of a decimal is read from its type.
            coded = kind is Kind.DECIMAL and pa.types.is_dictionary(leaf.type)
            fields.append(Field(column, kind, leaf.type.value_type if coded else leaf.type))
    if all(field.name != time for field in fields):
        given = found[time].type if time in found else table.schema.field(time).type
        raise QueryError(f"stream {name}: column '{time}' of type {type_name(given)} cannot be an event time")
    return Schema(tuple(fields), time)
