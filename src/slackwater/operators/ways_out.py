"""From a relation back to a stream: what leaves when results are no longer in force, or at every tick while they are.

An operator makes results, each in force for a while: the result of a join from its newest member's time T until its
first member has left its window, `min(ts_i + W_i)`, that time included; the rows of an aggregate's window from its end
until the next one ends. ISTREAM gives a result when it comes into force, and needs none of this. DSTREAM gives it at
the first instant it is in force no more; RSTREAM gives, at every multiple of a period, all that are in force then.

Invariant: what is let out is in the order of its new timestamps, and nothing is let out that a result still to come
could precede. At the end of the input time goes on until nothing is in force: nothing is lost.

References: 004 §2.1.2 (Istream, Dstream, Rstream).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.disorder.run import Run
from slackwater.expressions.text_table import TextTable
from slackwater.kernel import Change, changed, decode_json, decode_words, encode_json, encode_words
from slackwater.model.batch import TS, Words
from slackwater.model.time import BEFORE_ALL
from slackwater.operators.aggregate import AggregateOperator, WindowAggregate
from slackwater.operators.holdings import RESULTS, Holding
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.output import Output

HELD, REACHED = "held", "reached"
SINCE, UNTIL, COLUMNS = range(3)
"""Of a held result: the first and the last instant it is in force; its columns follow."""


@dataclass(frozen=True)
class WayOut:
    """Spec: the operator that makes results, and how they leave: at every multiple of `every`, or (0) when they end."""

    made_by: WindowJoin | WindowAggregate
    every: int = 0

    @property
    def streams(self) -> int:
        return self.made_by.streams

    @property
    def rows(self) -> int:
        return self.made_by.rows

    @property
    def needs_order(self) -> bool:
        return self.made_by.needs_order

    def build(
        self, encode_text: Callable[[str], int] = lambda text: 0, texts: TextTable | None = None
    ) -> WayOutOperator:
        made_by = self.made_by
        if isinstance(made_by, WindowAggregate):
            return WayOutOperator(self, made_by.build(texts))
        # The members' times say how long a result is in force; they are taken off again.
        times = tuple((stream, TS) for stream in range(made_by.streams))
        return WayOutOperator(self, replace(made_by, emit=made_by.emit + times).build(encode_text))


class WayOutOperator:
    """The mutable half of `WayOut`."""

    def __init__(self, spec: WayOut, operator: JoinOperator | AggregateOperator) -> None:
        self.spec, self._operator = spec, operator
        self._held: dict[int, Words] = {}
        self._written: set[int] = set()
        self._chunk = 0
        self._reached = BEFORE_ALL

    def process(self, run: Run, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield what leaves up to the frontier behind it."""
        for made in self._operator.process(run, ordered):
            self._held[self._chunk] = self._in_force(made)
            self._chunk += 1
        due = [self._due(chunk, run.frontier) for chunk in self._held.values()]
        self._reached = max(self._reached, run.frontier)
        self._forget()
        if not any(len(ts) for ts, _ in due):
            return
        ts = np.concatenate([ts for ts, _ in due])
        columns = np.concatenate([columns for _, columns in due], axis=1)
        order = np.argsort(ts, kind="stable")
        ts = ts[order]
        by = np.searchsorted(self._passed(run, ordered), ts + (self.spec.every > 0))
        yield Output(ts, tuple(column[order] for column in columns), by, None, len(ts))

    def _in_force(self, made: Output) -> Words:
        """Results with the first and the last instant they are in force."""
        by = self.spec.made_by
        if isinstance(by, WindowAggregate):
            return np.vstack([made.ts, made.ts + by.grid.slide - 1, *made.columns])
        own = len(by.emit)
        until = np.min([ts + size for ts, size in zip(made.columns[own:], by.windows, strict=True)], axis=0)
        return np.vstack([made.ts, until, *made.columns[:own]])

    def _due(self, chunk: Words, frontier: int) -> tuple[Words, Words]:
        """What leaves a chunk before or at a frontier: timestamps and columns."""
        every = self.spec.every
        if not every:
            # A result still to come is made at the frontier or later, and ends after that.
            leaving = (chunk[UNTIL] < frontier) & (chunk[UNTIL] >= self._reached)
            return chunk[UNTIL, leaving] + 1, chunk[COLUMNS:, leaving]
        # A result still to come may be made at the frontier, and be in force there.
        first = -(-np.maximum(chunk[SINCE], self._reached) // every)
        last = np.minimum(chunk[UNTIL], frontier - 1) // every
        times = np.maximum(last - first + 1, 0)
        nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        return (np.repeat(first, times) + nth) * every, np.repeat(chunk[COLUMNS:], times, axis=1)

    def _forget(self) -> None:
        """Chunks of which nothing will leave any more are dropped."""
        every, reached = self.spec.every, self._reached
        for key, chunk in list(self._held.items()):
            until = chunk[UNTIL].max(initial=BEFORE_ALL)
            if until < reached or (every and until // every * every < reached):
                del self._held[key]

    def _passed(self, run: Run, ordered: bool) -> Words:
        """How far time has come with every tuple of a run."""
        if not ordered:
            return np.maximum.accumulate(run.cutoff)
        return np.maximum.accumulate(np.maximum(run.cutoff, np.where(run.late, run.cutoff, run.ts)))

    @property
    def retained(self) -> int:
        """What the operator keeps, and the results that are in force."""
        return self._operator.retained + sum(chunk.shape[1] for chunk in self._held.values())

    def holdings(self, frontier: int) -> Iterator[Holding]:
        """What the operator keeps, and the results that are in force."""
        yield from self._operator.holdings(frontier)
        held = self._held.values()
        yield Holding(RESULTS, sum(chunk.shape[1] for chunk in held), sum(chunk.size for chunk in held))

    def changes(self) -> list[Change]:
        """What the operator has changed, and results made since the last call; a chunk goes when all of it has left."""
        entries = self._operator.changes()
        entries.append(changed(REACHED, "", encode_json({"reached": self._reached, "chunk": self._chunk})))
        entries += [changed(HELD, str(key), None) for key in sorted(self._written - self._held.keys())]
        for key in sorted(self._held.keys() - self._written):
            columns = {f"w{number}": row for number, row in enumerate(self._held[key])}
            entries.append(changed(HELD, str(key), encode_words(columns)))
        self._written = set(self._held)
        return entries

    def restore(self, entries: list[Change]) -> None:
        self._operator.restore([entry for entry in entries if entry.cell not in (HELD, REACHED)])
        for entry in entries:
            if entry.cell == REACHED and entry.value is not None:
                known = decode_json(entry.value)
                self._reached, self._chunk = known["reached"], known["chunk"]
            elif entry.cell == HELD and entry.value is None:
                self._held.pop(int(entry.key), None)
                self._written.discard(int(entry.key))
            elif entry.cell == HELD and entry.value is not None:
                columns = decode_words(entry.value)
                self._held[int(entry.key)] = np.stack([columns[f"w{number}"] for number in range(len(columns))])
                self._written.add(int(entry.key))
