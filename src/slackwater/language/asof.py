"""As-of joins as they are bound: each tuple of one stream with the latest of another that has its key.

Invariant: planner and judge know the query by this file, and need no parser for it; `asof_binding` makes it of a text.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.emitting import ONCE, Emit
from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import AS_MADE, Out
from slackwater.expressions.tree import Expr
from slackwater.language.bound import Output, RowsQuery, StreamRef


@dataclass(frozen=True)
class AsOfQuery(RowsQuery):
    """The tuples of one stream, each with the latest of another."""

    streams: tuple[StreamRef, ...]
    """Whose tuples leave, and where the versions come from."""
    keys: tuple[tuple[Expr, Expr], ...]
    """What must be equal: of the first stream, and of the second."""
    outputs: tuple[Output, ...]
    quality: Quality
    options: Options
    strict: bool = False
    """Whether a version must be older, and not merely not newer."""
    within: int | None = None
    """How much older a version may be; None: however much."""
    outer: bool = False
    """Whether a tuple without a version leaves, with nulls."""
    kept: tuple[Expr, ...] = ()
    """What must be true of a row, nulls in it included."""
    out: Out = AS_MADE
    emit: Emit = ONCE
