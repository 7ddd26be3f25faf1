"""Kinds of SELECT that a word behind it asks for, as in SELECT DISTINCT.

Parser, check and binder know kinds by this registry alone. A new kind is a query in a file like `distinct`, two
functions and one line here; its plan is one line in `plan.planner`, its truth one line in `verify`.

Invariant: what does not go with a kind is refused, with its place in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slackwater.core.errors import QueryError
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.results import ISTREAM
from slackwater.language.bound import Output, RowsQuery, StreamRef
from slackwater.language.distinct import DistinctQuery
from slackwater.language.nodes import Select, Window, refused, target_word


@dataclass(frozen=True)
class Kind:
    """What a word behind SELECT asks for."""

    refusal: Callable[[Select, bool], QueryError | None]
    """Why a query, which may be an aggregation, cannot be of this kind; None if it can."""
    bound: Callable[[Select, tuple[StreamRef, ...], tuple[Output, ...]], RowsQuery]
    """The query over streams whose windows and filters are bound already, and so is what it selects."""


def _distinct(select: Select, streams: tuple[StreamRef, ...], outputs: tuple[Output, ...]) -> RowsQuery:
    return DistinctQuery((streams[0],), outputs, select.quality, select.options, select.out)


def _no_distinct(select: Select, aggregation: bool) -> QueryError | None:
    """Why a query cannot be DISTINCT; None if it can."""
    if aggregation:
        message = "SELECT DISTINCT takes no aggregates: a group is in the result of a window once already"
        return refused(select, message, select.kind_place)
    if select.to_stream is not None and select.out.kind != ISTREAM:
        return refused(
            select.to_stream, f"{select.out.kind} does not go with DISTINCT; its rows leave when they are made"
        )
    return _no_window(select) or _no_target(select)


def _no_window(select: Select) -> QueryError | None:
    """Why the window is none that DISTINCT can have; above a join it is that of the join."""
    if len(select.streams) > 1:
        return None
    (stream,) = select.streams
    window, wanted = stream.window, f"as in {stream.alias} [RANGE 5 SECONDS]"
    if window is None:
        message = f"DISTINCT needs a window, or it would have to remember every row for ever, {wanted}"
        return refused(stream, message)
    if not isinstance(window, Window) or window.in_rows:
        return refused(window, f"DISTINCT needs a window of time, {wanted}")
    if window.slide is not None:
        return refused(window, "SLIDE belongs to aggregates; the window of DISTINCT moves with every row")
    return None


def _no_target(select: Select) -> QueryError | None:
    if select.target is not None and isinstance(select.quality, Recall | RelativeError):
        message = (
            f"{target_word(select.quality)} is not offered with SELECT DISTINCT: a late row would have held others"
            " back, so what it costs has no bound; write DELAY, COMPLETE or NO WAIT"
        )
        return refused(select.target, message)
    return None


KINDS: Mapping[str, Kind] = {
    "DISTINCT": Kind(_no_distinct, _distinct),
}
"""By the word behind SELECT."""
