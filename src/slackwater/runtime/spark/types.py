"""Spark's types as Arrow's, and the fields of nested columns as columns of a DataFrame.

Invariant: every column of a DataFrame has an Arrow type here. One that no query can read is there under Spark's own
name for it, so that it can be refused by that name; what Arrow has no type for is no reason to refuse the others.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkTypeError, UnsupportedOperationException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import CharType, DataType, DecimalType, StructType, VarcharType

from slackwater.core.nested import leaves
from slackwater.core.schema import kind_of
from slackwater.runtime.spark.versions import arrow_type_of

_GUARDED = {ord("."): "\ue000", ord("`"): "\ue001"}
_UNGUARDED = {0xE000: ".", 0xE001: "`"}
"""Letters that no alphabet has."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame; timestamps in UTC, whatever the zone of the session."""
    return pa.schema([(field.name, arrow_type(field.dataType)) for field in schema])


def arrow_type(spark: DataType) -> pa.DataType:
    """The Arrow type of a Spark type."""
    if isinstance(spark, StructType):
        return pa.struct([(field.name, arrow_type(field.dataType)) for field in spark])
    if isinstance(spark, (CharType, VarcharType)):
        return pa.string()
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    try:
        arrow = arrow_type_of(spark)
    # Intervals of the calendar, for one, have no type in Arrow.
    except (PySparkTypeError, UnsupportedOperationException):
        return _unreadable(spark)
    return arrow if kind_of(arrow) is not None else _unreadable(spark)


def _unreadable(spark: DataType) -> pa.DataType:
    return pa.opaque(pa.null(), spark.simpleString(), "spark")


def selected(frame: DataFrame, names: list[str]) -> DataFrame:
    """These columns and fields of nested columns, each under its path."""
    found = leaves(arrow_schema(frame.schema))
    return frame.select(*(_field(found[name].path).alias(name) for name in dict.fromkeys(names)))


def guarded(frame: DataFrame) -> DataFrame:
    """The columns under names without a dot or a backquote: Spark's `mapInArrow` takes those for paths."""
    return frame.toDF(*map(guarded_name, frame.columns))


def guarded_name(name: str) -> str:
    """A name without a dot or a backquote."""
    return name.translate(_GUARDED)


def unguarded(table: pa.Table) -> pa.Table:
    """A table that was read from guarded columns, under their own names."""
    return table.rename_columns([name.translate(_UNGUARDED) for name in table.column_names])


def _field(path: tuple[str, ...]) -> Column:
    first, *inner = path
    found = column(first)
    for name in inner:
        found = found.getField(name)
    return found


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it, whatever it holds.

    >>> quoted("a.`b")
    '`a.``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """A column by its name, whatever that holds."""
    return fn.col(quoted(name))
