"""Static relations on Spark: a batch DataFrame, or a table, joined with streams by Spark itself before rows are packed.

Invariant: the rows are those that `sources.lookups` makes of tables. Spark reads a batch DataFrame anew with every
micro-batch, so what changes in its files changes what later rows are joined with.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from slackwater.core.errors import DataError, UsageError
from slackwater.language.static import StaticJoin
from slackwater.runtime.spark.query import empty_table
from slackwater.sources.lookups import Lookup, check_free, check_types, looked_up, named_keys, not_unique, stream_of
from slackwater.sources.tabular import as_table


def with_lookups(spark: SparkSession, query: str, streams: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A query over DataFrames and static relations as one over DataFrames alone."""
    text, joins = looked_up(query, streams)
    frames = {name: given for name, given in streams.items() if not isinstance(given, Lookup)}
    for join in joins:
        name, given = stream_of(join, list(frames)), streams[join.relation]
        if given.refresh is not None:
            raise UsageError(f"static relation {join.relation}: refresh is not offered on Spark; leave it out")
        frames[name] = _widened(frames[name], _frame(spark, given.read, join), join, given.unique)
    return text, frames


def _frame(spark: SparkSession, rows: Any, join: StaticJoin) -> DataFrame:
    """A static relation as a DataFrame."""
    if not hasattr(rows, "sparkSession"):
        table = as_table(join.relation, rows)
        lines = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return spark.createDataFrame(lines, from_arrow_schema(table.schema))
    if rows.isStreaming:
        raise UsageError(f"static relation {join.relation} is a streaming DataFrame; give that as a stream")
    frame: DataFrame = rows
    return frame


def _widened(frame: DataFrame, relation: DataFrame, join: StaticJoin, unique: bool) -> DataFrame:
    """The rows of a stream with what a static relation has for them, in a nested column."""
    check_free(join, frame.columns)
    mine, theirs = empty_table(frame).schema, empty_table(relation).schema
    keys = named_keys(join, mine.names, theirs.names)
    for own, other in keys:
        check_types(join, (own, mine.field(own).type), (other, theirs.field(other).type))
    if unique:
        _check_unique(relation, join, [other for _, other in keys])
    whole = fn.struct(*(_column(name) for name in relation.columns)).alias(join.alias)
    named = [f"__slackwater_key{at}" for at in range(len(keys))]
    held = relation.select(whole, *(_column(other).alias(name) for name, (_, other) in zip(named, keys, strict=True)))
    equal = [frame[_quoted(own)] == held[name] for name, (own, _) in zip(named, keys, strict=True)]
    return frame.join(held, reduce(lambda one, more: one & more, equal), "left").drop(*named)


def _check_unique(relation: DataFrame, join: StaticJoin, keys: list[str]) -> None:
    counted = relation.dropna(subset=list(map(_quoted, keys))).groupBy(*map(_column, keys)).count()
    found = counted.where("count > 1").head()
    if found is not None:
        raise DataError(not_unique(join, list(found)[:-1], found[-1]))


def _column(name: str) -> Any:
    return fn.col(_quoted(name))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
