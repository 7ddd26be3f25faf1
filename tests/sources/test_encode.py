"""Columns to words and back: nothing is changed silently."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind, kind_of
from slackwater.core.time import MAX_TIME
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import REASONS, VALUE_OUT_OF_RANGE, decode_column, encode_column, encode_time

VALUES = {
    pa.int64(): st.integers(-(2**63) + 1, 2**63 - 1),
    pa.uint64(): st.integers(0, 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
}


@pytest.mark.parametrize("arrow", VALUES, ids=str)
@given(data=st.data())
def test_a_column_comes_back_as_it_was(arrow: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[arrow], max_size=8))
    column = pa.chunked_array([values[:3], values[3:]], arrow)
    kind = kind_of(arrow)
    assert kind is not None
    book = Codebook()
    words, bad = encode_column(column, kind, book)
    assert not bad.any()
    back = decode_column(words, kind, arrow, book)
    if kind is Kind.TEXT:
        back = back.cast(arrow)
    assert back.type == arrow
    assert list(map(repr, back.to_pylist())) == list(map(repr, column.to_pylist()))


def test_a_null_and_a_nan_stay_apart() -> None:
    words, _ = encode_column(pa.chunked_array([[math.nan, None, -math.nan, 1.0]]), Kind.FLOAT, Codebook())
    assert words[1] == NULL_FLOAT
    assert words[0] == words[2] != NULL_FLOAT


def test_a_value_no_word_can_hold_is_marked() -> None:
    _, bad = encode_column(pa.chunked_array([[0, -(2**63), None]]), Kind.INT, Codebook())
    assert bad.tolist() == [0, VALUE_OUT_OF_RANGE, 0]
    _, bad = encode_column(pa.chunked_array([pa.array([0, 2**63, None], pa.uint64())]), Kind.INT, Codebook())
    assert bad.tolist() == [0, VALUE_OUT_OF_RANGE, 0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_beside_the_event_time_are_never_wrapped(unit: str) -> None:
    column = pa.chunked_array([pa.array([5, 2**62, None, -1], pa.timestamp(unit))])
    words, bad = encode_column(column, Kind.TIME, Codebook())
    scale = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1 / 1000}[unit]
    assert (words[0], words[2], words[3]) == (math.floor(5 * scale), NULL_WORD, math.floor(-scale))
    assert bad.tolist() == [0, VALUE_OUT_OF_RANGE * (unit != "ns"), 0, 0]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=6), st.sampled_from(["s", "ms", "us"]))
def test_a_time_is_exact_or_rejected(times: list[int | None], unit: str) -> None:
    scale = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    for column in (pa.chunked_array([times], pa.int64()), pa.chunked_array([times], pa.timestamp(unit))):
        words, why = encode_time(column, unit)
        for time, word, code in zip(times, words.tolist(), why.tolist(), strict=True):
            if time is None:
                assert REASONS[code] == "null_time"
            elif abs(time * scale) > MAX_TIME:
                assert REASONS[code] == "time_out_of_range"
            else:
                assert (word, REASONS[code]) == (time * scale, "")


def test_strings_are_read_as_utc_unless_they_say_otherwise() -> None:
    texts = ["1970-01-01", "1970-01-01T00:00:01", "1970-01-01T01:00:02+01:00", " 1970-01-01T00:00:03Z ", "later"]
    words, why = encode_time(pa.chunked_array([texts]), "ms")
    assert words.tolist()[:4] == [0, 1_000_000, 2_000_000, 3_000_000]
    assert [REASONS[code] for code in why] == ["", "", "", "", "unparsable_time"]


def test_equal_text_has_one_code_across_columns_and_literals() -> None:
    book = Codebook()
    first = book.encode(pa.array(["x", "y"], pa.large_string()))
    second = book.encode(
        pa.chunked_array([pa.array(["y", None]).dictionary_encode(), pa.array(["x", "z"]).dictionary_encode()])
    )
    assert second.tolist() == [first[1], NULL_WORD, first[0], book.code("z")]
    assert book.decode(first[:1]).to_pylist() == ["x"]
    assert book.decode(np.array([book.code("new")])).to_pylist() == ["new"]
