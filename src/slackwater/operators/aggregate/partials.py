"""Partial aggregates in compiled code: identity, add one value, combine two partials.

Invariant: a partial is a segment of words inside a record (row `r` of a 2-D array, from word `at` on); `program` says
which component owns which of them. Float words are read through a float view of the same memory. The smallest and the
largest text are kept as codes, and compared by the bytes that a table has of them.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_FLOAT, NULL_WORD
from slackwater.expressions.text_table import TextTable
from slackwater.expressions.texts import before
from slackwater.operators.aggregate.algebra import Layout, Op
from slackwater.operators.aggregate.registers import add_sketch, add_value
from slackwater.operators.aggregate.spread import INT_WORDS, add_moments, add_square, add_squares

COUNT, SUM_INT, SUM_FLOAT = int(Op.COUNT), int(Op.SUM_INT), int(Op.SUM_FLOAT)
MIN_INT, MAX_INT = int(Op.MIN_INT), int(Op.MAX_INT)
MIN_FLOAT, MAX_FLOAT, MOMENTS = int(Op.MIN_FLOAT), int(Op.MAX_FLOAT), int(Op.MOMENTS)
MOMENTS_INT = int(Op.MOMENTS_INT)
MIN_TEXT, MAX_TEXT = int(Op.MIN_TEXT), int(Op.MAX_TEXT)
FIRST, LAST, REGISTERS = int(Op.FIRST), int(Op.LAST), int(Op.REGISTERS)
LARGEST_WORD = 2**63 - 1

# Columns of a program: what a component does, where its state begins, which row holds its argument, how a null looks
# there, whether it is a float, where the table of texts is, which row a value is chosen by, whether that is a float,
# what decides between values that are equal in it, how many bits choose a register.
OP, AT, ROW, NULL, IS_FLOAT, TEXTS, BY, FLOAT_BY, TIE, BITS = range(10)
NO_TIE = -1


def program_for(layout: Layout, texts: TextTable | None = None) -> Words:
    """The components of a layout for compiled code, one per line; whoever uses it keeps the table of texts."""
    table = 0 if texts is None else texts.address
    lines = [
        (
            int(c.op), layout.offset(c), c.row, NULL_FLOAT if c.float_argument else NULL_WORD, c.float_argument, table,
            c.by, c.float_by, NO_TIE if c.tie is None else int(c.tie), c.bits,
        )
        for c in layout.components
    ]  # fmt: skip
    return np.array(lines, np.int64).reshape(len(lines), 10)


@inner
def clear(program: Words, ints: Words, floats: Floats, r: int, base: int) -> None:
    """Make a partial the identity of `combine`."""
    for c in range(len(program)):
        op, at = program[c, OP], base + program[c, AT]
        ints[r, at] = 0
        if op in (SUM_INT, SUM_FLOAT):
            ints[r, at + 1] = 0
        elif op == MIN_INT:
            ints[r, at] = LARGEST_WORD
        elif op in (MAX_INT, MIN_TEXT, MAX_TEXT, FIRST, LAST):
            ints[r, at] = NULL_WORD
        elif op == MIN_FLOAT:
            floats[r, at] = np.nan
        elif op == MAX_FLOAT:
            floats[r, at] = -np.inf
        elif op == MOMENTS:
            ints[r, at + 1], ints[r, at + 2] = 0, 0
        elif op == MOMENTS_INT:
            for w in range(1, INT_WORDS):
                ints[r, at + w] = 0
        elif op == REGISTERS:
            for w in range(1, 1 << (program[c, BITS] - 3)):
                ints[r, at + w] = 0


@inner
def add(
    program: Words, ints: Words, floats: Floats, r: int, base: int, words: Words, word_floats: Floats, i: int
) -> None:
    """Lift tuple i and combine it in."""
    for c in range(len(program)):
        op, at, row = program[c, OP], base + program[c, AT], program[c, ROW]
        if row >= 0 and words[row, i] == program[c, NULL]:
            continue
        if op == COUNT:
            ints[r, at] += 1
        elif op == SUM_INT:
            add_wide(ints, r, at, words[row, i], words[row, i] >> 63)
        elif op == SUM_FLOAT:
            add_compensated(floats, r, at, word_floats[row, i])
        elif op == MIN_INT:
            ints[r, at] = min(ints[r, at], words[row, i])
        elif op == MAX_INT:
            ints[r, at] = max(ints[r, at], words[row, i])
        elif op == MIN_FLOAT:
            floats[r, at] = smaller(floats[r, at], word_floats[row, i])
        elif op == MAX_FLOAT:
            floats[r, at] = larger(floats[r, at], word_floats[row, i])
        elif op == MOMENTS_INT:
            add_square(ints, r, at, words[row, i])
        elif op in (MIN_TEXT, MAX_TEXT):
            ints[r, at] = further(program[c, TEXTS], op, ints[r, at], words[row, i])
        elif op in (FIRST, LAST):
            rank = rank_of(program, c, words, word_floats, i)
            choose(program, c, ints, floats, r, at, rank, words[row, i], word_floats[row, i])
        elif op == REGISTERS:
            # -0.0 is 0.0.
            zero = program[c, IS_FLOAT] == 1 and word_floats[row, i] == 0
            add_value(ints, r, at, program[c, BITS], 0 if zero else words[row, i])
        else:
            add_moments(floats, r, at, 1.0, word_floats[row, i], 0.0)


@in_place
def begin_groups(program: Words, ints: Words, floats: Floats, first: int) -> None:
    """Groups from `first` on have no rows yet."""
    for r in range(first, len(ints)):
        clear(program, ints, floats, r, 0)


@in_place
def add_rows(program: Words, ints: Words, floats: Floats, numbers: Words, words: Words, word_floats: Floats) -> None:
    """Add rows to the partial results of their groups."""
    for i in range(len(numbers)):
        add(program, ints, floats, numbers[i], 0, words, word_floats, i)


@inner
def combine(
    program: Words,
    ints: Words,
    floats: Floats,
    r: int,
    base: int,
    others: Words,
    other_floats: Floats,
    o: int,
    there: int,
) -> None:
    """Combine another partial in."""
    for c in range(len(program)):
        op, at, to = program[c, OP], there + program[c, AT], base + program[c, AT]
        if op == COUNT:
            ints[r, to] += others[o, at]
        elif op == SUM_INT:
            add_wide(ints, r, to, others[o, at], others[o, at + 1])
        elif op == SUM_FLOAT:
            add_compensated(floats, r, to, other_floats[o, at])
            floats[r, to + 1] += other_floats[o, at + 1]
        elif op == MIN_INT:
            ints[r, to] = min(ints[r, to], others[o, at])
        elif op == MAX_INT:
            ints[r, to] = max(ints[r, to], others[o, at])
        elif op == MIN_FLOAT:
            floats[r, to] = smaller(floats[r, to], other_floats[o, at])
        elif op == MAX_FLOAT:
            floats[r, to] = larger(floats[r, to], other_floats[o, at])
        elif op == MOMENTS_INT:
            add_squares(ints, r, to, others, o, at)
        elif op in (MIN_TEXT, MAX_TEXT):
            ints[r, to] = further(program[c, TEXTS], op, ints[r, to], others[o, at])
        elif op in (FIRST, LAST):
            choose(program, c, ints, floats, r, to, others[o, at], others[o, at + 1], other_floats[o, at + 1])
        elif op == REGISTERS:
            add_sketch(ints, r, to, program[c, BITS], others, o, at)
        else:
            f = other_floats
            add_moments(floats, r, to, f[o, at], f[o, at + 1], f[o, at + 2])


@inner
def rank_of(program: Words, c: int, words: Words, word_floats: Floats, i: int) -> int:
    """A word that is the greater, the better tuple i is to be chosen; NULL_WORD, which is the least, for a null."""
    word = words[program[c, BY], i]
    if program[c, FLOAT_BY] == 1:
        number = word_floats[program[c, BY], i]
        if word == NULL_FLOAT:
            word = NULL_WORD
        elif np.isnan(number):
            word = LARGEST_WORD
        elif number == 0:
            word = 0
        else:
            # Words of negative floats fall as these rise.
            word ^= (word >> 63) & LARGEST_WORD
    return -word if program[c, OP] == FIRST and word != NULL_WORD else word


@inner
def choose(
    program: Words, c: int, ints: Words, floats: Floats, r: int, at: int, rank: int, word: int, number: float
) -> None:
    """Keep the value of the highest rank; `number` is the same word as a float."""
    tie, value = program[c, TIE], at + 1
    if rank != ints[r, at]:
        if rank > ints[r, at]:
            ints[r, at], ints[r, value] = rank, word
    elif rank == NULL_WORD:
        return
    elif tie == MIN_INT:
        ints[r, value] = min(ints[r, value], word)
    elif tie == MAX_INT:
        ints[r, value] = max(ints[r, value], word)
    elif tie == MIN_FLOAT:
        floats[r, value] = smaller(floats[r, value], number)
    elif tie == MAX_FLOAT:
        floats[r, value] = larger(floats[r, value], number)
    else:
        ints[r, value] = further(program[c, TEXTS], tie, ints[r, value], word)


@inner
def add_wide(ints: Words, r: int, at: int, low: int, high: int) -> None:
    """128-bit addition in two words."""
    before = np.uint64(ints[r, at])
    after = before + np.uint64(low)
    ints[r, at] = np.int64(after)
    ints[r, at + 1] += high + (1 if after < before else 0)


@inner
def add_compensated(floats: Floats, r: int, at: int, value: float) -> None:
    """Neumaier's sum: what rounding drops is kept in the second word."""
    total = floats[r, at]
    new = total + value
    if abs(total) >= abs(value):
        floats[r, at + 1] += (total - new) + value
    else:
        floats[r, at + 1] += (value - new) + total
    floats[r, at] = new


@inner
def smaller(a: float, b: float) -> float:
    """The smaller number, NaN counting as the largest."""
    return b if np.isnan(a) or b < a else a


@inner
def larger(a: float, b: float) -> float:
    """The larger number, NaN counting as the largest."""
    return b if np.isnan(b) or b > a else a


@inner
def further(table: int, op: int, a: int, b: int) -> int:
    """The code of the smaller or the larger text; a null is no text."""
    if a == b or b == NULL_WORD:
        return a
    if a == NULL_WORD:
        return b
    return b if before(table, a, b) == (op == MAX_TEXT) else a
