"""What strict operators compute: known values in, a value out, and the word of a null for "no such number".

Invariant: nothing here raises or traps, whatever the bits: the compiled code runs these functions on the words of nulls
as well and drops the outcome. They are compiled into the expression that calls them.
"""

from __future__ import annotations

import math

from slackwater.core.schema import NULL_WORD

_INT_LIMIT = 2.0**63
_ALL_INTEGERS = 2.0**52
"""From here on a float has no digits after the point."""


def add(a: float, b: float) -> float:
    """Sum of floats."""
    return a + b


def subtract(a: float, b: float) -> float:
    """Difference of floats."""
    return a - b


def multiply(a: float, b: float) -> float:
    """Product of floats."""
    return a * b


def divide(a: float, b: float) -> float:
    """Always a float; unknown when divided by zero."""
    return a / b if b != 0.0 else math.nan


def remainder(a: float, b: float) -> float:
    """With the sign of the dividend."""
    if b == 0.0:
        return math.nan
    rest = abs(a) % abs(b)
    return -rest if a < 0.0 else rest


def int_remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    # The processor traps on x % 0, and on the smallest integer % -1.
    if b == 0:
        return NULL_WORD
    if b == -1:
        return 0
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def floor_divide(a: int, b: int) -> int:
    """The integer at or below the quotient; the divisor is a power of ten."""
    return a // b if b > 0 else NULL_WORD


def decimal_to_float(a: int, unit: float) -> float:
    """The nearest float of a decimal, given the power of ten that its digits count."""
    return a / unit if unit != 0.0 else math.nan


def negate(a: float) -> float:
    """The number with its sign turned."""
    return -a


def absolute(a: float) -> float:
    """The number without its sign."""
    return abs(a)


def sign(a: float) -> int:
    """-1, 0 or 1."""
    if a > 0:
        return 1
    return -1 if a < 0 else 0


def to_float(a: int) -> float:
    """The nearest float."""
    return float(a)


def to_int(a: float) -> int:
    """Cut off towards zero."""
    return int(a) if -_INT_LIMIT < a < _INT_LIMIT else NULL_WORD


def floor(a: float) -> int:
    """The integer at or below."""
    if not -_INT_LIMIT < a < _INT_LIMIT:
        return NULL_WORD
    whole = int(a)
    return whole - 1 if float(whole) > a else whole


def ceil(a: float) -> int:
    """The integer at or above."""
    if not -_INT_LIMIT < a < _INT_LIMIT:
        return NULL_WORD
    whole = int(a)
    return whole + 1 if float(whole) < a else whole


def round_half_away(a: float) -> float:
    """Halves go away from zero."""
    if not -_ALL_INTEGERS < a < _ALL_INTEGERS:
        return a
    whole = float(int(a))
    rest = a - whole
    if rest >= 0.5:
        return whole + 1.0
    return whole - 1.0 if rest <= -0.5 else whole


def round_scaled(a: float, scale: float) -> float:
    """Rounded to the digit that `scale`, a power of ten, makes the unit."""
    scaled = a * scale
    if not -_ALL_INTEGERS < scaled < _ALL_INTEGERS:
        return a
    whole = float(int(scaled))
    rest = scaled - whole
    if rest >= 0.5:
        whole += 1.0
    elif rest <= -0.5:
        whole -= 1.0
    return whole / scale


def sqrt(a: float) -> float:
    """NaN below zero."""
    return math.sqrt(a)


def exp(a: float) -> float:
    """e to the power of a; infinite where too large."""
    return math.exp(a)


def ln(a: float) -> float:
    """Unknown at zero and below."""
    return math.log(a) if a > 0.0 else math.nan


def log10(a: float) -> float:
    """Unknown at zero and below."""
    return math.log10(a) if a > 0.0 else math.nan


def sin(a: float) -> float:
    """Of radians."""
    return math.sin(a)


def cos(a: float) -> float:
    """Of radians."""
    return math.cos(a)


def tan(a: float) -> float:
    """Of radians."""
    return math.tan(a)


def asin(a: float) -> float:
    """In radians; NaN outside [-1, 1]."""
    return math.asin(a)


def acos(a: float) -> float:
    """In radians; NaN outside [-1, 1]."""
    return math.acos(a)


def atan(a: float) -> float:
    """In radians."""
    return math.atan(a)


def atan2(a: float, b: float) -> float:
    """Angle of the point (b, a), in radians."""
    return math.atan2(a, b)


def power(a: float, b: float) -> float:
    """a to the power of b; NaN where that is no real number."""
    return math.pow(a, b)


def hypot(a: float, b: float) -> float:
    """Length of the vector (a, b)."""
    return math.hypot(a, b)


def dist(x: float, y: float, u: float, v: float) -> float:
    """Euclidean distance of (x, y) and (u, v)."""
    return math.sqrt((x - u) * (x - u) + (y - v) * (y - v))


def equal(a: float, b: float) -> bool:
    """Of words, whatever they stand for."""
    return a == b


def unequal(a: float, b: float) -> bool:
    """Of words, whatever they stand for."""
    return a != b


def less(a: float, b: float) -> bool:
    """Of numbers or timestamps."""
    return a < b


def at_most(a: float, b: float) -> bool:
    """Of numbers or timestamps."""
    return a <= b


def logical_not(a: int) -> int:
    """Of 0 and 1."""
    return 1 - a
