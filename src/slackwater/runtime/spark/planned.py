"""A query over streaming DataFrames, bound and planned; what the user should know is said as warnings.

Invariant: nothing is started here, and nothing is read from the streams but their schemas.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slackwater.language.bound import BoundQuery
from slackwater.model.errors import QueryError, UsageError
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.spark.session import complaints, have_rocksdb
from slackwater.runtime.spark.types import arrow_schema
from slackwater.sources.binding import bind_to_tables, left_out
from slackwater.sources.tabular import check_unit


def empty_table(frame: DataFrame) -> pa.Table:
    """A table without rows that has the columns of a DataFrame."""
    return pa.Table.from_batches([], arrow_schema(frame.schema))


def planned_over(
    spark: SparkSession,
    query: str,
    streams: Mapping[str, DataFrame],
    time: str,
    time_unit: str,
    stacklevel: int,
) -> tuple[BoundQuery, PhysicalPlan]:
    """A query as it is bound, and its plan; `stacklevel` says whose line warnings name."""
    check_unit(time_unit)
    for name, frame in streams.items():
        if not hasattr(frame, "sparkSession"):
            raise UsageError(f"{name} is a {type(frame).__name__}, and no DataFrame of Spark; `sw.replay` takes tables")
    tables = {name: empty_table(frame) for name, frame in streams.items()}
    bound = bind_to_tables(query, tables, time)
    for column in left_out(bound.query, tables):
        warnings.warn(f"{column} is left out; a query cannot read it", stacklevel=stacklevel + 1)
    if bound.explain:
        raise QueryError("EXPLAIN gives no stream; print it with `slackwater explain`")
    return bound.query, plan(bound.query)


def check_session(spark: SparkSession, shards: int, stacklevel: int) -> None:
    """Give a session what our queries need; what cannot be set here, and does harm, is said as a warning."""
    have_rocksdb(spark, stacklevel + 1)
    for complaint in complaints(spark, shards):
        warnings.warn(complaint, stacklevel=stacklevel + 1)
