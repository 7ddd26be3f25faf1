"""From the expression tree to what the machine needs: rows instead of column names, words instead of constants.

Invariant: two lowered expressions are equal exactly when the same machine code serves both, so they are the key under
which compiled code is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Protocol

from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.kernels import (
    CASTS,
    FLOAT_IN_OR_NULL,
    FLOAT_KERNELS,
    IN_OR_NULL,
    KERNELS,
    ROUND_SCALED,
    TRUNCATED,
    Kernel,
)
from slackwater.expressions.membership import Table
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.expressions.user import USER_FUNCTIONS

MAX_STREAMS = 8
"""How many inputs an expression can read: as many as a condition has slots."""

MAX_BRANCHES = 100
"""How many WHENs a CASE can have: each is nested in the one before it, and compiled."""

FEW = 8
"""Up to so many choices of an IN are compared one by one, which is faster than looking them up in a table."""

EncodeText = Callable[[str], int]


class Layout(Protocol):
    """Where a column lives: its row in the array of words."""

    def __call__(self, stream: int, column: str) -> int: ...


@dataclass(frozen=True)
class Cell:
    """The word in `row` at the position of `stream`'s current tuple."""

    stream: int
    row: int
    kind: Kind


@dataclass(frozen=True)
class Word:
    """A constant as the bits of its word, which tell 0.0 from -0.0 and make NaN equal to itself."""

    bits: int
    kind: Kind

    @property
    def number(self) -> float:
        """The word read as a float."""
        value: float = struct.unpack("<d", struct.pack("<q", self.bits))[0]
        return value


@dataclass(frozen=True)
class Address:
    """Where a table is; holding on to the node keeps the table there."""

    table: Table
    kind: Kind = Kind.INT

    @property
    def bits(self) -> int:
        """The word that compiled code is given."""
        return self.table.address


@dataclass(frozen=True)
class Count:
    """How many words a table has."""

    table: Table
    kind: Kind = Kind.INT

    @property
    def bits(self) -> int:
        """The word that compiled code is given."""
        return self.table.count


@dataclass(frozen=True)
class Step:
    """A kernel applied to its arguments."""

    kernel: Kernel
    args: tuple[Node, ...]
    kind: Kind


Node = Cell | Word | Address | Count | Step


def lower(expr: Expr, layout: Layout, encode_text: EncodeText) -> Node:
    """The expression with rows, words and kernels in place; chains of many arguments become nested pairs."""
    if isinstance(expr, Column):
        if not 0 <= expr.stream < MAX_STREAMS:
            raise UsageError(f"a query can join at most {MAX_STREAMS} streams")
        return Cell(expr.stream, layout(expr.stream, expr.name), expr.kind)
    if isinstance(expr, Literal):
        return constant(expr, encode_text)
    op = expr.op
    if op == "date_trunc":
        unit, moment = expr.args
        assert isinstance(unit, Literal), "a unit is a constant"
        return Step(TRUNCATED[str(unit.value)], (lower(moment, layout, encode_text),), expr.kind)
    args = tuple(lower(arg, layout, encode_text) for arg in expr.args)
    if op.startswith("cast_"):
        return Step(CASTS[op, args[0].kind], args, expr.kind)
    if op.startswith("user:"):
        return Step(USER_FUNCTIONS[op.removeprefix("user:")], args, expr.kind)
    if op in (">", ">="):
        return Step(KERNELS["<" if op == ">" else "<="], args[::-1], expr.kind)
    if op == "round" and len(args) == 2 and isinstance(args[1], Word):
        return Step(ROUND_SCALED, (args[0], _float_word(10.0 ** args[1].bits)), expr.kind)
    kernel = FLOAT_KERNELS.get(op, KERNELS[op]) if args[0].kind is Kind.FLOAT else KERNELS[op]
    if op == "in":
        return _membership(args[0], {arg for arg in args[1:] if isinstance(arg, Word)}, kernel)
    if op == "case":
        if len(args) > 2 * MAX_BRANCHES + 1:
            raise UsageError(f"a CASE can have at most {MAX_BRANCHES} branches")
        otherwise = args[-1]
        for at in range(len(args) - 3, -1, -2):
            otherwise = Step(kernel, (args[at], args[at + 1], otherwise), expr.kind)
        return otherwise
    if op in ("and", "or", "coalesce", "least", "greatest"):
        return _paired(kernel, args, expr.kind)
    return Step(kernel, args, expr.kind)


def _membership(value: Node, choices: set[Word], kernel: Kernel) -> Node:
    known = [word for word in choices if not _is_null(word)]
    if len(known) <= FEW:
        ordered = sorted(choices, key=lambda word: word.bits)
        return _paired(KERNELS["or"], tuple(Step(KERNELS["="], (value, one), Kind.BOOL) for one in ordered), Kind.BOOL)
    is_float = value.kind is Kind.FLOAT
    if len(known) < len(choices):
        kernel = FLOAT_IN_OR_NULL if is_float else IN_OR_NULL
    table = Table((word.number if is_float else word.bits for word in known), is_float)
    return Step(kernel, (value, Address(table), Count(table)), Kind.BOOL)


def _is_null(word: Word) -> bool:
    return isnan(word.number) if word.kind is Kind.FLOAT else word.bits == NULL_WORD


def _paired(kernel: Kernel, args: tuple[Node, ...], kind: Kind) -> Node:
    """Many arguments as a balanced tree of pairs, in their order: a long IN list must not nest deeply."""
    if len(args) == 1:
        return args[0]
    half = len(args) // 2
    return Step(kernel, (_paired(kernel, args[:half], kind), _paired(kernel, args[half:], kind)), kind)


def constant(literal: Literal, encode_text: EncodeText) -> Word:
    """A literal as a word.

    >>> constant(Literal(None, Kind.INT), hash).bits == NULL_WORD
    True
    >>> constant(Literal(2.5, Kind.FLOAT), hash).number
    2.5
    """
    value = literal.value
    if literal.kind is Kind.FLOAT:
        return _float_word(float("nan") if value is None else float(value))
    if value is None:
        return Word(NULL_WORD, literal.kind)
    bits = encode_text(str(value)) if literal.kind is Kind.TEXT else int(value)
    if not NULL_WORD < bits < -NULL_WORD:
        raise DataError(f"{value} does not fit in 64 bits")
    return Word(bits, literal.kind)


def _float_word(value: float) -> Word:
    return Word(struct.unpack("<q", struct.pack("<d", value))[0], Kind.FLOAT)
