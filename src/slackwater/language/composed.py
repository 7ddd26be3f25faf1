"""Which quality targets a query of several operators can have.

Invariant: a target is allowed where what a late tuple costs the top can be counted: rows that are lost below
selections, unions and joins of time; and sums and counts of an aggregate, also those of sums and counts of another.
"""

from __future__ import annotations

from slackwater.core.join_kinds import JoinKind
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.schema import Kind
from slackwater.expressions.tree import Column, Expr, columns_of
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import AggregateQuery, BoundQuery, JoinQuery, SessionWindow, all_inside, rates_anywhere
from slackwater.language.distinct import DistinctQuery

ADDING = ("COUNT", "SUM", "AVG")
_WRITE = "Write COMPLETE, NO WAIT or DELAY"


def why_no_target(query: BoundQuery, quality: Quality | None) -> str | None:
    """Why a query with others inside it cannot have this target; None where it can."""
    if isinstance(quality, Recall) and quality.precision is not None:
        return "PRECISION is for one LEFT, RIGHT or FULL join, and not for a query of several operators. Leave it out"
    if any(isinstance(one, DistinctQuery) for one in all_inside(query)):
        return (
            "RECALL and ERROR are not offered above SELECT DISTINCT: a late row would have held others back, and these"
            f" again others, so what it costs has no bound. {_WRITE}"
        )
    if rates_anywhere(query):
        return f"RECALL and ERROR are not offered where windows follow rates. {_WRITE}"
    if any(isinstance(one, JoinQuery) and one.kind is not JoinKind.INNER for one in all_inside(query)):
        return (
            "RECALL and ERROR are not offered where LEFT, RIGHT, FULL, SEMI or ANTI joins are one of several operators:"
            f" a late tuple takes back rows that have gone on, and what these cost above is not known. {_WRITE}"
        )
    if any(isinstance(one, AsOfQuery) for one in all_inside(query)):
        return (
            "RECALL and ERROR are not offered where an as-of join is one of several operators: a version that comes"
            f" late changes rows that have gone on, and what these cost above is not known. {_WRITE}"
        )
    if isinstance(quality, Recall):
        rows = query.stream.query if isinstance(query, AggregateQuery) else query
        if rows is not None and _aggregates(rows):
            return (
                "RECALL counts the rows that reach the top of the query, and a row of an aggregate below is there and"
                f" yet wrong when tuples of it are missing. {_WRITE}; of counts and sums of an aggregate, ERROR"
            )
        return None
    assert isinstance(quality, RelativeError), "waiting can be asked for everywhere"
    if not isinstance(query, AggregateQuery):
        return (
            "ERROR measures the value of an aggregate, and the top of this query is none; write RECALL, as in WITH"
            " RECALL 0.99 OVER 1 MINUTE"
        )
    around = why_no_error(query)
    if around is not None:
        return around
    others = [call.function for call in query.aggregates if call.function not in (*ADDING, "MIN", "MAX")]
    if others:
        return (
            f"what missing rows do to {others[0]} cannot be told from what they weigh: above other operators ERROR is"
            f" for COUNT, SUM, AVG, MIN and MAX. {_WRITE}, or leave it out"
        )
    text = next((call for call in query.aggregates if call.kind is Kind.TEXT), None)
    if text is not None:
        return f"ERROR measures numbers, and {text.name} is a text. {_WRITE}, or leave it out"
    below = query.stream.query
    assert below is not None, "one operator is no chain"
    if not isinstance(below, AggregateQuery):
        return _no_aggregate_under(below)
    return _not_additive(query, below) or (
        None if below.stream.query is None else _no_aggregate_under(below.stream.query)
    )


def why_no_error(query: AggregateQuery) -> str | None:
    """Why the error of what an aggregate gives is not known from the errors of its aggregates; None where it is."""
    if query.having:
        return (
            "HAVING leaves windows out by their value, and one that is left out or kept by mistake has no error that"
            f" could be bounded. {_WRITE}, or filter where the results are read"
        )
    names = {call.name: call.function for call in query.aggregates}
    around = next((one.name for one in query.computed if _reads(one.expr, names)), None)
    if around is not None:
        return (
            f"ERROR bounds the error of each aggregate, and {around} is computed from them; select the aggregates by"
            f" themselves. {_WRITE} otherwise"
        )
    return None


def _no_aggregate_under(rows: BoundQuery) -> str | None:
    if _aggregates(rows):
        return (
            "an aggregate stands below a join, a union, a selection or two other aggregates; what a tuple missing from"
            f" it costs at the top is not known. {_WRITE}"
        )
    return None


def _aggregates(query: BoundQuery) -> bool:
    """Whether a query is an aggregate, or has one inside."""
    return any(isinstance(one, AggregateQuery) for one in all_inside(query))


def _not_additive(query: AggregateQuery, below: AggregateQuery) -> str | None:
    """Why the error of an aggregate of an aggregate does not follow from what is missing from the inner one."""
    values = {call.name: call.function for call in below.aggregates}
    for call in query.aggregates:
        argument = call.argument
        plain = isinstance(argument, Column) and values.get(argument.name) in ("COUNT", "SUM")
        if call.function != "SUM" or not plain:
            return (
                f"{call.name} does not add up from what tuples add below: of an aggregate of aggregates ERROR is for"
                f" SUM of a COUNT or a SUM, read by its name alone. {_WRITE}"
            )
    values |= {one.name: "" for one in below.computed}
    moving = any(_reads(expr, values) for expr in (*query.stream.filters, *(key.expr for key in query.keys)))
    if below.stream.window is not None:
        kind = "windows that fill in steps"
        if isinstance(below.stream.window, SessionWindow):
            kind = "sessions, of which a late tuple may make one of two"
        return f"ERROR is not offered above an aggregate of {kind}. {_WRITE}"
    if below.having:
        return (
            "HAVING of the aggregate below reads a value of it, so one tuple may move a whole row; ERROR needs all of"
            f" them. {_WRITE}"
        )
    if moving:
        return (
            "WHERE or GROUP BY reads a value of the aggregate below, so one tuple may move a whole row; ERROR needs"
            f" those that read its keys and times alone. {_WRITE}"
        )
    return None


def _reads(expr: Expr, names: dict[str, str]) -> bool:
    return any(name in names for _, name in columns_of(expr))
