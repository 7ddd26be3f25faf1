"""The typed expression tree: what a WHERE clause or a SELECT item has become once names and types are known.

Invariant: a tree holds plain data only, so it can be compared, hashed, shipped and printed. It never holds query text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slackwater.core.schema import Kind


@dataclass(frozen=True)
class Column:
    """A column of input `stream` (its position in FROM)."""

    stream: int
    name: str
    kind: Kind
    scale: int = 0
    """How many digits of a decimal stand behind the point."""


class Written(float):
    """A float that knows how it was written, for those who need all its digits."""

    text: str

    def __new__(cls, text: str) -> Written:
        made = super().__new__(cls, text)
        made.text = text
        return made


@dataclass(frozen=True)
class Literal:
    """A constant; None is NULL. Timestamps are microseconds, decimals their digits without the point."""

    value: int | float | bool | str | None
    kind: Kind
    scale: int = 0


@dataclass(frozen=True)
class Call:
    """An operator or function of the allow-list applied to arguments. `op` is its name there."""

    op: str
    args: tuple[Expr, ...]
    kind: Kind
    scale: int = 0


Expr = Column | Literal | Call


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything under it, outermost first."""
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def with_columns(expr: Expr, change: Callable[[Column], Expr]) -> Expr:
    """The expression with something else in the place of each column.

    >>> with_columns(Call("neg", (Column(0, "v", Kind.INT),), Kind.INT), lambda column: replace(column, stream=1)).args
    (Column(stream=1, name='v', kind=<Kind.INT: 'integer'>, scale=0),)
    """
    if isinstance(expr, Column):
        return change(expr)
    return replace(expr, args=tuple(with_columns(arg, change) for arg in expr.args)) if isinstance(expr, Call) else expr


def streams_of(expr: Expr) -> frozenset[int]:
    """Which inputs an expression reads.

    >>> sorted(streams_of(Call("=", (Column(0, "k", Kind.INT), Column(2, "k", Kind.INT)), Kind.BOOL)))
    [0, 2]
    """
    return frozenset(node.stream for node in walk(expr) if isinstance(node, Column))


def columns_of(expr: Expr) -> frozenset[tuple[int, str]]:
    """The (stream, column) pairs an expression reads."""
    return frozenset((node.stream, node.name) for node in walk(expr) if isinstance(node, Column))


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The parts of a condition that must all be true."""
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.op == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    """One condition that is true where all parts are."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts), Kind.BOOL)
