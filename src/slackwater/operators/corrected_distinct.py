"""DISTINCT with corrections: rows that late tuples would have let through follow, and those that they hold back go.

The rows of one value are a chain: each leaves when the one before is more than `range` older. So a late tuple may
change all rows of its value from its event time on, and those that leave in order go on by the chain that they began. A
value whose two chains differ is corrected run by run until they meet again.

Invariant: rows that have left in order are those of DISTINCT alone. With corrections they are its rows over all tuples
that came at most `correctable` behind the watermark, however runs are cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate, by_part, under
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.aggregate.emitted_rows import EMITTED, EmittedRows
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.distinct import DistinctOperator, StreamDistinct
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents

PLAIN, CHAINS = "plain", "chains"
"""The parts of its state, beside EMITTED."""


@in_place
def follow_chains(of: Words, ts: Words, there: Flags, size: int, final: int, left: Words, leaves: Flags) -> None:
    """Mark the tuples that leave, in the order of event time; those before `final` are as they are."""
    for i in range(len(ts)):
        leaves[i] = there[i] if ts[i] < final else left[of[i]] < ts[i] - size
        if leaves[i]:
            left[of[i]] = ts[i]


class CorrectedDistinct(DistinctOperator):
    """The mutable half of a `StreamDistinct` that is corrected: tuples that may change rows, each once, and whether a
    row of it is there."""

    def __init__(self, spec: StreamDistinct) -> None:
        super().__init__(spec)
        self._columns = list(spec.columns)
        self._tuples = EmittedRows(1 + len(spec.columns), 0)
        self._differing: Words = np.zeros((0, len(spec.columns)), np.int64)
        """Values whose rows in order go on otherwise than their corrected ones."""
        self._final = BEFORE_ALL
        """Rows before do not change any more."""
        self._chains = ArrayCheckpoint(CHAINS)

    @property
    def _reach(self) -> int:
        return self.spec.correctable or 0

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Pass rows on as without corrections, and then what late tuples change."""
        for made in super().process(run, ordered):
            self._take(made.ts, np.stack(made.columns, axis=1), np.ones(len(made.ts), np.bool_), True)
            yield made
        counts = run.ts >= run.watermark_at_arrival - self._reach
        ts, values = run.ts[counts], run.words[self._columns][:, counts].T
        self._tuples.places(self._bucket(ts), np.column_stack([ts, values]))
        corrected = np.concatenate([self._differing, values[run.late[counts]]])
        if len(corrected):
            yield from self._corrected(corrected, run)
        self._final = max(self._final, run.watermark - self._reach)
        # A row holds others back for as long as the window.
        self._tuples.forget(int(self._bucket(self._final - self.spec.range)))

    def _bucket(self, ts: Words | int) -> Words:
        """What is persisted together: the tuples of one window."""
        return np.asarray(ts // max(1, self.spec.range))

    def _take(self, ts: Words, values: Words, leaves: Flags, final: bool = False) -> tuple[Words, Words, Words]:
        """Tuples of which a row is now there or not: which of them change, how, and in which version."""
        keys = np.column_stack([ts, values])
        changes = self._tuples.take(self._bucket(ts), keys, np.zeros((len(ts), 0), np.int64), leaves, final)
        return changes.lines, changes.change, changes.version

    def _corrected(self, wanted: Words, run: OrderedBatch) -> Iterator[Output]:
        """What changes in the rows of these values."""
        keys, there = self._tuples.known()
        since = np.isin(mixed(keys[:, 1:]), mixed(wanted)) & (keys[:, 0] >= self._final - self.spec.range)
        keys, there = keys[since], there[since]
        order = np.argsort(keys[:, 0], kind="stable")
        keys, there = keys[order], there[order]
        ts, values = np.ascontiguousarray(keys[:, 0]), keys[:, 1:]
        different, of = np.unique(values, axis=0, return_inverse=True)
        left, leaves = np.full(len(different), BEFORE_ALL, np.int64), np.zeros(len(ts), np.bool_)
        follow_chains(of.ravel(), ts, there, self.spec.range, self._final, left, leaves)
        lines, change, version = self._take(ts, values, leaves)
        self._differing = self._still_differing(different, left, run.watermark)
        if len(lines):
            columns = tuple(values[lines].T.copy())
            by = np.full(len(lines), len(run))
            yield Output(ts[lines], columns, by, None, len(lines), change=change, version=version, amends=True)

    def _still_differing(self, values: Words, left: Words, watermark: int) -> Words:
        """The values of which a tuple still to come may be held back in order and not when it is corrected, or the
        other way round; `left` is when their last corrected rows left."""
        both = np.concatenate([values, self._seen.T])
        different, of = np.unique(both, axis=0, return_inverse=True)
        of = of.ravel()
        last = np.full((2, len(different)), BEFORE_ALL, np.int64)
        last[0, of[: len(values)]], last[1, of[len(values) :]] = left, self._left
        last[last < watermark - self.spec.range] = BEFORE_ALL
        asked = np.zeros(len(different), np.bool_)
        asked[of[: len(values)]] = True
        return different[asked & (last[0] != last[1])]

    @property
    def state_rows(self) -> int:
        """Rows that hold equal ones back, and tuples that may change rows."""
        return super().state_rows + len(self._tuples)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        (own,) = super().window_contents(watermark)
        yield WindowContents(0, own.tuples + len(self._tuples), own.words + self._tuples.words)

    def snapshot_delta(self) -> list[StateUpdate]:
        chains = self._chains.snapshot_delta({"differing": self._differing, "final": np.array([self._final])})
        return [*under(PLAIN, super().snapshot_delta()), *chains, *self._tuples.snapshot_delta()]

    def restore(self, entries: list[StateUpdate]) -> None:
        parts = by_part(entries)
        super().restore(parts[PLAIN])
        chains = self._chains.restore(parts[CHAINS])
        self._differing, self._final = chains["differing"], int(chains["final"][0])
        self._tuples.restore(parts[EMITTED])


def mixed(values: Words) -> Words:
    """Values as one word each; different ones may be the same word, which costs a look at more of them."""
    words = np.zeros(len(values), np.uint64)
    for column in values.T:
        words = (words ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(29)
    return words.view(np.int64)
