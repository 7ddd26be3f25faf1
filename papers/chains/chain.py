"""A subplan's buffers at work: tuples arrive at the source, wait in the rows of a configuration, and reach the leaves.

After each arrival every buffer releases what has had its slack: `ts + reach <= T`, where T is the source's clock, the
largest event time so far, and reach is the summed size from the source up to this buffer. A tuple that comes too late
for a buffer passes it at once. A filter's tuples and those it drops move the clock alike.

Law: what reaches the leaf of query j, in which order and at which arrival, is what one buffer of size kappa_j alone in
front of j releases. Two reasons. A leaf is fed by one outlet, and buffers are emptied in the order of their numbers,
the least event time first, so that what reaches a leaf at one arrival is in order. And sums of sizes never fall along
a path: once a tuple is due at a leaf, it is due everywhere above.

Buffers hold the numbers of tuples in arrival order; the tuples themselves (event time, which filters they pass, what
became of them) are kept for good. So this serves to compare configurations over a recorded stream. A stream without end
is served by the ordered log.

Invariant: after every call each tuple in a row has `ts + reach > T`. A tuple reaches an operator once at most.

References: 004 §3.2.1 (K-slack), §5.3; §5.5.2 (adaptation counter).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from papers.chains import migration
from papers.chains.configuration import Configuration
from papers.chains.rows import BufferRows, Tuples, hold
from papers.chains.subplan import Subplan
from papers.chains.wiring import CATCH_UP, COMMITTED, PUSH, Wiring, places, reaches, rows_of, wiring_of
from slackwater.core.batch import Words
from slackwater.core.collections import heap
from slackwater.core.collections.heap import Heap
from slackwater.core.jit import in_place, inner
from slackwater.core.time import BEFORE_ALL

CHUNK = 4096
"""Arrivals are taken in so many at a time, so that rows need not grow inside compiled code."""
LAST = np.iinfo(np.int64).max // 2
MOST_OPERATORS = 63
"""A tuple has a bit for each."""


class Out(NamedTuple):
    """What reaches leaves, in order."""

    leaf: Words
    position: Words
    """Of the tuple, in arrival order."""
    at: Words
    """The last arrival before it was released."""


@inner
def _give(new: Tuples, i: int, outlet: int, wired: Wiring, rows: BufferRows, now: int, out: Out, n_out: int) -> int:
    """Run the program of an outlet for one tuple; returns how many tuples have reached leaves."""
    at, end = wired.begin[outlet], wired.begin[outlet + 1]
    while at < end:
        kind = wired.kind[at]
        if kind == PUSH:
            hold(rows, wired.row[at], new.ts[i], i)
            at += 1
            continue
        bit = 1 << wired.operator[at]
        if kind != COMMITTED:
            # Only a tuple from before the last adaptation can come twice.
            if new.counter[i] < rows.scalars[1] and new.had[i] & bit:
                at = wired.skip[at]
                continue
            new.had[i] |= bit
        if kind == CATCH_UP:
            hold(rows, wired.row[at], new.ts[i], i)
            at += 1
        elif wired.leaf[at]:
            out.leaf[n_out], out.position[n_out], out.at[n_out] = wired.operator[at], i, now
            n_out += 1
            at += 1
        elif new.passes[i] & bit:
            at += 1
        else:
            at = wired.skip[at]
    return n_out


@inner
def _release(new: Tuples, clock: int, wired: Wiring, rows: BufferRows, now: int, out: Out, n_out: int) -> int:
    for row in range(len(rows.sizes)):
        place = rows.place[row]
        while rows.sizes[place] > 0 and rows.ts[place, 0] + rows.reach[row] <= clock:
            i = heap.pop(Heap(rows.ts[place], rows.position[place], rows.position[place]), rows.sizes[place])
            rows.sizes[place] -= 1
            n_out = _give(new, i, row + 1, wired, rows, now, out, n_out)
    return n_out


@in_place
def take_in(new: Tuples, begin: int, end: int, wired: Wiring, rows: BufferRows, out: Out, held: Words) -> int:
    """Arrivals come one by one; `held` is told how many copies lie in rows after each."""
    n_out = 0
    for i in range(begin, end):
        rows.scalars[0] = max(rows.scalars[0], new.ts[i])
        new.counter[i] = rows.scalars[1]
        n_out = _give(new, i, 0, wired, rows, i, out, n_out)
        n_out = _release(new, rows.scalars[0], wired, rows, i, out, n_out)
        for size in rows.sizes:
            held[i - begin] += size
    return n_out


@in_place
def release_due(new: Tuples, clock: int, wired: Wiring, rows: BufferRows, now: int, out: Out) -> int:
    """Release what is due by a clock, between two arrivals."""
    return _release(new, clock, wired, rows, now, out, 0)


class SharedSlack:
    """The buffers of one subplan, running."""

    def __init__(self, plan: Subplan, configuration: Configuration) -> None:
        if len(plan.parents) > MOST_OPERATORS:
            raise ValueError(f"a subplan has at most {MOST_OPERATORS} operators")
        self.plan = plan
        self.configuration = configuration
        self.arrived = 0
        self._idx = places(plan, configuration)
        self._tuples = Tuples(*(np.zeros(CHUNK, np.int64) for _ in range(4)))
        self._rows = BufferRows.empty(rows_of(plan).total, CHUNK)
        self._rows.scalars[:] = (BEFORE_ALL, 0)
        self._rows.reach[:] = reaches(plan, configuration, self._idx)
        self._wired = wiring_of(plan, self._idx, configuration.shared, 0)

    @property
    def held(self) -> int:
        """How many copies of tuples lie in buffers."""
        return int(self._rows.sizes.sum())

    @property
    def clock(self) -> int:
        return int(self._rows.scalars[0])

    def absorb(self, ts: Words, passes: Words) -> tuple[Out, Words]:
        """Tuples in arrival order, each with a bit for every filter it passes.

        Returns what reached leaves, and how many copies were held after each arrival.
        """
        outs, held = [], np.zeros(len(ts), np.int64)
        for begin in range(0, len(ts), CHUNK):
            end = min(begin + CHUNK, len(ts))
            first, last = self.arrived, self.arrived + end - begin
            self._reserve(last)
            self._tuples.ts[first:last] = ts[begin:end]
            self._tuples.passes[first:last] = passes[begin:end]
            out = self._output_for(end - begin)
            n = take_in(self._tuples, first, last, self._wired, self._rows, out, held[begin:end])
            outs.append(Out(*(column[:n] for column in out)))
            self.arrived = last
        return _joined(outs), held

    def adapt(self, configuration: Configuration, smart: bool = True) -> tuple[Out, int]:
        """Change the configuration between two arrivals, and release what is due now.

        Returns what reached leaves, and how many tuples had to be moved or copied.
        """
        moved = self.change(configuration, smart)
        return self.release(), moved

    def change(self, configuration: Configuration, smart: bool = True) -> int:
        """Change the configuration, and release nothing yet; returns how many tuples had to be moved or copied."""
        if configuration.shared != self.configuration.shared:
            raise ValueError("slack is shared, or it is not, for as long as a subplan runs")
        idx = places(self.plan, configuration)
        self._rows.scalars[1] += 1
        moved = 0
        if idx != self._idx:
            self._rows = self._rows.with_capacity(self._capacity(0))
            moved = migration.migrate(self._change(configuration, idx), smart, self._tuples, self._rows)
            catching_up = migration.catching_up(self.plan, self._rows)
            self._wired = wiring_of(self.plan, idx, configuration.shared, catching_up)
        self.configuration, self._idx = configuration, idx
        self._rows.reach[:] = reaches(self.plan, configuration, idx)
        return moved

    def release(self) -> Out:
        """Release what is due by the source's clock."""
        return self._released(self.clock)

    def to_move(self, configuration: Configuration, smart: bool = True) -> int:
        """About how many tuples a change would move or copy."""
        idx = places(self.plan, configuration)
        return migration.to_move(self._change(configuration, idx), smart, self._rows) if idx != self._idx else 0

    def finish(self) -> Out:
        """The input has ended: release everything."""
        return self._released(LAST)

    def _change(self, configuration: Configuration, idx: tuple[int, ...]) -> migration.Change:
        return migration.Change(self.plan, self.configuration, configuration, self._idx, idx)

    def _released(self, clock: int) -> Out:
        self._rows = self._rows.with_capacity(self._capacity(0))
        out = self._output_for(0)
        n = release_due(self._tuples, clock, self._wired, self._rows, self.arrived - 1, out)
        return Out(*(column[:n] for column in out))

    def _capacity(self, coming: int) -> int:
        """At most so many tuples can come to lie in one row."""
        return self.held + coming

    def _output_for(self, coming: int) -> Out:
        """Enough for what a call can bring to leaves: each held or coming tuple once to each of them."""
        most = (self.held + coming) * len(self.plan.leaves)
        return Out(*(np.empty(most, np.int64) for _ in range(3)))

    def _reserve(self, arrivals: int) -> None:
        if arrivals > len(self._tuples.ts):
            more = np.zeros(len(self._tuples.ts) + arrivals, np.int64)
            self._tuples = Tuples(*(np.concatenate((column, more)) for column in self._tuples))
        self._rows = self._rows.with_capacity(self._capacity(arrivals - self.arrived))


def _joined(outs: list[Out]) -> Out:
    nothing = np.empty(0, np.int64)
    return Out(*(np.concatenate(columns) for columns in zip(Out(nothing, nothing, nothing), *outs, strict=True)))
