"""Two recorded hours of weather reports as joins: streams of very different rates, delays of hours, false dates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from papers.experiments.recorded_streams import FOLDER, WEATHER
from papers.experiments.recorded_streams import recorded as weather
from slackwater.cli.prepare import prepare, runtime_of
from slackwater.cli.run import run_query
from slackwater.core.errors import UsageError
from tests.data.conftest import Verify
from tests.data.test_recorded import assert_complete, assert_sound

Recorded = Callable[[str], Path]
TRUE_RESULTS = {"special 2019": 1591, "special 2020": 2106, "border 2019": 11_345, "border 2020": 7_040}


def given(path: Path, name: str) -> list[str]:
    return [stream.replace("?", f"={path}?", 1) for stream in WEATHER[name].streams]


@pytest.fixture(params=WEATHER)
def case(request: pytest.FixtureRequest, recorded: Recorded) -> tuple[str, list[str]]:
    """A case's name and its streams."""
    return request.param, given(recorded(WEATHER[request.param].file), request.param)


def test_weather_that_is_absent_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(UsageError, match=f"no metar_20190701_12z.parquet in {tmp_path}; set {FOLDER}"):
        weather("special 2019")


def test_the_streams_of_a_case_are_of_very_different_rates(case: tuple[str, list[str]]) -> None:
    workload = weather(case[0])
    slow, fast = sorted(table.num_rows for table in workload.streams.values())
    assert fast > 8 * slow
    assert set(workload.further) == {"rates"}
    for table in workload.streams.values():
        assert (table["ts"].to_numpy() % 60_000 == 0).all()
        assert (np.diff(table["arrival"].to_numpy()) > 0).all()


def test_whoever_waits_for_hours_finds_all_pairs_and_whoever_does_not_knows_why_not(
    case: tuple[str, list[str]], verify: Verify
) -> None:
    name, streams = case
    query = WEATHER[name].query
    assert_complete(patient := verify(f"{query} WITH DELAY 4 HOURS", streams, "1000"))
    assert patient.verdict.true_results == TRUE_RESULTS[name]
    assert_sound(hasty := verify(f"{query} WITH DELAY 10 MINUTES", streams, "1"))
    assert 0.3 * TRUE_RESULTS[name] < hasty.verdict.results < TRUE_RESULTS[name]


@pytest.mark.parametrize("name", ["special 2020", "border 2020"])
def test_reports_far_ahead_of_their_stream_are_rejected_and_the_others_are_joined(
    recorded: Recorded, verify: Verify, name: str
) -> None:
    """Most false dates are minutes ahead, and are believed; two are not, one of them twelve hours ahead."""
    streams = given(recorded(WEATHER[name].file), name)
    done = verify(f"{WEATHER[name].query} WITH DELAY 45 MINUTES", streams, "1")
    assert_sound(done)
    assert done.report.as_json()["rejected_reasons"] == {"ahead": 2}
    assert done.verdict.results > 0.99 * TRUE_RESULTS[name]


def test_windows_that_follow_rates_find_all_reports_that_come_in_bursts_and_published_rounds_do_not(
    case: tuple[str, list[str]], tmp_path: Path
) -> None:
    """Half of the reports are dated within ten minutes of the hour, where the recording begins and sizes are not yet
    learned; in rounds a size follows the rate only after a burst has pushed others out."""
    name, streams = case
    found = {}
    for how, query, options in (
        ("time", WEATHER[name].query, ""),
        ("rates", WEATHER[name].rates, ""),
        ("rounds", WEATHER[name].rates, " OPTIONS (sampling = 'rounds')"),
    ):
        prepared = prepare(f"{query} WITH DELAY 4 HOURS{options}", streams, "ts", "ms", {})
        report = run_query(prepared, runtime_of("local", "1"), tmp_path / how, False, None, quiet=True)
        found[how] = report.as_json()["results"]
    assert found["time"] == found["rates"] == TRUE_RESULTS[name]
    assert 0.2 * found["time"] < found["rounds"] < 0.8 * found["time"]
