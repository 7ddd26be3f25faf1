"""Selections moved towards windows, and aggregates moved below joins, where results stay the same.

A condition moves below a projection (with the expressions put in for its columns), below an aggregate if it reads keys
alone, below DISTINCT, and into the left side of a semi or anti join. Into a join of many relations it moves as a part
of the block. A condition that can fail is not moved.

An aggregate moves below a join with a relation that has at most one row for each key, if it groups by that key and
reads the other side alone: all rows of a group then have the same partner, or none has any.

    γ_{a.k, b.x; f(a.v)} (a ⋈_k b)  =  π (γ_{k; f(v)} (a) ⋈_k b)      b has one row for each k

Invariant: the same bag of rows, with columns of the same names; their order may differ. Whether a move pays is for the
caller to compare.

References: 004 §6.3.3 (push-down of aggregates).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.core.schema import Field
from slackwater.expressions.relational import Aggregate, Distinct, Join, Project, Relation, Select
from slackwater.expressions.tree import Call, Column, Expr, conjunction, conjuncts, walk, with_columns
from slackwater.plan.sharing.normal_form import can_fail


def pushed_down(select: Select) -> Relation | None:
    """The conditions of a selection as far down as they can go, or None if none can move."""
    below, stay, moved = select.input, [], False
    for one in conjuncts(select.condition):
        lower = None if can_fail(one) else _below(one, below)
        if lower is None:
            stay.append(one)
        else:
            below, moved = lower, True
    if not moved:
        return None
    condition = conjunction(stay)
    return below if condition is None else Select(below, condition)


def _onto(condition: Expr, relation: Relation) -> Relation:
    """A condition as far down in a relation as it can go, at least on top of it."""
    return _below(condition, relation) or Select(relation, condition)


def _below(condition: Expr, relation: Relation) -> Relation | None:
    """A condition below the topmost operator of a relation, or None if it cannot move there."""
    if isinstance(relation, Select):
        lower = _below(condition, relation.input)
        if lower is not None:
            return replace(relation, input=lower)
        both = conjunction([*conjuncts(relation.condition), condition])
        assert both is not None
        return replace(relation, condition=both)
    if isinstance(relation, Distinct):
        return replace(relation, input=_onto(condition, relation.input))
    if isinstance(relation, Project):
        named = zip(relation.columns, relation.expressions, strict=True)
        return _through(condition, relation, {column.name: expr for column, expr in named})
    if isinstance(relation, Aggregate):
        keys = {column.name: key for column, key in zip(relation.key_columns, relation.keys, strict=True)}
        return _through(condition, relation, keys) if _names(condition) <= set(keys) and keys else None
    if isinstance(relation, Join) and relation.kind != "inner":
        named_so = {
            column.name: Column(0, below.name, below.kind, below.scale)
            for column, below in zip(relation.columns, relation.left.columns, strict=True)
        }
        return replace(relation, left=_onto(_replaced(condition, named_so), relation.left))
    return None


def _through(condition: Expr, relation: Project | Aggregate, named: Mapping[str, Expr]) -> Relation | None:
    below = _replaced(condition, named)
    return None if can_fail(below) else replace(relation, input=_onto(below, relation.input))


def _names(expr: Expr) -> set[str]:
    return {one.name for one in walk(expr) if isinstance(one, Column)}


def _replaced(expr: Expr, named: Mapping[str, Expr]) -> Expr:
    """An expression with others put in for its columns."""
    return with_columns(expr, lambda column: named[column.name])


def aggregated_below(top: Aggregate) -> Relation | None:
    """An aggregate of a join as a join of an aggregate, or None if that is not the same."""
    join = top.input
    if not isinstance(join, Join) or join.kind != "inner" or not join.keys:
        return None
    return _aggregated_side(top, join, 0) or _aggregated_side(top, join, 1)


def _aggregated_side(top: Aggregate, join: Join, side: int) -> Relation | None:
    """The aggregate moved into one side of the join."""
    inside, other = join.inputs[side], join.inputs[1 - side]
    width = len(join.left.columns)
    own = join.columns[:width] if side == 0 else join.columns[width:]
    to_own = {
        column.name: Column(0, below.name, below.kind, below.scale)
        for column, below in zip(own, inside.columns, strict=True)
    }
    to_other = {
        column.name: Column(0, below.name, below.kind, below.scale)
        for column, below in zip(
            (join.columns[width:] if side == 0 else join.columns[:width]), other.columns, strict=True
        )
    }
    if not _has_one_row_each({_bare(pair[1 - side]) for pair in join.keys}, other):
        return None
    arguments = [call.argument for call in top.calls if call.argument is not None]
    if any(can_fail(one) or not _names(one) <= set(to_own) for one in arguments):
        return None
    mine = [(key, column) for key, column in zip(top.keys, top.key_columns, strict=True) if _names(key) <= set(to_own)]
    theirs = [(key, column) for key, column in zip(top.keys, top.key_columns, strict=True)
              if _names(key) <= set(to_other) and (key, column) not in mine]  # fmt: skip
    if len(mine) + len(theirs) < len(top.keys) or any(can_fail(key) for key in top.keys):
        return None
    grouped = {_replaced(key, to_own): column for key, column in mine}
    if any(pair[side] not in grouped for pair in join.keys):
        return None
    calls = tuple(
        replace(call, argument=None if call.argument is None else _replaced(call.argument, to_own))
        for call in top.calls
    )
    below = Aggregate(inside, tuple(grouped), tuple(grouped.values()), calls)
    return _joined_again(top, join, side, below, grouped, to_other, theirs)


def _joined_again(
    top: Aggregate,
    join: Join,
    side: int,
    below: Aggregate,
    grouped: Mapping[Expr, Field],
    to_other: Mapping[str, Expr],
    theirs: list[tuple[Expr, Field]],
) -> Relation | None:
    """The join over the aggregate, and the columns that were asked for."""
    other = join.inputs[1 - side]
    taken = {column.name for column in below.columns}
    renamed: dict[str, Field] = {}
    for column in other.columns:
        name = column.name
        while name in taken:
            name = f"{name}'"
        taken.add(name)
        renamed[column.name] = replace(column, name=name)
    condition = join.condition
    if condition is not None:
        if can_fail(condition):
            return None
        named = {key.name: column for key, column in grouped.items() if isinstance(key, Column)}
        moved = _over_groups(condition, side, named)
        if moved is None:
            return None
        condition = moved
    keys = []
    for pair in join.keys:
        column = grouped[pair[side]]
        mine = Column(0, column.name, column.kind, column.scale)
        keys.append((mine, pair[1]) if side == 0 else (pair[0], mine))
    left, right = (below, other) if side == 0 else (other, below)
    columns = [*below.columns, *renamed.values()] if side == 0 else [*renamed.values(), *below.columns]
    joined = Join(left, right, tuple(keys), condition, "inner", tuple(columns))
    above = {
        name: Column(0, renamed[place.name].name, place.kind, place.scale)
        for name, place in to_other.items()
        if isinstance(place, Column)
    }
    computed = {column.name: _replaced(key, above) for key, column in theirs}
    expressions = tuple(
        computed.get(column.name, Column(0, column.name, column.kind, column.scale)) for column in top.columns
    )
    return Project(joined, expressions, top.columns)


def _over_groups(condition: Expr, side: int, named: Mapping[str, Field]) -> Expr | None:
    """A join's condition over groups in place of rows, or None if it reads more of the rows than their keys."""
    if isinstance(condition, Column):
        if condition.stream != side:
            return condition
        column = named.get(condition.name)
        return None if column is None else replace(condition, name=column.name)
    if not isinstance(condition, Call):
        return condition
    args = [_over_groups(arg, side, named) for arg in condition.args]
    found = tuple(arg for arg in args if arg is not None)
    return replace(condition, args=found) if len(found) == len(args) else None


def _bare(expr: Expr) -> str | None:
    return expr.name if isinstance(expr, Column) else None


def _has_one_row_each(names: set[str | None], relation: Relation) -> bool:
    """Whether a relation has at most one row for each combination of these columns."""
    while isinstance(relation, Select):
        relation = relation.input
    return isinstance(relation, Aggregate) and {column.name for column in relation.key_columns} <= names
