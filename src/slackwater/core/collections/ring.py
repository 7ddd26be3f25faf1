"""A ring of numbered slots: the newest numbers have one each, older ones have given theirs up.

The content of a slot is the owner's; the ring is the array of the numbers alone. A ring whose length is a power of two
spares a division with every look.

Invariant: a number has at most one slot, and never takes it from a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import inner

NEVER = -(2**62)
"""In a slot that no number has taken yet."""

Empty = Callable[[Any, int], None]


def ring(slots: int) -> Words:
    """An empty ring."""
    return np.full(slots, NEVER, np.int64)


@inner
def due_slot(numbers: Words, number: int) -> int:
    """The one slot that a number may have."""
    size = len(numbers)
    return number & (size - 1) if size & (size - 1) == 0 else number % size


@inner
def slot_of(numbers: Words, number: int) -> int:
    """The slot of a number, or NONE where it has none."""
    at = due_slot(numbers, number)
    return at if numbers[at] == number else NONE


@inner
def turn_to(empty: Empty, numbers: Words, content: Any, number: int) -> int:
    """The slot of a number, emptied by `empty(content, slot)` if an older one had it; NONE where a newer one has."""
    at = due_slot(numbers, number)
    if numbers[at] < number:
        numbers[at] = number
        empty(content, at)
    return at if numbers[at] == number else NONE


def sums_between(numbers: Words, marks: Words, these: Floats, those: Floats) -> tuple[Floats, Floats]:
    """Sums of two contents of a ring from each mark to the next, that one excluded; marks are numbers, ascending.

    What has given up its slot counts as nothing.

    >>> numbers = np.array([4, 5, 2, 3])
    >>> these, those = sums_between(numbers, np.array([0, 3, 5]), np.array([4.0, 5.0, 2.0, 3.0]), np.ones(4))
    >>> these.tolist(), those.tolist()
    ([2.0, 7.0], [1.0, 2.0])
    """
    first = max(int(marks[0]), int(marks[-1]) - len(numbers))
    wanted = np.arange(first, int(marks[-1]))
    slot = wanted % len(numbers)
    known = numbers[slot] == wanted
    edges = np.maximum(marks, first) - first

    def sums(content: Floats) -> Floats:
        return np.diff(np.concatenate(([0.0], np.cumsum(content[slot] * known)))[edges])

    return sums(these), sums(those)
