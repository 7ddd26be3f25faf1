"""Expressions evaluated the slow and obvious way: the oracle for the compiler.

Invariant: shares no code with the compiler. Null is None here, and never NaN; an integer beyond 64 bits raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.expressions.user import USER_FUNCTIONS
from tests.kit import evaluate_text

Row = Mapping[str, object]


def evaluate(expr: Expr, rows: Sequence[Row]) -> Any:
    """The value of an expression, given one row a stream; None is null, and NaN among the inputs counts as null.

    >>> from slackwater.expressions.functions import typed_call
    >>> x = Column(0, "x", Kind.INT)
    >>> evaluate(typed_call("/", (x, Literal(2, Kind.INT))), [{"x": 5}])
    2.5
    >>> evaluate(typed_call("<", (x, Literal(2, Kind.INT))), [{"x": None}]) is None
    True
    """
    if isinstance(expr, Column):
        return _known(rows[expr.stream][expr.name])
    if isinstance(expr, Literal):
        return _known(expr.value)
    lazy = _LAZY.get(expr.op)
    if lazy is not None:
        return lazy(expr.args, rows)
    args = [evaluate(arg, rows) for arg in expr.args]
    if expr.op in _IGNORING_NULLS:
        return _IGNORING_NULLS[expr.op](args)
    if any(arg is None for arg in args):
        return None
    try:
        return _checked(_strict(expr, args), expr.kind)
    except (ZeroDivisionError, ValueError):
        return None


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _checked(value: Any, kind: Kind) -> Any:
    if kind in (Kind.INT, Kind.DECIMAL) and value is not None and abs(value) >= 2**63:
        raise OverflowError(f"{value} does not fit in 64 bits")
    return _known(value)


def _strict(call: Call, args: list[Any]) -> Any:
    if call.op.startswith("user:"):
        return USER_FUNCTIONS[call.op.removeprefix("user:")].function(*args)
    if call.op.startswith("cast_"):
        return evaluate_text.cast(call.op, args[0], call.args[0].kind)
    return (_STRICT.get(call.op) or evaluate_text.FUNCTIONS[call.op])(*args)


def _and(args: tuple[Expr, ...], rows: Sequence[Row]) -> bool | None:
    verdict: bool | None = True
    for arg in args:
        if verdict is not False:
            one = evaluate(arg, rows)
            verdict = False if one is False else (None if one is None else verdict)
    return verdict


def _or(args: tuple[Expr, ...], rows: Sequence[Row]) -> bool | None:
    verdict: bool | None = False
    for arg in args:
        if verdict is not True:
            one = evaluate(arg, rows)
            verdict = True if one is True else (None if one is None else verdict)
    return verdict


def _in(args: tuple[Expr, ...], rows: Sequence[Row]) -> bool | None:
    return _or(tuple(Call("=", (args[0], choice), Kind.BOOL) for choice in args[1:]), rows)


def _case(args: tuple[Expr, ...], rows: Sequence[Row]) -> Any:
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        if evaluate(condition, rows):
            return evaluate(value, rows)
    return evaluate(args[-1], rows)


def _coalesce(args: tuple[Expr, ...], rows: Sequence[Row]) -> Any:
    for arg in args:
        value = evaluate(arg, rows)
        if value is not None:
            return value
    return None


def _remainder(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return math.fmod(a, b)
    return a - b * int(Fraction(a, b))


def _whole(cut: Callable[[float], int]) -> Callable[[float], int | None]:
    """Null where a float has no integer next to it that fits."""

    def to_int(value: float) -> int | None:
        if math.isinf(value):
            return None
        whole = cut(value)
        return whole if abs(whole) < 2**63 else None

    return to_int


def _round(value: float, digits: int = 0) -> float:
    scaled = value * 10.0**digits
    if math.isinf(scaled) or abs(scaled) >= 2**52:
        return value
    return float(Decimal(scaled).quantize(Decimal(1), ROUND_HALF_UP)) / 10.0**digits


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf if a > 0 or b % 2 == 0 else -math.inf
    except ValueError:
        # C has a pole where Python refuses.
        return math.inf if a == 0 and math.copysign(1.0, a) > 0 else math.nan


def _exp(a: float) -> float:
    return math.inf if a > 709.782712893384 else math.exp(a)


_STRICT: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": _remainder,
    "//": lambda a, b: math.floor(Fraction(a, b)),
    "rescale": lambda a, b: a * b,
    "decimal_to_float": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "to_float": float,
    "to_int": _whole(math.trunc),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _round,
    "sqrt": math.sqrt,
    "exp": _exp,
    "ln": math.log,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "pow": _power,
    "hypot": math.hypot,
    "dist": lambda x, y, u, v: math.sqrt((x - u) * (x - u) + (y - v) * (y - v)),
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "not": lambda a: not a,
}

_IGNORING_NULLS: dict[str, Callable[[list[Any]], Any]] = {
    "is_null": lambda args: args[0] is None,
    "nullif": lambda args: None if args[1] is not None and args[0] == args[1] else args[0],
    "least": lambda args: min((arg for arg in args if arg is not None), default=None),
    "greatest": lambda args: max((arg for arg in args if arg is not None), default=None),
}

_LAZY: dict[str, Callable[[tuple[Expr, ...], Sequence[Row]], Any]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
}
