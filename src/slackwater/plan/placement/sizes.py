"""How large every relation of a plan is: rows that come to it in a second, and rows it has at an instant.

λ, the *source-driven size*, is how many rows an operator gives for the tuples that arrive in one second. |w| is how
many rows a relation has at one instant. Both go up the tree from the windows: a window of rate r and range R has λ = r
and |w| = rR; a selection with selectivity f has fλ and f|w| (Eq. 6.1); a join has λ_L f|w_R| + λ_R f|w_L| (Eq. 6.2) and
f|w_L||w_R|; an aggregate has n_slide n_group (Eq. 6.3) and n_group.

The selectivity of a join by keys is 1 / max(d_L, d_R) for each key, d being the distinct values of either side. After
the join both sides of a key have min(d_L, d_R) values. So sizes of a join of many relations do not depend on the order
in which they are joined, which is what the search of the best order stands on.

Invariant: sizes depend on the tree and the statistics alone, never on engines.

References: 004 Eq. 6.1 to 6.3 (§6.3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from slackwater.core.schema import Kind
from slackwater.expressions.relational import Aggregate, Given, Join, Project, Relation, Scan, Select
from slackwater.expressions.tree import Call, Column, Expr, conjuncts, walk
from slackwater.plan.placement.statistics import SECOND, Statistics

Meanings = Mapping[str, Expr]
"""The columns of a relation, each as an expression over the streams of the query."""


@dataclass(frozen=True)
class Size:
    """The size of one relation."""

    rate: float
    """λ: rows that come of the tuples of one second."""
    rows: float
    """|w|: rows at one instant."""
    meanings: Meanings = field(default_factory=dict)
    distinct: Mapping[Expr, float] = field(default_factory=dict)
    """Distinct values of expressions that were keys below; others have those of the streams."""
    pairs: float = 0.0
    """Of a join: pairs with equal keys, before its condition is asked."""
    equal: tuple[frozenset[Expr], ...] = ()
    """Expressions that joins below have made equal."""

    def values(self, meaning: Expr, statistics: Statistics) -> float:
        """How many distinct values an expression has here."""
        known = self.distinct.get(meaning)
        return statistics.values(meaning) if known is None else known


@dataclass(frozen=True)
class Numbered:
    """A node of a tree with the numbers of its inputs; numbers are positions in post-order."""

    node: Relation
    inputs: tuple[int, ...]

    @property
    def is_operator(self) -> bool:
        return not isinstance(self.node, Scan | Given)


def numbered(relation: Relation) -> tuple[Numbered, ...]:
    """All nodes of a tree in post-order, so that inputs have smaller numbers than those that read them."""
    found: list[Numbered] = []

    def visit(node: Relation) -> int:
        inputs = tuple(visit(one) for one in node.inputs)
        found.append(Numbered(node, inputs))
        return len(found) - 1

    visit(relation)
    return tuple(found)


def sizes_of(tree: tuple[Numbered, ...], statistics: Statistics) -> tuple[Size, ...]:
    """The size of every node of a tree, in its order."""
    found: list[Size] = []
    for one in tree:
        found.append(size_of(one.node, [found[number] for number in one.inputs], statistics))
    return tuple(found)


def meaning_of(expr: Expr, *inputs: Meanings) -> Expr:
    """What an expression of an operator says about the streams of the query."""
    if isinstance(expr, Column):
        return inputs[expr.stream].get(expr.name, expr)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(meaning_of(arg, *inputs) for arg in expr.args), expr.kind, expr.scale)
    return expr


def size_of(node: Relation, inputs: list[Size], statistics: Statistics) -> Size:
    """The size of an operator's result, by those of its inputs."""
    if isinstance(node, Scan):
        rate = statistics.rate(node.stream)
        named = {one.name: Column(node.stream, one.name, one.kind, one.scale) for one in node.columns}
        return Size(rate, rate * node.range / SECOND, named)
    if isinstance(node, Given):
        raise ValueError("a fragment has no size of its own; that of the whole tree is asked for")
    if isinstance(node, Join):
        return _joined(node, inputs[0], inputs[1], statistics)
    (below,) = inputs
    if isinstance(node, Select):
        return _selected(meaning_of(node.condition, below.meanings), below, statistics)
    if isinstance(node, Project):
        computed = zip(node.columns, node.expressions, strict=True)
        named_so = {column.name: meaning_of(expr, below.meanings) for column, expr in computed}
        return Size(below.rate, below.rows, named_so, below.distinct, equal=below.equal)
    if isinstance(node, Aggregate):
        keys = [meaning_of(key, below.meanings) for key in node.keys]
        meanings = {column.name: key for column, key in zip(node.key_columns, keys, strict=True)}
        for call in node.calls:
            argument = () if call.argument is None else (meaning_of(call.argument, below.meanings),)
            meanings[call.column.name] = Call(call.function, argument or (_anything(below),), call.column.kind)
        return grouped(keys, meanings, below, statistics)
    keys = list(below.meanings.values())
    return grouped(keys, below.meanings, below, statistics)


