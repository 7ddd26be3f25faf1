"""What lazy operators compute: they see whether each argument is known, for they can have an answer in spite of a null.

Invariant: a failed argument makes the result failed wherever SQL would have had to look at it, and nowhere else.
"""

from __future__ import annotations

UNKNOWN = 0
"""A null."""
KNOWN = 1
FAILED = 2
"""An integer beyond 64 bits, or an exception in a user's function."""


def logical_and(a: int, a_state: int, b: int, b_state: int) -> tuple[int, int]:
    """False wins over unknown; what stands right of a false is not asked."""
    if a_state == KNOWN and a == 0:
        return 0, KNOWN
    if a_state == FAILED or b_state == FAILED:
        return 0, FAILED
    if b_state == KNOWN and b == 0:
        return 0, KNOWN
    return 1, a_state & b_state


def logical_or(a: int, a_state: int, b: int, b_state: int) -> tuple[int, int]:
    """True wins over unknown; what stands right of a true is not asked."""
    if a_state == KNOWN and a != 0:
        return 1, KNOWN
    if a_state == FAILED or b_state == FAILED:
        return 0, FAILED
    if b_state == KNOWN and b != 0:
        return 1, KNOWN
    return 0, a_state & b_state


def is_null(a: float, a_state: int) -> tuple[int, int]:
    """Never unknown itself."""
    if a_state == FAILED:
        return 0, FAILED
    return 1 - a_state, KNOWN


def choose(condition: int, state: int, a: float, a_state: int, b: float, b_state: int) -> tuple[float, int]:
    """One branch of CASE; the branch not taken is not asked."""
    if state == FAILED:
        return a, FAILED
    return (a, a_state) if state == KNOWN and condition != 0 else (b, b_state)


def first_known(a: float, a_state: int, b: float, b_state: int) -> tuple[float, int]:
    """COALESCE of two."""
    return (b, b_state) if a_state == UNKNOWN else (a, a_state)


def null_if(a: float, a_state: int, b: float, b_state: int) -> tuple[float, int]:
    """Unknown where both are known and equal."""
    if a_state == FAILED or b_state == FAILED:
        return a, FAILED
    return (a, UNKNOWN) if b_state == KNOWN and a == b else (a, a_state)


def least(a: float, a_state: int, b: float, b_state: int) -> tuple[float, int]:
    """Unknown arguments do not count."""
    if a_state == FAILED or b_state == FAILED:
        return a, FAILED
    if a_state == UNKNOWN or (b_state == KNOWN and b < a):
        return b, b_state
    return a, a_state


def greatest(a: float, a_state: int, b: float, b_state: int) -> tuple[float, int]:
    """Unknown arguments do not count."""
    if a_state == FAILED or b_state == FAILED:
        return a, FAILED
    if a_state == UNKNOWN or (b_state == KNOWN and b > a):
        return b, b_state
    return a, a_state
