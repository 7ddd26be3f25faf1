"""Which queries can be advised on. Invariant: what cannot is refused in one sentence that says what can."""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.results import ISTREAM
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.language.bound import AggregateQuery, BoundQuery, JoinQuery, is_chain, streams_read

TAKEN = (
    "advise takes joins and selections over time windows, and window aggregates with COUNT, SUM, AVG, MIN, MAX, VAR and"
    " STDDEV"
)


def check_supported(query: BoundQuery) -> None:
    """Refuse a query of which it is not known which results a slack loses."""
    reason = _why_not(query)
    if reason is not None:
        raise UsageError(f"{reason}; {TAKEN}")


def _why_not(query: BoundQuery) -> str | None:
    if not isinstance(query, JoinQuery | AggregateQuery):
        return f"this is a {type(query).__name__.removesuffix('Query').lower()} query"
    if is_chain(query):
        return "the query has others inside it, and each loses results of its own: ask about them one by one"
    for stream in streams_read(query):
        if stream.window is not None:
            return f"the window of {stream.alias} is not one of time"
    if isinstance(query, JoinQuery):
        if query.kind is not JoinKind.INNER:
            return f"this is a {query.kind.value} join, and late tuples make rows of it false: ask about the inner join"
        if query.out.kind != ISTREAM:
            return f"results leave by {query.out}, not as they are made: leave that out"
        if query.options.shape != "multiway" or query.options.join is not None:
            return "options shape and join choose another algorithm, which loses other results: leave them out"
        return None
    if query.having:
        return "HAVING depends on what was lost: leave it out"
    if query.out.kind != ISTREAM and query.out.every:
        return f"results leave by {query.out}, not as they are made: leave that out"
    for one in query.aggregates:
        if FUNCTIONS[one.function].keeps_values:
            return f"{one.function} keeps all values of a window"
        if FUNCTIONS[one.function].chooses:
            return f"what a missing tuple does to {one.function} has no bound"
    return None
