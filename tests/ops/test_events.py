"""What is worth a line in a log is told once: when it begins, and when it ends."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core.errors import UsageError
from slackwater.core.outlook import Outlook
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.events import (
    Event,
    EventLog,
    JsonFormatter,
    by_logging,
    event_writer,
    events_between,
    json_line,
)
from slackwater.observe.value import QueryProgress, StreamProgress
from tests.ops.made import QUALITY, SEEN, made

QUIET_ONE = made(wrong_clocks=(), lagging=())
"""Nothing is the matter with it."""


def names(before: QueryProgress | None, after: QueryProgress, **more: Any) -> list[str]:
    return [event.name for event in events_between(before, after, **more)]


def missed(latest: float = 0.9) -> Any:
    quality = replace(QUALITY, latest_good=latest, latest_bad=1 - latest)
    return replace(QUIET_ONE.observed, quality=quality)


CHANGES = {
    "target_changed": {"target": "RECALL 0.99 OVER 1 min"},
    "paused": {"paused": True},
    "ended": {"over": True},
    "failed": {"failure": "stream a: no column 'ts'", "over": True},
    "target_missed": {"observed": missed()},
    "target_unreachable": {"observed": replace(SEEN, outlook=Outlook(1_000, True, 9, 9, 9_000, 0.5, True))},
    "stream_idle": {"streams": {"a": StreamProgress(idle=True), "b": StreamProgress()}},
    "rows_rejected": {"streams": {"a": StreamProgress(0, 100, {"null": 60})}},
    "clock_isolated": {"wrong_clocks": (WrongClock("b", "rx7", 1_800_000_000),)},
    "partition_lags": {"lagging": (WrongClock("b", "rx7", -1_800_000_000, waited_for=True),)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_told_once_and_its_end_too(name: str) -> None:
    after = replace(QUIET_ONE, **CHANGES[name])
    assert names(QUIET_ONE, after) == [name]
    assert names(after, after) == []
    [event] = events_between(QUIET_ONE, after)
    assert event.said
    assert event.query == "pairs"


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("paused", "resumed"),
        ("ended", "restarted"),
        ("target_missed", "target_met_again"),
        ("target_unreachable", "target_reachable_again"),
        ("stream_idle", "stream_back"),
        ("rows_rejected", "rows_accepted"),
        ("clock_isolated", "clock_right_again"),
        ("partition_lags", "partition_back"),
    ],
)
def test_what_begins_also_ends(name: str, end: str) -> None:
    assert names(replace(QUIET_ONE, **CHANGES[name]), QUIET_ONE) == [end]


def test_a_first_moment_says_whether_the_query_is_new() -> None:
    assert names(None, QUIET_ONE) == ["started"]
    assert names(None, QUIET_ONE, resumed=True) == ["restarted"]
    assert names(made(batch=40, wrong_clocks=(), lagging=()), QUIET_ONE) == ["restarted"]


def test_the_end_of_a_query_ends_no_condition() -> None:
    idle = replace(QUIET_ONE, streams={"a": StreamProgress(idle=True)})
    assert names(idle, replace(QUIET_ONE, over=True)) == ["ended"]


def test_a_sentence_names_what_it_is_about() -> None:
    [event] = events_between(QUIET_ONE, made(lagging=()))
    assert event.said == "part rx7 of stream b has a clock 30 min ahead of most others; it is isolated," + (
        " and moves no clock; set the clock of its sender, or leave it out in WHERE"
    )
    [event] = events_between(QUIET_ONE, replace(QUIET_ONE, observed=missed()))
    assert event.said == "the latest period reached 90.00% of all results, and the target asks for 95.00%"


def told(progress: list[QueryProgress], quiet: float = 60.0) -> list[Event]:
    events: list[Event] = []
    log = EventLog(events.append, quiet)
    for one in progress:
        log.publish(one)
    return events


def test_a_condition_that_comes_and_goes_is_told_once_a_minute() -> None:
    wavering = [replace(QUIET_ONE, time=float(at), observed=missed(0.9 if at % 2 else 0.96)) for at in range(300)]
    events = [event for event in told(wavering) if event.name != "started"]
    assert 4 <= len(events) <= 6
    assert {event.name for event in events} == {"target_missed", "target_met_again"}


def test_what_lasts_is_told_once_however_many_micro_batches_there_are() -> None:
    lasting = [replace(QUIET_ONE, time=float(at), batch=at, observed=missed()) for at in range(1_000)]
    assert [event.name for event in told(lasting)] == ["started", "target_missed"]


def test_a_condition_that_ended_within_the_quiet_time_is_told_of_later() -> None:
    short = [replace(QUIET_ONE, time=0.0), replace(QUIET_ONE, time=1.0, observed=missed())]
    after = [replace(QUIET_ONE, time=float(at)) for at in range(2, 100)]
    events = told([*short, *after])
    assert [event.name for event in events] == ["started", "target_missed", "target_met_again"]
    assert events[-1].at == 61.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([None, *CHANGES]), max_size=30), st.floats(0, 5))
def test_begins_and_ends_of_a_condition_take_turns(changed: list[str | None], quiet: float) -> None:
    """Whatever happens: no condition begins twice without an end, and none ends that has not begun."""
    moments = [
        replace(QUIET_ONE, time=float(at), batch=12 + at, **(CHANGES[name] if name else {}))
        for at, name in enumerate(changed)
    ]
    holds: set[tuple[str, Any]] = set()
    pairs = {"target_met_again": "target_missed", "target_reachable_again": "target_unreachable",
             "stream_back": "stream_idle", "rows_accepted": "rows_rejected",
             "clock_right_again": "clock_isolated", "partition_back": "partition_lags"}  # fmt: skip
    for event in told(moments, quiet):
        about = event.numbers.get("stream")
        if event.name == "restarted":
            holds.clear()
        if event.name in pairs.values():
            assert (event.name, about) not in holds
            holds.add((event.name, about))
        elif event.name in pairs:
            assert (pairs[event.name], about) in holds
            holds.discard((pairs[event.name], about))


def test_a_line_is_one_json_object_with_a_time() -> None:
    out = io.StringIO()
    log = EventLog(event_writer(out))
    log.publish(replace(QUIET_ONE, time=1_700_000_000.0))
    log.publish(replace(QUIET_ONE, time=1_700_000_060.25, failure='a "quoted"\nline', over=True))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["started", "failed"]
    assert lines[1]["time"] == "2023-11-14T22:14:20.250Z"
    assert lines[1]["level"] == "error"
    assert lines[1]["failure"] == 'a "quoted"\nline'


def test_a_file_is_appended_to_and_may_be_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    log = EventLog(event_writer(path))
    log.publish(QUIET_ONE)
    path.rename(tmp_path / "events.log.1")
    log.publish(replace(QUIET_ONE, over=True))
    assert json.loads(path.read_text())["event"] == "ended"
    assert json.loads((tmp_path / "events.log.1").read_text())["event"] == "started"


def test_a_log_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere.*cannot be written.*name a file in a folder that is there"):
        event_writer(tmp_path / "nowhere" / "events.log")


def test_a_disk_that_is_full_later_does_not_end_the_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = EventLog(event_writer(folder / "events.log"))
    (folder / "events.log").unlink()
    folder.rmdir()
    log.publish(QUIET_ONE)
    assert "cannot be written" in capsys.readouterr().err


def test_the_logger_has_the_level_the_sentence_and_the_numbers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="slackwater"):
        [event] = events_between(QUIET_ONE, made(lagging=()))
        by_logging(event)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("query pairs: part rx7 of stream b")
    assert JsonFormatter().format(record) == json_line(event)
    plain = logging.LogRecord("slackwater", logging.INFO, "", 0, "other %s", ("words",), None)
    assert json.loads(JsonFormatter().format(plain))["said"] == "other words"
