"""Streams in parquet files: `NAME=FILE.parquet[?column=value&...]`.

Invariant: rows keep the file's order, which is their arrival order; a selection takes rows out and never reorders.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.model.errors import DataError, QueryError, UsageError
from slackwater.model.schema import Field, Kind, Schema, kind_of

ARRIVAL = "arrival"


@dataclass(frozen=True)
class StreamFile:
    """Where a stream is read from, and which of the file's rows belong to it."""

    name: str
    path: Path
    selection: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str) -> StreamFile:
        """Read `NAME=FILE.parquet?column=value`; `&` narrows down, a column named twice takes either value.

        >>> StreamFile.parse("a=ticks.parquet?stream=spot").selection
        (('stream', 'spot'),)
        """
        name, equals, rest = text.partition("=")
        if not equals or not name.strip() or not rest:
            raise UsageError(f"--stream {text}: write it as NAME=FILE.parquet or NAME=FILE.parquet?column=value")
        path, mark, query = rest.partition("?")
        selection = tuple(parse_qsl(query, keep_blank_values=True))
        if mark and not selection:
            raise UsageError(f"--stream {text}: after ? comes column=value")
        return StreamFile(name.strip(), Path(path), selection)

    def read(self) -> pa.Table:
        """The stream's rows."""
        if not self.path.exists():
            raise DataError(f"stream {self.name}: there is no file {self.path}")
        try:
            table = pq.read_table(self.path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"stream {self.name}: {self.path} cannot be read as parquet: {error}") from None
        wanted: dict[str, list[str]] = {}
        for column, value in self.selection:
            wanted.setdefault(column, []).append(value)
        for column, values in wanted.items():
            table = table.filter(self._matches(table, column, values))
        return table

    def _matches(self, table: pa.Table, column: str, values: list[str]) -> pa.Array:
        if column not in table.column_names:
            raise UsageError(
                f"stream {self.name}: {self.path.name} has no column '{column}'; it has {', '.join(table.column_names)}"
            )
        array = table.column(column)
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        try:
            allowed = pa.array(values).cast(array.type)
        except pa.ArrowInvalid:
            raise UsageError(
                f"stream {self.name}: '{', '.join(values)}' is no value of column '{column}', which holds {array.type}"
            ) from None
        return pc.is_in(array, value_set=allowed)


def schema_of(name: str, table: pa.Table, time: str) -> Schema:
    """The schema of a stream; columns of types that no query can read are left out, and refused when named."""
    if time not in table.column_names:
        columns = ", ".join(table.column_names)
        raise QueryError(f"stream {name} has no time column '{time}'; it has {columns}. Name it with --time")
    fields = []
    for field in table.schema:
        kind = kind_of(field.type)
        if field.name == time:
            if kind in (None, Kind.BOOL):
                raise QueryError(f"stream {name}: column '{time}' of type {field.type} cannot be an event time")
            fields.append(Field(time, Kind.TIME, pa.timestamp("us", "UTC")))
        elif kind is not None:
            fields.append(Field(field.name, kind, field.type))
    return Schema(tuple(fields), time)
