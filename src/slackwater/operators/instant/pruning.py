"""A tree that reads only the columns of its windows that something in it needs.

Invariant: windows over one stream have the same columns, in the same order, so that they can share its tuples: those
that any of them needs. What the tree gives is not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from slackwater.core.schema import Field
from slackwater.expressions.relational import (
    Aggregate,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    scans,
)
from slackwater.expressions.tree import Column, Expr, columns_of
from slackwater.operators.instant.fragments import reading


def pruned(relation: Relation) -> Relation:
    """The tree without columns of windows that nothing reads."""
    needed: dict[int, set[str]] = {}
    _note(relation, {column.name for column in relation.columns}, needed)
    return _alike(_without(relation, needed))


def _alike(relation: Relation) -> Relation:
    """The tree with windows of one stream that have the same columns."""
    columns: dict[int, dict[str, Field]] = {}
    for scan in scans(relation):
        columns.setdefault(scan.stream, {}).update({column.name: column for column in scan.columns})
    wide = {stream: tuple(known.values()) for stream, known in columns.items()}
    return relation if all(scan.columns == wide[scan.stream] for scan in scans(relation)) else _cut(relation, wide)


def _cut(relation: Relation, wide: Mapping[int, tuple[Field, ...]]) -> Relation:
    """The widened tree with the columns that it had."""
    made = _widened(relation, wide)
    return made if made.columns == relation.columns else _only(made, relation.columns)


def _only(relation: Relation, columns: tuple[Field, ...]) -> Project:
    return Project(relation, tuple(Column(0, one.name, one.kind, one.scale) for one in columns), columns)


def _widened(relation: Relation, wide: Mapping[int, tuple[Field, ...]]) -> Relation:
    """The tree over wider windows; nothing reads the columns that are more."""
    if isinstance(relation, Scan):
        return replace(relation, columns=wide[relation.stream])
    if isinstance(relation, Distinct):
        return replace(relation, input=_cut(relation.input, wide))
    below = [_widened(one, wide) for one in relation.inputs]
    made = reading(relation, *below)
    if not isinstance(relation, Join) or not isinstance(made, Join):
        return made
    taken = {column.name for column in relation.columns}
    columns = []
    for side, one in enumerate(below if relation.kind == "inner" else below[:1]):
        known = dict(_names_of(relation, side))
        for column in one.columns:
            name = known.get(column.name) or fresh(column.name, taken)
            taken.add(name)
            columns.append(replace(column, name=name))
    return replace(made, columns=tuple(columns))


def fresh(name: str, taken: Collection[str]) -> str:
    """A name that no other column has.

    >>> fresh("v", {"v", "v'"})
    "v''"
    """
    while name in taken:
        name += "'"
    return name


def _read(exprs: Iterable[Expr | None], of: int = 0) -> set[str]:
    return {name for expr in exprs if expr is not None for stream, name in columns_of(expr) if stream == of}


def _note(relation: Relation, wanted: set[str], needed: dict[int, set[str]]) -> None:
    """Note what is needed of the windows under a relation, of which these columns are wanted."""
    if isinstance(relation, Scan):
        needed.setdefault(relation.stream, set()).update(wanted)
    for below, mine in zip(relation.inputs, needed_of_inputs(relation, wanted), strict=True):
        _note(below, mine, needed)


def needed_of_inputs(relation: Relation, wanted: set[str]) -> list[set[str]]:
    """For each input of an operator the columns that it reads, if these of its own are wanted."""
    if isinstance(relation, Select):
        return [wanted | _read([relation.condition])]
    if isinstance(relation, Project):
        return [_read(relation.expressions)]
    if isinstance(relation, Aggregate):
        return [_read([*relation.keys, *(call.argument for call in relation.calls)])]
    if isinstance(relation, Distinct):
        return [{column.name for column in relation.columns}]
    if isinstance(relation, Join):
        return [
            _read(pair[side] for pair in relation.keys)
            | _read([relation.condition], side)
            | {own for own, name in _names_of(relation, side) if name in wanted}
            for side in (0, 1)
        ]
    return []


def _names_of(join: Join, side: int) -> list[tuple[str, str]]:
    """The columns of one side of a join: their names there, and those in the join."""
    first = len(join.left.columns) * side
    own = [column.name for column in join.inputs[side].columns]
    return list(zip(own, (column.name for column in join.columns[first:]), strict=False))


def _without(relation: Relation, needed: dict[int, set[str]]) -> Relation:
    if isinstance(relation, Scan):
        columns = tuple(column for column in relation.columns if column.name in needed[relation.stream])
        return replace(relation, columns=columns)
    below = [_without(one, needed) for one in relation.inputs]
    made = reading(relation, *below)
    if not isinstance(relation, Join) or not isinstance(made, Join):
        return made
    kept = {
        name
        for side, one in enumerate(below)
        for own, name in _names_of(relation, side)
        if own in {column.name for column in one.columns}
    }
    return replace(made, columns=tuple(column for column in relation.columns if column.name in kept))
