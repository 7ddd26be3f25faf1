"""The first rows of every window, as they are bound: ORDER BY and LIMIT, or ROW_NUMBER.

Rows are numbered within their window, and within a part of it where PARTITION BY names one. Of rows that ORDER BY
leaves equal the older comes first, and then the one that is less in what is selected, column by column, nulls first: so
the answer does not depend on how rows came.

Invariant: planner and judge know the query by this file, and need no parser for it; `top_binding` makes it of a text.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.emitting import ONCE, Emit
from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import AS_MADE, Out
from slackwater.core.schema import Kind
from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import Output, RowsQuery, StreamRef

NUMBER = Column(0, "\0number", Kind.INT)
"""What an output reads that is the number of its row, from 1 on; no query can spell it."""


@dataclass(frozen=True)
class OrderedBy:
    """One item of ORDER BY."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopQuery(RowsQuery):
    """The first rows of every window of one stream."""

    streams: tuple[StreamRef, ...]
    """The one entry of FROM: with a window that tumbles, or an aggregate, whose windows these are."""
    partition: tuple[Expr, ...]
    """What tells the parts of a window apart."""
    order: tuple[OrderedBy, ...]
    most: int
    outputs: tuple[Output, ...]
    """Behind the bounds of the window."""
    quality: Quality
    options: Options
    out: Out = AS_MADE
    emit: Emit = ONCE

    @property
    def of_aggregate(self) -> bool:
        """Whether windows are those of an aggregate, whose rows all stand at the last instant of theirs."""
        return self.streams[0].range is None

    @property
    def selected(self) -> tuple[Expr, ...]:
        """What outputs read of a row."""
        return tuple(one.expr for one in self.outputs if one.expr != NUMBER)
