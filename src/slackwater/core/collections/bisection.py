"""Bisection for compiled loops: the first position where a condition holds.

Invariant: `holds` is false up to a position and true from it on, or the answer means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.core.jit import inner

Holds = Callable[[Any, int, Any, Any], bool]


@inner
def first_where(holds: Holds, subject: Any, a: Any, b: Any, low: int, high: int) -> int:
    """The first position from `low` on for which `holds(subject, position, a, b)`, or `high` where there is none."""
    while low < high:
        middle = (low + high) >> 1
        if holds(subject, middle, a, b):
            high = middle
        else:
            low = middle + 1
    return low
