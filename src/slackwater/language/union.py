"""UNION ALL: sub-queries with the same columns as one stream.

Invariant: columns go together by their place, and are of one kind; the first sub-query names them. A bare NULL is of
the kind that the column has in the other sub-queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.core.schema import Field, type_name
from slackwater.expressions.tree import Column, Literal
from slackwater.language.bound import BoundQuery, Output, RowsQuery, StreamRef, UnionQuery
from slackwater.language.derived import columns_of_result, result_schema
from slackwater.language.nodes import Select, refused


def bind_union(query: Select, queries: Sequence[BoundQuery]) -> UnionQuery:
    """The union of bound queries, those of `query.all_united`."""
    streams = tuple(
        StreamRef(str(number), "", result_schema(one), None, query=one)
        for number, one in enumerate(_with_typed_nulls(queries), 1)
    )
    first = columns_of_result(streams[0].schema)
    for stream, own in zip(streams[1:], query.united, strict=True):
        found = columns_of_result(stream.schema)
        if len(found) != len(first):
            listed = f"{', '.join(field.name for field in found)} here and {', '.join(field.name for field in first)}"
            message = f"the queries of a UNION ALL must have the same columns: there are {listed} in the first"
            raise refused(own, message)
        for one, other in zip(first, found, strict=True):
            if one.kind is not other.kind:
                message = (
                    f"column '{other.name}' is {other.kind.value} here, and '{one.name}' of the first query is"
                    f" {one.kind.value}; make them the same, as in to_float(x)"
                )
                raise refused(own, message)
            if one.scale != other.scale:
                message = (
                    f"column '{other.name}' is {type_name(other.arrow)} here, and '{one.name}' of the first query is"
                    f" {type_name(one.arrow)}; make them the same, as in to_float(x)"
                )
                raise refused(own, message)
    outputs = tuple(Output(field.name, Column(0, field.name, field.kind, field.scale)) for field in first)
    return UnionQuery(streams, outputs, query.quality, query.options)


def _with_typed_nulls(queries: Sequence[BoundQuery]) -> list[BoundQuery]:
    """The queries, with every bare NULL of the kind that its column has elsewhere."""
    typed: dict[int, Field] = {}
    for query in queries:
        bare = _bare_nulls(query)
        for place, field in enumerate(columns_of_result(result_schema(query))):
            if place not in bare:
                typed.setdefault(place, field)
    return [_typed(query, typed) for query in queries]


def _typed(query: BoundQuery, typed: Mapping[int, Field]) -> BoundQuery:
    changed = _bare_nulls(query) & typed.keys()
    if not changed or not isinstance(query, RowsQuery):
        return query
    outputs = [
        replace(output, expr=Literal(None, typed[place].kind, typed[place].scale)) if place in changed else output
        for place, output in enumerate(query.outputs)
    ]
    return replace(query, outputs=tuple(outputs))


def _bare_nulls(query: BoundQuery) -> set[int]:
    """The places of outputs that are NULL and nothing else."""
    outputs = query.outputs if isinstance(query, RowsQuery) else ()
    exprs = [output.expr for output in outputs]
    return {place for place, expr in enumerate(exprs) if isinstance(expr, Literal) and expr.value is None}
