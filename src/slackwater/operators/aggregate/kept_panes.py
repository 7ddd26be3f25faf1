"""Windows that are closed more than once: those that may be corrected, and those that are still open.

Invariant: a window that is computed once more is what the aggregate would have made of all tuples that are kept of it:
its panes are copied into an operator of its own, which closes them. A pane is kept until no window that it is part of
may change any more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.holistic_values import keep_again
from slackwater.operators.aggregate.operator import AT_ONCE, AggregateOperator
from slackwater.operators.aggregate.pane_partials import fill_panes
from slackwater.operators.aggregate.panes import Panes, first_pane, last_pane, window_end
from slackwater.operators.aggregate.sliding import find_partial, group_of, new_partial
from slackwater.operators.aggregate.window_loop import add_to_pane, admit_panes
from slackwater.operators.output import Output


@in_place
def groups_of(t: st.Tables, new: st.Taken, groups: Words) -> None:
    """The groups of tuples that are kept."""
    for i in range(len(groups)):
        groups[i] = group_of(t, new.words, new.key_rows, i)


@in_place
def find_partials(t: st.Tables, grid: Panes, windows: Words, groups: Words, found: Words) -> tuple[int, int]:
    """The partials that windows of groups are made of, each once, where these are sorted by group and window; returns
    how many they are, and how many values they have."""
    n = values = 0
    group, reached = NONE, 0
    for p in range(len(windows)):
        first = first_pane(grid, windows[p])
        if groups[p] == group:
            first = max(first, reached + 1)
        group, reached = groups[p], last_pane(grid, windows[p])
        for pane in range(first, reached + 1):
            e = find_partial(t, pane, group)
            if e != NONE:
                found[n] = e
                n += 1
                b = t.partials[e, st.VALUES]
                while b != NONE:
                    values += t.blocks[b, st.FILLED]
                    b = t.blocks[b, st.LINK]
    return n, values


@in_place
def copy_partials(of: st.Tables, to: st.Tables, found: Words, keys: Words, key_rows: Words) -> None:
    """Copy partials, with their values, into panes that have not entered a window; `keys` are those of their groups."""
    for p in range(len(found)):
        e = found[p]
        pane = of.partials[e, st.PANE]
        copy = new_partial(to, pane, group_of(to, keys, key_rows, p))
        add_to_pane(to, pane, copy, False)
        for c in range(of.scalars[st.WIDTH]):
            to.partials[copy, st.OWN + c] = of.partials[e, st.OWN + c]
        b = of.partials[e, st.VALUES]
        while b != NONE:
            for v in range(of.blocks[b, st.FILLED]):
                keep_again(to, copy, of.blocks, b, v)
            b = of.blocks[b, st.LINK]


class KeptPanes(AggregateOperator):
    """An aggregate whose windows are closed when they are asked for, and as often."""

    def keep(self, words: Words) -> None:
        """Keep tuples, of shape (rows, tuples), as far as a window may change that they are in."""
        t = self._tables
        new = self._taken(words)
        at_once = AT_ONCE // t.wide
        for begin in range(0, words.shape[1], at_once):
            end = min(begin + at_once, words.shape[1])
            t.reserve(end - begin)
            fill_panes(t.now, self.spec.grid, new, begin, end, t.arguments > 0)

    def _taken(self, words: Words) -> st.Taken:
        words, nothing = np.ascontiguousarray(words), np.zeros(0, np.int64)
        return st.Taken(words, words.view(np.float64), nothing, self._key_rows, self._tables.value_rows)

    def groups(self, words: Words) -> Words:
        """The numbers of the groups of tuples that are kept, until something is forgotten."""
        groups = np.empty(words.shape[1], np.int64)
        groups_of(self._tables.now, self._taken(words), groups)
        return groups

    def keys(self, groups: Words) -> Words:
        """The keys of groups, of shape (groups, columns)."""
        return self._tables.now.groups[groups, st.KEY : st.KEY + len(self.spec.keys)]

    def forget(self, before: int) -> None:
        """Windows before this one do not change any more."""
        t = self._tables
        if before > t.scalars[st.NEXT]:
            t.scalars[st.NEXT] = before
            admit_panes(t.now, self._first_waiting(before), self._entered_before(before), t.arguments > 0)

    def _first_waiting(self, window: int) -> int:
        return int(first_pane(self.spec.grid, window))

    def _entered_before(self, window: int) -> int:
        # No pane ever enters a window here.
        return self._first_waiting(window) - 1

    def rows_of(self, windows: Words, groups: Words) -> Iterator[Output]:
        """The rows of windows of groups, among those of other windows between them."""
        grid, t = self.spec.grid, self._tables
        order = np.lexsort((windows, groups))
        windows, groups = np.ascontiguousarray(windows[order]), np.ascontiguousarray(groups[order])
        most = last_pane(grid, 0) - first_pane(grid, 0) + 1
        # Of two windows of a group, one after the other, the panes that both have are found once.
        steps = np.diff(windows, prepend=0) * (1 if grid.rest == 0 else 2)
        again = np.concatenate([[False], groups[1:] == groups[:-1]])
        found = np.empty(int(np.where(again, np.minimum(steps, most), most).sum()), np.int64)
        n, values = find_partials(t.now, grid, windows, groups, found)
        return closed_again(self, found[:n], values, int(windows.min()), window_end(grid, int(windows.max())))


def open_rows(of: AggregateOperator) -> Iterator[Output]:
    """The rows of all windows that are still open and have tuples, as they are now."""
    pane, scalars = of.tables.now.partials[:, st.PANE], of.tables.scalars
    first = int(scalars[st.NEXT])
    found = np.flatnonzero((pane != st.NO_PANE) & (pane >= first_pane(of.spec.grid, first)))
    if len(found):
        yield from closed_again(of, found, int(scalars[st.VALUES_KEPT]), first, AFTER_ALL)


def closed_again(of: AggregateOperator, found: Words, values: int, first: int, watermark: int) -> Iterator[Output]:
    """The rows of windows from the first on that end at the watermark or before, made of these partials."""
    closing = of.another()
    closing.begin_at(first)
    t, to, keys = of.tables.now, closing.tables, len(of.spec.keys)
    of_groups = t.groups[t.partials[found, st.GROUP], st.KEY : st.KEY + keys]
    to.reserve(max(len(found), values))
    copy_partials(t, to.now, found, np.ascontiguousarray(of_groups.T), np.arange(keys))
    nothing = np.zeros(0, np.int64)
    tuples = OrderedTuples.of(nothing, np.zeros((of.spec.rows, 0), np.int64), nothing)
    yield from closing.process(OrderedBatch(tuples, watermark, 0, 0), False)
