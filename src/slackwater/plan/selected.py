"""What a query selects of the tuples that its operator brings together: columns as they are, and expressions over them.

Invariant: an operator gives (stream, column) pairs, each once; results are made of these alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.expressions.tree import Column, Expr, columns_of
from slackwater.language.bound import Output, StreamRef
from slackwater.language.derived import leaves_as
from slackwater.plan.physical import IDENTITY, OutputColumn

Emitted = tuple[tuple[int, str], ...]
"""By column of an operator: the stream, and the name of the column there."""


def identities(streams: Sequence[StreamRef]) -> tuple[Output, ...]:
    """What tells results apart: a column `_row_<alias>` for each stream."""
    return tuple(Output(f"_row_{stream.alias}", Column(i, IDENTITY, Kind.INT)) for i, stream in enumerate(streams))


def emitted_for(exprs: Iterable[Expr]) -> Emitted:
    """The columns that expressions read."""
    return tuple(dict.fromkeys(pair for expr in exprs for pair in sorted(columns_of(expr))))


def nulls_of(streams: Sequence[StreamRef], emitted: Emitted) -> tuple[int, ...]:
    """How a null looks in every column."""
    floats = {
        (at, one.name) for at, stream in enumerate(streams) for one in stream.schema.fields if one.kind is Kind.FLOAT
    }
    return tuple(NULL_FLOAT if pair in floats else NULL_WORD for pair in emitted)


def output_column(item: Output, streams: Sequence[StreamRef], emitted: Emitted) -> OutputColumn:
    """One item of the SELECT list."""
    arrow = leaves_as(item.expr, streams)
    if not isinstance(item.expr, Column):
        return OutputColumn(item.name, item.expr.kind, arrow, None, item.expr)
    return OutputColumn(item.name, item.expr.kind, arrow, emitted.index((item.expr.stream, item.expr.name)))
