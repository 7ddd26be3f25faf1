"""Aggregates over windows that count tuples: tumbling and sliding, groups formed inside of a window.

Invariant: tuples in time are numbered in processing order, from 0 on. Window k holds the numbers from `k * slide` up to
`k * slide + range`, that one excluded, and is emitted with the tuple that completes it; at the end of the input every
window that has begun is. Its bounds are the event times of its first and its last tuple, both included. A late tuple
has no number and enters no window: it would change what every later one holds.

References: 004 §2.1.2 (count-based windows).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate, decode_json, decode_words, encode_json, encode_words, state_update
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate.count_windows import CountWindowOperator, CountWindows, Numbered
from slackwater.operators.aggregate.description import moving
from slackwater.operators.contract import PLAIN, BuildContext, Operator

COUNT, STARTS = "own count", "own starts"


@dataclass(frozen=True)
class RowAggregate(CountWindows):
    """Spec: `range` and `slide` are numbers of tuples."""

    @property
    def step(self) -> int:
        """The slide; without one, windows tumble."""
        return self.slide or self.range

    @property
    def moves(self) -> str:
        """The window and how it moves, in words.

        >>> RowAggregate(100, 10, (), (), 2).moves
        'window of 100 tuples, sliding by 10'
        """
        size, step = f"{self.range:,}", f"{self.step:,}"
        return f"window of {size} tuples, {moving(size, step)}"

    def build(self, context: BuildContext = PLAIN) -> Operator:
        return self.emitting(RowAggregateOperator(self, context.texts), context)


class RowAggregateOperator(CountWindowOperator):
    """The mutable half of `RowAggregate`."""

    def __init__(self, spec: RowAggregate, texts: TextTable | None = None) -> None:
        super().__init__(spec, texts)
        self.spec = spec
        self._taken, self._newest = 0, BEFORE_ALL
        self._place = np.zeros(0, np.int64)
        self._starts: dict[int, Words] = {}
        """Event times of the first tuples of windows, by the number of the first window of each chunk."""
        self._written: set[int] = set()

    def _number(self, run: OrderedBatch) -> Numbered:
        place = np.flatnonzero(~run.late)
        before = self._taken
        self._taken += len(place)
        self._note_starts(run.ts[place], before)
        if len(place):
            self._newest = int(run.ts[place[-1]])
        self._place = place
        number = np.arange(before, self._taken, dtype=np.int64)
        return Numbered(place, number, number, self._taken + self.spec.range if run.ended else self._taken)

    def _timed(self, run: OrderedBatch, first: Words) -> tuple[Words, Words, Words]:
        oldest, starts = self._open_starts()
        before = self._taken - len(self._place)
        # A window that only the end of the input completes ends with the newest tuple, which may be of an earlier run.
        last = np.minimum(first + self.spec.range - 1 - before, len(self._place))
        end = np.append(run.ts[self._place], self._newest)[last]
        return starts[first // self.spec.step - oldest], end, np.append(self._place, len(run))[last]

    def _note_starts(self, ts: Words, before: int) -> None:
        step = self.spec.step
        fresh = ts[-before % step :: step]
        if len(fresh):
            self._starts[-(-before // step)] = fresh.copy()

    def _open_starts(self) -> tuple[int, Words]:
        """The first window whose start is known, and the starts from there on."""
        return min(self._starts), np.concatenate([self._starts[key] for key in sorted(self._starts)])

    def _processed(self) -> None:
        following = self._windows.next_window
        for key, times in list(self._starts.items()):
            if key + len(times) <= following:
                del self._starts[key]

    def _own_updates(self) -> list[StateUpdate]:
        entries = [state_update(COUNT, "", encode_json({"taken": self._taken, "newest": self._newest}))]
        entries += [state_update(STARTS, str(key), None) for key in sorted(self._written - self._starts.keys())]
        fresh = sorted(self._starts.keys() - self._written)
        entries += [state_update(STARTS, str(key), encode_words({"ts": self._starts[key]})) for key in fresh]
        self._written = set(self._starts)
        return entries

    def _restore_own(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.namespace == COUNT and entry.value is not None:
                count = decode_json(entry.value)
                self._taken, self._newest = count["taken"], count["newest"]
            elif entry.namespace == STARTS and entry.value is None:
                self._starts.pop(int(entry.key), None)
                self._written.discard(int(entry.key))
            elif entry.namespace == STARTS and entry.value is not None:
                self._starts[int(entry.key)] = decode_words(entry.value)["ts"]
                self._written.add(int(entry.key))
