"""Typing rules of functions of text and of time, and of CAST.

Invariant: as in `rules.py`. Units and parts of time have become operators of their own, or a unit of `date_trunc`
under its one name; a cast that changes nothing is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from slackwater.core.schema import Kind
from slackwater.core.time import parse_duration
from slackwater.expressions import decimals
from slackwater.expressions.rules import Args, ExpressionTypeError, a_kind, converted
from slackwater.expressions.tree import Call, Expr, Literal

UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mm", "mon"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    **{name: name for name in ("hour", "minute", "second", "millisecond", "microsecond")},
}
"""What `date_trunc` can cut to, and its one name."""
PARTS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    "yearofweek": "yearofweek",
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "seconds"),
}
"""What EXTRACT and `date_part` can take out of a time, and the operator that does."""

TARGETS = {
    **dict.fromkeys(("tinyint", "byte"), "cast_tinyint"),
    **dict.fromkeys(("smallint", "short"), "cast_smallint"),
    **dict.fromkeys(("int", "integer"), "cast_int"),
    **dict.fromkeys(("bigint", "long"), "cast_bigint"),
    **dict.fromkeys(("float", "real"), "cast_float"),
    **dict.fromkeys(("double", "double precision"), "cast_double"),
    **dict.fromkeys(("string", "text", "varchar"), "cast_string"),
    **dict.fromkeys(("boolean", "bool"), "cast_boolean"),
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ltz"), "cast_timestamp"),
}
"""The types that CAST can be asked for, and the operator that makes them."""
_KIND_OF = {
    **dict.fromkeys(("cast_tinyint", "cast_smallint", "cast_int", "cast_bigint"), Kind.INT),
    **dict.fromkeys(("cast_float", "cast_double"), Kind.FLOAT),
    "cast_string": Kind.TEXT,
    "cast_boolean": Kind.BOOL,
    "cast_timestamp": Kind.TIME,
}
_UNCHANGED = {
    "cast_bigint": Kind.INT,
    "cast_double": Kind.FLOAT,
    "cast_string": Kind.TEXT,
    "cast_boolean": Kind.BOOL,
    "cast_timestamp": Kind.TIME,
}
_EPOCH = Literal(0, Kind.TIME)
_LIKE_ENDS_WITH_ESCAPE = "the pattern of LIKE has the escape character before something else than %, _ or itself"


def of_texts(result: Kind) -> Callable[[str, Args], Expr]:
    """Texts in, a value of some kind out."""

    def typed(op: str, args: Args) -> Expr:
        return Call(op, tuple(converted(op, arg, Kind.TEXT, position) for position, arg in enumerate(args)), result)

    return typed


def synonym(name: str, rule: Callable[[str, Args], Expr]) -> Callable[[str, Args], Expr]:
    """Another name for an operator."""
    return lambda op, args: rule(name, args)


def substring(op: str, args: Args) -> Expr:
    """A text, where to begin, and how long."""
    numbers = (converted(op, arg, Kind.INT, position) for position, arg in enumerate(args[1:], 1))
    return Call(op, (converted(op, args[0], Kind.TEXT, 0), *numbers), Kind.TEXT)


def concat(op: str, args: Args) -> Expr:
    """Texts one after the other; what is none is written out, as CAST does."""
    return Call(op, tuple(cast("cast_string", (arg,)) for arg in args), Kind.TEXT)


def partition(op: str, args: Args) -> Expr:
    """Names of columns, each before its value; values are written out, as CAST does."""
    return Call(
        op, tuple(arg if at % 2 == 0 else cast("cast_string", (arg,)) for at, arg in enumerate(args)), Kind.TEXT
    )


def like(op: str, args: Args) -> Expr:
    """A text, a pattern, and a character that takes the meaning from the next one."""
    text, pattern = (converted(op.upper(), arg, Kind.TEXT, position) for position, arg in enumerate(args[:2]))
    escape = args[2] if len(args) == 3 else Literal("\\", Kind.TEXT)
    if not (isinstance(escape, Literal) and isinstance(escape.value, str) and len(escape.value) == 1):
        raise ExpressionTypeError("ESCAPE takes one character", 2)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        mark = re.escape(escape.value)
        if not re.fullmatch(f"(?:[^{mark}]|{mark}[%_{mark}])*", pattern.value, re.DOTALL):
            raise ExpressionTypeError(_LIKE_ENDS_WITH_ESCAPE, 1)
    return Call(op, (text, pattern) if len(args) == 2 else (text, pattern, escape), Kind.BOOL)


def of_time(op: str, args: Args) -> Expr:
    """A part of a time."""
    kind = Kind.FLOAT if op == "seconds" else Kind.INT
    return Call(op, (converted(op, args[0], Kind.TIME, 0),), kind)


def shift(op: str, args: Args) -> Expr:
    """A time, and by how many microseconds or months it is moved."""
    return Call(op, (converted("an interval", args[0], Kind.TIME, 0), converted(op, args[1], Kind.INT, 1)), Kind.TIME)


def date_trunc(op: str, args: Args) -> Expr:
    """A unit and a time."""
    unit = UNITS.get(_word(args[0]))
    if unit is None:
        raise ExpressionTypeError(f"date_trunc needs a unit in quotes: {_listed(UNITS)}", 0)
    return Call(op, (Literal(unit, Kind.TEXT), converted(op, args[1], Kind.TIME, 1)), Kind.TIME)


def time_bucket(op: str, args: Args) -> Expr:
    """A duration in quotes and a time: where the window of so long begins that the time lies in."""
    try:
        size = Literal(parse_duration(_word(args[0])), Kind.INT)
    except ValueError:
        size = Literal(0, Kind.INT)
    if not size.value:
        raise ExpressionTypeError("time_bucket needs a duration in quotes, as in time_bucket('5 minutes', ts)", 0)
    since = Call("-", (converted(op, args[1], Kind.TIME, 1), _EPOCH), Kind.INT)
    whole = Call("*", (Call("//", (since, size), Kind.INT), size), Kind.INT)
    return Call("shift", (_EPOCH, whole), Kind.TIME)


def bucket_of(expr: Expr) -> tuple[int, Expr] | None:
    """The duration and the time of a `time_bucket`, if that is what an expression is.

    >>> bucket_of(time_bucket("time_bucket", (Literal("5 s", Kind.TEXT), Literal(7, Kind.TIME))))
    (5000000, Literal(value=7, kind=<Kind.TIME: 'timestamp'>, scale=0))
    """
    match expr:
        case Call("shift", (start, Call("*", (Call("//", (Call("-", (moment, _)), Literal(int(size)))), _)))):
            return (size, moment) if start == _EPOCH else None
    return None


def date_part(op: str, args: Args) -> Expr:
    """The name of a part and a time."""
    part = PARTS.get(_word(args[0]))
    if part is None:
        raise ExpressionTypeError(f"date_part needs the name of a part in quotes: {_listed(PARTS)}", 0)
    return of_time(part, (converted(op, args[1], Kind.TIME, 1),))


def cast(op: str, args: Args) -> Expr:
    """A value as another kind."""
    (arg,) = args
    target = _KIND_OF[op]
    if isinstance(arg, Literal) and arg.value is None:
        return Literal(None, target)
    if arg.kind is Kind.DECIMAL and target is not Kind.TEXT:
        return _decimal_cast(op, arg)
    if _UNCHANGED.get(op) is arg.kind and arg.kind is not Kind.TIME:
        return arg
    if {arg.kind, target} == {Kind.BOOL, Kind.TIME}:
        raise ExpressionTypeError(f"{a_kind(arg.kind)} cannot be cast to {a_kind(target)}", 0)
    return Call(op, (arg,), target)


def _decimal_cast(op: str, arg: Expr) -> Expr:
    """A decimal as a number of another kind: what is behind the point is cut off where that has none."""
    if op == "cast_boolean":
        return Call("<>", (arg, Literal(0, Kind.DECIMAL, arg.scale)), Kind.BOOL)
    whole = op in ("cast_tinyint", "cast_smallint", "cast_int", "cast_bigint")
    return cast(op, (decimals.whole("to_int", arg) if whole else decimals.as_float(arg),))


def _word(arg: Expr) -> str:
    return str(arg.value).lower() if isinstance(arg, Literal) and arg.kind is Kind.TEXT else ""


def _listed(names: dict[str, str]) -> str:
    """Of names that mean the same, the first."""
    first = {meaning: name for name, meaning in reversed(names.items())}
    return ", ".join(first[meaning] for meaning in dict.fromkeys(names.values()))
