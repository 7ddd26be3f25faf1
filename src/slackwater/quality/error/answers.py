"""Answers of emitted windows beside what they would be with the tuples that came too late: the loops.

Counts, sums and means of what is missing are enough to judge a sum. Of any other aggregate one must know what was
emitted. So every emitted answer leaves a few numbers here, and every late tuple changes them as it would have changed
the answer. No values are retained, and a late tuple costs the same however many tuples a window has:

- MIN, MAX: the extreme with the late values.
- MEDIAN, QUANTILE: the truth is within the bound of an answer iff it lies between two values that follow from the
  answer (`low_end`, `high_end`). Of each of the two there is the number of values below it and its neighbours. A late
  value changes these, and the rank that is asked for; both together say on which side of them the truth lies.
- VAR, STDDEV: count, mean and squared deviations.
- COUNT DISTINCT: how many late values there were. How many of them are new to the window is not known, so a window that
  may be off is DOUBTFUL.

Invariant: a verdict of WITHIN or OFF is certain, as long as a record has every late value of its window and group.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.hash_table import mixed
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.disorder.meters import Asked
from slackwater.quality.stats.keyed_sums import RECORDS, Table, found_or_made

# How an aggregate is judged.
LEAST, GREATEST, RANK, VARIANCE, DEVIATION, DISTINCT = range(6)
# Columns of `Answered.asked`.
HOW, AT, ROW, IS_FLOAT, SHARE, UNIT_UNKNOWN, POSITION = range(7)
# What a record has of every aggregate: how many values the answer was made of, the answer, late values since.
VALUES, ANSWER, LATE, OWN = range(4)
TRUTH = OWN
MEAN, SQUARES = range(OWN, OWN + 2)
BELOW_LOW, BEFORE_LOW, AFTER_LOW, BELOW_HIGH, BEFORE_HIGH, AFTER_HIGH = range(OWN, OWN + 6)
WIDTHS = {LEAST: 4, GREATEST: 4, RANK: 9, VARIANCE: 5, DEVIATION: 5, DISTINCT: 3}
RANK_WORDS = WIDTHS[RANK] - OWN
# What is known of a window, from nothing to the worst.
EMPTY, WITHIN, DOUBTFUL, OFF = range(4)
ROUNDING = 1e-9
"""Answers nearer to each other than this are taken as equal, as the judge takes them."""
EXACT = frozenset(("COUNT", "SUM", "AVG"))
"""Judged by sums."""


class Answered(NamedTuple):
    """Which answers are noted, and the error that they may have."""

    asked: Words
    bound: float


def answered(aggregates: Sequence[Asked], bound: float) -> Answered:
    """The aggregates that sums do not tell of."""
    lines, at = [], 0
    for n, one in enumerate(aggregates):
        if one.function in EXACT:
            continue
        how = _how(one)
        share = np.float64(0.5 if one.parameter is None else one.parameter).view(np.int64)
        unknown = one.kind not in (None, Kind.INT, Kind.FLOAT)
        lines.append((how, at, one.row, one.is_float, share, unknown, n))
        at += WIDTHS[how]
    return Answered(np.array(lines, np.int64).reshape(len(lines), 7), max(bound, ROUNDING))


def _how(asked: Asked) -> int:
    match asked.function:
        case "MIN" | "MAX":
            return LEAST if asked.function == "MIN" else GREATEST
        case "VAR" | "STDDEV":
            return VARIANCE if asked.function == "VAR" else DEVIATION
        case "COUNT_DISTINCT":
            return DISTINCT
        case _:
            return RANK


def width_of(a: Answered) -> int:
    """How many numbers a record has."""
    return sum(WIDTHS[how] for how in a.asked[:, HOW].tolist())


def is_certain(a: Answered) -> bool:
    """Whether no window is ever DOUBTFUL for want of values."""
    return DISTINCT not in a.asked[:, HOW]


@inner
def less(a: float, b: float) -> bool:
    """Whether a number is less than another, NaN counting as the largest."""
    return a < b or (b != b and a == a)


@inner
def low_end(answer: float, bound: float) -> float:
    """The least truth that an answer is within the bound of; the error is relative to the truth."""
    outwards = 1e-12 * abs(answer)
    return (answer / (1.0 + bound) if answer > 0 else answer / (1.0 - bound)) - (outwards if outwards < np.inf else 0.0)


@inner
def high_end(answer: float, bound: float) -> float:
    """The greatest truth that an answer is within the bound of."""
    outwards = 1e-12 * abs(answer)
    return (answer / (1.0 - bound) if answer > 0 else answer / (1.0 + bound)) + (outwards if outwards < np.inf else 0.0)


@inner
def is_within(answer: float, truth: float, bound: float) -> bool:
    """Whether an answer is as near to the truth as it has to be; absolutely where the truth is 0."""
    if answer == truth or (answer != answer and truth != truth):
        return True
    size = abs(truth)
    return abs(truth - answer) <= bound * (size if size != 0 else 1.0) + 1e-12 * size and size < np.inf


@in_place
def note_answers(answers: Table, windows: Words, keys: Words, summaries: Floats, begin: int, counted_up_to: int) -> int:
    """Note emitted answers; returns how many were noted before the table was full."""
    for n in range(begin, len(windows)):
        if answers.used[RECORDS] == len(answers.records):
            return n
        if windows[n] > counted_up_to:
            group = 0
            for c in range(keys.shape[1]):
                group = mixed(keys[n, c], group)
            r = found_or_made(answers, windows[n], group)
            if r != NONE:
                for c in range(summaries.shape[1]):
                    answers.sums[r, c] = summaries[n, c]
    return len(windows)


@inner
def note_late(a: Answered, sums: Floats, r: int, words: Words, floats: Floats, i: int) -> None:
    """Tuple i came too late for the answers of a record."""
    for n in range(len(a.asked)):
        row, at = a.asked[n, ROW], a.asked[n, AT]
        is_float = a.asked[n, IS_FLOAT] == 1
        if words[row, i] == (NULL_FLOAT if is_float else NULL_WORD):
            continue
        how = a.asked[n, HOW]
        sums[r, at + LATE] += 1.0
        value = floats[row, i] if is_float else float(words[row, i])
        if how in (LEAST, GREATEST):
            if less(value, sums[r, at + TRUTH]) == (how == LEAST):
                sums[r, at + TRUTH] = value
        elif how == RANK:
            note_rank(sums, r, at, value, a.bound)
        elif how in (VARIANCE, DEVIATION):
            count = sums[r, at + VALUES] + sums[r, at + LATE]
            off = value - sums[r, at + MEAN]
            sums[r, at + MEAN] += off / count
            sums[r, at + SQUARES] += off * (value - sums[r, at + MEAN])


@inner
def note_rank(sums: Floats, r: int, at: int, value: float, bound: float) -> None:
    """One more value, among those below and behind the ends of what the truth may be."""
    answer = sums[r, at + ANSWER]
    if less(value, low_end(answer, bound)):
        sums[r, at + BELOW_LOW] += 1.0
        if less(sums[r, at + BEFORE_LOW], value):
            sums[r, at + BEFORE_LOW] = value
    elif less(value, sums[r, at + AFTER_LOW]):
        sums[r, at + AFTER_LOW] = value
    if less(high_end(answer, bound), value):
        if less(value, sums[r, at + AFTER_HIGH]):
            sums[r, at + AFTER_HIGH] = value
    else:
        sums[r, at + BELOW_HIGH] += 1.0
        if less(sums[r, at + BEFORE_HIGH], value):
            sums[r, at + BEFORE_HIGH] = value


@inner
def verdict_of(a: Answered, sums: Floats, r: int) -> int:
    """What is known of the answers of a record: WITHIN, DOUBTFUL or OFF."""
    worst = WITHIN
    for n in range(len(a.asked)):
        how, at = a.asked[n, HOW], a.asked[n, AT]
        values, answer, late = sums[r, at + VALUES], sums[r, at + ANSWER], sums[r, at + LATE]
        if late == 0:
            continue
        verdict = OFF
        if how in (VARIANCE, DEVIATION):
            if values + late < 2:
                verdict = WITHIN
            elif values >= 2:
                truth = sums[r, at + SQUARES] / (values + late - 1.0)
                if is_within(answer, sqrt(truth) if how == DEVIATION and truth > 0 else truth, a.bound):
                    verdict = WITHIN
        elif values == 0:
            pass
        elif how in (LEAST, GREATEST):
            truth = sums[r, at + TRUTH]
            if is_within(answer, truth, a.bound):
                verdict = WITHIN
            elif truth == 0 and a.asked[n, UNIT_UNKNOWN] == 1:
                verdict = DOUBTFUL
        elif how == RANK:
            verdict = verdict_of_rank(sums, r, at, np.int64(a.asked[n, SHARE]).view(np.float64), a.bound)
        elif late > a.bound * (values + late):
            verdict = DOUBTFUL
        else:
            verdict = WITHIN
        worst = max(worst, verdict)
    return worst


@inner
def verdict_of_rank(sums: Floats, r: int, at: int, share: float, bound: float) -> int:
    """Where the value of this rank lies, late values included."""
    answer = sums[r, at + ANSWER]
    rank = share * (sums[r, at + VALUES] + sums[r, at + LATE] - 1.0)
    first = int(rank)
    last = first + 1 if rank > first else first
    # A truth of 0 is within the bound of all that is smaller than that; between the two there may be no other. What
    # lies between two infinities is no number, and no value either.
    missed = DOUBTFUL if answer != 0 and abs(answer) <= bound else OFF
    below = sums[r, at + BELOW_LOW]
    if below > last:
        return missed if answer > 0 else DOUBTFUL if answer != answer else OFF
    if below > first:
        truth = between(sums[r, at + BEFORE_LOW], sums[r, at + AFTER_LOW], rank - first)
        return WITHIN if is_within(answer, truth, bound) else OFF
    below = sums[r, at + BELOW_HIGH]
    if below <= first:
        return missed if answer < 0 else OFF
    if below <= last:
        truth = between(sums[r, at + BEFORE_HIGH], sums[r, at + AFTER_HIGH], rank - first)
        return WITHIN if is_within(answer, truth, bound) else OFF
    return WITHIN


@inner
def between(low: float, high: float, share: float) -> float:
    """What lies between two neighbours, as quantiles interpolate."""
    return low + (high - low) * share if share > 0 else low
