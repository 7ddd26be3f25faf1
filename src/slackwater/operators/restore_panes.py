"""Rebuilding an aggregate's tables from persisted panes.

Invariant: a pane put back has the partials and values it was persisted with, and waits to enter the window.
"""

from __future__ import annotations

from slackwater.compiled import in_place
from slackwater.model.batch import Words
from slackwater.operators.aggregate_state import OWN, Tables
from slackwater.operators.holistic_values import keep
from slackwater.operators.pane_queue import add_to_pane
from slackwater.operators.sliding import group_of, new_partial


@in_place
def put_back(
    t: Tables, pane: int, keys: Words, key_rows: Words, state: Words, owners: Words, held: Words, value_rows: Words
) -> None:
    """Make the partials of one pane as they were, each with the values it owned."""
    v = 0
    for p in range(len(state)):
        g = group_of(t, keys, key_rows, p)
        e = new_partial(t, pane, g)
        add_to_pane(t, pane, e, False)
        for c in range(state.shape[1]):
            t.partials[e, OWN + c] = state[p, c]
        while v < len(owners) and owners[v] == p:
            keep(t, e, held, value_rows, v)
            v += 1
