"""When most rows of a stream are rejected, every runtime says so in the same words."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.runtime.side_outputs.rejections import rejection_warning

SELECTION = "SELECT v FROM clicks WITH NO WAIT"


def clicks(good: int, bad: int) -> pa.Table:
    return pa.table({"ts": pa.array([*range(good), *([None] * bad)], pa.int64()), "v": [*range(good + bad)]})


def test_it_is_said_of_half_of_the_rows_and_of_no_fewer() -> None:
    assert rejection_warning("s", 10, {"null_time": 5}, None) is not None
    assert rejection_warning("s", 10, {"null_time": 4}, None) is None
    assert rejection_warning("s", 9, {"null_time": 8}, None) is not None
    assert rejection_warning("s", 9, {"null_time": 4}, None) is None
    assert rejection_warning("s", 1, {"null_time": 1}, None) is not None
    assert rejection_warning("s", 0, {}, None) is None


def test_reasons_come_by_their_number_and_long_rows_are_cut() -> None:
    said = rejection_warning("s", 4000, {"nan_time": 1, "time_out_of_range": 2999}, "x" * 500, "ts")
    assert said is not None
    assert said.startswith("3,000 of 4,000 rows of stream s were rejected: time_out_of_range 2,999, nan_time 1, for")
    assert said.endswith("xxx ...; is the unit of 'ts' the right one?")
    assert len(said) < 400


def test_a_replay_warns_with_the_reason_and_an_example() -> None:
    with pytest.warns(UserWarning, match="rejected") as caught:
        sw.replay(SELECTION, {"clicks": clicks(0, 4375)})
    (said,) = [str(one.message) for one in caught]
    assert said == (
        '4,375 of 4,375 rows of stream clicks were rejected: null_time, for example {"ts": null, "v": 0};'
        " is 'ts' the event-time column?"
    )


def test_a_replay_with_few_rejections_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.replay(SELECTION, {"clicks": clicks(20, 5)})


def test_a_live_query_warns_once_and_as_soon_as_ten_rows_tell() -> None:
    live = sw.live(SELECTION, {"clicks": clicks(1, 0).schema})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live.push("clicks", clicks(0, 9))
    with pytest.warns(UserWarning, match="12 of 14 rows of stream clicks were rejected: null_time"):
        live.push("clicks", clicks(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live.push("clicks", clicks(0, 9))
    assert live.close().report["rejected"] == 21


def test_rows_ahead_of_all_others_are_spoken_of_at_the_end() -> None:
    hour = 3_600_000
    table = pa.table({"ts": [t + (hour if t % 7 == 3 else 0) for t in range(300)], "v": [0] * 300})
    with pytest.warns(UserWarning, match="rows of stream clicks were rejected: ahead.*max_ahead"):
        sw.replay(SELECTION, {"clicks": table})
