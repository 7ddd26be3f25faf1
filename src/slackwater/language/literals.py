"""Constants of a query as values.

Invariant: an integer fits in 64 bits beside the null word; a timestamp is microseconds, UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlglot import exp

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Literal, Written
from slackwater.language.scope import Scope

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63 - 1


def number(node: exp.Literal, scope: Scope, negative: bool = False) -> Literal:
    """A written number: an integer if it has neither point nor exponent."""
    written = str(node.this)
    if not written.isdecimal():
        if float(written) == float("inf"):
            raise scope.fail(f"{written} is too large for a float", node)
        return Literal(Written(f"-{written}" if negative else written), Kind.FLOAT)
    integer = int(written)
    if integer > _LARGEST:
        raise scope.fail(f"{written} does not fit in 64 bits; write it with a point for a float", node)
    return Literal(-integer if negative else integer, Kind.INT)


def timestamp(written: str) -> int | None:
    """Microseconds since 1970 of a written timestamp, UTC unless it says otherwise; None if it is none.

    >>> timestamp("1970-01-01 00:00:01"), timestamp("1970-01-01T01:00:00+01:00"), timestamp("yesterday")
    (1000000, 0, None)
    """
    try:
        moment = datetime.fromisoformat(written.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def timestamp_literal(node: exp.Expr, written: str, scope: Scope) -> Literal:
    """A written timestamp, or a complaint at its place."""
    micros = timestamp(written)
    if micros is None:
        raise scope.fail(f"'{written}' is not a timestamp; write it as '2024-01-31 12:00:00'", node)
    return Literal(micros, Kind.TIME)
