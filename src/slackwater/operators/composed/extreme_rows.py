"""MIN and MAX of the rows that should have reached the top, beside those of the rows that did: the loops.

A maximum is kept as the least of what is negated. NaN is the largest number, as everywhere.

Invariant: by piece of event time and group a record has, of every aggregate, how many values there are and the least of
them; so the least of a window is that of its pieces, of true rows and of rows made alike, and nothing is modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_FLOAT, NULL_WORD
from slackwater.disorder.meters import Asked
from slackwater.operators.composed.error_rows import piece_of
from slackwater.quality.error.answers import is_within
from slackwater.quality.error.window_losses import Watch, group_of, is_first, last_piece
from slackwater.quality.stats.keyed_sums import (
    GROUP,
    NEXT,
    RECORDS,
    Table,
    as_chunks,
    find,
    first_record,
    found_or_made,
    place_of,
    refilled,
    table,
    tidied,
)

EXTREMES = frozenset(("MIN", "MAX"))
# Columns of what is asked: the row of the argument, whether it is a float, 1 or -1 for a maximum.
ROW, IS_FLOAT, SIGN = range(3)
# What a record has of every aggregate.
VALUES, LEAST = range(2)
FIRST_CAPACITY = 256


@in_place
def note_extremes(w: Watch, asked: Words, t: Table, words: Words, floats: Floats, begin: int) -> int:
    """Note rows; returns how many were noted before the table was full."""
    for i in range(begin, words.shape[1]):
        if t.used[RECORDS] == len(t.records):
            return i
        r = found_or_made(t, piece_of(w, words[TS, i]), group_of(w, words, i))
        if r == NONE:
            continue
        for n in range(len(asked)):
            row, is_float = asked[n, ROW], asked[n, IS_FLOAT] == 1
            if words[row, i] != (NULL_FLOAT if is_float else NULL_WORD):
                value = floats[row, i] if is_float else float(words[row, i])
                note_least(t.sums, r, 2 * n, asked[n, SIGN] * (np.inf if value != value else value))
    return words.shape[1]


@inner
def note_least(sums: Floats, r: int, at: int, value: float) -> None:
    """One more value of a record."""
    if sums[r, at + VALUES] == 0 or value < sums[r, at + LEAST]:
        sums[r, at + LEAST] = value
    sums[r, at + VALUES] += 1.0


@inner
def least_of(w: Watch, t: Table, window: int, group: int, least: Floats) -> None:
    """What a window and group has, into `least`."""
    for c in range(len(least)):
        least[c] = 0.0
    for piece in range(2 * window, last_piece(w, window) + 1):
        r = NONE if place_of(t, piece) == NONE else find(t, piece, group)
        if r != NONE:
            for c in range(0, len(least), 2):
                if t.sums[r, c] > 0 and (least[c] == 0 or t.sums[r, c + LEAST] < least[c + LEAST]):
                    least[c + LEAST] = t.sums[r, c + LEAST]
                least[c] += t.sums[r, c]


@in_place
def mark_off(w: Watch, true: Table, made: Table, bound: float, scratch: Floats, first: int, off: Flags) -> None:
    """Mark the windows from a number on of which an extreme is further off than it may be; `scratch` has two lines."""
    for window in range(first, first + len(off)):
        for piece in range(2 * window, last_piece(w, window) + 1):
            r = first_record(true, piece)
            while r != NONE:
                group = true.records[r, GROUP]
                if is_first(true, 2 * window, piece, group):
                    least_of(w, true, window, group, scratch[0])
                    least_of(w, made, window, group, scratch[1])
                    for c in range(0, scratch.shape[1], 2):
                        truth, answer = scratch[0, c + LEAST], scratch[1, c + LEAST]
                        both = scratch[0, c] > 0 and scratch[1, c] > 0
                        off[window - first] |= scratch[0, c] > 0 and not (both and is_within(answer, truth, bound))
                r = true.records[r, NEXT]


class Extremes:
    """The extremes of true rows and of rows made."""

    def __init__(self, aggregates: Sequence[Asked], lines: int) -> None:
        asked = [(a.row, a.is_float, 1 if a.function == "MIN" else -1) for a in aggregates if a.function in EXTREMES]
        self._asked = np.array(asked, np.int64).reshape(-1, 3)
        self._lines, self._width = lines, 2 * len(asked)
        names = ("true", "made") if asked else ()
        self._tables = {name: table(FIRST_CAPACITY, 0, lines, self._width) for name in names}
        self._scratch = np.zeros((2, self._width))

    def note(self, watch: Watch, name: str, words: Words) -> None:
        """Rows that are true, or that were made."""
        done = 0 if len(self._asked) else words.shape[1]
        while done < words.shape[1]:
            done = note_extremes(watch, self._asked, self._tables[name], words, words.view(np.float64), done)
            if done < words.shape[1]:
                self._tables[name] = tidied(self._tables[name], FIRST_CAPACITY, 0)

    def off(self, watch: Watch, bound: float, first: int, last: int) -> Flags:
        """Whether windows between two numbers have an extreme that is further off than it may be."""
        found = np.zeros(max(0, last + 1 - first), np.bool_)
        if len(self._asked):
            mark_off(watch, self._tables["true"], self._tables["made"], bound, self._scratch, first, found)
        return found

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        return {
            f"{name}_{number}": chunk for name, one in self._tables.items() for number, chunk in as_chunks(one).items()
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        for name in self._tables:
            chunks = [chunk for key, chunk in arrays.items() if key.startswith(f"{name}_")]
            self._tables[name] = refilled(self._lines, FIRST_CAPACITY, self._width, chunks)
