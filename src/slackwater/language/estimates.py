"""Which queries can have estimates beside their answers, and what the columns of these are called.

Invariant: an answer is estimated where what is expected to be missing scales it: counts and sums, and means as their
quotients.
"""

from __future__ import annotations

from slackwater.core.emitting import IN_ORDER
from slackwater.core.schema import Kind
from slackwater.language.bound import AggregateQuery, BoundQuery
from slackwater.language.composed import ADDING

ESTIMATE, LOW, HIGH = "_estimate", "_low", "_high"
"""What the columns beside an aggregate end with."""
_OTHERWISE = "leave ESTIMATED out, and ERROR bounds the error of what has arrived"


def estimate_columns(name: str) -> tuple[str, str, str]:
    """The columns beside an aggregate of this name: what it is expected to be, and between what it lies."""
    return name + ESTIMATE, name + LOW, name + HIGH


def why_no_estimate(query: BoundQuery) -> str | None:
    """Why what this query gives is not estimated; None where it is. ERROR is possible."""
    if not isinstance(query, AggregateQuery):
        return f"ESTIMATED is for aggregates: {_OTHERWISE}"
    for call in query.aggregates:
        if call.function not in ADDING:
            return (
                "ESTIMATED scales counts and sums by what is expected to be missing, which says nothing of"
                f" {call.name}; select COUNT, SUM and AVG alone, or {_OTHERWISE}"
            )
        if call.argument is not None and call.function != "COUNT" and call.argument.kind not in (Kind.INT, Kind.FLOAT):
            return (
                f"an estimate is a double, and {call.name} is made of a {call.argument.kind.value}; write to_float(...)"
                f" around what it reads, or {_OTHERWISE}"
            )
    if isinstance(query.stream.query, AggregateQuery):
        return f"ESTIMATED is not offered for an aggregate of aggregates, where no rows are missing: {_OTHERWISE}"
    if query.emit.kind != IN_ORDER or query.emit.corrections:
        return f"ESTIMATED says what a window will come to, and EMIT {query.emit} corrects it; leave one of them out"
    names = [*query.order, "window_start", "window_end"]
    taken = [name for call in query.aggregates for name in estimate_columns(call.name) if name in names]
    if taken:
        return f"ESTIMATED adds a column {taken[0]}, and the query has one; name yours otherwise with AS"
    return None
