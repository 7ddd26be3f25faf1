"""Functions that Spark alone has, as columns of the DataFrames that a query reads.

Invariant: a query that calls none of them, and its DataFrames, stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.language.in_front import without_functions


def computed_in_front(query: Any, streams: Mapping[str, Any], history: Any = None) -> tuple[Any, dict[str, Any]]:
    """A query over DataFrames without such functions, and the DataFrames with what they are."""
    frames = dict(streams)
    if not isinstance(query, str):
        return query, frames
    columns = {name: one.columns for name, one in frames.items() if hasattr(one, "sparkSession")}
    text, computed = without_functions(query, columns)
    if computed and history is not None:
        raise UsageError(
            f"{computed[0].sql} is computed by Spark, which does not go with a history; make a column of it in both"
        )
    for one in computed:
        frames[one.stream] = frames[one.stream].withColumn(one.name, fn.expr(one.sql))
    return text, frames
