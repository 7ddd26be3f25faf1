"""Change rows: which row of a key counts.

Invariant: of the rows of a micro-batch with one key, that with the highest version is applied and no other. Rows that
are no changes count as inserts of version 0. Keys are equal as SQL groups them: null equals null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

CHANGE, VERSION = "_change", "_version"
"""The columns that make a row a change row: insert, update or delete; and 0, 1, ... of each key."""
INSERT, DELETE = "insert", "delete"
_NEWEST, _ROW = "_newest", "_row"


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it, whatever it holds.

    >>> quoted("a.`b")
    '`a.``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """A column by its name, whatever that holds."""
    return fn.col(quoted(name))


def as_changes(frame: DataFrame) -> DataFrame:
    """Rows as change rows."""
    if CHANGE in frame.columns:
        return frame
    return frame.withColumn(VERSION, fn.lit(0).cast("long")).withColumn(CHANGE, fn.lit(INSERT))


def newest(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The change of every key that counts, computed by Spark."""
    others = [name for name in changes.columns if name not in keys]
    found = fn.max_by(fn.struct(*map(column, others)), fn.col(VERSION)).alias(_NEWEST)
    grouped = changes.groupBy(*map(column, keys)).agg(found)
    return grouped.select(
        *(column(name) if name in keys else fn.col(_NEWEST).getField(name).alias(name) for name in changes.columns)
    )


def newest_rows(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The same of rows that are here, in the order of their versions."""
    order = pc.sort_indices(changes, sort_keys=[(VERSION, "ascending")])
    numbered = changes.select(list(keys)).take(order).append_column(_ROW, order)
    # One thread keeps the order.
    last = numbered.group_by(list(keys), use_threads=False).aggregate([(_ROW, "last")])
    return changes.take(last.column(f"{_ROW}_last"))
