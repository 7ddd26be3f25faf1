"""Conditions that keep two columns close to each other: bands and distances, found among those of a join.

`abs(a.x - b.x) < 5`, `a.x BETWEEN b.x - 5 AND b.x + 5` and `dist(a.x, a.y, b.x, b.y) < 5` all say that a.x - b.x lies
between two constants. Who knows that need not look at all tuples of a window (`cells.py`).

Invariant: where a condition is true of two finite values, their difference as a real number lies within the bounds of
the band, up to `SLACK` times either value. So a band may be too wide and never too narrow: the condition itself is
asked afterwards. No condition here is true of a null or of NaN, nor of an infinite value and a finite one.

Why `SLACK` is enough. A float operation is off by 2**-53 of its result, and is monotone. In `fl(a - b) < d` the result
is at most d, so a - b is off by 2**-53 of d. In `a <= fl(b + d)` the smallest b that will do has fl(b + d) just at a,
and so is off by about 2**-53 of a and of d. `dist` squares, adds and takes a root: four operations on numbers up to
d**2, none of which underflows while d is at least `LEAST`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite

from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call, Column, Expr, Literal, walk

SLACK = 2.0**-48
"""More than all that rounding can add up to, as a share of the numbers that are rounded."""
LONGEST = 24
"""Conditions with more parts are left alone, for each operation rounds once more."""
LEAST = 1e-140
"""Narrower bands of floats are left alone: the square of such a number is not one any more."""
MOST, MOST_OF_FLOATS = 2**60, 1e290
"""Wider bands are left alone: no sum of a bound and a finite value is infinite, and bounds are far from 64 bits."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
FLOATS, CONVERTED, INTEGERS = range(3)
"""How the words of a side are read: as floats; as integers that count `1 / unit` and are compared as floats; as
integers."""


@dataclass(frozen=True)
class Side:
    """What a band compares: a row of a stream, and how its words are read."""

    stream: int
    row: int
    read: int
    unit: float = 1.0


@dataclass(frozen=True)
class Band:
    """`low <= left - right <= high`, both already as wide as rounding may need."""

    left: Side
    right: Side
    low: float
    high: float
    conditions: tuple[int, ...]
    """The numbers of the conditions that say so."""

    @property
    def streams(self) -> frozenset[int]:
        return frozenset((self.left.stream, self.right.stream))

    def seen_from(self, stream: int) -> Band:
        """The same band with this stream on the left."""
        if self.left.stream == stream:
            return self
        return Band(self.right, self.left, -self.high, -self.low, self.conditions)


def bands_of(conditions: Sequence[Expr], rows: Mapping[tuple[int, str], int]) -> tuple[Band, ...]:
    """The bands that these conditions are, or that two of them are together; `rows` says where columns stand.

    >>> from slackwater.expressions.functions import typed_call
    >>> a, b = (Column(stream, "x", Kind.INT) for stream in (0, 1))
    >>> near = typed_call("<", (typed_call("abs", (typed_call("-", (a, b)),)), Literal(5, Kind.INT)))
    >>> (band,) = bands_of((near,), {(0, "x"): 2, (1, "x"): 2})
    >>> band.left.stream, band.right.stream, band.low, band.high
    (0, 1, -5, 5)
    """
    found: dict[tuple[Side, Side], Band] = {}
    for number, condition in enumerate(conditions):
        for band in _stated(condition, number, rows):
            left, right = band.left, band.right
            if left.stream == right.stream:
                continue
            same = band.seen_from(min(left.stream, right.stream))
            key = same.left, same.right
            found[key] = _both(found[key], same) if key in found else same
    return tuple(band for band in found.values() if _is_useful(band))


def _both(one: Band, other: Band) -> Band:
    conditions = tuple(dict.fromkeys(one.conditions + other.conditions))
    return Band(one.left, one.right, max(one.low, other.low), min(one.high, other.high), conditions)


def _is_useful(band: Band) -> bool:
    if not (isfinite(band.low) and isfinite(band.high) and band.low <= band.high):
        return False
    if band.left.read == INTEGERS:
        return max(abs(band.low), abs(band.high)) <= MOST
    return band.high - band.low >= LEAST and max(abs(band.low), abs(band.high)) <= MOST_OF_FLOATS


