"""Which queries can emit on arrival, early, or with corrections.

Invariant: an emission is allowed where what it promises can be kept: a result on arrival is whole, a row of an open
window becomes that of the closed one, and a correction is what the answer would have been.
"""

from __future__ import annotations

from slackwater.core.emitting import EARLY, IN_ORDER, ON_ARRIVAL, Emit
from slackwater.core.join_kinds import JoinKind
from slackwater.core.results import ADAPTIVE, FILTER, ISTREAM
from slackwater.core.time import format_duration
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import (
    AggregateQuery,
    BoundQuery,
    InstantQuery,
    JoinQuery,
    RowsQuery,
    StreamRef,
    UnionQuery,
    all_inside,
    is_chain,
    streams_read,
)
from slackwater.language.distinct import DistinctQuery
from slackwater.language.top import TopQuery

_LEAVE_OUT = "leave EMIT out, so that results leave once, in order"


def why_not_emitted(query: BoundQuery, emit: Emit) -> str | None:
    """Why a query cannot emit like this; None where it can."""
    if emit.kind == IN_ORDER and not emit.corrections:
        return None
    if isinstance(query, InstantQuery):
        return f"EMIT {emit} is not offered where windows slide together: {_LEAVE_OUT}"
    if isinstance(query, AsOfQuery) and emit.kind != IN_ORDER:
        return f"EMIT {emit} is not offered with ASOF JOIN, which waits for the watermark to be sure; {_LEAVE_OUT}"
    if isinstance(query, TopQuery):
        return (
            f"EMIT {emit} is not offered with the first rows of a window: a row that another one moves down would have"
            f" to leave again; {_LEAVE_OUT}"
        )
    if query.out.kind != ISTREAM:
        return f"{query.out.kind} says when results leave, and so does EMIT; leave one of them out"
    if isinstance(query, JoinQuery) and query.kind is JoinKind.SEMI and emit.corrections:
        return (
            "WITH CORRECTIONS is not offered with semi joins: a tuple that has left would have to leave again, with an"
            f" earlier partner; {_LEAVE_OUT}"
        )
    if emit.kind == ON_ARRIVAL:
        return _not_on_arrival(query)
    if emit.kind == EARLY:
        why = _not_early(query)
        if why is not None:
            return why
    return _not_corrected(query, emit) if emit.corrections else None


def _not_on_arrival(query: BoundQuery) -> str | None:
    if isinstance(query, AggregateQuery):
        return (
            "EMIT ON ARRIVAL is for joins: what an aggregate comes to is known when its window has passed; write EMIT"
            " EARLY EVERY 10 SECONDS for rows of open windows"
        )
    if not isinstance(query, JoinQuery) or is_chain(query):
        return f"EMIT ON ARRIVAL is for one join of streams, and not for a query of several operators; {_LEAVE_OUT}"
    other = _other_window(query.streams)
    if other is not None:
        return f"EMIT ON ARRIVAL needs windows of time: what {other} hold is known in event-time order; {_LEAVE_OUT}"
    for name, wanted in (("join", query.options.join), ("ordering", query.options.ordering)):
        if wanted is not None:
            return f"EMIT ON ARRIVAL does not go with option {name} = '{wanted}'; leave one of them out"
    if query.options.shape == "binary":
        return "EMIT ON ARRIVAL does not go with option shape = 'binary'; leave one of them out"
    return None


def _not_early(query: BoundQuery) -> str | None:
    if not isinstance(query, AggregateQuery):
        return (
            "EMIT EARLY is for aggregates: a row of anything else is whole when it is made; of a join, EMIT ON ARRIVAL"
            " gives results as soon as they can be"
        )
    if query.stream.query is not None:
        return f"EMIT EARLY is for an aggregate of one stream, whose tuples are known as they arrive; {_LEAVE_OUT}"
    other = _other_window((query.stream,))
    return None if other is None else f"EMIT EARLY needs windows of time, and these are {other}; {_LEAVE_OUT}"


def _not_corrected(query: BoundQuery, emit: Emit) -> str | None:
    longest = query.options.max_behind
    if emit.correctable is not None and emit.correctable > longest:
        return (
            f"corrections are possible for at most {format_duration(longest)}, as far as a tuple may be behind"
            " (option max_behind); write less after FOR, or more in OPTIONS (max_behind = ...)"
        )
    if isinstance(query, DistinctQuery) and is_chain(query):
        return (
            "WITH CORRECTIONS is offered for the distinct rows of a stream; above other operators a correction would"
            f" take back rows that have left; {_LEAVE_OUT}"
        )
    refusal = "WITH CORRECTIONS is not offered with {}: a late tuple would change all results after it; " + _LEAVE_OUT
    for one in all_inside(query):
        other = _other_window(streams_read(one))
        if other == "sessions":
            return f"WITH CORRECTIONS is not offered with sessions: a late tuple may make one of two; {_LEAVE_OUT}"
        if other is not None:
            return refusal.format(other)
        if isinstance(one, RowsQuery) and (one.options.join is not None or one.options.shape == "binary"):
            return "WITH CORRECTIONS does not go with options join and shape; leave one of them out"
        if isinstance(one, JoinQuery) and one.options.ordering in (FILTER, ADAPTIVE):
            return f"WITH CORRECTIONS does not go with option ordering = '{one.options.ordering}'; leave it out"
        if isinstance(one, JoinQuery) and one.kind is not JoinKind.INNER and is_chain(query):
            return (
                "WITH CORRECTIONS is not offered where a join whose rows without partner may be taken back is one of"
                f" several operators; {_LEAVE_OUT}"
            )
        if one is not query and not isinstance(one, JoinQuery | UnionQuery):
            return (
                "WITH CORRECTIONS is not offered where a query reads rows that may change again, as those of an"
                f" aggregate do; {_LEAVE_OUT}"
            )
    return None


def _other_window(streams: tuple[StreamRef, ...]) -> str | None:
    """What windows are called that are not of time; None where all are."""
    kinds = {type(stream.window).__name__ for stream in streams if stream.window is not None}
    names = {
        "RowWindow": "windows of rows",
        "LandmarkWindow": "landmark windows",
        "RateWindow": "windows that follow rates",
        "SessionWindow": "sessions",
        "FillingWindow": "windows that fill in steps",
    }
    return next((names[kind] for kind in sorted(kinds)), None)
