"""A target that cannot be met is said: in reports, on the command line, and while a query runs, once per change."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import slackwater as sw
from slackwater.cli.prepare import prepare, runtime_of
from slackwater.cli.run import run_query, show
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.time import DAY, HOUR, MINUTE
from slackwater.observe.foreseen import Foretelling, unreachable
from tests.runtime.foreseeing import AGAIN, BAD, FINISHED, SAID, foresee

QUERY = "SELECT a.v FROM a [5 s], b [5 s] WHERE a.v = b.v WITH RECALL 0.95 OVER 6 HOURS AT MOST 10 MINUTES"
ROWS = pa.table({"ts": [1000, 2000, 3000, 9000], "arrival": [0, 1, 2, 3], "v": [1, 2, 3, 4]})


def said(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught]


def test_a_report_says_that_a_target_cannot_be_met_and_how_often_the_cap_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    foresee(monkeypatch, BAD)
    answers: list[sw.Answer] = []
    reported = said(lambda: answers.append(sw.replay(QUERY, {"a": ROWS, "b": ROWS})))
    assert reported == [SAID]
    assert answers[0].report["outlook"] == {
        "cap_ms": 600_000.0,
        "stated": True,
        "choices": 50,
        "bound": 20,
        "bound_share": 0.4,
        "needed_ms": 9 * 86_400_000.0,
        "reached": 0.9343,
        "unreachable": True,
        "said": SAID,
    }


def test_nothing_is_said_of_a_target_that_can_be_met(monkeypatch: pytest.MonkeyPatch) -> None:
    foresee(monkeypatch, FINISHED)
    assert said(lambda: sw.replay(QUERY, {"a": ROWS, "b": ROWS})) == []


def test_where_no_target_is_there_is_no_outlook() -> None:
    assert sw.replay("SELECT v FROM a WITH COMPLETE", {"a": ROWS}).report["outlook"] is None


def test_a_running_query_says_it_once_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    foresee(monkeypatch, FINISHED, BAD, BAD, FINISHED, FINISHED, BAD)
    live = sw.live(QUERY, {"a": ROWS.schema, "b": ROWS.schema})
    reported = [said(lambda: live.push("a", ROWS)) for _ in range(7)]
    assert reported == [[], [SAID], [], [AGAIN], [], [SAID], []]
    assert live.report()["outlook"]["said"] == SAID


def test_the_command_line_prints_it_while_it_runs_and_in_the_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foresee(monkeypatch, BAD)
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    streams = [f"{name}={tmp_path / 'rows.parquet'}" for name in ("a", "b")]
    prepared = prepare(QUERY, streams, "ts", "ms", {})
    report = run_query(prepared, runtime_of("local"), tmp_path / "out", False, None, quiet=True)
    assert f"warning: {SAID}" in capsys.readouterr().err
    show(report, tmp_path / "out", Console(width=200))
    printed = capsys.readouterr().out
    assert SAID in printed
    assert "the cap bound in 40 % of the choices" in printed
    assert json.loads((tmp_path / "out" / "report.json").read_text())["outlook"]["said"] == SAID


@pytest.mark.parametrize(
    ("target", "outlook", "sentence"),
    [
        (Recall(0.95, MINUTE), Outlook(10 * MINUTE, True, unreachable=False, bound=3, choices=4), None),
        (
            Recall(0.99, MINUTE),
            Outlook(10 * MINUTE, False, unreachable=True, needed=3 * HOUR, reached=0.98),
            "RECALL 0.99 cannot be met within 10 minutes (the most by default; AT MOST says otherwise): it would need a"
            " slack of about 3 hours; with 10 minutes 0.98 is reached",
        ),
        (
            RelativeError(0.01, 0.95, 2_000_000),
            Outlook(2_000_000, True, unreachable=True, needed=DAY, reached=0.4),
            "ERROR 0.01 CONFIDENCE 0.95 cannot be met within 2 seconds: it would need a slack of about 1 day; with 2"
            " seconds 0.4 of the windows keep it",
        ),
        (
            Recall(0.95, MINUTE, 500_000),
            Outlook(500_000, True, unreachable=True),
            "RECALL 0.95 cannot be met within 500 ms: no slack that is known would do",
        ),
    ],
)
def test_the_sentence_has_the_numbers_that_are_known(
    target: Recall | RelativeError, outlook: Outlook, sentence: str | None
) -> None:
    assert unreachable(target, outlook) == sentence
    assert Foretelling().news(target, outlook) == sentence