def _stated(condition: Expr, number: int, rows: Mapping[tuple[int, str], int]) -> Iterator[Band]:
    """What a comparison says of one difference, or of two; an end that it says nothing of is infinite."""
    if not isinstance(condition, Call) or condition.op not in _TURNED:
        return
    if sum(1 for _ in walk(condition)) > LONGEST:
        return
    (left, right), op = condition.args, condition.op
    if isinstance(left, Literal):
        left, right, op = right, left, _TURNED[op]
    limit = _number(right)
    if isinstance(left, Call) and left.op == "dist" and limit is not None:
        if op in ("<", "<=") and limit >= LEAST:
            for one, other in ((left.args[0], left.args[2]), (left.args[1], left.args[3])):
                yield from _bounded(_difference(one, other, rows), -limit, limit, number)
        return
    unit, inside = _unconverted(left)
    if isinstance(inside, Call) and inside.op == "abs" and limit is not None:
        if op in ("<", "<="):
            yield from _bounded(_linear(inside.args[0], rows), -limit * unit, limit * unit, number, inside is not left)
        return
    if inside is not left and limit is not None:
        form, limit, converted = _linear(inside, rows), limit * unit, True
    else:
        form, limit, converted = _subtracted(_linear(left, rows), _linear(right, rows)), 0, False
    low, high = (-inf, limit) if op in ("<", "<=") else (limit, inf)
    yield from _bounded(form, low, high, number, converted)


@dataclass(frozen=True)
class _Form:
    """The sum of some sides, less others, and a constant; `offsets` is how large constants on the way have been."""

    plus: tuple[Side, ...] = ()
    minus: tuple[Side, ...] = ()
    constant: float = 0
    offsets: float = 0


def _bounded(form: _Form | None, low: float, high: float, number: int, converted: bool = False) -> Iterator[Band]:
    """The band of a form between two ends; none where the form is not one side less another."""
    if form is None or len(form.plus) != 1 or len(form.minus) != 1:
        return
    (left,), (right,) = form.plus, form.minus
    if (left.read == INTEGERS) != (right.read == INTEGERS):
        return
    low, high = low - form.constant, high - form.constant
    ends = [end for end in (low, high) if isfinite(end)]
    if left.read != INTEGERS or converted:
        wider = SLACK * (form.offsets + max(map(abs, ends)))
        low, high = low - wider, high + wider
    if left.read == INTEGERS:
        # Whole numbers, and one more where they are compared as floats.
        low = floor(low) - converted if isfinite(low) else low
        high = ceil(high) + converted if isfinite(high) else high
    yield Band(left, right, low, high, (number,))


def _difference(one: Expr, other: Expr, rows: Mapping[tuple[int, str], int]) -> _Form | None:
    return _subtracted(_linear(one, rows), _linear(other, rows))


def _subtracted(left: _Form | None, right: _Form | None) -> _Form | None:
    if left is None or right is None:
        return None
    return _added(left, _Form(right.minus, right.plus, -right.constant, right.offsets))


def _added(left: _Form, right: _Form) -> _Form:
    constant = left.constant + right.constant
    offsets = left.offsets + right.offsets + abs(constant)
    return _Form(left.plus + right.plus, left.minus + right.minus, constant, offsets)


def _linear(expr: Expr, rows: Mapping[tuple[int, str], int]) -> _Form | None:
    """An expression as a form; None where it is not one."""
    constant = _number(expr)
    if constant is not None:
        return _Form(constant=constant, offsets=abs(constant))
    side = _side(expr, rows)
    if side is not None:
        return _Form(plus=(side,))
    if not isinstance(expr, Call) or expr.op not in ("+", "-", "neg"):
        return None
    parts = [_linear(arg, rows) for arg in expr.args]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    if expr.op == "neg":
        return _subtracted(_Form(), known[0])
    return _subtracted(known[0], known[1]) if expr.op == "-" else _added(known[0], known[1])


def _side(expr: Expr, rows: Mapping[tuple[int, str], int]) -> Side | None:
    if isinstance(expr, Column):
        if expr.kind not in (Kind.FLOAT, Kind.INT, Kind.TIME, Kind.DECIMAL):
            return None
        return Side(expr.stream, rows[expr.stream, expr.name], FLOATS if expr.kind is Kind.FLOAT else INTEGERS)
    unit, column = _unconverted(expr)
    if column is expr or not isinstance(column, Column):
        return None
    return Side(column.stream, rows[column.stream, column.name], CONVERTED, unit)


def _unconverted(expr: Expr) -> tuple[float, Expr]:
    """What is inside of a conversion to a float, and how many of its integers are one."""
    if isinstance(expr, Call) and expr.op == "to_float":
        return 1.0, expr.args[0]
    if isinstance(expr, Call) and expr.op == "decimal_to_float":
        unit = _number(expr.args[1])
        return (unit, expr.args[0]) if unit else (1.0, expr)
    return 1.0, expr


def _number(expr: Expr) -> float | None:
    """The value of a constant that is a number, with the digits that it has as a decimal."""
    if isinstance(expr, Call) and expr.op == "neg":
        value = _number(expr.args[0])
        return None if value is None else -value
    if not isinstance(expr, Literal) or expr.kind not in (Kind.FLOAT, Kind.INT, Kind.TIME, Kind.DECIMAL):
        return None
    known = expr.value
    return known if isinstance(known, int | float) and not isinstance(known, bool) and isfinite(known) else None


def axes_between(stream: int, other: int, bands: Iterable[Band]) -> list[Band]:
    """The bands between two streams, seen from the first."""
    return [band.seen_from(stream) for band in bands if band.streams == {stream, other}]
