"""The plan of a query as text or JSON, over tables or DataFrames of any kind: nothing is run, and no row is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slackwater.language.query_file import is_query_file, queries_by_name, read_query_file
from slackwater.plan.explain import TEXT, explain_queries
from slackwater.plan.explain import explain as rendered
from slackwater.plan.planner import plan
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.tabular import as_table


def explain(
    query: str | Mapping[str, str], streams: Mapping[str, Any] | None = None, /, *, time: str = "ts", **named: Any
) -> str:
    """How a query will run, as a tree from its output down to its sources. Streams are tables, schemas or DataFrames.

    A text that begins with `EXPLAIN (FORMAT JSON)` gives the same as JSON. Several queries, by name or as the text of a
    file, are one plan with what they share.

    >>> ticks = pa.table({"ts": [1], "v": [2]})
    >>> reported = explain("SELECT SUM(v) AS total FROM s [RANGE 1 SECOND] WITH NO WAIT", s=ticks)
    >>> for line in reported.splitlines()[:3]:
    ...     print(line)
    output: window_start, window_end, total
    └─ ISTREAM: a result is emitted when it is made
       └─ aggregate: window 1 s, tumbling
    """
    tables = {name: _empty(name, one) for name, one in {**(streams or {}), **named}.items()}
    if not isinstance(query, str) or is_query_file(query):
        file = read_query_file(query) if isinstance(query, str) else queries_by_name(query)
        all_bound = file.of_each(lambda one: bind_to_tables(one.text, tables, time))
        plans = file.of_each(lambda one: plan(all_bound[one.name].query))
        return explain_queries(plans, {name: one.quality_stated for name, one in all_bound.items()})
    bound = bind_to_tables(query, tables, time)
    return rendered(plan(bound.query), bound.quality_stated, bound.explain or TEXT)


def _empty(name: str, stream: Any) -> pa.Table:
    """A table without rows that has the columns of a stream."""
    if isinstance(stream, pa.Schema):
        return stream.empty_table()
    if hasattr(stream, "sparkSession"):
        from slackwater.runtime.spark.query import empty_table

        return empty_table(stream)
    return as_table(name, stream).schema.empty_table()
