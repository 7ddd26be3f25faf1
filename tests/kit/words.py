"""Words back to values, for oracles and for looking at results: null is None, and a float's bits are read again.

Invariant: equality here is the contract's: nulls are equal, NaN equals NaN, floats agree to a relative 1e-9.
"""

from __future__ import annotations

import math
import struct

from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind

Value = int | float | None
TOLERANCE = 1e-9


def decode(word: int, kind: Kind) -> Value:
    """The value a word carries.

    >>> decode(NULL_WORD, Kind.INT), decode(NULL_FLOAT, Kind.FLOAT), decode(7, Kind.INT)
    (None, None, 7)
    """
    if kind is not Kind.FLOAT:
        return None if word == NULL_WORD else word
    if word == NULL_FLOAT:
        return None
    value: float = struct.unpack("<d", struct.pack("<q", word))[0]
    return value


def encode(value: Value, kind: Kind) -> int:
    """The word that carries a value.

    >>> encode(None, Kind.INT) == NULL_WORD, decode(encode(2.5, Kind.FLOAT), Kind.FLOAT)
    (True, 2.5)
    """
    if value is None:
        return NULL_FLOAT if kind is Kind.FLOAT else NULL_WORD
    if kind is not Kind.FLOAT:
        return int(value)
    word: int = struct.unpack("<q", struct.pack("<d", math.nan if math.isnan(value) else value))[0]
    return word


def same_value(a: Value, b: Value) -> bool:
    """Whether two values are the same answer.

    >>> same_value(0.1 + 0.2, 0.3), same_value(math.nan, math.nan), same_value(None, 0), same_value(2, 3)
    (True, True, False, False)
    """
    if a is None or b is None:
        return a is b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
