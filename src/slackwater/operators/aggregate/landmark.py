"""Aggregates over landmark windows: from a tuple that satisfies one predicate to one that satisfies another.

Invariant: a window opens with the first tuple in time that satisfies START while none is open, and holds it and all
that follow, up to and including the one that satisfies END; a tuple may do both. It is emitted with that tuple, or at
the end of the input. Its bounds are the event times of its first and its last tuple. Late tuples are in no window, and
neither open nor close one.

Without END a window never closes, and gives a running answer: at every multiple of `every` behind a tuple, what all
tuples since the first have given; its bounds are the first one's time and that multiple.

References: 004 §2.1.2 (landmark windows).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import in_place
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import format_duration
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate.count_windows import CountWindowOperator, CountWindows, Numbered
from slackwater.operators.contract import PLAIN, BuildContext, Operator

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
    """Spec: the rows that hold the truth of START and END; without END, how often to answer. `range` has no meaning."""

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
