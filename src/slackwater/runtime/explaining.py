"""The plan of a query as text or JSON, over tables or DataFrames of any kind.

Invariant: nothing is run. Where a plan goes by rates and rows, those of tables are counted, as for a replay; of a
DataFrame of Spark no row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slackwater.language.query_file import is_query_file, queries_by_name, read_query_file
from slackwater.plan.explain import TEXT, explain_queries
from slackwater.plan.explain import explain as rendered
from slackwater.sources.binding import bind_to_tables, plan_over
from slackwater.sources.lookups import Lookup, joined_tables, looked_up, with_lookups
from slackwater.sources.tabular import as_table, check_unit


def explain(
    query: str | Mapping[str, str],
    streams: Mapping[str, Any] | None = None,
    /,
    *,
    time: str = "ts",
    time_unit: str = "ms",
    **named: Any,
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
    check_unit(time_unit)
    given = {**(streams or {}), **named}
    if any(hasattr(one, "sparkSession") for one in given.values()):
        from slackwater.runtime.spark.in_front import computed_in_front

        query, given = computed_in_front(query, given)
    given = {name: _plain(name, one) for name, one in given.items()}
    if not isinstance(query, str) or is_query_file(query):
        file = read_query_file(query) if isinstance(query, str) else queries_by_name(query)
        found = file.of_each(lambda one: looked_up(one.text, given, apart=True))
        tables = _tables(joined_tables([join for _, joins in found.values() for join in joins], given))
        all_bound = file.of_each(lambda one: bind_to_tables(found[one.name][0], tables, time))
        plans = file.of_each(lambda one: plan_over(all_bound[one.name].query, tables, time_unit))
        return explain_queries(plans, {name: one.quality_stated for name, one in all_bound.items()})
    query, given = with_lookups(query, given)
    tables = _tables(given)
    bound = bind_to_tables(query, tables, time)
    return rendered(plan_over(bound.query, tables, time_unit), bound.quality_stated, bound.explain or TEXT)


def _plain(name: str, given: Any) -> Any:
    """A DataFrame of Spark as a table without rows; anything else as it is."""
    if isinstance(given, Lookup):
        return Lookup(_plain(name, given.read), given.unique)
    return _table(name, given) if isinstance(given, pa.Schema) or hasattr(given, "sparkSession") else given


def _tables(streams: dict[str, Any]) -> dict[str, pa.Table]:
    return {name: _table(name, one) for name, one in streams.items()}


def _table(name: str, stream: Any) -> pa.Table:
    """A stream that is recorded; of any other a table without rows that has its columns."""
    if isinstance(stream, pa.Schema):
        return stream.empty_table()
    if hasattr(stream, "sparkSession"):
        from slackwater.runtime.spark.query import empty_table

        return empty_table(stream)
    return as_table(name, stream)
