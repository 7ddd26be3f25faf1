"""The allow-list: every operator and function a query may call, and which of them make text or look into it.

Invariant: no `Call` is made but by `typed_call`, so whatever walks a tree later (compiler, renderer, oracle) finds
known operators on arguments of the right kinds and never converts on its own.

Values: SQL's three-valued logic, and a NaN is an unknown number, so it behaves like NULL. Integers run from -(2^63)+1
to 2^63-1; a result outside is an error, never a wrap.

Compiled code, to which text is a code, cannot compute calls on text. What computes them is in `textual.py`, and has a
function for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions import rules, text_rules
from slackwater.expressions.rules import Args, ExpressionTypeError
from slackwater.expressions.tree import Call, Expr, Literal, streams_of, walk
from slackwater.expressions.user import USER_FUNCTIONS, UserFunction

TEXT_OPERATORS = frozenset(
    (
        *("upper", "lower", "length", "substring", "trim", "ltrim", "rtrim", "replace", "concat"),
        *("startswith", "endswith", "contains", "like", "ilike", "partition"),
    )
)
"""Those that are of text in any case."""
ORDERS = frozenset(("<", "<=", ">", ">="))
__all__ = ["FUNCTIONS", "ExpressionTypeError", "Function", "function_names", "register", "typed_call"]

INT_MAX = 2**63 - 1

_Python = TypeVar("_Python", bound=Callable[..., Any])


@dataclass(frozen=True)
class Function:
    """One entry of the allow-list: how many arguments it takes and how it types a call."""

    least: int
    most: int | None
    typed: Callable[[str, Args], Expr]
    spoken: bool = True
    """Whether a query calls it by name, as opposed to an operator or a keyword."""


def typed_call(op: str, args: Args) -> Expr:
    """A call of `op`, checked and with its conversions in place.

    >>> from slackwater.expressions.tree import Column
    >>> x = Column(0, "x", Kind.FLOAT)
    >>> typed_call("+", (x, Literal(1, Kind.INT))).args[1]
    Literal(value=1.0, kind=<Kind.FLOAT: 'float'>, scale=0)
    >>> typed_call("sqrt", (Literal("nine", Kind.TEXT),))
    Traceback (most recent call last):
    ...
    slackwater.expressions.rules.ExpressionTypeError: sqrt needs a number, not text
    """
    function = FUNCTIONS.get(op)
    if function is None:
        raise ExpressionTypeError(f"there is no function '{op}'")
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise ExpressionTypeError(f"{op} takes {_count(function)}, not {len(args)}")
    for position, arg in enumerate(args):
        if isinstance(arg, Literal) and arg.kind is Kind.INT and abs(int(arg.value or 0)) > INT_MAX:
            raise ExpressionTypeError(f"{arg.value} does not fit in 64 bits", position)
    return function.typed(op, args)


def function_names() -> tuple[str, ...]:
    """Every name a query can write as `name(...)`, user functions included.

    >>> "sqrt" in function_names(), "neg" in function_names()
    (True, False)
    """
    return tuple(sorted(name for name, function in FUNCTIONS.items() if function.spoken))


@overload
def register(name: str, function: _Python, args: Sequence[Kind], result: Kind) -> _Python: ...
@overload
def register(
    name: str, function: None = None, *, args: Sequence[Kind], result: Kind
) -> Callable[[_Python], _Python]: ...
def register(name: str, function: Any = None, args: Sequence[Kind] = (), result: Kind = Kind.FLOAT) -> Any:
    """Register a Python function that queries can call by name; numbers in, a number out, in Python that numba can
    compile.

    It never sees a null: a null argument makes a null result. A NaN it returns is a null, too. Without `function` this
    is a decorator. Registering a name again replaces the function for queries bound from then on.

    >>> @register("half", args=[Kind.FLOAT], result=Kind.FLOAT)
    ... def half(x):
    ...     return x / 2
    >>> typed_call("half", (Literal(3, Kind.INT),)).op
    'user:half'
    """
    if function is None:
        return lambda decorated: register(name, decorated, args, result)
    key = name.lower()
    if not key.isidentifier():
        raise UsageError(f"'{name}' is not a name a query can call")
    if key in FUNCTIONS and key not in USER_FUNCTIONS:
        raise UsageError(f"'{name}' is a built-in function; register yours under another name")
    kinds = tuple(args)
    USER_FUNCTIONS[key] = UserFunction.build(name, function, kinds, result)

    def typed(op: str, given: Args) -> Expr:
        fitting = (
            rules.converted(op, arg, kind, place) for place, (arg, kind) in enumerate(zip(given, kinds, strict=True))
        )
        return Call(f"user:{key}", tuple(fitting), result)

    FUNCTIONS[key] = Function(len(kinds), len(kinds), typed)
    FUNCTIONS[f"user:{key}"] = Function(len(kinds), len(kinds), typed, spoken=False)
    return function


def _count(function: Function) -> str:
    if function.most is None:
        return f"at least {function.least} argument{'s' * (function.least != 1)}"
    if function.least == function.most:
        return f"{function.least} argument{'s' * (function.least != 1)}"
    return f"{function.least} to {function.most} arguments"


_PARTS = (
    *("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear", "yearofweek"),
    *("hour", "minute", "second", "seconds"),
)
FUNCTIONS: dict[str, Function] = {
    **{op: Function(2, 2, rules.arithmetic, spoken=op == "mod") for op in ("+", "-", "*", "%", "mod")},
    **{op: Function(2, 2, rules.comparison, spoken=False) for op in ("=", "<>", "<", "<=", ">", ">=")},
    **{op: Function(2, None, rules.on_booleans, spoken=False) for op in ("and", "or")},
    **{op: Function(2, None, rules.extreme) for op in ("least", "greatest", "min", "max")},
    **{op: Function(1, 1, rules.number_to_int) for op in ("floor", "ceil", "sign", "to_int")},
    **{
        op: Function(1, 1, rules.on_floats)
        for op in ("sqrt", "exp", "ln", "log10", "sin", "cos", "tan", "asin", "acos", "atan")
    },
    **{op: Function(2, 2, rules.on_floats) for op in ("pow", "atan2", "hypot")},
    "/": Function(2, 2, rules.on_floats, spoken=False),
    "//": Function(2, 2, rules.over_unit, spoken=False),
    "rescale": Function(2, 2, rules.over_unit, spoken=False),
    "decimal_to_float": Function(2, 2, rules.over_unit, spoken=False),
    "dist": Function(4, 4, rules.on_floats),
    "abs": Function(1, 1, rules.number_to_same),
    "neg": Function(1, 1, rules.number_to_same, spoken=False),
    "round": Function(1, 2, rules.rounded),
    "to_float": Function(1, 1, rules.to_float),
    "in": Function(2, None, rules.membership, spoken=False),
    "not": Function(1, 1, rules.on_booleans, spoken=False),
    "is_null": Function(1, 1, rules.is_unknown, spoken=False),
    "case": Function(3, None, rules.case, spoken=False),
    "coalesce": Function(1, None, rules.same_kind),
    "nullif": Function(2, 2, rules.same_kind),
    **{op: Function(1, 1, text_rules.of_texts(Kind.TEXT)) for op in ("upper", "lower", "trim", "ltrim", "rtrim")},
    **{op: Function(2, 2, text_rules.of_texts(Kind.BOOL)) for op in ("startswith", "endswith", "contains")},
    "length": Function(1, 1, text_rules.of_texts(Kind.INT)),
    "replace": Function(2, 3, text_rules.of_texts(Kind.TEXT)),
    "substring": Function(2, 3, text_rules.substring),
    "concat": Function(1, None, text_rules.concat),
    "partition": Function(2, None, text_rules.partition, spoken=False),
    **{op: Function(2, 3, text_rules.like, spoken=False) for op in ("like", "ilike")},
    **{op: Function(1, 1, text_rules.cast, spoken=False) for op in sorted(set(text_rules.TARGETS.values()))},
    **{op: Function(1, 1, text_rules.of_time, spoken=op not in ("seconds", "yearofweek")) for op in _PARTS},
    **{op: Function(2, 2, text_rules.shift, spoken=False) for op in ("shift", "shift_months")},
    "date_trunc": Function(2, 2, text_rules.date_trunc),
    "date_part": Function(2, 2, text_rules.date_part),
    "time_bucket": Function(2, 2, text_rules.time_bucket),
    "ucase": Function(1, 1, text_rules.synonym("upper", text_rules.of_texts(Kind.TEXT))),
    "lcase": Function(1, 1, text_rules.synonym("lower", text_rules.of_texts(Kind.TEXT))),
    "substr": Function(2, 3, text_rules.synonym("substring", text_rules.substring)),
    **{
        op: Function(1, 1, text_rules.synonym("length", text_rules.of_texts(Kind.INT)))
        for op in ("char_length", "character_length")
    },
    "dayofmonth": Function(1, 1, text_rules.synonym("day", text_rules.of_time)),
    "to_timestamp": Function(1, 1, text_rules.synonym("cast_timestamp", text_rules.cast)),
}
"""Every operator and function, by the name a query or the binder calls it by. `register` adds to it."""


def is_text_call(expr: Expr) -> bool:
    """Whether an expression is itself such a call; equality is not, for it is that of the codes.

    >>> from slackwater.expressions.tree import Column
    >>> name = Column(0, "name", Kind.TEXT)
    >>> [is_text_call(Call(op, (name, name), Kind.BOOL)) for op in ("=", "<", "like")]
    [False, True, True]
    """
    if not isinstance(expr, Call):
        return False
    if expr.op in TEXT_OPERATORS or expr.op == "cast_string":
        return True
    return (expr.op in ORDERS or expr.op.startswith("cast_")) and expr.args[0].kind is Kind.TEXT


def has_text_call(expr: Expr) -> bool:
    """Whether there is such a call anywhere in an expression."""
    return any(is_text_call(node) for node in walk(expr))


def text_of_one(expr: Expr, instead: Callable[[Expr], Expr]) -> Expr:
    """The expression with something else in the place of each largest part that has text calls and reads one stream
    at most."""
    if not has_text_call(expr) or not isinstance(expr, Call):
        return expr
    if len(streams_of(expr)) <= 1:
        return instead(expr)
    return replace(expr, args=tuple(text_of_one(arg, instead) for arg in expr.args))


def mixes_streams(expr: Expr) -> bool:
    """Whether a text call in an expression reads several streams, so that it must wait for tuples of all of them."""
    return any(is_text_call(node) and len(streams_of(node)) > 1 for node in walk(expr))
