"""Arrow's views as the types they are views of: Arrow can read the former, but hardly select or take them.

Invariant: values and order stay; a table without views is given back as it is.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def plain(table: pa.Table) -> pa.Table:
    """A table of which rows can be taken.

    >>> plain(pa.table({"b": pa.array([b"x"], pa.binary_view())})).schema.field("b").type
    DataType(binary)
    """
    for i, field in enumerate(table.schema):
        column, type_ = table.column(i), plain_type(field.type)
        if pa.types.is_run_end_encoded(field.type):
            decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
            table = table.set_column(i, field.name, pa.chunked_array(decoded, type_))
        elif type_ != field.type:
            table = table.set_column(i, field.name, column.cast(type_))
    return table


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type without views, at any depth."""
    if pa.types.is_string_view(arrow):
        return pa.string()
    if pa.types.is_binary_view(arrow):
        return pa.binary()
    if pa.types.is_run_end_encoded(arrow):
        return plain_type(arrow.value_type)
    if pa.types.is_map(arrow):
        return pa.map_(plain_type(arrow.key_type), plain_type(arrow.item_type))
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(plain_type(arrow.value_type), arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(plain_type(arrow.value_type))
    if pa.types.is_list(arrow):
        return pa.list_(plain_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(plain_type(field.type)) for field in arrow])
    return arrow
