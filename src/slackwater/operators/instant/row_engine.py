"""The row engine: operators as compiled loops over blocks of rows, computed at every instant from the windows up.

What each row of a window gives by itself, and aggregates right on a window, are kept as tuples come and go (`windows`);
here is what stands above. Rows flow through selections, projections and the probing side of joins block by block, so
that nothing of the size of a window is written down; groups and the smaller side of a join are held as a whole.

Invariant: an operator reads blocks and never changes them, for they may lie in a window.

References: 004 §6.1, §6.2 (DSPS-ops).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.expressions.tree import columns_of
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.blocks import (
    JOIN_KEY,
    VALUE,
    Block,
    Mapper,
    Sieve,
    gathered,
    places_of,
    places_of_pair,
)
from slackwater.operators.instant.grouping import Grouping, KeptAggregate
from slackwater.operators.instant.hash_index import HashIndex, gather
from slackwater.operators.instant.store import WindowStore
from slackwater.operators.instant.windows import Windows, window_under
from slackwater.relations.algebra import Aggregate, Distinct, Given, Join, Project, Relation, Select


@dataclass(frozen=True)
class Instant:
    """When a tree is computed, and what fragments before this one have given."""

    at: int
    given: Sequence[Block]


class Node(ABC):
    """An operator of the tree, compiled."""

    columns: int

    @abstractmethod
    def blocks(self, instant: Instant) -> Iterator[Block]:
        """Its rows at an instant."""

    @abstractmethod
    def about(self, instant: Instant) -> int:
        """About how many rows it has, at most."""


def compiled_rows(relation: Relation, windows: Windows, context: BuildContext) -> Node:
    """The operators of a fragment."""
    if window_under(relation) is not None:
        return _Window(relation, windows)
    if isinstance(relation, Given):
        return _Given(relation)
    if isinstance(relation, Aggregate | Distinct):
        if window_under(relation.input) is not None:
            return _Kept(windows.aggregate_of(relation))
        return _Groups(relation, compiled_rows(relation.input, windows, context), context)
    below = [compiled_rows(one, windows, context) for one in relation.inputs]
    if isinstance(relation, Join):
        return _Join(relation, below[0], below[1], context)
    assert isinstance(relation, Select | Project), "scans stand under a window"
    return _ByRow(relation, below[0], context)


class _Window(Node):
    """The rows that a window gives, one a tuple."""

    def __init__(self, relation: Relation, windows: Windows) -> None:
        scan = window_under(relation)
        assert scan is not None
        self.columns = len(relation.columns)
        self._store: WindowStore = windows.rows_of(relation)
        self._range = scan.range

    def blocks(self, instant: Instant) -> Iterator[Block]:
        return self._store.blocks(instant.at - self._range, instant.at)

    def about(self, instant: Instant) -> int:
        return self._store.count(instant.at - self._range, instant.at)


class _Given(Node):
    """The rows of another fragment."""

    def __init__(self, relation: Given) -> None:
        self.columns, self._fragment = len(relation.columns), relation.fragment

    def blocks(self, instant: Instant) -> Iterator[Block]:
        yield instant.given[self._fragment]

    def about(self, instant: Instant) -> int:
        return instant.given[self._fragment].n


class _Kept(Node):
    """The groups of a window."""

    def __init__(self, kept: KeptAggregate) -> None:
        self.columns, self._kept = kept.width, kept

    def blocks(self, instant: Instant) -> Iterator[Block]:
        yield self._kept.at(instant.at)

    def about(self, instant: Instant) -> int:
        return self._kept.at(instant.at).n


class _Groups(Node):
    """The groups of what is below."""

    def __init__(self, relation: Aggregate | Distinct, below: Node, context: BuildContext) -> None:
        self._grouping, self._below = Grouping(relation, context), below
        self.columns = self._grouping.width

    def blocks(self, instant: Instant) -> Iterator[Block]:
        yield self._grouping.of(self._below.blocks(instant))

    def about(self, instant: Instant) -> int:
        # Groups are fewer than rows, which is all that is known before they are made.
        return self._below.about(instant) // 2


class _ByRow(Node):
    """A selection or projection of what is below."""

    def __init__(self, relation: Select | Project, below: Node, context: BuildContext) -> None:
        columns = relation.input.columns
        self.columns, self._below = len(relation.columns), below
        self._step: Sieve | Mapper
        if isinstance(relation, Select):
            self._step = Sieve(relation.condition, places_of(columns), context.encode_text)
        else:
            self._step = Mapper(relation.expressions, VALUE, columns, context.encode_text)

    def blocks(self, instant: Instant) -> Iterator[Block]:
        for given in self._below.blocks(instant):
            made = self._step(given)
            if isinstance(made, Block):
                yield made
            elif made.all():
                yield given
            else:
                yield given.taken(made)

    def about(self, instant: Instant) -> int:
        return self._below.about(instant)


class _Join(Node):
    """A hash join: the smaller side is held, the other flows by."""

    def __init__(self, join: Join, left: Node, right: Node, context: BuildContext) -> None:
        self._kind, self._sides = join.kind, (left, right)
        self.columns = len(join.columns)
        both = (join.left.columns, join.right.columns)
        self._keys = tuple(
            Mapper([pair[side] for pair in join.keys], JOIN_KEY, both[side], context.encode_text) for side in (0, 1)
        )
        self._sieve: Sieve | None = None
        self._asked = (_NOTHING, _NOTHING)
        if join.condition is not None:
            read = sorted(columns_of(join.condition))
            places = places_of_pair(*both)
            lines = {pair: line for line, pair in enumerate(read)}
            self._sieve = Sieve(join.condition, lambda stream, column: lines[stream, column], context.encode_text)
            asked = [[places[pair] for pair in read if pair[0] == side] for side in (0, 1)]
            self._asked = _lines(asked[0]), _lines([at - len(both[0]) for at in asked[1]])
        self._all = _lines(range(len(both[0]))), _lines(range(len(both[1])) if join.kind == "inner" else ())

    def about(self, instant: Instant) -> int:
        left, right = (side.about(instant) for side in self._sides)
        return max(left, right) if self._kind == "inner" else left

    def blocks(self, instant: Instant) -> Iterator[Block]:
        held = int(self._sides[0].about(instant) >= self._sides[1].about(instant))
        whole = gathered(self._sides[held].blocks(instant), self._sides[held].columns)
        index = HashIndex(self._keys[held](whole))
        flowing = self._sides[1 - held].blocks(instant)
        if self._kind == "inner":
            return self._inner(flowing, whole, index, held)
        return self._partnered(flowing, whole, index) if held else self._held_partnered(flowing, whole, index)

    def _inner(self, flowing: Iterator[Block], whole: Block, index: HashIndex, held: int) -> Iterator[Block]:
        for given in flowing:
            for pair in self._pairs(given, whole, index, held):
                yield self._side_by_side(self._all, given, whole, pair, held)

    def _partnered(self, flowing: Iterator[Block], whole: Block, index: HashIndex) -> Iterator[Block]:
        """Semi and anti join where the right side is held."""
        for given in flowing:
            if self._sieve is None:
                found = index.has(self._keys[0](given))
            else:
                found = np.zeros(given.n, np.bool_)
                for mine, _ in self._pairs(given, whole, index, 1):
                    found[mine] = True
            yield given.taken(found if self._kind == "semi" else ~found)

    def _held_partnered(self, flowing: Iterator[Block], whole: Block, index: HashIndex) -> Iterator[Block]:
        """The same where the left side is held: the right marks which rows have met a partner."""
        found = np.zeros(whole.n, np.bool_)
        for given in flowing:
            for _, mine in self._pairs(given, whole, index, 0):
                found[mine] = True
        yield whole.taken(found if self._kind == "semi" else ~found)

    def _pairs(self, given: Block, whole: Block, index: HashIndex, held: int) -> Iterator[tuple[Words, Words]]:
        """Rows that flow and rows that are held which meet."""
        for pair in index.pairs(self._keys[1 - held](given)):
            if self._sieve is None:
                yield pair
                continue
            keeps = self._sieve(self._side_by_side(self._asked, given, whole, pair, held))
            if keeps.any():
                yield pair[0][keeps], pair[1][keeps]

    def _side_by_side(
        self, lines: tuple[Words, Words], given: Block, whole: Block, pair: tuple[Words, Words], held: int
    ) -> Block:
        """These columns of left and right for each pair; the left side first, whichever of them is held."""
        n = len(pair[0])
        made = np.empty((len(lines[0]) + len(lines[1]), n), np.int64)
        left, right = ((given, pair[0]), (whole, pair[1])) if held else ((whole, pair[1]), (given, pair[0]))
        gather(left[0].words, lines[0], left[1], n, made, 0)
        gather(right[0].words, lines[1], right[1], n, made, len(lines[0]))
        return Block(made, n)


def _lines(numbers: Sequence[int]) -> Words:
    return np.array(list(numbers), np.int64)


_NOTHING = _lines(())
