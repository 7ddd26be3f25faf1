"""Arrow columns to words, and back. The one place where a null, a unit or a type of the outside is looked at.

Invariant: after encoding, a FLOAT word is a number, the canonical NaN or NULL_FLOAT; any other word is a value or
NULL_WORD. A value that no word can hold marks its row as bad; it is never changed silently. A word holds the digits of
a decimal without its point, as Arrow does in 128 bits; the scale stays with the type, so nothing is rounded on either
way.
"""

from __future__ import annotations

from datetime import UTC as UTC_ZONE
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind, kind_of, time_type
from slackwater.core.time import DAY, MAX_TIME, MICROSECOND, MILLISECOND, SECOND
from slackwater.sources.codebook import Codebook

TIME_UNITS = {"s": SECOND, "ms": MILLISECOND, "us": MICROSECOND, "ns": 0}
UTC = pa.timestamp("us", "UTC")

REASONS = (
    "",
    "null_time",
    "nan_time",
    "unparsable_time",
    "time_out_of_range",
    "value_out_of_range",
    "ahead",
    "after_end",
    "unparsable",
    "same_hash",
    "in_history",
)
"""Why a row was rejected before it could move a clock; a row carries the position of its reason, 0 for none."""
GOOD, NULL_TIME, NAN_TIME, UNPARSABLE_TIME, TIME_OUT_OF_RANGE, VALUE_OUT_OF_RANGE = range(6)
AHEAD, AFTER_END, UNPARSABLE, SAME_HASH, IN_HISTORY = range(6, len(REASONS))

Reasons = npt.NDArray[np.uint8]


def encode_column(values: pa.ChunkedArray, kind: Kind, codebook: Codebook) -> tuple[Words, Reasons]:
    """The words of a column, and per row why it has none; the words may be those of the column, and are not to be
    changed."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if kind is Kind.TEXT:
        codes, clash = codebook.take_in(array)
        if clash.any():
            codes = np.where(clash, NULL_WORD, codes)
        return codes, clash * np.uint8(SAME_HASH)
    words, bad = _encode_values(array, kind)
    return words, bad * np.uint8(VALUE_OUT_OF_RANGE)


def _encode_values(array: pa.Array, kind: Kind) -> tuple[Words, Flags]:
    """The words of a column that is no text, and which rows hold a value that no word can."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    null = _nulls(array)
    if kind is Kind.FLOAT:
        floats = _filled(array.cast(pa.float64()), 0.0)
        # A minimum is NaN where one of them is; most columns have none, and need not be copied.
        with np.errstate(invalid="ignore"):
            some_nan = len(floats) > 0 and np.isnan(floats.min())
        if some_nan:
            floats = np.where(np.isnan(floats), np.nan, floats)
        words = floats.view(np.int64)
        if array.null_count:
            words = np.where(null, NULL_FLOAT, words)
        return words, np.zeros(len(array), np.bool_)
    if kind is Kind.TIME:
        return _encode_moments(array, null)
    if kind is Kind.DECIMAL:
        return digits_of(array, null)
    bad = np.zeros(len(array), np.bool_)
    if pa.types.is_uint64(array.type):
        large = _filled(pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())), False)
        bad |= large
        array = pc.if_else(pa.array(large), pa.scalar(0, pa.uint64()), array)
    words = _filled(array.cast(pa.int64()), 0)
    if len(words) and words.min() == NULL_WORD:
        bad |= words == NULL_WORD
    if array.null_count:
        words = np.where(null, NULL_WORD, words)
    return words, bad


def _encode_moments(array: pa.Array, null: Flags) -> tuple[Words, Flags]:
    """A timestamp or date column that is not the event time."""
    words, reasons = encode_time(array, "us")
    words[null] = NULL_WORD
    return words, (reasons != GOOD) & ~null


