"""Columns inside columns: the fields of a struct, by their path.

Invariant: a field is known by the names on the way to it with dots between, and is null where anything above it is.
Where a path is also the name of a column, or of a field nearer to the root, that one is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Leaf:
    """A column, or a field of a nested one that is not nested itself."""

    type: pa.DataType
    path: tuple[str, ...]
    """The names from the root on."""
    positions: tuple[int, ...]
    """Their positions, in the schema and in the structs below."""


def leaves(schema: pa.Schema) -> dict[str, Leaf]:
    """Every column that is no struct, and the fields of those that are, by their path.

    >>> schema = pa.schema([("k", pa.int8()), ("event", pa.struct([("user", pa.struct([("id", pa.int64())]))]))])
    >>> list(leaves(schema))
    ['k', 'event.user.id']
    """
    found: dict[str, Leaf] = {}
    level = [Leaf(field.type, (field.name,), (position,)) for position, field in enumerate(schema)]
    nearest: dict[str, Leaf] = {}
    while level:
        below: list[Leaf] = []
        for leaf in level:
            if not pa.types.is_struct(leaf.type) or is_variant(leaf.type):
                nearest.setdefault(".".join(leaf.path), leaf)
                continue
            for position in range(leaf.type.num_fields):
                field = leaf.type.field(position)
                below.append(Leaf(field.type, (*leaf.path, field.name), (*leaf.positions, position)))
        level = below
    # In the order of the columns, as a star spreads them.
    for leaf in sorted(nearest.values(), key=lambda leaf: leaf.positions):
        found[".".join(leaf.path)] = leaf
    return found


def nested(schema: pa.Schema) -> dict[str, pa.DataType]:
    """The structs among the columns, and those inside them, by their path."""
    found: dict[str, pa.DataType] = {}
    pending: list[tuple[tuple[str, ...], pa.DataType]] = [((field.name,), field.type) for field in schema]
    while pending:
        path, type_ = pending.pop()
        if pa.types.is_struct(type_) and not is_variant(type_):
            found.setdefault(".".join(path), type_)
            pending += [((*path, field.name), field.type) for field in type_]
    return found


def column_at(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The column or nested field of a path.

    >>> users = pa.array([{"id": 7}, None], pa.struct([("id", pa.int64())]))
    >>> column_at(pa.table({"user": users}), "user.id").to_pylist()
    [7, None]
    """
    if name in table.column_names:
        return table.column(name)
    leaf = leaves(table.schema).get(name)
    if leaf is None:
        raise KeyError(name)
    first, *inner = leaf.positions
    return pc.struct_field(table.column(first), inner)


def is_variant(type_: pa.DataType) -> bool:
    """Whether a struct is how Arrow holds a variant: two lots of bytes, of which no field can be named."""
    return (
        pa.types.is_struct(type_)
        and {field.name for field in type_} == {"value", "metadata"}
        and all(pa.types.is_binary(field.type) for field in type_)
    )
