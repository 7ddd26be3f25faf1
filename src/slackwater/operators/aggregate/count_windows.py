"""Aggregates over windows that are not of time: the machinery of windows of time, with numbers for event times.

Invariant: an operator gives the tuples it takes numbers, and says when which windows of numbers are complete; what is
emitted has the event times of its window. A late tuple has no number and enters no window: it would change what every
later one holds.

References: 004 §2.1.2 (count-based and landmark windows).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate, decode_json, decode_words, encode_json, encode_words, state_update
from slackwater.core.time import BEFORE_ALL, format_duration
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.description import moving
from slackwater.operators.aggregate.operator import AggregateOperator, WindowAggregate
from slackwater.operators.aggregate.panes import last_pane
from slackwater.operators.contract import PLAIN, BuildContext, Operator
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents


@dataclass(frozen=True)
class CountWindows(WindowAggregate, ABC):
    """Spec of an aggregate whose windows know no time."""

    @abstractmethod
    def build(self, context: BuildContext = PLAIN) -> Operator:
        """The mutable half, which gives the numbers."""

    @property
    def needs_order(self) -> bool:
        return True

    @property
    def one_shard(self) -> str:
        return "windows that count tuples count those of all keys"

    @property
    def as_panes(self) -> None:
        return None

    @property
    def watched(self) -> None:
        return None

    @property
    def state_identity(self) -> object:
        return self

    @property
    def in_numbers(self) -> tuple[int, int | None]:
        """Range and slide of the windows, in numbers."""
        return self.range, self.slide

    def over_numbers(self) -> WindowAggregate:
        """The same over tuples whose time is a number, and whose event time stands in a row behind the others."""

        def moved(row: int) -> int:
            return self.rows if row == TS else row

        aggregates = tuple(replace(one, row=moved(one.row), by=moved(one.by)) for one in self.aggregates)
        return WindowAggregate(*self.in_numbers, tuple(map(moved, self.keys)), aggregates, self.rows + 1)


class CountWindowAggregate(AggregateOperator):
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


@dataclass(frozen=True)
class Numbered:
    """The tuples of a run that are taken."""

    place: Words
    """Where they stand in the run."""
    number: Words
    reached: Words
    """Windows of numbers that end here are complete before the tuple."""
    at_end: int
    """The same for the end of the run."""


class CountWindowOperator(Operator):
    """The mutable half of `CountWindows`."""

    def __init__(self, spec: CountWindows, texts: TextTable | None = None) -> None:
        self._windows = CountWindowAggregate(spec.over_numbers(), texts)

    @abstractmethod
    def _number(self, run: OrderedBatch) -> Numbered:
        """Give numbers to tuples in time."""

    @abstractmethod
    def _timed(self, run: OrderedBatch, first: Words) -> tuple[Words, Words, Words]:
        """Of windows that begin with these numbers: start, end, and the place of the tuple that caused them."""

    def _processed(self) -> None:
        """A run has been processed: windows that are closed may be forgotten."""

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it completes."""
        taken = self._number(run)
        words = np.vstack([taken.number[None], run.words[1:, taken.place], run.ts[None, taken.place]])
        tuples = run.tuples.take(taken.place)._replace(words=words, watermark_at_arrival=taken.reached)
        numbered = replace(run, tuples=tuples, watermark=taken.at_end)
        for output in self._windows.process(numbered, ordered=False):
            first, _, *rest = output.columns
            start, end, by = self._timed(run, first)
            yield Output(end, (start, end, *rest), by, None, output.results)
        self._processed()

    @property
    def state_rows(self) -> int:
        """Partial aggregates, and values of holistic ones."""
        return self._windows.state_rows

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        yield from self._windows.window_contents(watermark)

    def snapshot_delta(self) -> list[StateUpdate]:
        return [*self._windows.snapshot_delta(), *self._own_updates()]

    def restore(self, entries: list[StateUpdate]) -> None:
        own = [entry for entry in entries if entry.namespace.startswith("own")]
        self._windows.restore([entry for entry in entries if entry not in own])
        self._restore_own(own)

    @abstractmethod
    def _own_updates(self) -> list[StateUpdate]:
        """What to persist beside the windows, in cells whose names begin with `own`."""

    @abstractmethod
    def _restore_own(self, entries: list[StateUpdate]) -> None: ...


COUNT, STARTS = "own count", "own starts"


@dataclass(frozen=True)
class RowAggregate(CountWindows):
    """Spec of windows that count tuples: `range` and `slide` are numbers of tuples.

    Groups are formed inside of a window. Tuples in time are numbered in processing order, from 0 on. Window k holds the
    numbers from `k * slide` up to `k * slide + range`, that one excluded, and is emitted with the tuple that completes
    it; at the end of the input every window that has begun is. Its bounds are the event times of its first and its last
    tuple, both included.
    """

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


OWN = "own landmarks"
NEVER = -1
"""In place of the row of a predicate: there is none."""
SATISFIED = 1
RUNNING = 2**40
"""The range, in numbers, of a window that never closes: no query gives more answers."""
# What is known between runs: windows opened so far, whether one is open, its first and its newest tuple, answers given.
OPENED, OPEN, BEGIN, NEWEST, ANSWERS = range(5)


