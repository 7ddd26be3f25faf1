"""Rebuilding an aggregate's tables from persisted panes."""

from __future__ import annotations

from slackwater.compiled import in_place
from slackwater.model.batch import Words
from slackwater.operators.pane_queue import add_to_pane
from slackwater.operators.partials import Floats
from slackwater.operators.sliding import OWN, group_of, new_partial
from slackwater.operators.values import keep


@in_place
def put_back(
    program: Words,
    pane: int,
    keys: Words,
    key_rows: Words,
    state: Words,
    owners: Words,
    held: Words,
    value_rows: Words,
    partials: Words,
    floats: Floats,
    groups: Words,
    panes: Words,
    buckets: Words,
    values: Words,
    scalars: Words,
) -> None:
    """Make the partials of one pane as they were, each with the values it owned."""
    v = 0
    for p in range(len(state)):
        g = group_of(groups, buckets, scalars, keys, key_rows, p)
        e = new_partial(program, partials, floats, groups, buckets, scalars, pane, g)
        add_to_pane(panes, partials, buckets, scalars, pane, e, False)
        for c in range(state.shape[1]):
            partials[e, OWN + c] = state[p, c]
        while v < len(owners) and owners[v] == p:
            keep(values, scalars, partials, e, held, value_rows, v)
            v += 1
