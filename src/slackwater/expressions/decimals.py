"""Decimals in expressions: integers with a point that the type knows of.

Invariant: where decimals are added, compared or chosen between, all arguments have one scale, because `rescale` has
multiplied the digits of the others by a power of ten. So behind the typing rules a decimal is an integer word like any
other, exact, and a result beyond 64 bits is an error as it is of integers.
"""

from __future__ import annotations

from decimal import Decimal

from slackwater.core.schema import DIGITS, Kind
from slackwater.expressions.tree import Call, Expr, Literal, Written

MOST = 2**63 - 1


class ScaleError(ValueError):
    """Decimals that cannot be brought together; `position` is that of the argument to blame."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.message, self.position = message, position


def exact(value: float) -> Literal | None:
    """A written number as the decimal it was written as, or None if that has too many digits.

    >>> exact(1.5), exact(1e300)
    (Literal(value=15, kind=<Kind.DECIMAL: 'decimal'>, scale=1), None)
    >>> exact(0.0)
    Literal(value=0, kind=<Kind.DECIMAL: 'decimal'>, scale=0)
    """
    if value != value or value in (float("inf"), float("-inf")):
        return None
    text = value.text if isinstance(value, Written) else repr(value)
    # The context of normalize would round to 28 digits.
    sign, digits, exponent = Decimal(text).as_tuple()
    behind = -int(exponent)
    while behind > 0 and digits and digits[-1] == 0:
        digits, behind = digits[:-1], behind - 1
    if behind > DIGITS or len(digits) - behind > DIGITS or len(digits) > DIGITS + 1:
        if isinstance(value, Written) and "e" not in text.lower():
            raise ScaleError(f"{text} has more digits than a decimal can hold, which are {DIGITS}; write to_float(x)")
        return None
    number = int("".join(map(str, digits)) or "0") * 10 ** max(0, -behind)
    return Literal(-number if sign else number, Kind.DECIMAL, max(0, behind))


def written(digits: int, scale: int) -> str:
    """A decimal as text.

    >>> written(-150, 2), written(7, 0)
    ('-1.50', '7')
    """
    return str(Decimal(digits).scaleb(-scale)) if scale else str(digits)


def unified(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Numbers with a decimal among them: all as decimals of one scale; as floats where a column of floats is among
    them."""
    numbers = _read_exactly(args)
    if any(arg.kind is Kind.FLOAT and not _is_null(arg) for arg in numbers):
        return tuple(as_float(arg) for arg in args)
    scale = max(arg.scale for arg in numbers if arg.kind is Kind.DECIMAL)
    return tuple(rescaled(arg, scale, position) for position, arg in enumerate(numbers))


def product(args: tuple[Expr, ...]) -> Expr:
    """A product has the digits behind the point of both factors."""
    numbers = _read_exactly(args)
    if any(arg.kind is Kind.FLOAT and not _is_null(arg) for arg in numbers):
        return Call("*", tuple(as_float(arg) for arg in args), Kind.FLOAT)
    scale = sum(arg.scale for arg in numbers)
    if scale > DIGITS:
        raise ScaleError(
            f"this product has {scale} digits behind the point, and a decimal has at most {DIGITS}; write to_float(x)"
        )
    factors = tuple(Literal(None, Kind.INT) if _is_null(arg) else arg for arg in numbers)
    return Call("*", factors, Kind.DECIMAL, scale)


def rescaled(arg: Expr, scale: int, position: int | None = None) -> Expr:
    """An integer, a decimal or NULL with so many digits behind the point, which are no fewer than it has."""
    if isinstance(arg, Literal):
        if arg.value is None:
            return Literal(None, Kind.DECIMAL, scale)
        value = int(arg.value) * 10 ** (scale - arg.scale)
        if abs(value) > MOST:
            short = written(int(arg.value), arg.scale)
            raise ScaleError(f"{short} does not fit in 64 bits with {scale} digits behind the point", position)
        return Literal(value, Kind.DECIMAL, scale)
    if arg.kind is Kind.DECIMAL and arg.scale == scale:
        return arg
    return Call("rescale", (arg, Literal(10 ** (scale - arg.scale), Kind.INT)), Kind.DECIMAL, scale)


def as_float(arg: Expr) -> Expr:
    """A number as a float."""
    if arg.kind is Kind.FLOAT:
        return arg
    if isinstance(arg, Literal):
        return Literal(None if arg.value is None else int(arg.value) / 10**arg.scale, Kind.FLOAT)
    if arg.kind is Kind.INT:
        return Call("to_float", (arg,), Kind.FLOAT)
    return Call("decimal_to_float", (arg, Literal(10.0**arg.scale, Kind.FLOAT)), Kind.FLOAT)


def whole(op: str, arg: Expr) -> Expr:
    """floor, ceil or to_int of a decimal."""
    if op == "floor":
        return _over(arg, 10**arg.scale)
    if op == "ceil":
        return Call("neg", (_over(_negative(arg), 10**arg.scale),), Kind.INT)
    return _away_from_zero(arg, _over(_size(arg), 10**arg.scale), Kind.INT, 0)


def rounded(arg: Expr, digits: int) -> Expr:
    """A decimal with at most so many digits behind the point; halves go away from zero."""
    if digits >= arg.scale:
        return arg
    unit = 10 ** (arg.scale - digits)
    half = Call("+", (_size(arg), Literal(unit // 2, Kind.DECIMAL, arg.scale)), Kind.DECIMAL, arg.scale)
    return _away_from_zero(arg, _over(half, unit), Kind.DECIMAL, digits)


def _over(arg: Expr, unit: int) -> Expr:
    return Call("//", (arg, Literal(unit, Kind.INT)), Kind.INT)


def _negative(arg: Expr) -> Expr:
    return Call("neg", (arg,), arg.kind, arg.scale)


def _size(arg: Expr) -> Expr:
    return Call("abs", (arg,), arg.kind, arg.scale)


def _away_from_zero(arg: Expr, size: Expr, kind: Kind, scale: int) -> Expr:
    return Call("*", (Call("sign", (arg,), Kind.INT), size), kind, scale)


def _read_exactly(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Constants with a point as decimals, where they can be and no column makes a float of everything anyway."""
    exactly = tuple(_exactly(arg) for arg in args)
    return args if any(arg.kind is Kind.FLOAT and not _is_null(arg) for arg in exactly) else exactly


def _exactly(arg: Expr) -> Expr:
    if isinstance(arg, Literal) and isinstance(arg.value, float):
        return exact(arg.value) or arg
    return arg


def _is_null(arg: Expr) -> bool:
    return isinstance(arg, Literal) and arg.value is None
