"""Which calls make text or look into it: compiled code, to which text is a code, cannot compute them.

Invariant: nothing is computed here. What computes the calls is in `textual.py`, and has a function for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call, Expr, streams_of, walk

TEXT_OPERATORS = frozenset(
    (
        *("upper", "lower", "length", "substring", "trim", "ltrim", "rtrim", "replace", "concat"),
        *("startswith", "endswith", "contains", "like", "ilike"),
    )
)
"""Those that are of text in any case."""
ORDERS = frozenset(("<", "<=", ">", ">="))


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
