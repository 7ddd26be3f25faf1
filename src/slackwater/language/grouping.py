"""Window aggregates: keys, aggregate calls, what is computed from them, and their order in the result.

Invariant: every selected item is made of keys of GROUP BY, aggregates, and bounds of the window; the window's bounds
are always in the result and therefore never listed.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.expressions.tree import Column
from slackwater.language.bound import AggregateQuery, Output, StreamRef
from slackwater.language.groups import bind_groups, key_column, renamed
from slackwater.language.nodes import Select, text_of
from slackwater.language.output_names import free_name, name_columns
from slackwater.language.scope import Scope


def bind_aggregation(
    query: Select, streams: tuple[StreamRef, ...], quality: Quality, options: Options
) -> AggregateQuery:
    """The aggregate query over streams whose windows and filters are bound already; it stands over the first one."""
    groups = bind_groups(query, Scope(text_of(query), streams))
    selected = groups.selected
    chosen = [expr.name for expr, _ in selected if isinstance(expr, Column)]
    hidden = [at for at in range(len(groups.keys)) if key_column(at) not in chosen]
    wishes = [wish for _, wish in selected] + [groups.keys[at][1] for at in hidden]
    names = name_columns(wishes, text_of(query), aggregate=True)
    order = tuple(names[: len(selected)])
    taken = set(names)
    called = {key_column(at): [name] for at, name in zip(hidden, names[len(selected) :], strict=True)}
    for (expr, _), name in zip(selected, order, strict=True):
        if isinstance(expr, Column):
            called.setdefault(expr.name, []).append(name)
    keys, columns = [], {}
    for at, (expr, _) in enumerate(groups.keys):
        keys += [Output(name, expr) for name in called[key_column(at)]]
        columns[key_column(at)] = called[key_column(at)][0]
    aggregates = []
    for call, written in zip(groups.calls, groups.written, strict=True):
        own = called[call.name] if call.name in called else [free_name(written, taken)]
        aggregates.append(replace(call, name=own[0]))
        columns[call.name] = own[0]
    computed = [
        Output(name, renamed(expr, columns))
        for (expr, _), name in zip(selected, order, strict=True)
        if not isinstance(expr, Column) or expr.name not in columns
    ]
    return AggregateQuery(
        streams[0], tuple(keys), tuple(aggregates), order, quality, options, query.out, tuple(computed),
        tuple(renamed(expr, columns) for expr in groups.having),
    )  # fmt: skip
