"""Arrow decimals to words and back.

Invariant: a word holds the digits of a decimal without its point, as Arrow does in 128 bits; the scale stays with the
type, so nothing is rounded on either way.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import NULL_WORD


def digits_of(array: pa.Array, null: Flags) -> tuple[Words, Flags]:
    """The words of a column of decimals, and which rows no word can hold.

    >>> from decimal import Decimal
    >>> digits_of(pa.array([Decimal("1.50"), Decimal("-0.01")]), np.zeros(2, np.bool_))[0].tolist()
    [150, -1]
    """
    wide = array.cast(pa.decimal128(38, array.type.scale))
    halves = np.frombuffer(wide.buffers()[1] or b"", np.int64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    words = halves[:, 0].copy()
    bad = ((words >> 63) != halves[:, 1]) | (words == NULL_WORD)
    words[null] = NULL_WORD
    return words, bad & ~null


def with_point(words: Words, null: Flags, arrow: pa.DataType) -> pa.Array:
    """Words as decimals of a type.

    >>> with_point(np.array([150, -1]), np.zeros(2, np.bool_), pa.decimal128(9, 2)).to_pylist()
    [Decimal('1.50'), Decimal('-0.01')]
    """
    halves = np.empty((len(words), 2), np.int64)
    halves[:, 0], halves[:, 1] = words, words >> 63
    valid = pa.array(~null).buffers()[1] if null.any() else None
    type_ = pa.decimal128(arrow.precision, arrow.scale)
    return pa.Array.from_buffers(type_, len(words), [valid, pa.py_buffer(halves)])
