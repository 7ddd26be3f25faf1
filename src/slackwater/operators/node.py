"""A node: a synchronizer and the operator behind it, fed by raw inputs and by nodes below.

Invariant: what an operator makes is in order, and its node promises how far it has come; so the node above never finds
a tuple from below late. A raw tuple meets its fate, in time or late, at the one node it is an input of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from slackwater.disorder.release import ReleaseSpec
from slackwater.disorder.run import Run
from slackwater.disorder.synchronizer import Inflow, Synchronized, Synchronizer, merged, with_rows
from slackwater.disorder.synchronizing import Last
from slackwater.kernel import Change
from slackwater.model.batch import TS, Words
from slackwater.operators.holdings import Holding
from slackwater.operators.inlet import InletMaker
from slackwater.operators.output import Output, joined

BELOW = -1
"""In place of a raw stream: the input is what the node below makes."""


class NodeOperator(Protocol):
    """The operator of a node."""

    @property
    def spec(self) -> Any: ...
    @property
    def retained(self) -> int: ...
    def process(self, run: Run, ordered: bool) -> Iterator[Output]: ...
    def holdings(self, frontier: int) -> Iterator[Holding]: ...
    def changes(self) -> list[Change]: ...
    def restore(self, entries: list[Change]) -> None: ...


class Node:
    """`inputs` are the raw streams that this node reads, BELOW in the place of one where it reads from a node.

    Without an outlet, what goes up has its event time in row TS, nothing in row ROW, and the operator's columns from
    FIRST_COLUMN on.
    """

    def __init__(
        self,
        operator: NodeOperator,
        inputs: tuple[int, ...],
        rows: int,
        raw: ReleaseSpec,
        outlet: InletMaker | None = None,
    ) -> None:
        """`raw` says how tuples of raw streams are released in front of all nodes."""
        self.operator, self._outlet = operator, outlet
        self.synchronizer = Synchronizer(replace(raw, streams=len(inputs), rows=rows, apart=False, part_rows=()))
        self._inputs, self._rows, self._raw_rows = np.array(inputs, np.int64), rows, raw.rows

    def let_in(self, run: Run, begin: int, end: int, below: Iterable[Inflow]) -> Synchronized:
        """Take a piece of a run whose streams are apart, and what nodes below have made of the same piece, each as the
        input it is to this node."""
        stream = run.stream[begin:end]
        mine = np.isin(np.where(stream < 0, ~stream, stream), self._inputs)
        index = begin + np.flatnonzero(mine)
        last = Last(end, run.largest, run.now, run.ended and end == len(run))
        came = Inflow(
            self._numbered(run.stream[index]), run.words[:, index], run.delay[index], run.clock[index],
            run.moment[index], index, last,
        )  # fmt: skip
        for made in below:
            came = merged(made, came)
        return self.synchronizer.take(replace(came, words=with_rows(came.words, self._rows)))

    def _numbered(self, stream: Words) -> Words:
        """Raw streams, and promises of them, as inputs of this node."""
        number = np.argsort(self._inputs)
        known = np.searchsorted(self._inputs[number], np.where(stream < 0, ~stream, stream))
        return np.where(stream < 0, ~number[known], number[known])

    def raw_part(self, run: Run) -> Run:
        """The raw tuples among those of a run of this node, with their own stream numbers and rows."""
        raw = self._inputs[run.stream]
        mine = np.flatnonzero(raw != BELOW)
        return replace(
            run, stream=raw[mine], words=run.words[: self._raw_rows, mine], cutoff=run.cutoff[mine],
            clock=run.clock[mine], moment=run.moment[mine], delay=run.delay[mine],
        )  # fmt: skip

    def made_of(self, synchronized: Synchronized) -> Inflow:
        """Have the operator process a run; what it makes, and how far it has come, for a node above."""
        run = synchronized.run
        made = list(self.operator.process(run, True))
        if not made:
            return synchronized.progress
        output = joined(made)
        place, clock, moment = let_out_at(synchronized, output)
        delay = np.append(run.delay, 0)[output.by]
        # A window ends before its end; so a row of it belongs to the window above in which all of it lies.
        ts = output.ts - 1 if output.at_frontier else output.ts
        if self._outlet is None:
            words, kept = np.vstack([ts, np.zeros(len(ts), np.int64), *output.columns]), np.arange(len(ts))
        else:
            words, kept = self._outlet.take(ts, list(output.columns))
        number = np.zeros(words.shape[1], np.int64)
        last = synchronized.progress.last
        results = Inflow(number, words, delay[kept], clock[kept], moment[kept], place[kept], last)
        return merged(results, synchronized.progress)

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(self._inputs.tolist())

    @property
    def held(self) -> int:
        """Raw tuples that wait here."""
        return self.synchronizer.held_of(np.flatnonzero(self._inputs != BELOW))

    def changes(self) -> Iterator[Change]:
        """What to persist since the last call."""
        yield from (replace(entry, cell="release") for entry in self.synchronizer.changes())
        yield from (replace(entry, cell=f"operator/{entry.cell}") for entry in self.operator.changes())

    def restore(self, entries: list[Change]) -> None:
        """Take over persisted state."""
        self.synchronizer.restore([entry for entry in entries if entry.cell == "release"])
        mine = [entry for entry in entries if entry.cell != "release"]
        self.operator.restore([replace(entry, cell=entry.cell.partition("/")[2]) for entry in mine])


def let_out_at(synchronized: Synchronized, output: Output) -> tuple[Words, Words, Words]:
    """Of every line of what was made of a run: the place of what let it out, the largest clock, and the moment."""
    run, told = synchronized.run, synchronized.progress
    last = told.last
    if output.at_frontier:
        at = np.searchsorted(told.words[TS], output.ts)
        ways = ((told.place, last.place), (told.clock, last.clock), (told.moment, last.moment))
    else:
        at = output.by
        ways = ((synchronized.place, last.place), (run.clock, run.largest), (run.moment, run.now))
    place, clock, moment = (np.append(known, at_the_end)[at] for known, at_the_end in ways)
    return place, clock, moment


def together(runs: list[Run]) -> Run:
    """The tuples of several runs as one; where time stands is told by the last."""
    return replace(
        runs[-1],
        stream=np.concatenate([run.stream for run in runs]),
        words=np.concatenate([run.words for run in runs], axis=1),
        cutoff=np.concatenate([run.cutoff for run in runs]),
        clock=np.concatenate([run.clock for run in runs]),
        moment=np.concatenate([run.moment for run in runs]),
        delay=np.concatenate([run.delay for run in runs]),
    )
