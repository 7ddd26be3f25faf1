"""The report of a run in a notebook: the few lines that say whether it is what was asked for.

Invariant: all of it is in the report; what the report does not have is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slackwater.core.emitting import ON_ARRIVAL
from slackwater.core.time import MILLISECOND, readable
from slackwater.observe.drawing import table


def report_html(report: Mapping[str, Any]) -> str:
    """A report as a small table of HTML.

    >>> report_html({"quality": "NO WAIT", "results": 2, "tuples": 3, "in_time": 2, "late": 1, "filtered": 0,
    ...              "rejected": 0, "held": 0, "slack_ms": {"avg": 0.0, "max": 0.0}})[:55]
    '<table><tr><td>target</td><td>NO WAIT</td></tr><tr><td>'
    """
    return table(list(_lines(report)))


def slack_of(report: Mapping[str, Any]) -> tuple[str, str]:
    """What slack is called, and how long it was: where results leave on arrival, nothing waits for it.

    >>> slack_of({"emit": "ON ARRIVAL", "slack_ms": {"avg": 2000.0, "max": 3000.0}})
    ('findable', 'for 2 s beyond the window on average, at most 3 s')
    """
    words = slack_in_words(report["slack_ms"])
    if report.get("emit") != ON_ARRIVAL:
        return "slack", words
    return "findable", "for " + words.replace(" on average", " beyond the window on average")


def slack_in_words(slack: Mapping[str, float]) -> str:
    """`slack_ms` of a report.

    >>> slack_in_words({"avg": 77.25, "max": 1779521.0})
    '77.2 ms on average, at most 29.7 min'
    """
    return f"{_readable_ms(slack['avg'])} on average, at most {_readable_ms(slack['max'])}"


def latency_in_words(latency: Mapping[str, float]) -> str:
    """`latency_ms` of a report that emitted something."""
    return f"{_readable_ms(latency['avg'])} on average, 95 % within {_readable_ms(latency['p95'])} (event time)"


def _readable_ms(milliseconds: float) -> str:
    return readable(milliseconds * MILLISECOND)


def _lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "target", report["quality"]
    measured = report.get("measured_quality") or {}
    if measured.get("measured") is not None:
        yield "measured", f"{measured['measured']:.2%} of all {measured['of']}"
    if measured.get("after_corrections") is not None:
        yield "corrected", f"{measured['after_corrections']:.2%} of all {measured['of']} with corrections"
    outlook = report.get("outlook") or {}
    if outlook.get("said") is not None:
        yield "unreachable", outlook["said"]
    latency = report.get("latency_ms") or {}
    yield slack_of(report)
    if latency.get("avg") is not None:
        yield "latency", latency_in_words(latency)
    if report.get("waiting_advice") is not None:
        yield "", report["waiting_advice"]
    yield "results", f"{report['results']:,}"
    if report.get("amends") is not None:
        yield report["amends"], f"{report['amended']:,}"
    counts = (
        f"{report[name]:,} {text}"
        for name, text in (
            ("in_time", "in time"), ("late", "late"), ("filtered", "filtered"), ("rejected", "rejected"),
            ("held", "held"),
        )
    )  # fmt: skip
    yield "tuples", f"{report['tuples']:,}: {', '.join(counts)}"
    for reason, count in report.get("rejected_reasons", {}).items():
        yield "", f"rejected as {reason}: {count:,}"
