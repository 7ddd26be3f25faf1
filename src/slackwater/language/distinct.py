"""SELECT DISTINCT: rows of one stream, without those that repeat one within a window.

A row is emitted, at its own event time, unless a row with equal selected columns has been emitted at most the window
before it, both ends included. It is what has been emitted that counts, and not what has come: of a row that comes every
second, [RANGE 5 SECONDS] gives every sixth. Event times decide, not arrival. Nulls are equal to each other, and so are
NaNs; -0.0 is 0.0.

Invariant: what does not go with DISTINCT is refused, with its place in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.core.options import Options
from slackwater.core.quality import Complete, Quality, Recall, RelativeError
from slackwater.core.results import AS_MADE, ISTREAM, Out
from slackwater.language.bound import Output, RowsQuery, StreamRef

if TYPE_CHECKING:
    # Planner and judge know the query, and need no parser for it.
    from slackwater.language.parsed import ParsedQuery


@dataclass(frozen=True)
class DistinctQuery(RowsQuery):
    """The rows of one stream, unless an equal one has been emitted within its window before."""

    streams: tuple[StreamRef, ...]
    """The one entry of FROM."""
    outputs: tuple[Output, ...]
    """What is compared, and given."""
    quality: Quality
    options: Options
    out: Out = AS_MADE


def bound(parsed: ParsedQuery, streams: tuple[StreamRef, ...], outputs: tuple[Output, ...]) -> DistinctQuery:
    """The query over a stream whose window and filters are bound already, and so is what it selects."""
    return DistinctQuery((streams[0],), outputs, parsed.quality or Complete(), parsed.options, parsed.out)


def refusal(
    parsed: ParsedQuery, streams: tuple[StreamRef, ...], aggregation: bool
) -> tuple[str, tuple[int, int]] | None:
    """Why a query cannot be DISTINCT, and the place of that in the text; None if it can."""
    place = parsed.kind_place
    if aggregation:
        return "SELECT DISTINCT takes no aggregates: a group is in the result of a window once already", place
    if len(streams) > 1:
        return "SELECT DISTINCT reads one stream, not a join", place
    if parsed.out.kind != ISTREAM:
        return f"{parsed.out.kind} does not go with DISTINCT; its rows leave when they are made", parsed.out_place
    (stream,), (written,) = streams, parsed.streams
    if stream.range is None:
        wanted = f"as in {stream.alias} [RANGE 5 SECONDS]"
        if written.window is None:
            return f"DISTINCT needs a window, or it would have to remember every row for ever, {wanted}", written.place
        return f"DISTINCT needs a window of time, {wanted}", written.window.place
    if stream.slide is not None and written.window is not None:
        return "SLIDE belongs to aggregates; the window of DISTINCT moves with every row", written.window.place
    if isinstance(parsed.quality, Recall | RelativeError):
        name = "RECALL" if isinstance(parsed.quality, Recall) else "ERROR"
        return (
            f"{name} is not offered with SELECT DISTINCT: a late row would have held others back, so what it costs"
            " has no bound; write DELAY, COMPLETE or NO WAIT"
        ), parsed.quality_place
    return None
