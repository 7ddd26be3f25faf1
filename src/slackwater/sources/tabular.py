"""Anything tabular to an Arrow table: what `sw.replay` and `sw.live` take as rows of a stream.

Invariant: rows keep their order and columns their names; what Arrow cannot take is refused with the name of the stream.
An index is no column and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import Kind, kind_of
from slackwater.sources.encode import TIME_UNITS
from slackwater.sources.files import StreamFile, plain, read_path

TAKEN = "a pyarrow Table, a pandas or polars DataFrame, a list of dicts, or the path of a file or a folder"


def check_unit(unit: str) -> None:
    """Refuse a unit that integer event times cannot have."""
    if unit not in tuple(TIME_UNITS):
        raise UsageError(f"time_unit {unit!r}: it is one of {', '.join(TIME_UNITS)}")


def as_tables(streams: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The rows of several streams.

    >>> as_tables({"s": [{"ts": 1}, {"ts": 2, "v": 0.5}]})["s"].to_pydict()
    {'ts': [1, 2], 'v': [None, 0.5]}
    """
    if not isinstance(streams, Mapping):
        raise UsageError(f"streams are given by name, as in {{'s': rows}}, not as a {type(streams).__name__}")
    for name in streams:
        if not isinstance(name, str):
            raise UsageError(f"a stream is called by a text, not by {name!r}")
    return {name: as_table(name, given) for name, given in streams.items()}


def as_table(stream: str, given: Any) -> pa.Table:
    """The rows of one stream."""
    try:
        table = _converted(stream, given)
    # Arrow tells of values that do not go together by several classes, and so do those who export to it.
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"stream {stream}: its {type(given).__name__} is no table of columns: {reason}") from None
    if table is None:
        raise UsageError(f"stream {stream}: a {type(given).__name__} cannot be read as rows; give {TAKEN}")
    return plain(table.replace_schema_metadata(None))


def _converted(stream: str, given: Any) -> pa.Table | None:
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.Schema):
        return given.empty_table()
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.RecordBatchReader):
        return given.read_all()
    if isinstance(given, str):
        return StreamFile.parse(f"{stream}={given}").read().table
    if isinstance(given, Path):
        return read_path(stream, given)
    if type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns"):
        # pandas could hand its columns over itself, but only so a NaN is a null and the index is left out.
        return pa.Table.from_pandas(given, preserve_index=False)
    if isinstance(given, type):
        return None
    if callable(to_arrow := getattr(given, "to_arrow", None)):
        exported = to_arrow()
        return exported if isinstance(exported, pa.Table) else pa.table(exported)
    if hasattr(given, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(given).read_all()
    if hasattr(given, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(given)])
    if isinstance(given, Mapping):
        return pa.table(dict(given))
    if isinstance(given, list | tuple):
        return _from_rows(given)
    return None


def _from_rows(rows: list[Any] | tuple[Any, ...]) -> pa.Table:
    """Columns of rows that are dicts; one that lacks a column has a null there."""
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {at} is a {type(row).__name__}, and rows are dicts")
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a column is called by a text, not by {name!r}")
    columns = {}
    for name in names:
        try:
            values = [row.get(name) for row in rows]
            _of_one_sort(name, values)
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError) as error:
            raise TypeError(f"column '{name}': {error}") from None
    return pa.table(columns)


def _of_one_sort(name: str, values: list[Any]) -> None:
    """Refuse dates among datetimes, and zones among none: Arrow would take the first one's type, and cut the others."""
    moments = [one for one in values if isinstance(one, date)]
    sorts = {one.tzinfo is None if isinstance(one, datetime) else "date" for one in moments}
    if len(sorts) > 1:
        raise TypeError(f"column '{name}' mixes dates and datetimes, or such with and without a zone; write one sort")


def with_types(table: pa.Table, wanted: Mapping[str, pa.DataType]) -> pa.Table:
    """Columns in the types that are wanted, where that changes no value: rows told in Python have no types.

    >>> with_types(pa.table({"v": [1, 2]}), {"v": pa.float64()}).column("v").type
    DataType(double)
    """
    for at, field in enumerate(table.schema):
        target = wanted.get(field.name)
        if target is not None and field.type != target and _widens(field.type, target):
            try:
                table = table.set_column(at, field.name, table.column(at).cast(target))
            except pa.ArrowException:
                continue
    return table


def _widens(found: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_null(found):
        return True
    kinds = kind_of(found), kind_of(target)
    if kinds == (Kind.INT, Kind.FLOAT):
        return pa.types.is_floating(target)
    if kinds == (Kind.INT, Kind.DECIMAL):
        return True
    return kinds[0] is not None and kinds[0] is kinds[1] and kinds[0] in (Kind.INT, Kind.TEXT, Kind.TIME, Kind.DECIMAL)
