"""Forms of SQL that are no plain calls: constants, aggregates, CAST, LIKE, EXTRACT, ||, timestamp plus INTERVAL.

Invariant: what comes out is the name of an operator of the allow-list and the parts of the text that are its arguments,
or a refusal in one sentence. An integer fits in 64 bits beside the null word; a timestamp is microseconds, UTC. MIN and
MAX of two values or more are functions of a tuple, not aggregates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from slackwater.core.schema import Kind
from slackwater.core.time import parse_duration
from slackwater.expressions.aggregates import BY_CALL
from slackwater.expressions.text_rules import PARTS, TARGETS
from slackwater.expressions.tree import Literal, Written
from slackwater.language.scope import Scope

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63 - 1
LONGEST = 800_000
"""Months that can be added to a time; more than any stream has."""
_MONTHS = {"month": 1, "months": 1, "mon": 1, "mons": 1, "year": 12, "years": 12, "yr": 12, "yrs": 12}
_WEEKS = frozenset(("week", "weeks"))
_PIECE = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_CASTS = {
    "date": "CAST to DATE is not offered; write TIMESTAMP, and date_trunc('day', x) for its midnight",
    "decimal": "CAST to DECIMAL is not offered; write DOUBLE",
    "numeric": "CAST to DECIMAL is not offered; write DOUBLE",
    "dec": "CAST to DECIMAL is not offered; write DOUBLE",
    "binary": "CAST to BINARY is not offered; there are no values of bytes",
    "interval": "CAST to INTERVAL is not offered; write INTERVAL '5' SECOND",
    "timestamp_ntz": "CAST to TIMESTAMP_NTZ is not offered; write TIMESTAMP, which is in UTC",
}


@dataclass(frozen=True)
class Span:
    """An interval: so many months, and so many microseconds."""

    months: int
    micros: int

    def __neg__(self) -> Span:
        return Span(-self.months, -self.micros)


def span(node: exp.Interval, scope: Scope) -> Span:
    """What INTERVAL 5 SECONDS, INTERVAL '5' SECOND, INTERVAL '5 seconds' or '1 hour 30 minutes' says."""
    amount, unit = node.this, node.args.get("unit")
    sign = ""
    if isinstance(amount, exp.Neg):
        sign, amount = "-", amount.this
    written = f"{sign}{amount.name} {unit.name if unit is not None else ''}" if isinstance(amount, exp.Literal) else ""
    months = micros = place = 0
    try:
        while place < len(written.rstrip()) or place == 0:
            piece = _PIECE.match(written, place)
            if piece is None:
                raise ValueError(written)
            one = _piece(piece[2], piece[3].lower())
            turned = -one if piece[1] == "-" else one
            months, micros, place = months + turned.months, micros + turned.micros, piece.end()
    except ValueError:
        raise scope.fail("an interval is written as INTERVAL '5' SECOND, or another number and unit", node) from None
    if abs(months) > LONGEST:
        raise scope.fail(f"an interval has at most {LONGEST:,} months", node)
    return Span(months, micros)


def _piece(number: str, unit: str) -> Span:
    if unit in _MONTHS:
        return Span(int(number) * _MONTHS[unit], 0)
    if unit in _WEEKS:
        return Span(0, 7 * parse_duration(f"{number} days"))
    return Span(0, parse_duration(f"{number} {unit}"))


def shifted(node: exp.Expr, scope: Scope) -> tuple[exp.Expr, Span] | None:
    """A sum or difference of something and an interval, taken apart; None for any other expression."""
    if not isinstance(node, (exp.Add, exp.Sub)):
        return None
    left, right = unwrapped(node.this), unwrapped(node.args["expression"])
    if isinstance(right, exp.Interval):
        size = span(right, scope)
        return node.this, size if isinstance(node, exp.Add) else -size
    if isinstance(left, exp.Interval) and isinstance(node, exp.Add):
        return node.args["expression"], span(left, scope)
    return None


def unwrapped(node: exp.Expr) -> exp.Expr:
    """What stands in parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def flattened(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of one operator; long chains are not to nest."""
    operands: list[exp.Expr] = []
    pending = [node]
    while pending:
        current = pending.pop()
        inner = unwrapped(current)
        if type(inner) is type(node):
            pending += [inner.args["expression"], inner.this]
        else:
            operands.append(current)
    return operands


def cast_operator(node: exp.Expr, scope: Scope) -> str:
    """The operator that makes the type that a CAST asks for."""
    target = node.args["to"]
    written = (target.name if isinstance(target, exp.Var) else target.sql()).strip()
    name, _, length = written.lower().partition("(")
    name = name.strip()
    if name in TARGETS and not length:
        return TARGETS[name]
    if name in _CASTS:
        raise scope.fail(_CASTS[name], node)
    if name in ("char", "varchar", "character"):
        raise scope.fail(f"CAST to {written.upper()} is not offered; write STRING", node)
    known = "INT, BIGINT, SMALLINT, TINYINT, DOUBLE, FLOAT, STRING, BOOLEAN and TIMESTAMP"
    raise scope.fail(f"there is no type '{written}' to cast to; there are {known}", node)


def extracted_part(node: exp.Expr, scope: Scope) -> str:
    """The operator that takes out of a time what EXTRACT asks for."""
    part = PARTS.get(node.name.lower())
    if part is None:
        known = "YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFWEEK, DOY, HOUR, MINUTE and SECOND"
        raise scope.fail(f"EXTRACT has no '{node.name}'; there are {known}", node)
    return part


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


def aggregate_function(node: exp.Expr) -> str | None:
    """The aggregate a node calls, or None if it calls none."""
    if isinstance(node, exp.Filter):
        return aggregate_function(node.this)
    if not isinstance(node, exp.Anonymous):
        return None
    function = BY_CALL.get(node.name.lower())
    return None if function in ("MIN", "MAX") and len(node.expressions) > 1 else function


def first_aggregate(node: exp.Expr) -> exp.Expr | None:
    """An aggregate call in an expression, or None."""
    return next((call for call in node.find_all(exp.Anonymous) if aggregate_function(call)), None)
