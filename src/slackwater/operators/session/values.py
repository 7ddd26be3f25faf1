"""What holistic aggregates keep of sessions: all values, each with the session it is of.

Invariant: a value is kept for as long as its session is open. Answers are those of windows of time: quantiles
interpolate, NaN is the largest number, -0.0 is 0.0, nulls are no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.records import NONE
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.expressions.aggregates import DIFFERENT
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout, answered, float_words
from slackwater.operators.aggregate.partials import add_rows, program_for


class KeptValues:
    """The values of all open sessions, a line for each row of a tuple that a holistic aggregate reads."""

    def __init__(self, aggregates: Sequence[AggregateSpec]) -> None:
        self.aggregates = [one for one in aggregates if one.holistic]
        self.rows = sorted({one.row for one in self.aggregates})
        self.of: Words = np.zeros(0, np.int64)
        """The session of each value."""
        self.words: Words = np.zeros((len(self.rows), 0), np.int64)

    def __len__(self) -> int:
        return len(self.of)

    def take_in(self, of: Words, words: Words) -> None:
        """Keep values of tuples that came into these sessions; NONE is none."""
        if self.rows:
            inside = of != NONE
            self.of = np.concatenate([self.of, of[inside]])
            self.words = np.concatenate([self.words, words[self.rows][:, inside]], axis=1)

    def answers(self, sessions: Words) -> list[Words]:
        """The words of all holistic aggregates of these sessions, whose values go."""
        if not self.rows:
            return []
        line_of = np.full(max(self.of.max(initial=0), sessions.max(initial=0)) + 1, NONE, np.int64)
        line_of[sessions] = np.arange(len(sessions))
        line = line_of[self.of]
        ending = line != NONE
        found = [
            _answer(one, line[ending], self.words[self.rows.index(one.row), ending], len(sessions))
            for one in self.aggregates
        ]
        self.of, self.words = self.of[~ending], np.ascontiguousarray(self.words[:, ~ending])
        return found


def _answer(one: AggregateSpec, line: Words, words: Words, lines: int) -> Words:
    """The answer for each line, given its values."""
    real = one.kind is Kind.FLOAT
    present = words != (NULL_FLOAT if real else NULL_WORD)
    line, words = line[present], words[present]
    # A sum with 0.0 makes -0.0 the other zero; all NaNs are one, and sorted last.
    values = words.view(np.float64) + 0.0 if real else words
    order = np.lexsort((values, line))
    line, values = line[order], values[order]
    sizes = np.bincount(line, minlength=lines)
    if one.function in DIFFERENT.values():
        fresh = np.ones(len(line), np.bool_)
        same = (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
        fresh[1:] = (line[1:] != line[:-1]) | ~same
        return _of_different(one, line[fresh], values[fresh].view(np.int64), lines)
    if not len(values):
        return np.full(lines, NULL_FLOAT, np.int64)
    rank = (0.5 if one.parameter is None else one.parameter) * np.maximum(sizes - 1, 0)
    below = np.floor(rank).astype(np.int64)
    begin = np.minimum(np.cumsum(sizes) - sizes, len(values) - 1)
    low = values[np.minimum(begin + below, len(values) - 1)].astype(np.float64)
    high = values[np.minimum(begin + np.where(rank > below, below + 1, below), len(values) - 1)].astype(np.float64)
    with np.errstate(invalid="ignore"):
        between = np.where(rank > below, low + (high - low) * (rank - below), low)
    return float_words(between, sizes == 0)


def _of_different(one: AggregateSpec, line: Words, words: Words, lines: int) -> Words:
    """The answer for each line, given its different values in their order."""
    different = one.of_different
    if different is None:
        return np.bincount(line, minlength=lines).astype(np.int64)
    layout = Layout.of([replace(different, row=0)])
    program, state = program_for(layout), np.zeros((lines, layout.width), np.int64)
    add_rows(program, state, state.view(np.float64), line, words[np.newaxis], words.view(np.float64)[np.newaxis])
    return answered(replace(one, row=0), state)
