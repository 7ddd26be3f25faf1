"""How tuples run through the buffers of a configuration: for every outlet, a short program of what to do with a tuple.

Buffers stand in *rows* with fixed numbers: an operator with n children has n rows for its chain and n *catch-up* rows,
one in front of each child. A catch-up row is only in use after an adaptation: there wait the tuples that the child has
still to get, and that lie behind the place where the child now takes its tuples from. It adds no slack, and all that
goes to the child then passes through it, so that the child gets its tuples in order.

An *outlet* is the source, or a row. Its program is a list of steps, children of the tree behind their parents:

- PUSH: put the tuple into a row.
- DELIVER: give it to an operator, unless that one has had it. A leaf emits it; a filter lets it go on to the steps that
  belong to it, or skips them.
- CATCH_UP: put it into the catch-up row of an operator, unless that one has had it.
- COMMITTED: as DELIVER, from a catch-up row; that the operator gets it was noted when it was put there.

Invariant: rows are numbered so that each is fed by the source or by rows with smaller numbers only. A program depends
on which child takes from which buffer, and on the catch-up rows in use, not on sizes: so few are ever made, and kept.

References: 004 §5.3 (a chain's output targets), §5.5.2.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from papers.chains.configuration import Configuration
from papers.chains.subplan import SOURCE, Number, Subplan
from slackwater.core.batch import Words

PUSH, DELIVER, CATCH_UP, COMMITTED = range(4)


class Wiring(NamedTuple):
    """The programs of all outlets, as arrays for compiled code."""

    kind: Words
    row: Words
    """Into which a tuple is put."""
    operator: Words
    leaf: Words
    """Whether the operator is one."""
    skip: Words
    """Where to go on when the tuple goes no further here."""
    begin: Words
    """Of each outlet's program: of the source, then of the rows; one more than there are outlets."""


class Rows(NamedTuple):
    """Which rows belong to whom."""

    first: tuple[int, ...]
    """The first row of every operator's chain."""
    catch_up: tuple[int, ...]
    """The catch-up row of every operator; -1 for the source."""
    total: int


@lru_cache(maxsize=64)
def rows_of(plan: Subplan) -> Rows:
    """Rows by number: of each operator its chain, then its children's catch-up rows."""
    width = [2 * len(below) for below in plan.children]
    first = [0, *accumulate(width)]
    catch_up = [-1] * len(plan.parents)
    for v in plan.inner:
        for at, child in enumerate(plan.children[v]):
            catch_up[child] = first[v] + len(plan.children[v]) + at
    return Rows(tuple(first[:-1]), tuple(catch_up), first[-1])


def places(plan: Subplan, configuration: Configuration) -> tuple[int, ...]:
    """idx_B of every operator: from which buffer of its parent's chain it takes its tuples; 0: from the parent itself.

    >>> plan = Subplan.of({"v1": ("v2", "v3", "v4")}, "v1")
    >>> places(plan, Configuration((0, 2, 2, 3)))
    (0, 1, 1, 2)
    """
    sums = configuration.accumulated
    found = [0] * len(sums)
    for v in plan.inner:
        below = plan.children[v]
        if not configuration.shared:
            for child in below:
                found[child] = int(plan.is_leaf(child))
            continue
        levels = sorted({sums[v], *[sums[child] for child in below]})
        for child in below:
            found[child] = levels.index(sums[child])
    return tuple(found)


def reaches(plan: Subplan, configuration: Configuration, idx: tuple[int, ...]) -> list[Number]:
    """Of every row, how much slack a tuple has had once it leaves it."""
    rows, sums = rows_of(plan), configuration.accumulated
    found: list[Number] = [0] * rows.total
    for v in plan.inner:
        for at, child in enumerate(plan.children[v]):
            found[rows.catch_up[child]] = sums[child]
            if idx[child]:
                found[rows.first[v] + (idx[child] - 1 if configuration.shared else at)] = sums[child]
    return found


@lru_cache(maxsize=4096)
def wiring_of(plan: Subplan, idx: tuple[int, ...], shared: bool, catching_up: int) -> Wiring:
    """The programs of all outlets. `catching_up` has a bit for every operator whose catch-up row is in use."""
    rows = rows_of(plan)
    kind: list[int] = []
    row: list[int] = []
    operator: list[int] = []
    skip: list[int] = []

    def add(what: int, into: int, op: int) -> int:
        kind.append(what)
        row.append(into)
        operator.append(op)
        skip.append(len(kind))
        return len(kind) - 1

    def deliver(op: int, how: int) -> None:
        at = add(how, 0, op)
        if not plan.is_leaf(op):
            give(op, 0)
        skip[at] = len(kind)

    def give(v: int, level: int) -> None:
        for child in plan.children[v]:
            if idx[child] == level:
                hand_to(child)
        if shared and level < max(idx[child] for child in plan.children[v]):
            add(PUSH, rows.first[v] + level, 0)
        elif not shared and level == 0:
            for at, child in enumerate(plan.children[v]):
                if idx[child]:
                    add(PUSH, rows.first[v] + at, 0)

    def hand_to(child: int) -> None:
        if catching_up >> child & 1:
            add(CATCH_UP, rows.catch_up[child], child)
        else:
            deliver(child, DELIVER)

    begin = [0]
    give(SOURCE, 0)
    begin.append(len(kind))
    for v in plan.inner:
        below = plan.children[v]
        for at, child in enumerate(below):
            if shared and at < max(idx[other] for other in below):
                give(v, at + 1)
            elif not shared and idx[child]:
                hand_to(child)
            begin.append(len(kind))
        for child in below:
            if catching_up >> child & 1:
                deliver(child, COMMITTED)
            begin.append(len(kind))
    leaf = [int(plan.is_leaf(op)) for op in operator]
    return Wiring(*(np.array(column, np.int64) for column in (kind, row, operator, leaf, skip, begin)))
