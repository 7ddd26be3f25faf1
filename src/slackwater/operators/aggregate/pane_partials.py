"""Partial results per pane and group, made where tuples are read and combined where the windows are.

A million tuples of one second become as many lines as there are panes and groups in it. They are the partials that the
operator would have made of the tuples itself, so nothing is computed in two ways.

Invariant: to combine partials leaves an operator in the state that taking in their tuples would have, as far as none of
these is late (float sums: but for the order in which they are added).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place
from slackwater.core.time import BEFORE_ALL
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout
from slackwater.operators.aggregate.panes import Panes, first_open, first_pane, last_pane
from slackwater.operators.aggregate.partials import combine, program_for
from slackwater.operators.aggregate.sliding import find_partial, group_of, new_partial
from slackwater.operators.aggregate.tables import USUAL_WIDTH, GrowingTables
from slackwater.operators.aggregate.window_loop import add_to_pane, put_into_pane

if TYPE_CHECKING:
    from slackwater.operators.aggregate.operator import WindowAggregate

PANE, TUPLES, KEY = range(3)
"""Rows of partials as words, one column each: the number of the pane, tuples in it; keys and state follow."""
AT_ONCE = 1 << 12
"""Tuples that are taken in before there is room for more."""
FEWEST_TUPLES = 4
"""Tuples that a partial must stand for on average; with fewer it costs more than they do."""


def text_keys(spec: WindowAggregate, text_rows: tuple[int, ...]) -> tuple[int, ...]:
    """The rows of partials that hold text, where these rows of tuples do."""
    return tuple(KEY + place for place, row in enumerate(spec.keys) if row in text_rows)


def pay(spec: WindowAggregate, words: Words) -> bool:
    """Whether partials of these tuples are few, as far as the first of them tell; of few tuples nothing is known."""
    return words.shape[1] >= AT_ONCE and partials_of(spec, words[:, :AT_ONCE]) is not None


def partials_of(spec: WindowAggregate, words: Words, fewest: int | None = None) -> Words | None:
    """Tuples, of shape (rows, tuples), as partials of shape (KEY + keys + width, partials); None: not worth it, for a
    partial would stand for fewer than so many of them."""
    # A partial with many words must stand for more tuples to be worth its while.
    least = max(FEWEST_TUPLES, spec.layout.width // USUAL_WIDTH) if fewest is None else fewest
    counted = Layout.of((*spec.aggregates, AggregateSpec("COUNT")))
    tables = GrowingTables(program_for(counted), len(spec.keys), counted.width, ())
    tables.scalars[st.NEXT] = first_open(spec.grid, BEFORE_ALL)
    tables.scalars[st.ENTERED] = last_pane(spec.grid, int(tables.scalars[st.NEXT]) - 1)
    words = np.ascontiguousarray(words)
    nothing = np.zeros(0, np.int64)
    new = st.Taken(words, words.view(np.float64), nothing, np.array(spec.keys, np.int64), nothing)
    for begin in range(0, words.shape[1], AT_ONCE):
        end = min(begin + AT_ONCE, words.shape[1])
        tables.reserve(end - begin)
        fill_panes(tables.now, spec.grid, new, begin, end, False)
        if least * int(tables.scalars[st.PARTIALS]) > end:
            return None
    return _gathered(tables, spec, counted)


def all_partials_of(spec: WindowAggregate, words: Words) -> Words:
    """The same, however few tuples a partial stands for."""
    found = partials_of(spec, words, fewest=0)
    assert found is not None
    return found


def _gathered(tables: GrowingTables, spec: WindowAggregate, counted: Layout) -> Words:
    found, groups = tables.now.partials, tables.now.groups
    found = found[found[:, st.PANE] != st.NO_PANE]
    found = found[np.argsort(found[:, st.PANE], kind="stable")]
    keys = groups[found[:, st.GROUP], st.KEY : st.KEY + len(spec.keys)].T
    tuples = found[:, st.OWN + counted.offset(AggregateSpec("COUNT").components[0])]
    state = found[:, st.OWN : st.OWN + spec.layout.width].T
    return np.vstack([found[:, st.PANE], tuples, keys, state])


@in_place
def fill_panes(t: st.Tables, grid: Panes, new: st.Taken, begin: int, end: int, holistic: bool) -> None:
    """Put tuples into panes of which none has entered a window."""
    for i in range(begin, end):
        put_into_pane(t, grid, new, i, holistic)


@in_place
def combine_all(t: st.Tables, grid: Panes, words: Words, key_rows: Words, state: Words, floats: Floats) -> None:
    """Combine partials, whose panes and keys are in `words`, into panes that have not entered a window."""
    for p in range(len(state)):
        pane = words[PANE, p]
        if pane < first_pane(grid, t.scalars[st.NEXT]):
            continue
        g = group_of(t, words, key_rows, p)
        e = find_partial(t, pane, g)
        if e == NONE:
            e = new_partial(t, pane, g)
            add_to_pane(t, pane, e, False)
        t.partials[e, st.DIRTY] = 1
        combine(t.program, t.partials, t.floats, e, st.OWN, state, floats, p, 0)
