"""A join of many relations: what is joined and by which conditions, apart from any order.

Inner joins that read each other, and selections between them, are one *block*. Its leaves are the relations that are no
such join. Inside a block a column is that of a leaf: `Column.stream` is the leaf's number, `Column.name` its name
there.

Equalities of one kind between columns of different leaves form classes: with a = b and b = c, a = c holds as well, and
may be the key of a join. Equal means the same for all members, and a null equals nothing, so no row is won or lost.

Invariant: the join of a block in any order is the same bag of rows, with the same names of columns; only the order of
columns differs. A condition that can fail is asked last, of rows that meet all others, so that it fails for no row for
which it did not fail before. A block with a key that can fail is not taken apart.

References: 004 §6.3.3 (join ordering).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from slackwater.core.schema import Field, Kind
from slackwater.expressions.relational import Join, Relation, Select
from slackwater.expressions.tree import Call, Column, Expr, conjunction, conjuncts, streams_of, with_columns
from slackwater.plan.sharing.normal_form import can_fail

Place = tuple[int, str]
"""A column of a block: the number of its leaf, and its name there."""
Order = object
"""How leaves are joined: a leaf's number, or a pair of orders."""


@dataclass(frozen=True)
class Built:
    """The join of some leaves, and how it calls their columns."""

    relation: Relation
    names: Mapping[Place, str]


@dataclass(frozen=True)
class Block:
    """A join of many relations. Sets of leaves are bits of an integer."""

    leaves: tuple[Relation, ...]
    columns: Mapping[Place, Field]
    """All columns, as the whole block calls them."""
    classes: tuple[tuple[Expr, ...], ...]
    """Expressions, each over one leaf, that must all be equal."""
    equalities: tuple[tuple[Expr, Expr], ...]
    """Other equalities; either side may read several leaves."""
    conditions: tuple[Expr, ...]
    """Conditions over two leaves or more."""
    last: tuple[Expr, ...]
    """Conditions that are asked where all leaves are joined."""

    def keys(self, left: int, right: int) -> list[tuple[Expr, Expr]]:
        """The keys by which two sets of leaves are joined."""
        found = []
        for members in self.classes:
            here = [one for one in members if leaves_of(one) & left]
            there = [one for one in members if leaves_of(one) & right]
            if here and there:
                found.append((here[0], there[0]))
        for one, other in self.equalities:
            for a, b in ((one, other), (other, one)):
                if not leaves_of(a) & ~left and not leaves_of(b) & ~right:
                    found.append((a, b))
        return found

    def asked(self, left: int, right: int) -> list[Expr]:
        """The conditions that are asked where two sets of leaves are joined."""
        both = left | right
        found = [one for one in self.conditions if _first_inside(leaves_of(one), left, right)]
        for one, other in self.equalities:
            a, b = leaves_of(one), leaves_of(other)
            splits = (not a & ~left and not b & ~right) or (not a & ~right and not b & ~left)
            if _first_inside(a | b, left, right) and not splits:
                found.append(Call("=", (one, other), Kind.BOOL))
        return [*found, *self.last] if both == (1 << len(self.leaves)) - 1 else found

    def build(self, order: Order) -> Relation:
        """The block joined in an order."""
        return self._built(order)[0].relation

    def _built(self, order: Order) -> tuple[Built, int]:
        if isinstance(order, int):
            leaf = self.leaves[order]
            return Built(leaf, {(order, one.name): one.name for one in leaf.columns}), 1 << order
        assert isinstance(order, tuple)
        (one, left), (other, right) = (self._built(side) for side in order)
        keys = tuple((_named(a, one.names), _named(b, other.names)) for a, b in self.keys(left, right))
        condition = conjunction([_named(expr, one.names, other.names) for expr in self.asked(left, right)])
        places = [*self._places(one), *self._places(other)]
        columns = tuple(self.columns[place] for place in places)
        joined = Join(one.relation, other.relation, keys, condition, "inner", columns)
        return Built(joined, {place: self.columns[place].name for place in places}), left | right

    @staticmethod
    def _places(built: Built) -> list[Place]:
        """The columns of a relation in its order."""
        by_name = {name: place for place, name in built.names.items()}
        return [by_name[column.name] for column in built.relation.columns]


def leaves_of(expr: Expr) -> int:
    """Which leaves an expression reads."""
    return sum(1 << leaf for leaf in streams_of(expr))


