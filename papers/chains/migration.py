"""What happens to waiting tuples when the configuration changes, so that each child still gets each of them once.

Two things can go wrong below an operator v whose chain changes. *Duplicate release*: a child that now takes its tuples
further down the chain meets tuples there that it has had. *Missing release*: a child that now takes them further up
never meets those that are already behind that point.

Against the first, a tuple notes which operators have had it. It is asked only if it came before the last adaptation,
which the adaptation counter tells. (The paper compares the tuple's time with T(v_c), the largest that the child has
had. That is not enough; see the design note.) Against the second, what the child lacks and will not meet is copied into
its catch-up row. The paper sends it at once, which can be too early; here it waits there until it is due.

How much of the old chain is used again:

- *naive reuse*: the tail buffer. All other tuples are put into the head of the new chain, and run down from there.
- *smart reuse*: all buffers, each in its place, if the condition for it holds; otherwise as naive.

Invariant: nothing is released here, tuples are only moved. Afterwards, each tuple that a child of v lacks, and that v
has had, lies either in a buffer of v's chain not behind the child's place, or in the child's catch-up row; never both.

References: 004 §5.5.2 (basic method, optimized method, condition for smart buffer-reuse), Fig. 5.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papers.chains.configuration import Configuration
from papers.chains.rows import BufferRows, Tuples, hold
from papers.chains.subplan import Subplan
from papers.chains.wiring import rows_of
from slackwater.core.batch import Words
from slackwater.core.jit import in_place

DROPPED = 1 << 30
"""The place of a buffer that is no more: behind all others."""


class Change(NamedTuple):
    """From one configuration to the next, and idx_B of every operator in both."""

    plan: Subplan
    before: Configuration
    after: Configuration
    idx: tuple[int, ...]
    new_idx: tuple[int, ...]

    def smart_at(self, v: int) -> bool:
        """The condition for smart buffer-reuse: no child goes up the chain while more slack lies in front of it."""
        old, new = self.before.accumulated, self.after.accumulated
        return not any(
            self.new_idx[child] < self.idx[child] and new[child] - new[v] > old[child] - old[v]
            for child in self.plan.children[v]
        )


def migrate(change: Change, smart: bool, tuples: Tuples, rows: BufferRows) -> int:
    """Bring all tuples to where the new configuration expects them; returns how many were moved or copied."""
    if not change.after.shared:
        return 0
    moved = 0
    for v in change.plan.inner:
        below = change.plan.children[v]
        before, after = ([idx[child] for child in below] for idx in (change.idx, change.new_idx))
        if before != after:
            moved += _migrate_chain(change, v, smart and change.smart_at(v), tuples, rows)
    return moved


def to_move(change: Change, smart: bool, rows: BufferRows) -> int:
    """How many tuples `migrate` would move or copy, by the sizes of rows; some of them may turn out to be had."""
    if not change.after.shared:
        return 0
    numbers, moved = rows_of(change.plan), 0
    for v in change.plan.inner:
        below, first = change.plan.children[v], numbers.first[v]
        if all(change.idx[child] == change.new_idx[child] for child in below):
            continue
        sizes = [rows.sizes[rows.place[first + at]] for at in range(max(change.idx[child] for child in below))]
        if smart and change.smart_at(v):
            moved += sum(sum(sizes[change.new_idx[child] : change.idx[child]]) for child in below)
        else:
            moved += sum(sizes[:-1])
    return int(moved)


def _migrate_chain(change: Change, v: int, smart: bool, tuples: Tuples, rows: BufferRows) -> int:
    numbers, below = rows_of(change.plan), change.plan.children[v]
    first, length = numbers.first[v], max(change.idx[child] for child in below)
    new_length = max(change.new_idx[child] for child in below)
    children = np.array([(child, numbers.catch_up[child], change.new_idx[child]) for child in below], np.int64)
    moved = 0
    if smart:
        for at in range(1, length + 1):
            moved += copy_missing(tuples, rows, first + at - 1, at if at <= new_length else DROPPED, children)
        for at in range(new_length + 1, length + 1):
            rows.sizes[rows.place[first + at - 1]] = 0
        return moved
    tail, new_tail = first + length - 1, first + new_length - 1
    others = []
    for at in range(1, length + 1):
        # All but the tail go through the head of the new chain.
        place = DROPPED if not new_length else new_length if at == length else 1
        moved += copy_missing(tuples, rows, first + at - 1, place, children)
        if at < length or not new_length:
            others.append(rows.contents(first + at - 1).copy())
            rows.sizes[rows.place[first + at - 1]] = 0
    if length and new_length:
        rows.place[[tail, new_tail]] = rows.place[[new_tail, tail]]
    if others and new_length:
        migrated = np.concatenate(others)
        put(tuples, rows, first, migrated)
        moved += len(migrated)
    return moved


@in_place
def copy_missing(tuples: Tuples, rows: BufferRows, row: int, place: int, children: Words) -> int:
    """Of a row that will stand at this place: give every child in front of it what it lacks; returns how many."""
    copied = 0
    lies = rows.place[row]
    for k in range(rows.sizes[lies]):
        i = rows.position[lies, k]
        for c in range(len(children)):
            bit = 1 << children[c, 0]
            if children[c, 2] < place and not tuples.had[i] & bit:
                tuples.had[i] |= bit
                hold(rows, children[c, 1], tuples.ts[i], i)
                copied += 1
    return copied


@in_place
def put(tuples: Tuples, rows: BufferRows, row: int, positions: Words) -> None:
    """Put tuples into a row."""
    for k in range(len(positions)):
        hold(rows, row, tuples.ts[positions[k]], positions[k])


def catching_up(plan: Subplan, rows: BufferRows) -> int:
    """A bit for every operator in whose catch-up row something waits."""
    sizes = rows.sizes[rows.place]
    return sum(1 << v for v, row in enumerate(rows_of(plan).catch_up) if row >= 0 and sizes[row])
