"""A grid of shards, for a join whose tuples may meet whatever their words are.

Every input is cut by rows into parts, some into one part only. The shards are the cells of the grid that these parts
span: a tuple goes to all cells of its own part, so an input of one part goes to all shards.

Invariant: a combination of one tuple of every input is in exactly one cell, so each result is made once. Of all cells
that have a tuple exactly one tells of it: the first, in which all other inputs are in their first part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from slackwater.core.batch import Flags, Words


@dataclass(frozen=True)
class Grid:
    """In how many parts each input is cut.

    >>> grid = Grid((2, 3))
    >>> [(grid.part(0, cell), grid.part(1, cell)) for cell in range(6)]
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    >>> [cell for cell in range(6) if grid.tells_of(0, cell)], [cell for cell in range(6) if grid.tells_of(1, cell)]
    ([0, 3], [0, 1, 2])
    """

    parts: tuple[int, ...]

    def part(self, position: int, cell: int) -> int:
        """Which part of an input a cell has."""
        return cell // prod(self.parts[position + 1 :]) % self.parts[position]

    def tells_of(self, position: int, cell: int) -> bool:
        """Whether a cell is the one that counts the tuples of its part of an input, and hands out late ones."""
        return not any(self.part(other, cell) for other in range(len(self.parts)) if other != position)

    def tells(self, cell: int, streams: Words, words: Words) -> Flags:
        """Which of these tuples, which are all in this cell, it tells of."""
        return np.array([self.tells_of(position, cell) for position in range(len(self.parts))])[streams]


def cheapest(rates: Sequence[float], shards: int) -> Grid:
    """The grid of so many shards that copies least, for inputs of these rates; of two alike, the one that cuts earlier
    inputs more.

    >>> cheapest((1.0, 1.0), 2), cheapest((1.0, 5.0), 2), cheapest((1.0, 1.0), 16)
    (Grid(parts=(2, 1)), Grid(parts=(1, 2)), Grid(parts=(4, 4)))
    >>> cheapest((1.0, 1.0, 1.0), 6), cheapest((100.0, 1.0), 16)
    (Grid(parts=(3, 2, 1)), Grid(parts=(16, 1)))
    """

    def copies(parts: tuple[int, ...]) -> float:
        return sum(rate * shards / count for rate, count in zip(rates, parts, strict=True))

    ordered = sorted(_products(len(rates), shards), reverse=True)
    return Grid(min(ordered, key=copies))


def _products(factors: int, number: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of so many factors."""
    if factors == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _products(factors - 1, number // first):
                yield (first, *rest)
