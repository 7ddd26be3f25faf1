"""One spelling for expressions that mean the same: what the filters of two queries are compared by.

AND and OR are flat, without duplicates and in one order; NOT stands before nothing that can take it in; constants stand
right of their comparison, and what is constant is folded where that is exact; equalities of one value and constants are
one IN. Every column is one of stream 0.

Invariant: an expression in normal form gives for every tuple what it gave before, in SQL's three-valued logic, where a
NaN is a null. What can fail (an overflow, a user's function) is neither moved nor folded away, so it fails for the same
tuples. Where nothing is known to be the same, the expression stays as it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from slackwater.core.schema import Kind
from slackwater.expressions.functions import INT_MAX
from slackwater.expressions.tree import Call, Column, Expr, Literal, walk

TRUE, FALSE, UNKNOWN = (Literal(value, Kind.BOOL) for value in (True, False, None))
TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison with its sides exchanged."""
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""What is true where a comparison is false; where a side is null, neither is."""
COUNTED = (Kind.INT, Kind.TIME, Kind.DECIMAL)
"""Kinds with a next value and one before: there `x > 5` is `x >= 6`."""
EXACT = 2**53
"""Below this every integer is a float of its own."""
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "neg": operator.neg,
    "shift": operator.add,
}
_CHECKED = frozenset(("+", "-", "*", "rescale", "shift"))


def normal_form(expr: Expr) -> Expr:
    """An expression over one stream, in the spelling that all of its meaning have.

    >>> x, five = Column(3, "x", Kind.INT), Literal(5, Kind.INT)
    >>> normal_form(Call("not", (Call(">=", (five, x), Kind.BOOL),), Kind.BOOL)).op
    '>'
    """
    if isinstance(expr, Column):
        return replace(expr, stream=0)
    if isinstance(expr, Literal):
        return expr
    args = tuple(map(normal_form, expr.args))
    op = expr.op
    if op == "not":
        return negated(args[0])
    if op in ("and", "or"):
        return logic(op, args)
    if op in TURNED:
        return _comparison(op, *args)
    if op == "in":
        return membership(args[0], args[1:])
    if op == "is_null" and isinstance(args[0], Literal):
        return Literal(_value(args[0]) is None, Kind.BOOL)
    if op in ("+", "*"):
        # Both are exact in that the order of two operands never matters; that of three does, for floats.
        args = tuple(sorted(args, key=key_of))
    return _computed(replace(expr, args=args))


def can_fail(expr: Expr) -> bool:
    """Whether computing an expression may overflow, or raise in a user's function."""
    return any(
        isinstance(node, Call)
        and (node.op.startswith("user:") or (node.op in _CHECKED and node.kind is not Kind.FLOAT))
        for node in walk(expr)
    )


def key_of(expr: Expr) -> str:
    """A text that two expressions have in common only if they give the same for every tuple.

    >>> x = Column(0, "x", Kind.INT)
    >>> above, from_on = (Call(op, (x, Literal(at, Kind.INT)), Kind.BOOL) for op, at in ((">", 5), (">=", 6)))
    >>> key_of(above) == key_of(from_on)
    True
    """
    if isinstance(expr, Column):
        return f"{expr.name!r}"
    if isinstance(expr, Literal):
        # The text of a float tells 0.0 from -0.0, which are equal as values and not always as arguments.
        shown = float.__repr__(expr.value) if isinstance(expr.value, float) else repr(expr.value)
        return f"{expr.kind.value} {shown} {expr.scale}"
    op, args = expr.op, expr.args
    if op in ("<", ">") and args[0].kind in COUNTED and isinstance(args[1], Literal) and args[1].value is not None:
        nearer = int(args[1].value) + (1 if op == ">" else -1)
        op, args = f"{op}=", (args[0], replace(args[1], value=nearer))
    return f"({op} {expr.kind.value} {expr.scale} {' '.join(map(key_of, args))})"


def negated(expr: Expr) -> Expr:
    """NOT of an expression in normal form."""
    if isinstance(expr, Literal):
        return UNKNOWN if expr.value is None else Literal(not expr.value, Kind.BOOL)
    if isinstance(expr, Column):
        return Call("not", (expr,), Kind.BOOL)
    if expr.op == "not":
        return expr.args[0]
    if expr.op in OPPOSITE:
        return replace(expr, op=OPPOSITE[expr.op])
    if expr.op in ("and", "or"):
        return logic("or" if expr.op == "and" else "and", [negated(arg) for arg in expr.args])
    return Call("not", (expr,), Kind.BOOL)


