"""Rebuilding an aggregate's tables from persisted panes."""

from __future__ import annotations

from slackwater.compiled import compiled
from slackwater.model.batch import Words
from slackwater.operators.pane_queue import add_to_pane
from slackwater.operators.partials import Floats
from slackwater.operators.sliding import OWN, group_of, new_partial
from slackwater.operators.values import keep


@compiled
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
    values: Words,
    scalars: Words,
) -> None:
    """Make the partials of one pane as they were, each with the values it owned."""
    v = 0
    for p in range(len(state)):
        g = group_of(groups, scalars, keys, key_rows, p)
        e = new_partial(program, partials, floats, groups, scalars, pane, g)
        add_to_pane(panes, partials, scalars, pane, e, False)
        partials[e, OWN : OWN + state.shape[1]] = state[p]
        while v < len(owners) and owners[v] == p:
            keep(values, scalars, partials, e, held, value_rows, v)
            v += 1
