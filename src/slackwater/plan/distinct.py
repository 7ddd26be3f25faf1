"""The plan of SELECT DISTINCT: what is selected is compared as the keys of groups are.

Invariant: equal expressions share one row of a tuple, so each is computed, compared and remembered once.
"""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.language.derived import leaves_as
from slackwater.language.distinct import DistinctQuery
from slackwater.operators.distinct import StreamDistinct
from slackwater.plan.layout import InputLayout
from slackwater.plan.ordering import check_no_join_options
from slackwater.plan.physical import OutputColumn, PhysicalPlan


def plan_distinct(query: DistinctQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    """Rows are identified by their values, so nothing is added for `identities`."""
    if count_only:
        raise UsageError("--count counts the results of a join; leave it out, or leave out DISTINCT")
    check_no_join_options(query.options, "joins alone")
    (stream,) = query.streams
    assert stream.range is not None, "a window of time"
    layout = InputLayout(stream, 0)
    rows = [layout.value(item.expr, "group key") for item in query.outputs]
    columns = tuple(dict.fromkeys(rows))
    one = layout.finish(query.options.clock_by)
    outputs = tuple(
        OutputColumn(item.name, item.expr.kind, leaves_as(item.expr, query.streams), columns.index(row))
        for item, row in zip(query.outputs, rows, strict=True)
    )
    emitted = tuple((0, query.outputs[rows.index(row)].name) for row in columns)
    operator = StreamDistinct(stream.range, columns, one.rows)
    return PhysicalPlan(query, (one,), operator, outputs, emitted, query.quality, query.options)