def _first_inside(read: int, left: int, right: int) -> bool:
    """Whether an expression can be computed of two sets of leaves together, and not of either alone."""
    return not read & ~(left | right) and bool(read & ~left) and bool(read & ~right)


def _named(expr: Expr, *inputs: Mapping[Place, str]) -> Expr:
    """An expression over leaves as one over the inputs of a join."""

    def named(column: Column) -> Column:
        for number, names in enumerate(inputs):
            if (column.stream, column.name) in names:
                return replace(column, stream=number, name=names[column.stream, column.name])
        raise ValueError(f"no input has {column.name}")

    return with_columns(expr, named)


def block_of(relation: Relation, improved: Callable[[Relation], Relation]) -> Block | None:
    """The block at the top of a tree, or None where there is none that may be taken apart. Conditions on one leaf alone
    are put on top of it; `improved` then says what is to be put in its place, with columns of the same names."""
    parts = _Parts([], [], [])
    places = parts.visit(relation)
    if len(parts.leaves) < 2 or any(can_fail(side) for pair in parts.equalities for side in pair):
        return None
    classes, equalities = _classes(parts.equalities)
    last = [one for one in parts.conditions if can_fail(one) or not leaves_of(one)]
    others = [one for one in parts.conditions if one not in last]
    for members in classes:
        # Two members of one leaf: their equality is a condition on that leaf.
        for at, one in enumerate(members):
            earlier = [other for other in members[:at] if leaves_of(other) == leaves_of(one)]
            others += [Call("=", (earlier[0], one), Kind.BOOL)] if earlier else []
    leaves = []
    for number, leaf in enumerate(parts.leaves):
        own = {(number, column.name): column.name for column in leaf.columns}
        condition = conjunction([_named(one, own) for one in others if leaves_of(one) == 1 << number])
        leaves.append(improved(leaf if condition is None else Select(leaf, condition)))
    columns = dict(zip(places, relation.columns, strict=True))
    several = tuple(one for one in others if leaves_of(one).bit_count() > 1)
    return Block(tuple(leaves), columns, tuple(classes), tuple(equalities), several, tuple(last))


@dataclass
class _Parts:
    """What is found on the way down into a block."""

    leaves: list[Relation]
    equalities: list[tuple[Expr, Expr]]
    conditions: list[Expr]

    def visit(self, relation: Relation) -> list[Place]:
        """Where each column of a relation comes from."""
        if isinstance(relation, Select) and is_block(relation):
            places = self.visit(relation.input)
            self.conditions += conjuncts(_placed(relation.condition, _by_name(relation, places)))
            return places
        if isinstance(relation, Join) and relation.kind == "inner":
            left, right = self.visit(relation.left), self.visit(relation.right)
            one, other = _by_name(relation.left, left), _by_name(relation.right, right)
            self.equalities += [(_placed(a, one), _placed(b, other)) for a, b in relation.keys]
            if relation.condition is not None:
                self.conditions += conjuncts(_placed(relation.condition, one, other))
            return [*left, *right]
        self.leaves.append(relation)
        return [(len(self.leaves) - 1, column.name) for column in relation.columns]


def is_block(relation: Relation) -> bool:
    """Whether a tree has an inner join at its top, under selections."""
    while isinstance(relation, Select):
        relation = relation.input
    return isinstance(relation, Join) and relation.kind == "inner"


def _by_name(relation: Relation, places: list[Place]) -> dict[str, Place]:
    return {column.name: place for column, place in zip(relation.columns, places, strict=True)}


def _placed(expr: Expr, *inputs: Mapping[str, Place]) -> Expr:
    """An expression over the inputs of an operator as one over leaves."""

    def placed(column: Column) -> Column:
        leaf, name = inputs[column.stream][column.name]
        return replace(column, stream=leaf, name=name)

    return with_columns(expr, placed)


def _classes(equalities: list[tuple[Expr, Expr]]) -> tuple[list[tuple[Expr, ...]], list[tuple[Expr, Expr]]]:
    """Classes of equal expressions over one leaf each, and the equalities that are in none."""
    classes: list[list[Expr]] = []
    others = []
    for one, other in equalities:
        alone = leaves_of(one).bit_count() == leaves_of(other).bit_count() == 1
        if not alone or (one.kind, one.scale) != (other.kind, other.scale):
            others.append((one, other))
            continue
        touched = [members for members in classes if one in members or other in members]
        merged = [member for members in touched for member in members]
        merged += [side for side in (one, other) if side not in merged]
        classes = [members for members in classes if members not in touched] + [merged]
    return [tuple(members) for members in classes], others
