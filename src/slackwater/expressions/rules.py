"""Typing rules: which kinds an operator takes, what it gives, and what must be converted on the way.

Invariant: a rule either returns an expression whose arguments have exactly the kinds its kernel takes, or says which
argument does not fit and what would. Where decimals meet, they have one scale (`decimals`); where an integer meets a
float, `to_float` has been put around it; an untyped NULL
has taken the kind of its neighbours; synonyms (`mod`, `min`, `max`) have become the operator they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slackwater.core.schema import Kind
from slackwater.expressions import decimals
from slackwater.expressions.tree import Call, Expr, Literal

Args = tuple[Expr, ...]
_Unified = TypeVar("_Unified")

_A_KIND = {
    Kind.INT: "an integer",
    Kind.FLOAT: "a float",
    Kind.BOOL: "a boolean",
    Kind.TEXT: "text",
    Kind.TIME: "a timestamp",
    Kind.DECIMAL: "a decimal",
}


class ExpressionTypeError(ValueError):
    """A call whose arguments do not fit. `argument` is the position of the one to blame, where there is one."""

    def __init__(self, message: str, argument: int | None = None) -> None:
        super().__init__(message)
        self.message, self.argument = message, argument


def a_kind(kind: Kind) -> str:
    """A kind with its article, for messages."""
    return _A_KIND[kind]


def converted(op: str, arg: Expr, kind: Kind, position: int) -> Expr:
    """`arg` as `kind`: a NULL takes any kind, an integer may become a float, all else must fit already."""
    if arg.kind is kind:
        return arg
    if isinstance(arg, Literal) and arg.value is None:
        return Literal(None, kind)
    if arg.kind is Kind.INT and kind is Kind.FLOAT:
        return Literal(float(arg.value or 0), kind) if isinstance(arg, Literal) else Call("to_float", (arg,), kind)
    if arg.kind is Kind.DECIMAL and kind is Kind.FLOAT:
        return decimals.as_float(arg)
    wanted = "a number" if kind is Kind.FLOAT else a_kind(kind)
    raise ExpressionTypeError(f"{op} needs {wanted}, not {a_kind(arg.kind)}", position)


def _is_null(arg: Expr) -> bool:
    return isinstance(arg, Literal) and arg.value is None


def _unified(op: str, args: Args, allowed: tuple[Kind, ...], wanted: str) -> Args:
    """All arguments as one kind out of `allowed`; the first that is not NULL leads, and floats win over integers."""
    typed = [(position, arg.kind) for position, arg in enumerate(args) if not _is_null(arg)]
    for position, kind in typed:
        if kind not in allowed:
            raise ExpressionTypeError(f"{op} needs {wanted}, not {a_kind(kind)}", position)
    kinds = {kind for _, kind in typed}
    if Kind.DECIMAL in kinds and all(kind.numeric for kind in kinds):
        return _scaled(lambda: decimals.unified(args))
    if kinds == {Kind.INT, Kind.FLOAT}:
        common = Kind.FLOAT
    else:
        # Among NULLs alone, one that has been given a kind already (an untyped one says INT) decides.
        hints = (arg.kind for arg in args if arg.kind is not Kind.INT and arg.kind in allowed)
        common = typed[0][1] if typed else next(hints, allowed[0])
        for position, kind in typed:
            if {kind, common} - {Kind.INT, Kind.FLOAT} and kind is not common:
                raise ExpressionTypeError(f"{op} cannot mix {a_kind(common)} and {a_kind(kind)}", position)
    return tuple(converted(op, arg, common, position) for position, arg in enumerate(args))


def _scaled(unify: Callable[[], _Unified]) -> _Unified:
    try:
        return unify()
    except decimals.ScaleError as error:
        raise ExpressionTypeError(error.message, error.position) from None


_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)
_ORDERED = (Kind.INT, Kind.FLOAT, Kind.TIME, Kind.DECIMAL)
_ANY = tuple(Kind)


def arithmetic(op: str, args: Args) -> Expr:
    """Two numbers of one kind; two timestamps under `-` give the microseconds between them."""
    op = "%" if op == "mod" else op
    if op == "-" and any(arg.kind is Kind.TIME for arg in args):
        return Call(op, tuple(converted(op, arg, Kind.TIME, position) for position, arg in enumerate(args)), Kind.INT)
    if op == "*" and any(arg.kind is Kind.DECIMAL for arg in args) and all(arg.kind.numeric for arg in args):
        return _scaled(lambda: decimals.product(args))
    args = _unified(op, args, _NUMBERS, "numbers")
    return Call(op, args, args[0].kind, args[0].scale)


def comparison(op: str, args: Args) -> Expr:
    """Two values of one kind; booleans have no order."""
    if op in ("=", "<>"):
        return Call(op, _unified(op, args, _ANY, "values"), Kind.BOOL)
    return Call(op, _unified(op, args, (*_ORDERED, Kind.TEXT), "numbers, timestamps or text"), Kind.BOOL)


def membership(op: str, args: Args) -> Expr:
    """A value and the constants it may be, all of one kind."""
    for position, arg in enumerate(args[1:], 1):
        if not isinstance(arg, Literal):
            raise ExpressionTypeError(f"{op} needs constants to choose from", position)
    return Call(op, _unified(op, args, _ANY, "values"), Kind.BOOL)


def extreme(op: str, args: Args) -> Expr:
    """Least or greatest of numbers or timestamps."""
    args = _unified(op, args, _ORDERED, "numbers or timestamps")
    return Call({"min": "least", "max": "greatest"}.get(op, op), args, args[0].kind, args[0].scale)


def on_floats(op: str, args: Args) -> Expr:
    """Floats in, a float out."""
    floats = tuple(converted(op, arg, Kind.FLOAT, position) for position, arg in enumerate(args))
    return Call(op, floats, Kind.FLOAT)


def on_booleans(op: str, args: Args) -> Expr:
    """Booleans in, a boolean out."""
    return Call(op, tuple(converted(op, arg, Kind.BOOL, position) for position, arg in enumerate(args)), Kind.BOOL)


def number_to_same(op: str, args: Args) -> Expr:
    """A number in, one of the same kind out."""
    (arg,) = _unified(op, args, _NUMBERS, "a number")
    return Call(op, (arg,), arg.kind, arg.scale)


def number_to_int(op: str, args: Args) -> Expr:
    """A number in, an integer out; what leaves an integer as it is vanishes."""
    (arg,) = _unified(op, args, _NUMBERS, "a number")
    if arg.kind is Kind.DECIMAL and op != "sign":
        return decimals.whole(op, arg)
    return arg if arg.kind is Kind.INT and op != "sign" else Call(op, (arg,), Kind.INT)


def to_float(op: str, args: Args) -> Expr:
    """A number as a float."""
    return converted(op, args[0], Kind.FLOAT, 0)


def rounded(op: str, args: Args) -> Expr:
    """A float or decimal rounded to a constant number of digits; an integer stays as it is."""
    (number,) = _unified(op, args[:1], _NUMBERS, "a number")
    digits = args[1] if len(args) == 2 else Literal(0, Kind.INT)
    if not (isinstance(digits, Literal) and isinstance(digits.value, int) and 0 <= digits.value <= 15):
        raise ExpressionTypeError("round needs its number of digits as an integer constant from 0 to 15", 1)
    if number.kind is Kind.INT:
        return number
    if number.kind is Kind.DECIMAL:
        return decimals.rounded(number, digits.value)
    return Call(op, (number,) if not digits.value else (number, digits), Kind.FLOAT)


def same_kind(op: str, args: Args) -> Expr:
    """Values of any one kind, and a result of that kind."""
    args = _unified(op, args, _ANY, "values")
    return Call(op, args, args[0].kind, args[0].scale)


def is_unknown(op: str, args: Args) -> Expr:
    """Any value in, a boolean out."""
    return Call(op, args, Kind.BOOL)


def case(op: str, args: Args) -> Expr:
    """Condition and value by turns, then the value of ELSE."""
    if len(args) % 2 == 0:
        raise ExpressionTypeError("case needs a condition and a value for each branch, and a last value for ELSE")
    conditions = {
        position: converted("a case condition", args[position], Kind.BOOL, position)
        for position in range(0, len(args) - 1, 2)
    }
    places = [position for position in range(len(args)) if position not in conditions]
    try:
        values = _unified(op, tuple(args[position] for position in places), _ANY, "values")
    except ExpressionTypeError as error:
        raise ExpressionTypeError(error.message, None if error.argument is None else places[error.argument]) from None
    branches = conditions | dict(zip(places, values, strict=True))
    return Call(op, tuple(branches[position] for position in range(len(args))), values[0].kind, values[0].scale)


def over_unit(op: str, args: Args) -> Expr:
    """What `decimals` puts around an argument, with the power of ten beside it; no query writes it."""
    digits, unit = args
    if digits.kind not in (Kind.INT, Kind.DECIMAL) or not isinstance(unit, Literal):
        raise ExpressionTypeError(f"{op} needs a decimal and a power of ten", 0)
    kind = {"//": Kind.INT, "rescale": Kind.DECIMAL}.get(op, Kind.FLOAT)
    scale = digits.scale + len(str(unit.value)) - 1 if op == "rescale" else 0
    return Call(op, args, kind, scale)
