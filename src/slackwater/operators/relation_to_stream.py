"""From a relation back to a stream: what leaves when results are no longer in force, or at every tick while they are.

An operator makes results, each in force for a while: the result of a join from its newest member's time T until its
first member has left its window, `min(ts_i + W_i)`, that time included; the rows of an aggregate's window from its end
until the next one ends. ISTREAM gives a result when it comes into force, and needs none of this. DSTREAM gives it at
the first instant it is in force no more; RSTREAM gives, at every multiple of a period, all that are in force then.

Invariant: what is emitted is in the order of its new timestamps, and nothing is emitted that a result still to come
could precede. At the end of the input time goes on until nothing is in force: nothing is lost.

References: 004 §2.1.2 (Istream, Dstream, Rstream).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.quality import Quality
from slackwater.core.rates import Resize
from slackwater.core.state import StateUpdate, decode_json, decode_words, encode_json, encode_words, state_update
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.contract import PLAIN, BuildContext, Operator, OperatorSpec, WithoutKey
from slackwater.operators.description import Described, Shown
from slackwater.operators.join.bands import Band
from slackwater.operators.output import Output
from slackwater.operators.state_size import RESULTS, WindowContents

HELD, REACHED = "held", "reached"
SINCE, UNTIL, COLUMNS = range(3)
"""Of a held result: the first and the last instant it is in force; its columns follow."""


@dataclass(frozen=True)
class RelationToStream(OperatorSpec):
    """Spec: the operator that makes results, and how they leave: at every multiple of `every`, or (0) when they end."""

    made_by: OperatorSpec
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

    @property
    def holds(self) -> bool:
        return True

    @property
    def windowed(self) -> bool:
        return self.made_by.windowed

    @property
    def windows_joined(self) -> tuple[int, ...]:
        return self.made_by.windows_joined

    @property
    def resize_at_first(self) -> Resize | None:
        return self.made_by.resize_at_first

    def learning_key(self, quality: Quality) -> str:
        return self.made_by.learning_key(quality)

    @property
    def one_shard(self) -> str | None:
        return self.made_by.one_shard

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        return self.made_by.shard_rows

    @property
    def without_key(self) -> WithoutKey:
        # What partial results of shards come to is not known before they are combined.
        combined = self.made_by.without_key is WithoutKey.AS_PARTIALS
        return WithoutKey.NOT if combined else self.made_by.without_key

    def bands_for_tiles(self, times: bool) -> list[Band]:
        return self.made_by.bands_for_tiles(times)

    def describe(self, shown: Shown) -> Described:
        return self.made_by.describe(shown)

    def build(self, context: BuildContext = PLAIN) -> RelationToStreamOperator:
        return RelationToStreamOperator(self, self.made_by.with_times().build(context))


class RelationToStreamOperator(Operator):
    """The mutable half of `RelationToStream`."""

    def __init__(self, spec: RelationToStream, operator: Operator) -> None:
        self.spec, self._operator = spec, operator
        self._held: dict[int, Words] = {}
        self._written: set[int] = set()
        self._chunk = 0
        self._reached = BEFORE_ALL

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield what leaves up to the watermark behind it."""
        for made in self._operator.process(run, ordered):
            self._held[self._chunk] = self._in_force(made)
            self._chunk += 1
        due = [self._due(chunk, run.watermark) for chunk in self._held.values()]
        self._reached = max(self._reached, run.watermark)
        self._forget()
        if not any(len(ts) for ts, _ in due):
            return
        ts = np.concatenate([ts for ts, _ in due])
        columns = np.concatenate([columns for _, columns in due], axis=1)
        order = np.argsort(ts, kind="stable")
        ts = ts[order]
        by = np.searchsorted(run.passed(ordered), ts + (self.spec.every > 0))
        yield Output(ts, tuple(column[order] for column in columns), by, None, len(ts))

    def _in_force(self, made: Output) -> Words:
        """Results with the first and the last instant they are in force."""
        made_by = self.spec.made_by
        return np.vstack([made.ts, made_by.held_until(made), *made_by.without_times(made)])

    def _due(self, chunk: Words, watermark: int) -> tuple[Words, Words]:
        """What leaves a chunk before or at a watermark: timestamps and columns."""
        every = self.spec.every
        if not every:
            # A result still to come is made at the watermark or later, and ends after that.
            leaving = (chunk[UNTIL] < watermark) & (chunk[UNTIL] >= self._reached)
            return chunk[UNTIL, leaving] + 1, chunk[COLUMNS:, leaving]
        # A result still to come may be made at the watermark, and be in force there.
        first = -(-np.maximum(chunk[SINCE], self._reached) // every)
        last = np.minimum(chunk[UNTIL], watermark - 1) // every
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

    @property
    def state_rows(self) -> int:
        """What the operator keeps, and the results that are in force."""
        return self._operator.state_rows + sum(chunk.shape[1] for chunk in self._held.values())

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What the operator keeps, and the results that are in force."""
        yield from self._operator.window_contents(watermark)
        held = self._held.values()
        yield WindowContents(RESULTS, sum(chunk.shape[1] for chunk in held), sum(chunk.size for chunk in held))

    def snapshot_delta(self) -> list[StateUpdate]:
        """What the operator has changed, and results made since the last call; a chunk goes when all of it has left."""
        entries = self._operator.snapshot_delta()
        entries.append(state_update(REACHED, "", encode_json({"reached": self._reached, "chunk": self._chunk})))
        entries += [state_update(HELD, str(key), None) for key in sorted(self._written - self._held.keys())]
        for key in sorted(self._held.keys() - self._written):
            columns = {f"w{number}": row for number, row in enumerate(self._held[key])}
            entries.append(state_update(HELD, str(key), encode_words(columns)))
        self._written = set(self._held)
        return entries

    def restore(self, entries: list[StateUpdate]) -> None:
        self._operator.restore([entry for entry in entries if entry.namespace not in (HELD, REACHED)])
        for entry in entries:
            if entry.namespace == REACHED and entry.value is not None:
                known = decode_json(entry.value)
                self._reached, self._chunk = known["reached"], known["chunk"]
            elif entry.namespace == HELD and entry.value is None:
                self._held.pop(int(entry.key), None)
                self._written.discard(int(entry.key))
            elif entry.namespace == HELD and entry.value is not None:
                columns = decode_words(entry.value)
                self._held[int(entry.key)] = np.stack([columns[f"w{number}"] for number in range(len(columns))])
                self._written.add(int(entry.key))
