"""What CAST computes between numbers, booleans and timestamps.

Invariant: nothing here raises or traps, whatever the bits, as in `arithmetic.py`. What the target cannot hold is the
word of a null, as with Spark's `try_cast`: a stream does not end with one odd row.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.schema import NULL_WORD
from slackwater.core.time import MAX_TIME, SECOND

_SECONDS_AT_MOST = MAX_TIME // SECOND


def same(a: int) -> int:
    """The same word as another kind."""
    return a


def to_seconds(t: int) -> int:
    """Full seconds since 1970."""
    return t // SECOND


def to_float_seconds(t: int) -> float:
    """Seconds since 1970 with their fraction."""
    return float(t) / 1e6


def from_seconds(a: int) -> int:
    """The time so many seconds after 1970; none where no stream could have it."""
    return a * SECOND if -_SECONDS_AT_MOST <= a <= _SECONDS_AT_MOST else NULL_WORD


def from_float_seconds(a: float) -> int:
    """The same, cut off to microseconds."""
    return int(a * 1e6) if -_SECONDS_AT_MOST <= a <= _SECONDS_AT_MOST else NULL_WORD


def truth(a: float) -> int:
    """1 for all but zero."""
    return 1 if a != 0 else 0


def to_single(a: float) -> float:
    """The nearest float of 32 bits."""
    return float(np.float32(a))


def seconds_as_single(t: int) -> float:
    """Seconds since 1970 as a float of 32 bits."""
    return float(np.float32(float(t) / 1e6))


def to_tinyint(a: float) -> int:
    """Cut off towards zero, if 8 bits can hold it."""
    return int(a) if -129.0 < a < 128.0 else NULL_WORD


def to_smallint(a: float) -> int:
    """Cut off towards zero, if 16 bits can hold it."""
    return int(a) if -32_769.0 < a < 32_768.0 else NULL_WORD


def to_integer(a: float) -> int:
    """Cut off towards zero, if 32 bits can hold it."""
    return int(a) if -2_147_483_649.0 < a < 2_147_483_648.0 else NULL_WORD


def seconds_as_tinyint(t: int) -> int:
    """Full seconds since 1970, if 8 bits can hold them."""
    return t // SECOND if -128 <= t // SECOND <= 127 else NULL_WORD


def seconds_as_smallint(t: int) -> int:
    """Full seconds since 1970, if 16 bits can hold them."""
    return t // SECOND if -32_768 <= t // SECOND <= 32_767 else NULL_WORD


def seconds_as_integer(t: int) -> int:
    """Full seconds since 1970, if 32 bits can hold them."""
    return t // SECOND if -2_147_483_648 <= t // SECOND <= 2_147_483_647 else NULL_WORD
