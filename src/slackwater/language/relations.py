"""Putting relation-to-relation operators together: joins of entries of FROM, two by two, and what of them is needed.

Invariant: names of the columns of an operator differ. A join has the columns of its left side under their names; one of
its right side whose name is taken is called by its entry, as in `m.plug`. An m-way join is a left-deep tree of joins in
the order of FROM. Columns that nothing reads are nowhere in a finished tree.

References: 004 §6.2 (an m-way join is a sequence of 2-way joins).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from slackwater.core.schema import Field, Kind
from slackwater.expressions.relational import (
    Aggregate,
    Distinct,
    Given,
    Join,
    Project,
    Relation,
    Scan,
    Select,
)
from slackwater.expressions.tree import Call, Column, Expr, columns_of, conjunction, streams_of, with_columns
from slackwater.language.bound import StreamRef
from slackwater.language.selection import free_name

ColumnOf = tuple[int, str]
"""An entry of FROM, and the name of a column there."""


@dataclass(frozen=True)
class Entry:
    """An entry of FROM: as names are resolved in it, and the relation it is."""

    stream: StreamRef
    relation: Relation
    names: Mapping[str, str]
    """By the name of a column as the text has it, its name in the relation."""


@dataclass(frozen=True)
class Combined:
    """Entries of FROM as one relation."""

    relation: Relation
    names: Mapping[ColumnOf, str]
    """The column of the relation that has a column of an entry."""

    def over(self, expr: Expr, side: int = 0) -> Expr:
        """An expression that reads entries, over the relation; `side` is the input that it is of the operator."""
        return moved(expr, {read: Column(side, name, Kind.INT) for read, name in self.names.items()})


def moved(expr: Expr, columns: Mapping[ColumnOf, Column]) -> Expr:
    """An expression over other columns of the same kinds."""
    return with_columns(expr, lambda column: _called(column, columns[column.stream, column.name]))


def _called(column: Column, as_: Column) -> Column:
    return replace(column, stream=as_.stream, name=as_.name)


def selected(relation: Relation, conditions: Sequence[Expr]) -> Relation:
    """The rows of which all conditions are true."""
    condition = conjunction(conditions)
    return relation if condition is None else Select(relation, condition)


def combined(entries: Sequence[Entry], conditions: Sequence[Expr]) -> Combined:
    """The entries joined one after the other; a condition is judged as soon as all that it reads is there."""
    first = entries[0]
    found = Combined(first.relation, {(0, name): own for name, own in first.names.items()})
    for position, entry in enumerate(entries[1:], 1):
        own = [one for one in conditions if max(streams_of(one)) == position]
        found = _with_entry(found, position, entry, own)
    return found


def _with_entry(left: Combined, position: int, entry: Entry, conditions: Sequence[Expr]) -> Combined:
    right = Combined(entry.relation, {(position, name): own for name, own in entry.names.items()})
    columns, names = joined_columns(left.relation, right.relation, entry.stream.alias)
    made = join(left, right, conditions, "inner", columns)
    return Combined(made, {**left.names, **{of: names[own] for of, own in right.names.items()}})


def joined_columns(left: Relation, right: Relation, alias: str) -> tuple[tuple[Field, ...], dict[str, str]]:
    """The columns of an inner join, and what those of its right side are called there."""
    taken = {column.name for column in left.columns}
    names = {}
    for column in right.columns:
        wished = column.name if column.name not in taken else f"{alias}.{column.name}"
        names[column.name] = free_name(wished, taken)
    renamed = tuple(replace(column, name=names[column.name]) for column in right.columns)
    return (*left.columns, *renamed), names


def join(
    left: Combined,
    right: Combined,
    conditions: Sequence[Expr],
    kind: OneOf["inner", "semi", "anti"],
    columns: tuple[Field, ...],
) -> Join:
    """A join by conditions that read entries of both sides: equalities of the two sides become keys."""
    keys, others = [], []
    both = {read: Column(0, name, Kind.INT) for read, name in left.names.items()}
    both |= {read: Column(1, name, Kind.INT) for read, name in right.names.items()}
    for condition in conditions:
        sides = _sides(condition, {at for at, _ in left.names}, {at for at, _ in right.names})
        if sides is None:
            others.append(moved(condition, both))
        else:
            keys.append((left.over(sides[0]), right.over(sides[1])))
    return Join(left.relation, right.relation, tuple(keys), conjunction(others), kind, columns)


def _sides(condition: Expr, left: set[int], right: set[int]) -> tuple[Expr, Expr] | None:
    """What of an equality reads the left entries alone, and what the right ones."""
    if not isinstance(condition, Call) or condition.op != "=":
        return None
    one, other = condition.args
    of_one, of_other = streams_of(one), streams_of(other)
    if not of_one or not of_other:
        return None
    if of_one <= left and of_other <= right:
        return one, other
    return (other, one) if of_one <= right and of_other <= left else None


def pruned(relation: Relation, wanted: set[str]) -> Relation:
    """A tree without the columns that nothing reads, where these are wanted at its top."""
    match relation:
        case Scan() | Given():
            columns = tuple(column for column in relation.columns if column.name in wanted)
            # Rows are counted even where no value of them is read.
            return replace(relation, columns=columns or relation.columns[:1])
        case Select():
            return replace(relation, input=pruned(relation.input, wanted | _read(relation.condition)))
        case Project():
            return _pruned_project(relation, wanted)
        case Aggregate():
            calls = tuple(call for call in relation.calls if call.column.name in wanted)
            calls = calls if calls or relation.keys else relation.calls[:1]
            read = {name for key in relation.keys for name in _read(key)}
            read |= {name for call in calls if call.argument is not None for name in _read(call.argument)}
            return Aggregate(pruned(relation.input, read), relation.keys, relation.key_columns, calls)
        case Distinct():
            return replace(relation, input=pruned(relation.input, {column.name for column in relation.columns}))
        case Join():
            return _pruned_join(relation, wanted)


def _pruned_project(relation: Project, wanted: set[str]) -> Relation:
    pairs = zip(relation.expressions, relation.columns, strict=True)
    kept = [(expr, column) for expr, column in pairs if column.name in wanted]
    kept = kept or [(relation.expressions[0], relation.columns[0])]
    read = {name for expr, _ in kept for name in _read(expr)}
    return Project(pruned(relation.input, read), tuple(expr for expr, _ in kept), tuple(column for _, column in kept))


def _pruned_join(relation: Join, wanted: set[str]) -> Relation:
    split = len(relation.left.columns)
    left = {name for key, _ in relation.keys for name in _read(key)} | _read(relation.condition, 0)
    right = {name for _, key in relation.keys for name in _read(key)} | _read(relation.condition, 1)
    left |= {column.name for column in relation.columns[:split] if column.name in wanted}
    outer = relation.columns[split:]
    right |= {inner.name for inner, column in zip(relation.right.columns, outer, strict=False) if column.name in wanted}
    below = pruned(relation.left, left), pruned(relation.right, right)
    called = {inner.name: column for inner, column in zip(relation.right.columns, outer, strict=False)}
    columns = below[0].columns
    if relation.kind == "inner":
        columns += tuple(called[column.name] for column in below[1].columns)
    return replace(relation, left=below[0], right=below[1], columns=columns)


def _read(expr: Expr | None, side: int = 0) -> set[str]:
    return set() if expr is None else {name for at, name in columns_of(expr) if at == side}
