"""Operators whose windows count tuples, planned."""

from __future__ import annotations

from slackwater.language.bound import JoinQuery, StreamRef
from slackwater.model.errors import UsageError
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.algebra import AggregateSpec
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.row_windows import BY_TIME, by_rows
from slackwater.operators.row_aggregate import RowAggregate


def aggregate_over(
    stream: StreamRef, keys: tuple[int, ...], aggregates: tuple[AggregateSpec, ...], rows: int
) -> WindowAggregate:
    """The aggregate over whatever window the stream has."""
    if stream.window is not None:
        return RowAggregate(stream.window.rows, stream.window.slide, keys, aggregates, rows)
    assert stream.range is not None, "binding an aggregate without a window"
    return WindowAggregate(stream.range, stream.slide, keys, aggregates, rows)


def counting(join: WindowJoin, query: JoinQuery) -> WindowJoin:
    """The join with the windows of rows that its query has; refused where these cannot be."""
    last = tuple(BY_TIME if stream.window is None else stream.window.rows for stream in query.streams)
    # A selection has no window: its only tuple is the newest.
    if join.streams == 1 or not any(last):
        return join
    if query.options.shape != "multiway":
        raise UsageError(
            f"option shape = '{query.options.shape}' does not go with windows of rows; a node below knows too little"
            " of what its results will meet above"
        )
    if query.options.join is not None:
        raise UsageError(f"option join = '{query.options.join}' is for windows of time alone")
    return by_rows(join, last)
