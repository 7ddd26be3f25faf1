"""By which column a tree of relational operators can be cut into shards.

Invariant: all rows that an operator brings together, in a join or in a group, come from tuples with the same word in
the column that is found, in whatever window they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from slackwater.core.schema import Kind
from slackwater.expressions.relational import Aggregate, Distinct, Join, Project, Relation, Scan
from slackwater.expressions.tree import Column, Expr


@dataclass(frozen=True)
class _Key:
    """A column of each stream below, and the columns of the relation that still hold its words."""

    of_stream: tuple[tuple[int, str], ...]
    columns: frozenset[str]


def common_key(relation: Relation, streams: int) -> Mapping[int, str] | None:
    """For each stream the column by which its tuples may be spread; None where any two can meet."""
    for key in _keys(relation):
        if len(key.of_stream) == streams:
            return dict(key.of_stream)
    return None


def _keys(relation: Relation) -> list[_Key]:
    if isinstance(relation, Scan):
        # Two zeros are one float, but two words.
        exact = [column.name for column in relation.columns if column.kind is not Kind.FLOAT]
        return [_Key(((relation.stream, name),), frozenset((name,))) for name in exact]
    if isinstance(relation, Join):
        return _of_join(relation)
    keys = [key for below in relation.inputs for key in _keys(below)]
    if isinstance(relation, Project):
        return _renamed(keys, zip(relation.expressions, (c.name for c in relation.columns), strict=True))
    if isinstance(relation, Aggregate):
        named = _renamed(keys, zip(relation.keys, (c.name for c in relation.key_columns), strict=True))
        return [key for key in named if key.columns]
    if isinstance(relation, Distinct):
        return [key for key in keys if key.columns]
    return keys


def _renamed(keys: list[_Key], named: Iterable[tuple[Expr, str]]) -> list[_Key]:
    """The keys under the names that bare columns are given."""
    pairs = [(expr.name, name) for expr, name in named if isinstance(expr, Column)]
    return [_Key(key.of_stream, frozenset(new for old, new in pairs if old in key.columns)) for key in keys]


def _of_join(join: Join) -> list[_Key]:
    left, right = _keys(join.left), _keys(join.right)
    count = len(join.left.columns)
    from_left = dict(zip((c.name for c in join.left.columns), (c.name for c in join.columns), strict=False))
    from_right = dict(zip((c.name for c in join.right.columns), (c.name for c in join.columns[count:]), strict=False))
    found = []
    for mine, its in join.keys:
        if not isinstance(mine, Column) or not isinstance(its, Column):
            continue
        for one, other in product(left, right):
            if mine.name not in one.columns or its.name not in other.columns:
                continue
            both = dict(one.of_stream) | dict(other.of_stream)
            # A stream that stands on both sides must be spread by one and the same column.
            if all(both[stream] == name for stream, name in one.of_stream):
                columns = {from_left[name] for name in one.columns}
                columns |= {from_right[name] for name in other.columns if name in from_right}
                found.append(_Key(tuple(sorted(both.items())), frozenset(columns)))
    return found
