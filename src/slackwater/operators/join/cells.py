"""Cells of a hash index: tuples that a band brings together stand in neighbouring cells.

Where a condition keeps a column within a band (`bands.py`), the values of that column are cut into cells of equal width
along an axis, one axis for each band, two at most. A tuple stands once, in the chain of its cell. Who looks for
partners between two values looks into the cells from that of the one to that of the other.

Invariant: which cell a value is in never falls as the value rises, whatever the rounding. So a value between two others
is in a cell between theirs, and no partner is missed; what is found beside them, the conditions drop. A tuple whose
value is null or NaN is in no cell: no band is true of it. Infinite values are in the outermost cells.

A key is the sum of the numbers of its cells, each times an odd constant. Neighbouring cells have different keys, so no
tuple is found twice. Cells far apart may share one, which costs time and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import inner
from slackwater.core.schema import NULL_WORD
from slackwater.operators.join.bands import FLOATS, INTEGERS, SLACK, Band, Side

AXES = 2
"""How many bands an index is cut by at most."""
FAR = 2.0**46
"""Floats in cells further from zero than this many are all in the last one: there a cell is hardly wider than what
rounding adds to a value."""
ANY_KEY = -1
"""The row of an index whose single key is shared by all tuples of its stream."""
LARGEST = 2**63 - 1
# Fields of an axis of an index: its row, how that is read; how many cells make up one, or how wide a cell of integers
# is; how many of its integers make up one. Those of a probe: the row that it comes from, and between which differences
# to look. Floats stand there by their bits.
ROW_OF, READ, WIDTH, UNIT, LOW, HIGH = range(6)
AXIS_FIELDS = 6
NO_AXIS = -1
"""What stands for the row of an axis that is not there."""
_FIRST, _SECOND = -7046029254386353131, -4417276706812531889


class Axis(NamedTuple):
    """How a stream is cut into cells by one of its rows."""

    row: int
    read: int
    width: float
    unit: float = 1.0


class HashIndex(NamedTuple):
    """What tuples of a stream are found by: a word of theirs, the cells they are in, or both."""

    stream: int
    row: int
    cells: tuple[Axis, ...] = ()


def axis_of(band: Band, per_band: int) -> Axis:
    """The axis of a band's left side, with so many cells in the width of the band."""
    side = band.left
    if side.read == INTEGERS:
        return Axis(side.row, INTEGERS, max(1, -int(-(band.high - band.low) // per_band)))
    return Axis(side.row, side.read, (band.high - band.low) / per_band, side.unit)


def lines_of(cells: tuple[Axis, ...]) -> Words:
    """The axes of an index, for compiled code."""
    lines = np.zeros((AXES, AXIS_FIELDS), np.int64)
    lines[:, ROW_OF] = NO_AXIS
    for line, axis in zip(lines, cells, strict=False):
        floats = line.view(np.float64)
        line[ROW_OF], line[READ] = axis.row, axis.read
        if axis.read == INTEGERS:
            line[WIDTH] = axis.width
        else:
            floats[WIDTH], floats[UNIT] = 1.0 / axis.width, axis.unit
    return lines


def probe_line(side: Side, low: float, high: float) -> Words:
    """Where a probe looks along one axis: from the value of a row on, between two differences."""
    line = np.zeros(AXIS_FIELDS, np.int64)
    floats = line.view(np.float64)
    line[ROW_OF], line[READ] = side.row, side.read
    if side.read == INTEGERS:
        line[LOW], line[HIGH] = low, high
    else:
        floats[UNIT], floats[LOW], floats[HIGH] = side.unit, low, high
    return line


@inner
def as_float(words: Words, floats: Floats, axis: Words, units: Floats, slot: int) -> float:
    """The number in a row that is compared as a float; NaN where there is none."""
    if axis[READ] == FLOATS:
        return floats[axis[ROW_OF], slot]
    word = words[axis[ROW_OF], slot]
    return np.nan if word == NULL_WORD else word / units[UNIT]


@inner
def cell_of(value: float, per_one: float) -> int:
    """The cell of a float that is not NaN."""
    return int(min(max(np.floor(value * per_one), -FAR), FAR))


@inner
def moved(word: int, by: int) -> int:
    """A sum of integers, or the last of them where it is no 64-bit one."""
    total = word + by
    if by > 0 and total < word:
        return LARGEST
    if by < 0 and total > word:
        return -LARGEST
    return total


@inner
def key_in(first: int, second: int, base: int) -> int:
    """The key of a pair of cells."""
    key = base + first * _FIRST + second * _SECOND
    return key + 1 if key == NULL_WORD else key


@inner
def own_cell(words: Words, floats: Floats, axis: Words, widths: Floats, slot: int) -> int:
    """The cell of a tuple along one axis; NULL_WORD where it is in none."""
    if axis[ROW_OF] == NO_AXIS:
        return 0
    if axis[READ] == INTEGERS:
        word = words[axis[ROW_OF], slot]
        return NULL_WORD if word == NULL_WORD else word // axis[WIDTH]
    value = as_float(words, floats, axis, widths, slot)
    return NULL_WORD if np.isnan(value) else cell_of(value, widths[WIDTH])


@inner
def cells_around(
    words: Words, floats: Floats, axis: Words, widths: Floats, probe: Words, bounds: Floats, slot: int
) -> tuple[int, int]:
    """The first and the last cell along an axis in which partners of a tuple may be; none where the last is before."""
    if axis[ROW_OF] == NO_AXIS:
        return 0, 0
    if axis[READ] == INTEGERS:
        word = words[probe[ROW_OF], slot]
        if word == NULL_WORD:
            return 1, 0
        return moved(word, probe[LOW]) // axis[WIDTH], moved(word, probe[HIGH]) // axis[WIDTH]
    value = as_float(words, floats, probe, bounds, slot)
    if np.isnan(value):
        return 1, 0
    # To an infinite value nothing is added, and nothing taken from it.
    slack = 0.0 if np.isinf(value) else abs(value) * SLACK
    return (
        cell_of(value + (bounds[LOW] - slack), widths[WIDTH]),
        cell_of(value + (bounds[HIGH] + slack), widths[WIDTH]),
    )
