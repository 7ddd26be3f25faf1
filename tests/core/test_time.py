import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.time import DAY, MAX_TIME, format_duration, parse_duration, unit_size


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("5 seconds", 5_000_000),
        ("100ms", 100_000),
        ("1.5 SEC", 1_500_000),
        (" 2 min ", 120_000_000),
        ("1 hour", 3_600_000_000),
        ("3d", 3 * DAY),
        ("0 s", 0),
        ("7 us", 7),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, micros):
    assert parse_duration(text) == micros


@pytest.mark.parametrize("text", ["", "5", "seconds", "-1 s", "5 parsecs", "1e3 s", "5 s 3 s", "0.5 us", "1e99 d"])
def test_anything_else_is_no_duration(text):
    with pytest.raises(ValueError, match=r"duration|microsecond"):
        parse_duration(text)


def test_a_duration_beyond_all_time_is_refused():
    with pytest.raises(ValueError, match="longer than any stream"):
        parse_duration(f"{MAX_TIME} d")


@given(st.integers(0, 10 * DAY // 1000).map(lambda ms: ms * 1000))
def test_what_is_formatted_to_six_digits_is_read_back(micros):
    shown = parse_duration(format_duration(micros))
    assert abs(shown - micros) <= micros * 1e-5


@given(st.one_of(st.integers(0, 999), st.integers(0, 5000).map(lambda s: s * 1_000_000)))
def test_whole_units_are_written_exactly(micros):
    assert parse_duration(format_duration(micros)) == micros


def test_a_unit_is_found_whatever_its_case():
    assert unit_size("Minutes") == 60_000_000
    assert unit_size("fortnight") is None
