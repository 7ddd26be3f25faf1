"""The plan of an as-of join: keys are hashed as those of a join are, and a version carries what results read of it.

Invariant: equal expressions share one row of a tuple, so each is computed and carried once.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.errors import UsageError
from slackwater.language.asof import AsOfQuery
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.plan.layout import InputLayout
from slackwater.plan.ordering import check_no_join_options
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.selected import emitted_for, identities, nulls_of, output_column


def plan_as_of(query: AsOfQuery, count_only: bool, identified: bool) -> PhysicalPlan:
    """The plan; with `identified`, which tuples made a row."""
    if count_only:
        raise UsageError("--count counts the results of a join with windows; leave it out, or leave out ASOF")
    check_no_join_options(query.options, "joins with windows alone")
    if identified:
        query = replace(query, outputs=query.outputs + identities(query.streams))
    layouts = [InputLayout(stream, i) for i, stream in enumerate(query.streams)]
    keys = tuple(
        (layouts[0].value(mine, "join key"), layouts[1].value(other, "join key")) for mine, other in query.keys
    )
    emitted = emitted_for([*(item.expr for item in query.outputs), *query.kept])
    emit = tuple((stream, layouts[stream].column(name)) for stream, name in emitted)
    inputs = tuple(layout.finish(query.options.clock_by, query.options.size_by) for layout in layouts)
    rows = max(one.rows for one in inputs)
    nulls = nulls_of(query.streams, emitted)
    operator = AsOfJoin(keys, emit, nulls, rows, query.strict, query.within, query.outer, query.kept, emitted)
    outputs = tuple(output_column(item, query.streams, emitted) for item in query.outputs)
    return PhysicalPlan(query, inputs, operator, outputs, emitted, query.quality, query.options)
