"""The plan of the first rows of a window: what they are parted by is compared as the keys of groups are.

Invariant: equal expressions share one row of a tuple, so each is computed, compared and carried once.
"""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.core.schema import UTC, Kind
from slackwater.language.bound import WINDOW_COLUMNS
from slackwater.language.derived import leaves_as
from slackwater.language.top import NUMBER, TopQuery
from slackwater.operators.top import SortKey, TopRows
from slackwater.plan.layout import InputLayout
from slackwater.plan.ordering import check_no_join_options
from slackwater.plan.physical import OutputColumn, PhysicalPlan


def plan_top(query: TopQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    """Rows are identified by their values, so nothing is added for `identities`."""
    if count_only:
        raise UsageError("--count counts the results of a join; leave it out, or leave out LIMIT")
    check_no_join_options(query.options, "joins alone")
    (stream,) = query.streams
    layout = InputLayout(stream, 0)
    partition = tuple(layout.value(expr, "group key") for expr in query.partition)
    order = tuple(
        SortKey(layout.value(one.expr, "argument"), one.expr.kind, one.descending, one.nulls_first)
        for one in query.order
    )
    shown = tuple(SortKey(layout.value(expr, "argument"), expr.kind) for expr in query.selected)
    columns = tuple(dict.fromkeys(shown))
    start = layout.column(WINDOW_COLUMNS[0]) if query.of_aggregate else None
    one = layout.finish(query.options.clock_by)
    outputs = [OutputColumn(name, Kind.TIME, UTC, at) for at, name in enumerate(WINDOW_COLUMNS)]
    places = iter(2 + columns.index(key) for key in shown)
    for item in query.outputs:
        place = 2 + len(columns) if item.expr == NUMBER else next(places)
        outputs.append(OutputColumn(item.name, item.expr.kind, leaves_as(item.expr, query.streams), place))
    # The rows of an aggregate stand at the last instant of their window, and so alone in one of a microsecond.
    size = 1 if stream.range is None else stream.range
    operator = TopRows(size, tuple(dict.fromkeys(partition)), order, query.most, columns, one.rows, start)
    return PhysicalPlan(query, (one,), operator, tuple(outputs), (), query.quality, query.options)