def _selected(condition: Expr, below: Size, statistics: Statistics) -> Size:
    """The rows that meet a condition (Eq. 6.1). Of a column that a part of it reads alone as many values are left, in
    proportion, as rows: so a condition on a key drops as many groups above an aggregate as below."""
    share = statistics.selectivity(condition)
    distinct = dict(below.distinct)
    for part in conjuncts(condition):
        read = {one for one in walk(part) if isinstance(one, Column)}
        if len(read) == 1:
            (column,) = read
            left = distinct.get(column, statistics.values(column)) * statistics.selectivity(part)
            distinct[column] = max(1.0, left)
    return Size(share * below.rate, share * below.rows, below.meanings, distinct, equal=below.equal)


def _anything(below: Size) -> Expr:
    """What COUNT(*) of a relation reads, so that counts of two relations are not taken for the same."""
    return next(iter(below.meanings.values()))


def combinations(keys: Sequence[Expr], below: Size, statistics: Statistics) -> float:
    """How many combinations of values keys have, by what is known of the streams, or as if they were independent."""
    known = statistics.groups.get(frozenset(keys))
    return prod(below.values(key, statistics) for key in keys) if known is None else known


def grouped(keys: list[Expr], meanings: Meanings, below: Size, statistics: Statistics) -> Size:
    """One row for every combination of keys (Eq. 6.3)."""
    groups = min(combinations(keys, below, statistics), below.rows)
    distinct = {**below.distinct, **{key: min(groups, below.values(key, statistics)) for key in keys}}
    return Size(statistics.slides * groups, groups, meanings, distinct, equal=below.equal)


def joined_rate(left: Size, right: Size, selectivity: float) -> float:
    """Rows of a join that come of the tuples of one second (Eq. 6.2)."""
    return left.rate * selectivity * right.rows + right.rate * selectivity * left.rows


def _joined(node: Join, left: Size, right: Size, statistics: Statistics) -> Size:
    keys = [(meaning_of(a, left.meanings), meaning_of(b, right.meanings)) for a, b in node.keys]
    conditions = [] if node.condition is None else [meaning_of(node.condition, left.meanings, right.meanings)]
    sides = [*left.meanings.values(), *right.meanings.values()]
    if node.kind != "inner":
        sides = sides[: len(left.meanings)]
    named = {column.name: meaning for column, meaning in zip(node.columns, sides, strict=True)}
    size = joined_size(left, right, keys, conditions, named, statistics)
    if node.kind == "inner":
        return size
    # The share of the left that has a partner; an arrival on the right is taken to change nothing on the left.
    share = statistics.selectivities.get(partnered(keys, conditions))
    if share is None:
        share = min(1.0, size.rows / left.rows) if left.rows else 0.0
    share = share if node.kind == "semi" else 1 - share
    return Size(left.rate * share, left.rows * share, named, left.distinct, size.pairs, left.equal)


def partnered(keys: Sequence[tuple[Expr, Expr]], conditions: Sequence[Expr]) -> Expr:
    """What a semi join asks of a row of the left, in its meaning."""
    equal = tuple(Call("=", pair, Kind.BOOL) for pair in keys)
    return Call("exists", (*equal, *conditions), Kind.BOOL)


def joined_size(
    left: Size,
    right: Size,
    keys: list[tuple[Expr, Expr]],
    conditions: list[Expr],
    meanings: Meanings,
    statistics: Statistics,
) -> Size:
    """The size of an inner join with these keys and conditions, all in their meaning."""
    by_keys, distinct, equal = 1.0, {**left.distinct, **right.distinct}, [*left.equal, *right.equal]
    mine, others = [a for a, _ in keys], [b for _, b in keys]
    for a, b in keys:
        values = left.values(a, statistics), right.values(b, statistics)
        by_keys /= max(1.0, *values)
        same = frozenset((a, b)).union(*(group for group in equal if a in group or b in group))
        equal = [group for group in equal if not group & same] + [same]
        distinct |= dict.fromkeys(same, min(values))
    if frozenset(mine) in statistics.groups or frozenset(others) in statistics.groups:
        by_keys = 1 / max(1.0, combinations(mine, left, statistics), combinations(others, right, statistics))
    selectivity = by_keys
    for condition in conditions:
        selectivity *= statistics.selectivity(condition)
    pairs = left.rows * right.rows
    rate = joined_rate(left, right, selectivity)
    return Size(rate, selectivity * pairs, meanings, distinct, by_keys * pairs, tuple(equal))
