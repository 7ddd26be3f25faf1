"""Arrow columns as the judge reads them: one DuckDB type for each kind of value.

Invariant: whatever Arrow type a value came or left with, it is BIGINT, DOUBLE, BOOLEAN or VARCHAR here, a time is
BIGINT microseconds and a decimal the BIGINT of its digits, so two columns that mean the same compare equal.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.errors import DataError
from slackwater.core.nested import column_at, leaves
from slackwater.core.schema import Kind, Schema
from slackwater.core.time import BEFORE_ALL
from slackwater.expressions.tree import Column, Expr, columns_of
from slackwater.language.bound import StreamRef
from slackwater.verify.sql import MACROS, Renderer, has_functions, register_user_functions

_ARROW = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64(), Kind.BOOL: pa.bool_(), Kind.TEXT: pa.string()}
_SPILL = "slackwater-judge-"
_numbers = count()


@dataclass(frozen=True)
class JudgedInput:
    """The accepted rows of one entry of FROM, in the order they came in.

    Beside the stream's own columns: `_row` (int64, unique), `_ts` (int64 microseconds), `_place` (int64: its number
    among the arrivals of all streams), `_late` (bool) and `_watermark` (int64 microseconds: the watermark a late row
    met when it arrived; anything for a row in time).
    """

    table: pa.Table

    def corrected_for(self, duration: int) -> JudgedInput:
        """The same rows, had the watermark been so far behind: a row counts in a result that is at most so much older
        than the watermark it met, so that fewer rows are late, and less so."""
        times, late = (column_of(self.table, name) for name in ("_ts", "_late"))
        met = pc.if_else(late, words(column_of(self.table, "_watermark"), Kind.INT), 0)
        # What the watermark has just reached counts, where an ordinary late row misses it.
        met = pc.subtract(met, duration + 1)
        changed = {"_late": pc.and_(late, pc.greater_equal(met, words(times, Kind.INT))), "_watermark": met}
        table = self.table.drop_columns(list(changed))
        for name, values in changed.items():
            table = table.append_column(name, values)
        return JudgedInput(table)


@contextmanager
def workbench(exprs: Sequence[Expr]) -> Iterator[Any]:
    """A connection to a database of its own that knows the macros and the users' functions, and may spill to disk.

    To start DuckDB takes longer than to judge a small answer, so all who need no function of a user's share one of it.
    """
    with _instance_of_its_own(exprs) if has_functions(exprs) else _database_of_its_own() as connection:
        try:
            yield connection
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"the true answer of this query cannot be computed: {reason}") from error


@contextmanager
def _instance_of_its_own(exprs: Sequence[Expr]) -> Iterator[Any]:
    """Functions belong to all databases of an instance, and two users' may have one name."""
    with tempfile.TemporaryDirectory(prefix=_SPILL) as spill, closing(_started(spill)) as connection:
        register_user_functions(connection, exprs)
        yield connection


@contextmanager
def _database_of_its_own() -> Iterator[Any]:
    name = f"judged_{next(_numbers)}"
    with closing(_shared(os.getpid())[0].cursor()) as connection:
        connection.execute(f"ATTACH ':memory:' AS {name}")
        connection.execute(f"USE {name}")
        connection.execute(f"SET search_path = '{name}.main,memory.main'")
        try:
            yield connection
        finally:
            connection.execute("USE memory")
            connection.execute(f"DETACH {name}")


@cache
def _shared(process: int) -> tuple[Any, tempfile.TemporaryDirectory[str]]:
    """The instance of this process, and where it spills; both live as long as the process, and not in its forks."""
    spill = tempfile.TemporaryDirectory(prefix=_SPILL)
    return _started(spill.name), spill


def _started(spill: str) -> Any:
    """DuckDB with the macros."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": spill,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    connection = duckdb.connect(":memory:", config=settings)
    for macro in MACROS:
        connection.execute(macro)
    return connection


def load(
    connection: Any, position: int, stream: StreamRef, given: JudgedInput, exprs: Sequence[Expr], render: Renderer
) -> None:
    """Make table `s<position>` of the rows that pass the stream's filters, with the columns some expression reads.

    Beside `v<position>_<k>` it has `row_<position>`, `ts_<position>`, `met_<position>`: the watermark a late row met,
    BEFORE_ALL for a row in time; and `place_<position>`: its number among the arrivals of all streams. An integer
    event-time column is also kept as it came, as `raw_<position>`.
    """
    table, schema = given.table, stream.schema
    wanted = sorted(name for at, name in {pair for expr in exprs for pair in columns_of(expr)} if at == position)
    times = words(column_of(table, "_ts"), Kind.INT)
    met = pc.if_else(column_of(table, "_late"), words(column_of(table, "_watermark"), Kind.INT), BEFORE_ALL)
    columns = {f"row_{position}": words(column_of(table, "_row"), Kind.INT), f"ts_{position}": times}
    columns[f"met_{position}"] = met
    columns[f"place_{position}"] = words(column_of(table, "_place"), Kind.INT)
    for name in wanted:
        is_clock = name == schema.time and schema[name].kind is Kind.TIME
        columns[render.column(position, name)] = times if is_clock else words(column_of(table, name), schema[name].kind)
        if is_clock and pa.types.is_integer(column_of(table, name).type):
            columns[f"raw_{position}"] = words(column_of(table, name), Kind.INT)
    connection.register("arriving", pa.table(columns))
    # A row without a time of its own cannot have been accepted; a null here is the caller's mistake, not a filtered
    # row.
    if times.null_count:
        raise DataError(f"accepted rows of {stream.alias} lack an event time")
    connection.execute(f"CREATE TABLE s{position} AS SELECT * FROM arriving WHERE {render.all_of(stream.filters)}")
    connection.unregister("arriving")


def as_produced(expr: Expr, schemas: Sequence[Schema], produced: pa.DataType, render: Renderer) -> str:
    """The SQL of an output as it was written: an event time that came as a number may leave as that number."""
    if isinstance(expr, Column) and expr.kind is Kind.TIME and pa.types.is_integer(produced):
        schema = schemas[expr.stream]
        if expr.name == schema.time and pa.types.is_integer(schema[expr.name].arrow):
            return f"raw_{expr.stream}"
    return render.value(expr)


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column by name; a table that lacks it is named in the error."""
    found = leaves(table.schema)
    if name not in found:
        raise DataError(f"column '{name}' is missing; the table has {', '.join(found)}")
    return column_at(table, name)


def words(column: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    """The column in the judge's type for a kind.

    >>> words(pa.chunked_array([[1.5, None]], pa.float32()), Kind.FLOAT).type
    DataType(double)
    >>> words(pa.chunked_array([[7]], pa.timestamp("ms")), Kind.TIME).to_pylist()
    [7000]
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind is Kind.DECIMAL:
        # The same bits with the point at the end: a decimal without digits behind it is an integer.
        array = column.cast(pa.decimal128(38, column.type.scale)).combine_chunks()
        moved = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset)
        return pa.chunked_array([moved.cast(pa.int64())])
    if kind is not Kind.TIME:
        return column.cast(_ARROW[kind])
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
