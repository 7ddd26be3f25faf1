"""Tables of constants: whether a value is one of many, without code for each of them.

Invariant: compiled code is told where a table is and how long it is, so it is the same code however many values there
are. The words of a table are sorted, none is a null, and there is at least one; they stay where they are for as long as
the `Table` lives, and whoever keeps the code of an expression keeps its tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from slackwater.core.jit import inner
from slackwater.core.schema import NULL_WORD


class Table:
    """The sorted words of an IN list; two tables are equal when their words are.

    >>> Table([3, 1, 3], floats=False).count, Table([1, 3], floats=False) == Table([3, 1, 1], floats=False)
    (2, True)
    """

    def __init__(self, values: Iterable[float], floats: bool) -> None:
        self._words = np.unique(np.array(list(values), np.float64 if floats else np.int64))
        # -0.0 and 0.0 are one value; which of them is kept must not tell equal tables apart.
        self._key = (floats, (self._words + 0 if floats else self._words).tobytes())

    @property
    def address(self) -> int:
        """Where the words are."""
        return int(self._words.ctypes.data)

    @property
    def count(self) -> int:
        """How many words there are."""
        return len(self._words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _reader(kind: Any) -> Any:
    """For compiled code: the word of this kind that is the i-th from an address on."""

    def read(typing: Any, address: Any, i: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            words = builder.inttoptr(args[0], context.get_value_type(kind).as_pointer())
            return builder.load(builder.gep(words, [args[1]]))

        return kind(types.int64, types.int64), generate

    return intrinsic(read)


_int_at, _float_at = _reader(types.int64), _reader(types.float64)


@inner
def _found(value: int, address: int, count: int) -> bool:
    low = 0
    # Halves without a branch: which half it is cannot be foretold.
    while count > 1:
        half = count >> 1
        low += half if _int_at(address, low + half) <= value else 0
        count -= half
    return bool(_int_at(address, low) == value)


@inner
def _found_float(value: float, address: int, count: int) -> bool:
    low = 0
    while count > 1:
        half = count >> 1
        low += half if _float_at(address, low + half) <= value else 0
        count -= half
    return bool(_float_at(address, low) == value)


def is_one_of(value: int, address: int, count: int) -> int:
    """Whether the table has the word."""
    return 1 if _found(value, address, count) else 0


def is_one_of_floats(value: float, address: int, count: int) -> int:
    """Whether the table has the number."""
    return 1 if _found_float(value, address, count) else 0


def is_one_of_or_null(value: int, address: int, count: int) -> int:
    """As `is_one_of` where the list holds a null as well: what is not found may be that."""
    return 1 if _found(value, address, count) else NULL_WORD


def is_one_of_floats_or_null(value: float, address: int, count: int) -> int:
    """As `is_one_of_floats` where the list holds a null as well."""
    return 1 if _found_float(value, address, count) else NULL_WORD
