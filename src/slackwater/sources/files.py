"""Streams in files: `NAME=FILE[?column=value&...]`, where FILE may be a folder, or a pattern such as orders-*.csv.

Invariant: rows keep the files' order, which is their arrival order; a selection takes rows out and never reorders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.batch import Words
from slackwater.core.errors import QueryError, UsageError
from slackwater.core.nested import leaves
from slackwater.core.schema import Field, Kind, Schema, kind_of, time_type, type_name
from slackwater.sources.reading import plain, read_path

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
        """The stream's rows."""
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