def encode_time(values: pa.ChunkedArray, unit: str) -> tuple[Words, Reasons]:
    """Event times in microseconds, and per row why it has none.

    >>> words, why = encode_time(pa.chunked_array([pa.array([1, None, 3])]), "ms")
    >>> words.tolist()[::2], [REASONS[code] for code in why]
    ([1000, 3000], ['', 'null_time', ''])
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    why: Reasons = np.zeros(len(array), np.uint8)
    null = _nulls(array)
    if kind_of(array.type) is Kind.TEXT:
        array = _parsed(array.cast(pa.large_string()))
        why[array.is_null().to_numpy(zero_copy_only=False)] = UNPARSABLE_TIME
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        scale = {"s": "s", "ms": "ms", "us": "us", "ns": "ns"}.get(getattr(array.type, "unit", "ms"), "ms")
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("ms"))
        raw, unit = _filled(array.cast(pa.int64()), 0), scale
    elif kind_of(array.type) is Kind.FLOAT or pa.types.is_decimal(array.type):
        floats = _filled(array.cast(pa.float64()), 0.0)
        why[np.isnan(floats)] = NAN_TIME
        return _from_floats(floats, unit, why, null)
    else:
        bad = np.zeros(len(array), np.bool_)
        if pa.types.is_uint64(array.type):
            bad = _filled(pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())), False)
            array = pc.if_else(pa.array(bad), pa.scalar(0, pa.uint64()), array)
        why[bad] = TIME_OUT_OF_RANGE
        raw = _filled(array.cast(pa.int64()), 0)
    size = TIME_UNITS[unit]
    if size == 0:
        raw, size = raw // 1000, MICROSECOND
    most = MAX_TIME // size
    if len(raw) and (raw.max() > most or raw.min() < -most):
        far = (raw > most) | (raw < -most)
        why[far] = TIME_OUT_OF_RANGE
        raw = np.where(far, 0, raw)
    words = raw * size
    why[null] = NULL_TIME
    return words, why


def _parsed(array: pa.Array) -> pa.Array:
    """ISO 8601 strings as timestamps, UTC unless they say otherwise; null where a string is none."""
    try:
        return array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return pa.array([_parsed_one(text) for text in array.to_pylist()], pa.timestamp("us"))


def _parsed_one(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat((text or "").strip())
        return moment.astimezone(UTC_ZONE).replace(tzinfo=None) if moment.tzinfo else moment
    # A zone can carry a moment of the first or the last day out of the calendar.
    except (ValueError, OverflowError):
        return None


def _from_floats(floats: npt.NDArray[np.float64], unit: str, why: Reasons, null: Flags) -> tuple[Words, Reasons]:
    scale = TIME_UNITS[unit] or 1e-3
    with np.errstate(invalid="ignore", over="ignore"):
        micros = np.round(floats * scale)
        far = np.abs(micros) > MAX_TIME
    why[far] = TIME_OUT_OF_RANGE
    why[null] = NULL_TIME
    return np.where(why == GOOD, micros, 0).astype(np.int64), why


def _nulls(array: pa.Array) -> Flags:
    """Which values are null."""
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _filled(array: pa.Array, value: object) -> npt.NDArray[Any]:
    filled = pc.fill_null(array, value) if array.null_count else array
    if isinstance(filled, pa.ChunkedArray):
        filled = filled.combine_chunks()
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def decode_column(words: Words, kind: Kind, arrow: pa.DataType, codebook: Codebook) -> pa.Array:
    """Words as an Arrow column of the type it came with (text as a dictionary, moments as `time_type` says)."""
    if kind is Kind.TEXT:
        return codebook.decode(words)
    if kind is Kind.FLOAT:
        array = pa.array(np.ascontiguousarray(words).view(np.float64), mask=words == NULL_FLOAT)
        return array if not pa.types.is_float32(arrow) else array.cast(arrow)
    null = words == NULL_WORD
    mask = null if null.any() else None
    if kind is Kind.BOOL:
        return pa.array(words == 1, mask=mask)
    array = pa.array(words, mask=mask)
    if kind is Kind.TIME:
        return _moments(words, mask, time_type(arrow))
    if kind is Kind.DECIMAL:
        return with_point(words, null, arrow)
    return array.cast(arrow) if pa.types.is_integer(arrow) and arrow != array.type else array


def _moments(words: Words, mask: Flags | None, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_date(arrow):
        return pa.array((words // DAY).astype(np.int32), mask=mask).cast(arrow)
    array = pa.array(words, mask=mask)
    # Microseconds are what words are; a cast would look at each.
    return array.view(arrow) if pa.types.is_timestamp(arrow) and arrow.unit == "us" else array.cast(arrow)


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
