import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.batch import Batch
from slackwater.core.errors import DataError, QueryError, SlackwaterError, UsageError
from slackwater.core.schema import Field, Kind, Schema, kind_of
from slackwater.core.state import decode_batch, encode_batch


def test_a_batch_numbers_its_tuples_and_pads_missing_columns():
    batch = Batch.of([(0, 5, 8), (1, 6)])
    assert batch.words.tolist() == [[5, 6], [0, 1], [8, 0]]


def test_arrival_times_survive_a_concat_only_where_all_parts_know_them():
    part = Batch.of([(0, 1)])
    known = Batch(part.stream, part.words, part.passes, np.array([9]))
    assert Batch.concat([known, known]).arrival_time.tolist() == [9, 9]
    assert Batch.concat([known, part]).arrival_time is None


def test_a_batch_comes_back_from_its_bytes():
    part = Batch.of([(0, 1, -(2**63)), (1, 2, 7)])
    batch = Batch(part.stream, part.words, np.array([True, False]), np.array([3, 4]))
    back, extra = decode_batch(encode_batch(batch, confirmed=np.array([1, 2])))
    assert back.words.tolist() == batch.words.tolist()
    assert (back.stream.tolist(), back.passes.tolist(), back.arrival_time.tolist()) == ([0, 1], [True, False], [3, 4])
    assert extra["confirmed"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.uint8(), Kind.INT),
        (pa.float32(), Kind.FLOAT),
        (pa.decimal128(10, 2), Kind.DECIMAL),
        (pa.decimal128(18, 18), Kind.DECIMAL),
        (pa.decimal128(19, 2), None),
        (pa.bool_(), Kind.BOOL),
        (pa.large_string(), Kind.TEXT),
        (pa.dictionary(pa.int8(), pa.string()), Kind.TEXT),
        (pa.date32(), Kind.TIME),
        (pa.timestamp("ns", "UTC"), Kind.TIME),
        (pa.list_(pa.int8()), None),
        (pa.binary(), None),
    ],
)
def test_every_arrow_type_has_one_kind_or_none(arrow, kind):
    assert kind_of(arrow) is kind


def test_a_schema_is_asked_by_name():
    schema = Schema((Field("ts", Kind.TIME, pa.int64()), Field("v", Kind.FLOAT, pa.float64())), "ts")
    assert "v" in schema
    assert "w" not in schema
    assert schema.names == ("ts", "v")
    with pytest.raises(KeyError):
        schema["w"]


def test_a_query_error_points_at_the_line_and_the_words():
    text = "SELECT a.v\nFROM a\nWHERE a.w > 1"
    at = text.index("a.w")
    shown = str(QueryError("no column 'w'", text, at, at + 3)).splitlines()
    assert shown[1] == "  line 3: WHERE a.w > 1"
    assert shown[2].index("^") == shown[1].index("a.w")
    assert shown[2].count("^") == 3


def test_an_error_at_the_end_of_the_text_still_has_a_mark():
    assert str(QueryError("unfinished", "SELECT", 6, 6)).endswith("^")


def test_an_error_without_a_place_is_its_message():
    assert str(QueryError("no query")) == "no query"


def test_exit_codes_are_those_of_the_contract():
    assert [error.exit_code for error in (SlackwaterError, UsageError, QueryError, DataError)] == [1, 2, 2, 3]