@dataclass(frozen=True)
class LandmarkAggregate(CountWindows):
    """Spec of landmark windows: the rows that hold the truth of START and END; without END, how often to answer.

    `range` has no meaning. A window opens with the first tuple in time that satisfies START while none is open, and
    holds it and all that follow, up to and including the one that satisfies END; a tuple may do both. It is emitted
    with that tuple, or at the end of the input. Its bounds are the event times of its first and its last tuple. Late
    tuples neither open nor close one.

    Without END a window never closes, and gives a running answer: at every multiple of `every` behind a tuple, what all
    tuples since the first have given; its bounds are the first one's time and that multiple.
    """

    start: int = NEVER
    end: int = NEVER
    every: int = 0

    @property
    def in_numbers(self) -> tuple[int, int | None]:
        return (RUNNING, 1) if self.end == NEVER else (1, None)

    @property
    def one_shard(self) -> str:
        return "a tuple of any key may open or close the window"

    @property
    def moves(self) -> str:
        often = f", answering every {format_duration(self.every)}" if self.every else ""
        return f"landmark window{often}"

    def build(self, context: BuildContext = PLAIN) -> Operator:
        made = (RunningOperator if self.end == NEVER else LandmarkOperator)(self, context.texts)
        return self.emitting(made, context)


@in_place
def follow(start: Words, end: Words, ts: Words, known: Words, number: Words, done: Words, bounds: Words) -> None:
    """Give every tuple the number of its window, or NEVER; `done` windows are complete before it.

    `bounds` has the first tuple's time and the place of the last, of the window that was open and of those behind it.
    """
    before = known[OPENED] - known[OPEN]
    for i in range(len(ts)):
        done[i] = known[OPENED] - known[OPEN]
        if known[OPEN] == 0 and start[i] == SATISFIED:
            known[OPEN] = 1
            bounds[0, known[OPENED] - before] = ts[i]
            known[OPENED] += 1
        number[i] = NEVER
        if known[OPEN] == 1:
            number[i] = known[OPENED] - 1
            known[NEWEST] = ts[i]
            if end[i] == SATISFIED:
                bounds[1, number[i] - before] = i
                known[OPEN] = 0


class _Landmarks(CountWindowOperator):
    """What both kinds of landmark windows know between runs."""

    def __init__(self, spec: LandmarkAggregate, texts: TextTable | None = None) -> None:
        super().__init__(spec, texts)
        self.spec = spec
        self._known = np.zeros(5, np.int64)

    def _own_updates(self) -> list[StateUpdate]:
        return [state_update(OWN, "", encode_json({"known": self._known.tolist()}))]

    def _restore_own(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.value is not None:
                self._known = np.array(decode_json(entry.value)["known"], np.int64)


class LandmarkOperator(_Landmarks):
    """Windows that close."""

    def _number(self, run: OrderedBatch) -> Numbered:
        place = np.flatnonzero(~run.late)
        ts, known = run.ts[place], self._known
        self._before = int(known[OPENED] - known[OPEN])
        # A window that is still open at the end of the input is emitted by that end, with the newest tuple as its last.
        self._bounds = np.full((2, len(place) + 1), len(place), np.int64)
        self._bounds[0, 0] = known[BEGIN]
        number, done = np.empty((2, len(place)), np.int64)
        start, end = run.words[self.spec.start, place], run.words[self.spec.end, place]
        follow(start, end, ts, known, number, done, self._bounds)
        if known[OPEN]:
            known[BEGIN] = self._bounds[0, known[OPENED] - 1 - self._before]
        self._place = np.append(place, len(run))
        self._times = np.append(ts, known[NEWEST])
        inside = np.flatnonzero(number != NEVER)
        complete = int(known[OPENED] - (0 if run.ended else known[OPEN]))
        return Numbered(place[inside], number[inside], done[inside], complete)

    def _timed(self, run: OrderedBatch, first: Words) -> tuple[Words, Words, Words]:
        begin, last = self._bounds[:, first - self._before]
        return begin, self._times[last], self._place[last]


class RunningOperator(_Landmarks):
    """One window that never closes, and the answers it gives on the way.

    All its tuples have the one number that lies in every window of numbers; each answer closes one of these.
    """

    def _number(self, run: OrderedBatch) -> Numbered:
        place = np.flatnonzero(~run.late)
        known, every = self._known, self.spec.every
        if not known[OPENED]:
            begun = np.flatnonzero(run.words[self.spec.start, place] == SATISFIED)
            place = place[begun[0] :] if len(begun) else place[:0]
            if len(place):
                known[BEGIN] = known[NEWEST] = run.ts[place[0]]
                known[OPENED] = known[OPEN] = 1
        self._first_answer = int(known[ANSWERS])
        ts = run.ts[place]
        # OPEN says whether a tuple has come since the last answer; the newest one says when the next is due.
        due_at = (np.concatenate([known[NEWEST : NEWEST + 1], ts]) // every + 1) * every
        waits = np.concatenate([known[OPEN : OPEN + 1] == 1, np.ones(len(ts), np.bool_)])
        reached = np.append(ts, due_at[-1] if run.ended else run.watermark)
        due = waits & (due_at <= reached)
        answered = known[ANSWERS] + np.cumsum(due)
        self._due_at, self._by = due_at[due], np.append(place, len(run))[due]
        known[NEWEST], known[ANSWERS] = ts[-1] if len(ts) else known[NEWEST], answered[-1]
        known[OPEN] = int(waits[-1] and not due[-1])
        number = np.full(len(place), RUNNING - 1, np.int64)
        return Numbered(place, number, answered[:-1] + RUNNING - 1, int(answered[-1]) + RUNNING - 1)

    def _timed(self, run: OrderedBatch, first: Words) -> tuple[Words, Words, Words]:
        nth = first - self._first_answer
        return np.full(len(first), self._known[BEGIN]), self._due_at[nth], self._by[nth]
