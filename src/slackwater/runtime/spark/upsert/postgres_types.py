"""Types of columns in PostgreSQL, and rows as its COPY reads them.

Invariant: every type has one in PostgreSQL that holds all its values; what has none is refused by the name of its
column. Nested values are JSON, as Spark writes them.
"""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, MapType, StructType

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.upsert.changes import column
from slackwater.runtime.spark.upsert.json import JSON
from slackwater.runtime.spark.versions import as_table

NESTED = b"slackwater.nested"
"""The mark of a column that is JSON by now."""
PLAIN = {
    pa.bool_(): "boolean", pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.float32(): "real", pa.float64(): "double precision", pa.string(): "text", pa.large_string(): "text",
    pa.date32(): "date", pa.binary(): "bytea", pa.large_binary(): "bytea",
}  # fmt: skip
HOLD = {
    "smallint": ("smallint", "integer", "bigint"), "integer": ("integer", "bigint"),
    "real": ("real", "double precision"), "text": ("text", "character varying", "character", "citext"),
    "jsonb": ("jsonb", "json"),
}  # fmt: skip
"""The types that hold all values of a type, where these are more than itself; a text may be too long, and is refused
then."""
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?$")


def plain_table(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame, nested columns as JSON."""
    nested = {one.name for one in frame.schema if isinstance(one.dataType, (ArrayType, MapType, StructType))}
    rows = as_table(
        frame.select(
            *(fn.to_json(column(name), JSON).alias(name) if name in nested else column(name) for name in frame.columns)
        )
    )
    return rows.cast(
        pa.schema([one.with_metadata({NESTED: b""}) if one.name in nested else one for one in rows.schema])
    )


def type_of(field: pa.Field) -> str:
    """The type of a column in PostgreSQL.

    >>> type_of(pa.field("at", pa.timestamp("us", "UTC"))), type_of(pa.field("price", pa.decimal128(12, 2)))
    ('timestamp with time zone', 'numeric(12,2)')
    """
    type = field.type
    if NESTED in (field.metadata or {}):
        return "jsonb"
    if type in PLAIN:
        return PLAIN[type]
    if pa.types.is_timestamp(type):
        return "timestamp with time zone" if type.tz else "timestamp without time zone"
    if pa.types.is_decimal(type):
        return f"numeric({type.precision},{type.scale})"
    if pa.types.is_duration(type):
        return "interval"
    raise UsageError(f"column '{field.name}' is {type}, which PostgreSQL has no type for; leave it out, or use CAST")


def check_types(stored: dict[str, str], schema: pa.Schema, name: str) -> None:
    """Refuse a table that has other columns than the rows, or cannot hold them."""
    for one in schema:
        given = type_of(one)
        if one.name not in stored:
            raise UsageError(f"table {name!r} has no column '{one.name}', which the results have; name another table")
        if not holds(stored[one.name], given):
            raise UsageError(
                f"table {name!r}: column '{one.name}' is {stored[one.name]}, and that of the results {given}; name"
                " another table, or use CAST in the query"
            )
    for other in stored:
        if other not in schema.names:
            raise UsageError(
                f"table {name!r} has a column '{other}', which the results do not have; name another table"
            )


def holds(stored: str, given: str) -> bool:
    """Whether a type can hold the values of another.

    >>> holds("bigint", "integer"), holds("character varying(20)", "text"), holds("numeric(9,2)", "numeric(12,2)")
    (True, True, False)
    """
    number, own = _NUMERIC.match(given), _NUMERIC.match(stored)
    if number is not None and own is not None:
        if own[1] is None:
            return True
        return int(own[2]) >= int(number[2]) and int(own[1]) - int(own[2]) >= int(number[1]) - int(number[2])
    return stored.split("(")[0] in HOLD.get(given, ()) or stored == given


def as_csv(rows: pa.Table) -> bytes:
    """Rows as COPY reads them; a text is in quotes, null is nothing at all."""
    columns = []
    for one, field in zip(rows.columns, rows.schema, strict=True):
        if pa.types.is_decimal(field.type):
            one = one.cast(pa.string())
        elif pa.types.is_duration(field.type):
            micros = one.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
            one = pc.binary_join_element_wise(micros, " microseconds", "")
        elif pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            one = pa.array([None if value is None else f"\\x{value.hex()}" for value in one.to_pylist()], pa.string())
        columns.append(one)
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(pa.table(columns, names=rows.column_names), out, options)
    return out.getvalue()