def logic(op: str, args: Iterable[Expr]) -> Expr:
    """AND or OR of expressions in normal form."""
    unit, zero = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    parts: dict[str, Expr] = {}
    for arg in args:
        for part in arg.args if isinstance(arg, Call) and arg.op == op else (arg,):
            if part == zero and not any(map(can_fail, parts.values())):
                return zero
            if part != unit:
                parts.setdefault(key_of(part), part)
    if any(map(can_fail, parts.values())):
        # What stands right of what decides is not asked, and does not fail.
        kept = list(parts.values())
    else:
        gathered = parts if op == "and" else {key_of(part): part for part in _gathered(parts.values())}
        kept = [part for _, part in sorted(gathered.items())]
    if len(kept) < 2:
        return kept[0] if kept else unit
    return Call(op, tuple(kept), Kind.BOOL)


def membership(value: Expr, choices: Sequence[Expr]) -> Expr:
    """IN, with its choices in order and each once; of one choice, an equality."""
    distinct: dict[object, Expr] = {_value(choice): choice for choice in choices}
    unknown = distinct.pop(None, None)
    ordered = [distinct[found] for found in sorted(distinct)]  # type: ignore[type-var] # all of one kind
    if unknown is not None:
        ordered.append(replace(unknown, value=None) if isinstance(unknown, Literal) else unknown)
    if isinstance(value, Literal):
        return logic("or", [_comparison("=", value, one) for one in ordered])
    if len(ordered) == 1:
        return _comparison("=", value, ordered[0])
    return Call("in", (value, *ordered), Kind.BOOL)


def _gathered(parts: Iterable[Expr]) -> list[Expr]:
    """The parts of an OR, with all equalities of one value and constants as one IN."""
    choices: dict[str, tuple[Expr, list[Expr]]] = {}
    others: list[Expr] = []
    for part in parts:
        if isinstance(part, Call) and part.op in ("=", "in") and isinstance(part.args[1], Literal):
            choices.setdefault(key_of(part.args[0]), (part.args[0], []))[1].extend(part.args[1:])
        else:
            others.append(part)
    return others + [membership(value, listed) for value, listed in choices.values()]


def _comparison(op: str, left: Expr, right: Expr) -> Expr:
    """A comparison of two sides in normal form, the constant on its right."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        a, b = _value(left), _value(right)
        return UNKNOWN if a is None or b is None else Literal(_COMPARE[op](a, b), Kind.BOOL)
    if isinstance(left, Literal) or (not isinstance(right, Literal) and key_of(right) < key_of(left)):
        op, left, right = TURNED[op], right, left
    if isinstance(right, Literal):
        value = _value(right)
        if value is None:
            return Call(op, (left, right), Kind.BOOL) if can_fail(left) else UNKNOWN
        if left.kind is Kind.BOOL:
            # Booleans are equal or not, and have no order.
            return left if (op == "=") == bool(value) else negated(left)
        if right.kind is Kind.FLOAT and isinstance(left, Call) and left.op == "to_float":
            return _of_integers(op, left, right, float(value))
        if right.kind is Kind.FLOAT and value == 0:
            right = replace(right, value=0.0)
    return Call(op, (left, right), Kind.BOOL)


def _of_integers(op: str, left: Call, right: Literal, bound: float) -> Expr:
    """An integer that is made a float to be compared with one, compared as what it is where that is the same."""
    same = Call(op, (left, right), Kind.BOOL)
    if left.args[0].kind is not Kind.INT or not abs(bound) < EXACT or (op in ("=", "<>") and bound != int(bound)):
        return same
    nearest = math.ceil(bound) if op in ("<", ">=") else math.floor(bound)
    return Call(op, (left.args[0], Literal(nearest, Kind.INT)), Kind.BOOL)


def _computed(call: Call) -> Expr:
    """What is computed from constants alone, where the machine gives the same."""
    values = [_value(arg) for arg in call.args if isinstance(arg, Literal)]
    if len(values) < len(call.args) or call.op not in _COMPUTE or call.kind is Kind.DECIMAL or None in values:
        return call
    found = _COMPUTE[call.op](*values)
    fits = math.isfinite(found) if call.kind is Kind.FLOAT else abs(found) <= INT_MAX
    return Literal(found, call.kind) if fits else call


def _value(literal: Expr) -> Any:
    """The value of a constant; None for a NaN, which is a null in any expression."""
    assert isinstance(literal, Literal), "a constant"
    value = literal.value
    return None if isinstance(value, float) and math.isnan(value) else value
