"""An expression in words, close to the SQL it was written in.

Invariant: the text shows the tree's shape exactly. Two different trees may read the same only where a conversion or a
synonym is left out, or in the rest of a long list.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.core.schema import Kind
from slackwater.core.time import format_duration
from slackwater.expressions.decimals import written
from slackwater.expressions.text_rules import bucket_of
from slackwater.expressions.tree import Call, Column, Expr, Literal

_BINDING = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "in", "is_null", "like", "ilike"), 4),
    **dict.fromkeys(("+", "-", "shift", "shift_months"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
    "neg": 7,
}
"""How tightly an operator holds its arguments; what is not here holds them in brackets of its own."""
_TIGHTEST = 8
_CONVERSIONS = frozenset(("to_float", "rescale", "decimal_to_float"))
_PARTS = {"seconds": "SECOND", "yearofweek": "YEAROFWEEK"}
"""Parts of a time that have no function of their own."""
MOST_CHOICES = 12
"""Of a longer list the first ones are shown, and how many there are besides."""


def render(expr: Expr, aliases: Sequence[str] = ()) -> str:
    """The expression as SQL-like text; with `aliases`, columns are written `alias.name`.

    >>> from slackwater.expressions.functions import typed_call
    >>> x, y = Column(0, "x", Kind.INT), Column(1, "y", Kind.FLOAT)
    >>> total = typed_call("+", (x, y))
    >>> render(typed_call("<", (typed_call("*", (total, y)), Literal(5, Kind.INT))), ["a", "b"])
    '(a.x + b.y) * b.y < 5.0'
    """
    if isinstance(expr, Column):
        return f"{aliases[expr.stream]}.{expr.name}" if aliases else expr.name
    if isinstance(expr, Literal):
        return _literal(expr)
    return _call(expr, aliases)


def is_infix(expr: Expr) -> bool:
    """Whether the text of an expression falls apart next to an operator, unless it stands in brackets."""
    return isinstance(expr, Call) and expr.op in _BINDING


def _literal(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if literal.kind is Kind.TEXT:
        return "'" + str(value).replace("'", "''") + "'"
    if literal.kind is Kind.TIME:
        return f"TIMESTAMP {value}"
    if literal.kind is Kind.DECIMAL:
        return written(int(value), literal.scale)
    return str(value).upper() if literal.kind is Kind.BOOL else repr(value)


def _choices(literals: Sequence[Expr]) -> str:
    shown = literals if len(literals) <= MOST_CHOICES else literals[: MOST_CHOICES - 1]
    rest = len(literals) - len(shown)
    return ", ".join(render(literal) for literal in shown) + (f", ... {rest} more" if rest else "")


def _held(expr: Expr, aliases: Sequence[str], strength: int) -> str:
    """An argument, in brackets where the operator around it would otherwise tear it apart."""
    text = render(expr, aliases)
    while isinstance(expr, Call) and expr.op in _CONVERSIONS:
        expr = expr.args[0]
    own = _BINDING.get(expr.op, _TIGHTEST) if isinstance(expr, Call) else _TIGHTEST
    return f"({text})" if own < strength else text


def _call(call: Call, aliases: Sequence[str]) -> str:
    op, args = call.op, call.args
    strength = _BINDING.get(op, 0)
    if op in _CONVERSIONS:
        return render(args[0], aliases)
    if op == "is_null":
        return f"{_held(args[0], aliases, strength + 1)} IS NULL"
    if op == "in":
        return f"{_held(args[0], aliases, strength + 1)} IN ({_choices(args[1:])})"
    if op == "not":
        return f"NOT {_held(args[0], aliases, strength)}"
    if op == "neg":
        return f"-{_held(args[0], aliases, strength + 1)}"
    if op == "partition":
        return f"({', '.join(render(arg, aliases) for arg in args[1::2])})"
    if op == "case":
        branches = (
            f"WHEN {render(condition, aliases)} THEN {render(value, aliases)}"
            for condition, value in zip(args[:-1:2], args[1::2], strict=True)
        )
        return f"CASE {' '.join(branches)} ELSE {render(args[-1], aliases)} END"
    if op.startswith("cast_"):
        return f"CAST({render(args[0], aliases)} AS {op.removeprefix('cast_').upper()})"
    bucket = bucket_of(call)
    if bucket is not None:
        return f"time_bucket('{format_duration(bucket[0])}', {render(bucket[1], aliases)})"
    if op in ("shift", "shift_months"):
        return f"{_held(args[0], aliases, strength)} {_interval(op, args[1])}"
    if op in ("like", "ilike"):
        escape = f" ESCAPE {render(args[2])}" if len(args) == 3 else ""
        first, pattern = (_held(arg, aliases, strength + 1) for arg in args[:2])
        return f"{first} {op.upper()} {pattern}{escape}"
    if op in _PARTS:
        return f"EXTRACT({_PARTS[op]} FROM {render(args[0], aliases)})"
    if op in _BINDING:
        # The right side of a chain is held tighter, for a - (b - c) is not a - b - c; nor is a = b = c anything.
        first = _held(args[0], aliases, strength + (strength == _BINDING["="]))
        rest = (_held(arg, aliases, strength + 1) for arg in args[1:])
        return f" {op.upper()} ".join((first, *rest))
    return f"{op.removeprefix('user:')}({', '.join(render(arg, aliases) for arg in args)})"


def _interval(op: str, size: Expr) -> str:
    """What is added to a time, or taken off it."""
    number = int(size.value or 0) if isinstance(size, Literal) else 0
    shown = format_duration(abs(number)) if op == "shift" else f"{abs(number)} MONTHS"
    return f"{'-' if number < 0 else '+'} INTERVAL {shown}"
