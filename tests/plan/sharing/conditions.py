"""Random conditions on one small stream, and all of its rows, so that what they pass can be tried by brute force."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Call, Column, Expr, Literal
from tests.kit.evaluate import Row, evaluate

X, Y = Column(0, "x", Kind.INT), Column(0, "y", Kind.INT)
F = Column(0, "f", Kind.FLOAT)
T = Column(0, "t", Kind.TEXT)
B = Column(0, "b", Kind.BOOL)
MOMENT = Column(0, "at", Kind.TIME)
PRICE = Column(0, "price", Kind.DECIMAL, 2)
VALUES: dict[Column, tuple[object, ...]] = {
    X: (None, -1, 0, 1, 2, 3, 4),
    Y: (None, 0, 2),
    F: (None, math.nan, -math.inf, -0.0, 0.5, 1.0, 2.0, math.inf),
    T: (None, "", "a", "ab", "b", "é"),
    B: (None, False, True),
    MOMENT: (None, 10, 11, 12),
    PRICE: (None, -100, 149, 150, 151, 200),
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def rows_over(*columns: Column) -> list[Row]:
    """Every row of these columns; the others are null."""
    blank: dict[str, object] = {column.name: None for column in VALUES}
    combined = itertools.product(*(VALUES[column] for column in columns))
    return [blank | dict(zip((column.name for column in columns), values, strict=True)) for values in combined]


def passes(conditions: Sequence[Expr], row: Row, streams: int = 1) -> bool:
    """Whether all conditions are TRUE, asked one after another."""
    return all(evaluate(condition, [row] * streams) is True for condition in conditions)


def condition(rng: random.Random, columns: Sequence[Column], depth: int = 2) -> Expr:
    """A condition as a query could have it."""
    roll = rng.random()
    if depth and roll < 0.35:
        parts = tuple(condition(rng, columns, depth - 1) for _ in range(rng.randint(2, 3)))
        return typed_call(rng.choice(("and", "or")), parts)
    if depth and roll < 0.5:
        return typed_call("not", (condition(rng, columns, depth - 1),))
    if depth and roll < 0.56:
        return typed_call("coalesce", (condition(rng, columns, depth - 1), Literal(False, Kind.BOOL)))
    return _simple(rng, rng.choice(columns))


def _simple(rng: random.Random, column: Column) -> Expr:
    roll = rng.random()
    if roll < 0.08:
        return Literal(rng.choice((True, False, None)), Kind.BOOL)
    if roll < 0.16:
        return typed_call("is_null", (column,))
    if column.kind is Kind.BOOL and roll < 0.5:
        return column
    if roll < 0.36:
        choices = tuple(_constant(rng, column.kind) for _ in range(rng.randint(1, 3)))
        return typed_call("in", (column, *choices))
    op = rng.choice(COMPARISONS[:2] if column.kind is Kind.BOOL else COMPARISONS)
    sides = [_side(rng, column), _constant(rng, column.kind)]
    if roll > 0.9 and column.kind is Kind.INT:
        sides = [X, Y]
    if roll < 0.42 and column.kind is Kind.INT:
        sides[1] = Literal(rng.choice((-0.5, 0.0, 1.0, 1.5, 2.5)), Kind.FLOAT)
    if rng.random() < 0.4:
        sides.reverse()
    return typed_call(op, tuple(sides))


def _side(rng: random.Random, column: Column) -> Expr:
    if column.kind not in (Kind.INT, Kind.FLOAT) or rng.random() < 0.75:
        return column
    more = Literal(rng.choice((1, 2)), Kind.INT)
    sides = [column, typed_call("-", (more, Literal(1, Kind.INT))) if rng.random() < 0.3 else more]
    rng.shuffle(sides)
    return typed_call(rng.choice(("+", "*")), tuple(sides))


def _constant(rng: random.Random, kind: Kind) -> Expr:
    known = {
        Kind.INT: (0, 1, 2, 3, None),
        Kind.FLOAT: (0.0, -0.0, 0.5, 1.0, math.inf, None),
        Kind.TEXT: ("", "a", "aa", "b", None),
        Kind.BOOL: (True, False, None),
        Kind.TIME: (10, 11, 12, None),
        Kind.DECIMAL: (100, 150, 151, None),
    }[kind]
    value = rng.choice(known[:-1] if rng.random() < 0.9 else known)
    scale = 2 if kind is Kind.DECIMAL else 0
    if scale and value == 100 and rng.random() < 0.5:
        return Literal(1, Kind.INT)
    if scale and value == 150 and rng.random() < 0.5:
        return Literal(1500, kind, 3)
    return Literal(value, kind, scale)


def moved(expr: Expr, stream: int) -> Expr:
    """The same condition on another entry of FROM."""
    if isinstance(expr, Column):
        return Column(stream, expr.name, expr.kind, expr.scale)
    return (
        expr
        if isinstance(expr, Literal)
        else Call(expr.op, tuple(moved(arg, stream) for arg in expr.args), expr.kind, expr.scale)
    )
