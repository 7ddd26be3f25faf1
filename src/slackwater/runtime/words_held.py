"""All words that stateful objects hold, whatever they mean.

This is how a codebook learns which texts are still needed. It looks at every array and number that can be reached,
rather than ask each piece of state for its codes: a piece that is forgotten, or added later, cannot lose a text then.
The price is that a word which is not a code any more, in a record that is free, keeps its text a little longer.

Invariant: every number that a state can emit or write is among the words; nothing is changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from inspect import getclosurevars
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from slackwater.core.batch import Words
from slackwater.expressions.text_table import TextTable
from slackwater.sources.codebook import Codebook

_OURS = "slackwater."
_WORD = 8


def words_held(*roots: object) -> Iterator[Words]:
    """The words in all that can be reached from some objects.

    >>> [words.tolist() for words in words_held({"a": [np.array([[1, 2]]), 3]}, np.array([0.0]))]
    [[0], [1, 2], [3]]
    """
    # Python numbers one by one would cost an array each.
    alone: list[int] = []
    seen: set[Any] = set()
    waiting = deque(roots)
    keep: list[object] = []
    while waiting:
        one = waiting.popleft()
        if isinstance(one, int):
            alone.append(one)
        elif isinstance(one, np.ndarray):
            place = (one.ctypes.data, one.shape, one.strides)
            if one.dtype == np.object_:
                waiting.extend(one.ravel().tolist())
            elif one.dtype.itemsize == _WORD and place not in seen:
                seen.add(place)
                yield np.ascontiguousarray(one).reshape(-1).view(np.int64)
        elif isinstance(one, np.integer):
            alone.append(int(one))
        elif one is not None and not isinstance(one, str | bytes | float | type) and id(one) not in seen:
            seen.add(id(one))
            # An object made on the way must not give its address to the next.
            keep.append(one)
            waiting.extend(_parts(one))
    yield np.array([word for word in alone if abs(word) < 2**63], np.int64)


def _parts(one: Any) -> Iterator[Any]:
    """What an object is made of, as far as it can be state."""
    if isinstance(one, dict):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from one
    elif isinstance(one, MethodType):
        yield one.__self__
    elif isinstance(one, FunctionType):
        yield from getclosurevars(one).nonlocals.values()
    # A codebook holds the codes of all texts, needed or not.
    elif type(one).__module__.startswith(_OURS) and not isinstance(one, Codebook | TextTable):
        yield from getattr(one, "__dict__", {}).values()
        for kind in type(one).__mro__:
            slots = getattr(kind, "__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield getattr(one, name, None)
