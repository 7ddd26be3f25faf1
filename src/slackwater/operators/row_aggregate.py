"""Aggregates over windows that count tuples: tumbling and sliding, groups formed inside of a window.

Invariant: tuples in time are numbered in processing order, from 0 on. Window k holds the numbers from `k * slide` up to
`k * slide + range`, that one excluded, and is let out with the tuple that completes it; at the end of the input every
window that has begun is. Its bounds are the event times of its first and its last tuple, both included. A late tuple
has no number and enters no window: it would change what every later one holds.

The work is that of a window of time, with numbers in the place of event times.

References: 004 §2.1.2 (count-based windows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.disorder.run import Run
from slackwater.kernel import Change, changed, decode_json, decode_words, encode_json, encode_words
from slackwater.model.batch import TS, Words
from slackwater.model.time import BEFORE_ALL
from slackwater.operators import aggregate_state as st
from slackwater.operators.aggregate import AggregateOperator, WindowAggregate
from slackwater.operators.output import Output
from slackwater.windows.panes import last_pane

NUMBERS, STARTS = "numbers", "starts"


@dataclass(frozen=True)
class RowAggregate(WindowAggregate):
    """Spec: `range` and `slide` are numbers of tuples."""

    @property
    def needs_order(self) -> bool:
        return True

    @property
    def step(self) -> int:
        """The slide; without one, windows tumble."""
        return self.slide or self.range

    def over_numbers(self) -> WindowAggregate:
        """The same over tuples whose time is their number, and whose event time stands in a row behind the others."""

        def moved(row: int) -> int:
            return self.rows if row == TS else row

        aggregates = tuple(replace(one, row=moved(one.row)) for one in self.aggregates)
        return WindowAggregate(self.range, self.slide, tuple(map(moved, self.keys)), aggregates, self.rows + 1)

    def build(self) -> RowAggregateOperator:  # type: ignore[override]
        return RowAggregateOperator(self)


class NumberedAggregate(AggregateOperator):
    """An aggregate operator whose first window begins at 0."""

    def _begin(self) -> None:
        super()._begin()
        scalars = self._tables.scalars
        scalars[st.NEXT] = 0
        scalars[st.ENTERED] = scalars[st.FLIP] = last_pane(self.spec.grid, -1)

    @property
    def next_window(self) -> int:
        """The first window that is not closed."""
        return int(self._tables.scalars[st.NEXT])


class RowAggregateOperator:
    """The mutable half of `RowAggregate`."""

    def __init__(self, spec: RowAggregate) -> None:
        self.spec = spec
        self._windows = NumberedAggregate(spec.over_numbers())
        self._taken, self._newest = 0, BEFORE_ALL
        self._starts: dict[int, Words] = {}
        """Event times of the first tuples of windows, by the number of the first window of each chunk."""
        self._written: set[int] = set()

    def process(self, run: Run, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it completes."""
        place = np.flatnonzero(~run.late)
        ts, before = run.ts[place], self._taken
        self._taken += len(place)
        self._note_starts(ts, before)
        if len(place):
            self._newest = int(ts[-1])
        numbers = np.arange(before, self._taken, dtype=np.int64)
        words = np.vstack([numbers[None], run.words[1:, place], ts[None]])
        reached = self._taken + self.spec.range if run.ended else self._taken
        numbered = replace(
            run,
            stream=run.stream[place],
            words=words,
            cutoff=np.full(len(place), BEFORE_ALL, np.int64),
            clock=run.clock[place],
            moment=run.moment[place],
            delay=run.delay[place],
            frontier=reached,
        )
        starts = self._open_starts()
        for output in self._windows.process(numbered, ordered=True):
            yield self._timed(output, starts, before, np.append(ts, self._newest), np.append(place, len(run)))
        self._drop_starts()

    def _timed(self, output: Output, starts: tuple[int, Words], before: int, ts: Words, place: Words) -> Output:
        """Numbers as times. `ts` and `place` have those of the run's tuples; last, what a cut-off window ends with."""
        first, _, *rest = output.columns
        oldest, times = starts
        begin = times[first // self.spec.step - oldest]
        last = np.minimum(first + self.spec.range - 1 - before, len(ts) - 1)
        return Output(ts[last], (begin, ts[last], *rest), place[last], None, output.results)

    def _note_starts(self, ts: Words, before: int) -> None:
        step = self.spec.step
        fresh = ts[-before % step :: step]
        if len(fresh):
            self._starts[-(-before // step)] = fresh.copy()

    def _open_starts(self) -> tuple[int, Words]:
        """The first window whose start is known, and the starts from there on."""
        if not self._starts:
            return 0, np.zeros(0, np.int64)
        return min(self._starts), np.concatenate([self._starts[key] for key in sorted(self._starts)])

    def _drop_starts(self) -> None:
        following = self._windows.next_window
        for key, times in list(self._starts.items()):
            if key + len(times) <= following:
                del self._starts[key]

    @property
    def retained(self) -> int:
        """Partial aggregates, and values of holistic ones."""
        return self._windows.retained

    def changes(self) -> list[Change]:
        """What the windows have changed, how far the count is, and the starts of windows since the last call."""
        entries = self._windows.changes()
        count = {"taken": self._taken, "newest": self._newest}
        entries.append(changed(NUMBERS, "count", encode_json(count)))
        entries += [changed(STARTS, str(key), None) for key in sorted(self._written - self._starts.keys())]
        fresh = sorted(self._starts.keys() - self._written)
        entries += [changed(STARTS, str(key), encode_words({"ts": self._starts[key]})) for key in fresh]
        self._written = set(self._starts)
        return entries

    def restore(self, entries: list[Change]) -> None:
        self._windows.restore([entry for entry in entries if entry.cell not in (NUMBERS, STARTS)])
        for entry in entries:
            if entry.cell == NUMBERS and entry.value is not None:
                count = decode_json(entry.value)
                self._taken, self._newest = count["taken"], count["newest"]
            elif entry.cell == STARTS and entry.value is None:
                self._starts.pop(int(entry.key), None)
                self._written.discard(int(entry.key))
            elif entry.cell == STARTS and entry.value is not None:
                self._starts[int(entry.key)] = decode_words(entry.value)["ts"]
                self._written.add(int(entry.key))
