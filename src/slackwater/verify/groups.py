"""HAVING, and what is computed around aggregates, in SQL over the tables that have the aggregates of a window.

A computed column is compared with what DuckDB makes of the aggregates that the run itself gave beside it; those are
compared with the truth. So the expression is checked to the last digits, however much it cancels.

Invariant: these tables have window_start, window_end, `k<n>` for the n-th key, and one column for each aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Expr
from slackwater.language.bound import WINDOW_COLUMNS, AggregateQuery, BoundQuery, streams_read
from slackwater.verify.sql import Renderer


class GroupRenderer(Renderer):
    """Renders expressions of groups; `value` is what the columns of aggregates begin with, `table` the table's name and
    a dot, where there are several."""

    def __init__(self, query: AggregateQuery, value: str, table: str = "") -> None:
        super().__init__([])
        self._names = {name: f"{table}{name}" for name in WINDOW_COLUMNS}
        self._names |= {key.name: f"{table}k{n}" for n, key in enumerate(query.keys)}
        self._names |= {call.name: f"{table}{value}{n}" for n, call in enumerate(query.aggregates)}

    def column(self, stream: int, name: str) -> str:
        """The SQL name of a column of a group."""
        return self._names[name]


def group_expressions(query: BoundQuery) -> Iterator[Expr]:
    """Every expression of a query, and of all inside it, that reads groups and no column of a stream."""
    if isinstance(query, AggregateQuery):
        yield from query.having
        yield from (one.expr for one in query.computed)
    for stream in streams_read(query):
        if stream.query is not None:
            yield from group_expressions(stream.query)


def is_wanted(query: AggregateQuery, value: str, table: str = "") -> str:
    """In SQL: HAVING is true of a row."""
    return f"coalesce({GroupRenderer(query, value, table).all_of(query.having)}, false)"


def as_computed(query: AggregateQuery, table: str = "") -> str:
    """In SQL: every computed column `q<n>` of a produced row is what its aggregates `p<n>` make it."""
    render = GroupRenderer(query, "p", table)
    found = []
    for n, one in enumerate(query.computed):
        given, right = f"{table}q{n}", render.value(one.expr)
        same = f"{given} IS NOT DISTINCT FROM {right}"
        if one.expr.kind is Kind.FLOAT:
            same += f" OR coalesce(abs({given} - {right}) <= 1e-9 * abs({right}), false)"
        found.append(f"({same})")
    return " AND ".join(found) or "true"
