"""The row engine: operators as compiled loops over blocks of rows, computed at every instant from the windows up.

What each row of a window gives by itself, and aggregates right on a window, are kept as tuples come and go (`windows`);
here is what stands above. Rows flow through selections, projections and the probing side of joins block by block, so
that nothing of the size of a window is written down; groups and the smaller side of a join are held as a whole.

Invariant: an operator reads blocks and never changes them, for they may lie in a window.

References: 004 §6.1, §6.2 (DSPS-ops).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.schema import Field
from slackwater.expressions.relational import (
    Aggregate,
    Distinct,
    Given,
    Join,
    Project,
    Relation,
    Select,
)
from slackwater.expressions.tree import Column, Expr, columns_of
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.blocks import (
    GROUP_KEY,
    JOIN_KEY,
    Block,
    Mapper,
    Sieve,
    gathered,
    places_of_pair,
)
from slackwater.operators.instant.grouping import Grouping, KeptAggregate
from slackwater.operators.instant.hash_index import Index, gather, keep_pairs, mark
from slackwater.operators.instant.pruning import needed_of_inputs
from slackwater.operators.instant.store import CarriedKey, WindowStore
from slackwater.operators.instant.windows import Chain, Windows, window_under


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

    def about(self, instant: Instant) -> int:
        """About how many rows it has, at most; 0 where nobody asks."""
        return 0


def compiled_rows(
    relation: Relation, windows: Windows | None, context: BuildContext, wanted: set[str] | None = None
) -> Node:
    """The operators of a fragment; columns that are not wanted need not be filled. Without windows all its leaves are
    given."""
    if isinstance(relation, Given):
        return _Given(relation)
    if windows is not None and window_under(relation) is not None:
        return _Window(relation, windows)
    if windows is not None and isinstance(relation, Aggregate | Distinct) and window_under(relation.input) is not None:
        return _Kept(windows.aggregate_of(relation))
    wanted = {column.name for column in relation.columns} if wanted is None else wanted
    needed = needed_of_inputs(relation, wanted)
    below = [compiled_rows(one, windows, context, its) for one, its in zip(relation.inputs, needed, strict=True)]
    if isinstance(relation, Aggregate | Distinct):
        if isinstance(relation, Aggregate) and isinstance(below[0], _Join):
            return _JoinGroups(relation, below[0], context)
        return _Groups(relation, below[0], context)
    if isinstance(relation, Join):
        carried = [None if windows is None else _carried(relation, side, windows) for side in (0, 1)]
        return _Join(relation, (below[0], below[1]), carried, wanted, context)
    assert isinstance(relation, Select | Project), "scans stand under a window"
    return _ByRow(relation, below[0], context)


def _carried(join: Join, side: int, windows: Windows) -> CarriedKey | None:
    """The number that the rows of one side carry for their keys, where they come from a window."""
    below = join.inputs[side]
    if window_under(below) is None or not join.keys:
        return None
    return windows.carry(below, [pair[side] for pair in join.keys])


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
        self.columns, self._below = len(relation.columns), below
        self._step = Chain(replace(relation, input=Given(0, relation.input.columns)), context)

    def blocks(self, instant: Instant) -> Iterator[Block]:
        return (self._step(given)[0] for given in self._below.blocks(instant))

    def about(self, instant: Instant) -> int:
        return self._below.about(instant)


@dataclass(frozen=True)
class MatchedSides:
    """A join at an instant."""

    held: int
    """The side that is held."""
    whole: Block
    index: Index
    flowing: Iterator[Block]


class _Join(Node):
    """A hash join: the smaller side is held, the other flows by."""

    def __init__(
        self,
        join: Join,
        sides: tuple[Node, Node],
        carried: Sequence[CarriedKey | None],
        wanted: set[str],
        context: BuildContext,
    ) -> None:
        self._kind, self._sides, self._carried = join.kind, sides, carried
        self.columns = len(join.columns)
        both = (join.left.columns, join.right.columns)
        self._keys = tuple(
            Mapper([pair[side] for pair in join.keys], JOIN_KEY, both[side], context.encode_text) for side in (0, 1)
        )
        self._sieve: Sieve | None = None
        if join.condition is not None:
            read = sorted(columns_of(join.condition))
            lines = {pair: line for line, pair in enumerate(read)}
            self._sieve = Sieve(join.condition, lambda stream, column: lines[stream, column], context.encode_text)
            self._asked = _SideBySide(lines, both)
        self._join = join
        self._all = self.made_of(wanted)

    def made_of(self, wanted: set[str]) -> _SideBySide:
        """How these columns of a row are made of a pair."""
        both = (self._join.left.columns, self._join.right.columns)
        made = {pair: line for pair, line in places_of_pair(*both).items() if line < self.columns}
        some = {pair: line for pair, line in made.items() if self._join.columns[line].name in wanted}
        return _SideBySide(some, both, self.columns)

    def about(self, instant: Instant) -> int:
        left, right = (side.about(instant) for side in self._sides)
        return max(left, right) if self._kind == "inner" else left

    def matched(self, instant: Instant) -> MatchedSides:
        """What is held at an instant, and what flows by."""
        held = int(self._sides[0].about(instant) >= self._sides[1].about(instant))
        whole = gathered(self._sides[held].blocks(instant), self._sides[held].columns)
        carried = self._carried[1 - held]
        index = Index(self._keys[held](whole), None if carried is None else carried.numbering)
        return MatchedSides(held, whole, index, self._sides[1 - held].blocks(instant))

    def blocks(self, instant: Instant) -> Iterator[Block]:
        return self.rows(self.matched(instant))

    def rows(self, met: MatchedSides) -> Iterator[Block]:
        """The rows that are made."""
        if self._kind == "inner":
            return (self._all(given, met.whole, pair, met.held) for given, pair in self.pairs(met))
        if met.held:
            return self._partnered(met.flowing, met.whole, met.index)
        return self._held_partnered(met.flowing, met.whole, met.index)

    def pairs(self, met: MatchedSides) -> Iterator[tuple[Block, tuple[Words, Words]]]:
        """Blocks that flow, each with which of its rows meet which rows that are held."""
        for given in met.flowing:
            for pair in self._pairs(given, met.whole, met.index, met.held):
                yield given, pair

    def _partnered(self, flowing: Iterator[Block], whole: Block, index: Index) -> Iterator[Block]:
        """Semi and anti join where the right side is held."""
        for given in flowing:
            if self._sieve is None:
                found = index.has(self._numbers(given, index, 1))
            else:
                found = np.zeros(given.n, np.bool_)
                for mine, _ in self._pairs(given, whole, index, 1):
                    found[mine] = True
            yield given.taken(found if self._kind == "semi" else ~found)

    def _held_partnered(self, flowing: Iterator[Block], whole: Block, index: Index) -> Iterator[Block]:
        """The same where the left side is held: the right marks which rows have met a partner."""
        found = np.zeros(whole.n, np.bool_)
        for given in flowing:
            for _, mine in self._pairs(given, whole, index, 0):
                found[mine] = True
        yield whole.taken(found if self._kind == "semi" else ~found)

    def _numbers(self, given: Block, index: Index, held: int) -> Words:
        carried = self._carried[1 - held]
        return index.numbers(self._keys[1 - held](given)) if carried is None else given.words[carried.line, : given.n]

    def _pairs(self, given: Block, whole: Block, index: Index, held: int) -> Iterator[tuple[Words, Words]]:
        """Rows that flow and rows that are held which meet."""
        for pair in index.pairs(self._numbers(given, index, held)):
            if self._sieve is None:
                yield pair
                continue
            left = keep_pairs(*pair, self._sieve(self._asked(given, whole, pair, held)))
            if left:
                yield pair[0][:left], pair[1][:left]


class _JoinGroups(_Groups):
    """Groups of a join by its keys. Where rows that are held have different keys, the row that is met is the group:
    nothing is hashed for a pair, and no key of it is written down.

    References: Moerkotte, Neumann: Accelerating Queries with Group-By and Join by Groupjoin, VLDB 2011.
    """

    def __init__(self, relation: Aggregate, join: _Join, context: BuildContext) -> None:
        super().__init__(relation, join, context)
        self._join = join
        assert isinstance(relation.input, Join)
        held_keys = [keys_held(relation, relation.input, side) for side in (0, 1)]
        inner = relation.input.kind == "inner" and not self._grouping.holistic
        self._keys = [
            Mapper(keys, GROUP_KEY, below.columns, context.encode_text) if inner and keys else None
            for keys, below in zip(held_keys, relation.input.inputs, strict=True)
        ]
        read = {name for call in relation.calls if call.argument for _, name in columns_of(call.argument)}
        self._arguments = join.made_of(read)

    def blocks(self, instant: Instant) -> Iterator[Block]:
        met = self._join.matched(instant)
        keys = self._keys[met.held]
        if keys is None or not met.index.unique:
            yield self._grouping.of(self._join.rows(met))
            return
        totals, seen = self._grouping.totals(), np.zeros(met.whole.n, np.bool_)
        for given, pair in self._join.pairs(met):
            totals.add(pair[1], self._arguments(given, met.whole, pair, met.held), met.whole.n)
            mark(pair[1], seen)
        rows = np.flatnonzero(seen)
        if len(rows):
            yield totals.block(keys(met.whole.taken(rows)).rows, rows)


def keys_held(relation: Aggregate, join: Join, side: int) -> list[Expr]:
    """The keys of groups of a join, as one side of it has them; none where the groups are not those of that side's
    rows, if its rows have different keys."""
    others: dict[str, Expr] = {}
    for pair in join.keys:
        mine, its = pair[side], pair[1 - side]
        # Equal values of these are the same word.
        if isinstance(mine, Column) and isinstance(its, Column) and (mine.kind, mine.scale) == (its.kind, its.scale):
            others[its.name] = mine
    first = len(join.left.columns)
    found: list[Expr] = []
    for key in relation.keys:
        if not isinstance(key, Column):
            return []
        at = [column.name for column in join.columns].index(key.name)
        of, own = (0, join.left.columns[at]) if at < first else (1, join.right.columns[at - first])
        same = Column(0, own.name, own.kind, own.scale) if of == side else others.get(own.name)
        if same is None:
            return []
        found.append(same)
    return found if {pair[side] for pair in join.keys} <= set(found) else []


class _SideBySide:
    """Columns of left and right for each pair of rows, in these lines of a block."""

    def __init__(
        self,
        lines: Mapping[tuple[int, str], int],
        both: tuple[Sequence[Field], Sequence[Field]],
        size: int | None = None,
    ) -> None:
        self._size = len(lines) if size is None else size
        self._from: list[Words] = []
        self._into: list[Words] = []
        for side in (0, 1):
            names = [column.name for column in both[side]]
            mine = [(names.index(name), line) for (of, name), line in lines.items() if of == side]
            self._from.append(np.array([at for at, _ in mine], np.int64))
            self._into.append(np.array([line for _, line in mine], np.int64))

    def __call__(self, given: Block, whole: Block, pair: tuple[Words, Words], held: int) -> Block:
        """The rows that flow are those of the other side than the one that is held."""
        n = len(pair[0])
        made = np.empty((self._size, n), np.int64)
        for side, rows, at in ((1 - held, given, pair[0]), (held, whole, pair[1])):
            if len(self._from[side]):
                gather(rows.words, self._from[side], at, n, made, self._into[side])
        return Block(made, n)
