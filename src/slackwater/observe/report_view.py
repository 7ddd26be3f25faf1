"""The report of a run in words: the few lines that a notebook shows, and a line each for quality, memory and windows.

Invariant: all of it is in the report; what the report does not have is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slackwater.core.emitting import ON_ARRIVAL
from slackwater.core.measured import RESULTS, MeasuredQuality
from slackwater.core.time import MILLISECOND, readable
from slackwater.observe.report import utc_text
from slackwater.observe.views import table


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


def own_measure(seen: MeasuredQuality) -> str:
    """What was asked for, what was measured, and how far that can be trusted.

    >>> print(own_measure(MeasuredQuality("results", 0.95, good=961.0, bad=39.0, periods=50, met=48)))
    asked for 0.95, measured 0.961; 48 of 50 periods met the target
    >>> print(own_measure(MeasuredQuality("windows", 0.9, good=95.0, bad=5.0, unknown_late=2, unsure=2.0)))
    asked for 0.9, measured 0.95 (0.93 to 0.97: 2 late tuples are beyond the retention horizon)
    >>> print(own_measure(MeasuredQuality("results", 0.9, good=90.0, unknown_late=1, unsure=30.0, estimated=10.0)))
    asked for 0.9, measured 0.9 (0.75 to 1: 1 late tuple is counted by estimate)
    >>> print(own_measure(MeasuredQuality("windows", 0.9, good=90.0, bad=10.0, doubtful=4.0, exact=False)))
    asked for 0.9, measured 0.9 (0.9 to 0.94: of 4 windows it is not known whether they are off)
    >>> print(own_measure(MeasuredQuality("results", 0.9, good=90.0, bad=10.0, corrected=9.0)))
    asked for 0.9, measured 0.9, 0.99 with corrections
    >>> print(own_measure(MeasuredQuality("results", 0.9, good=90.0, bad=10.0, false=10.0)))
    asked for 0.9, measured 0.9, 0.9 of the rows true
    """
    if seen.share is None or seen.low is None or seen.high is None:
        return f"asked for {seen.target:g}, nothing measured yet"
    text = f"asked for {seen.target:g}, measured {seen.share:.4g}"
    if seen.unknown_late:
        how = "counted by estimate" if seen.of == RESULTS else "beyond the retention horizon"
        text += f" ({seen.low:.4g} to {seen.high:.4g}: {_tuples(seen.unknown_late)} {how})"
    elif seen.doubtful:
        text += f" ({seen.low:.4g} to {seen.high:.4g}: of {_windows(seen.doubtful)} off)"
    if seen.precision is not None:
        text += f", {seen.precision:.4g} of the rows true"
    if seen.corrected is not None and seen.share_corrected is not None:
        text += f", {seen.share_corrected:.4g} with corrections"
    if seen.of == RESULTS and seen.periods:
        text += f"; {seen.met:,} of {seen.periods:,} periods met the target"
    if seen.provisional_from is not None:
        text += f"; provisional from {utc_text(seen.provisional_from)} on"
    return text


def resident(memory: Mapping[str, Any]) -> str:
    """What stood in the windows, of the memory that a report has.

    >>> seen = {"average": {"query": {"events": 1200, "bytes": 28_800}}, "peak": {"query": {"events": 1, "bytes": 8}}}
    >>> resident(seen | {"samples": 3, "now": {"query": {"events": 0, "bytes": 0}}})
    '1,200 events, 28.8 kB in windows on average, at most 1 event, 8 B; now 0 events, 0 B'
    """
    now, average, peak = (_events(memory[name]["query"]) for name in ("now", "average", "peak"))
    if not memory["samples"]:
        return f"{now} in windows now"
    return f"{average} in windows on average, at most {peak}; now {now}"


def sized(windows: Mapping[str, Any]) -> str:
    """Windows that follow rates, of what a report says of one join.

    >>> sized({"sizes": [250, 10], "within_ms": 20.0, "resized": 1200})
    'of 250 and 10 tuples now, matches within 20 ms; resized 1,200 times'
    """
    text = f"of {' and '.join(f'{one:,}' for one in windows['sizes'])} tuples now"
    if windows["within_ms"] is not None:
        text += f", matches within {readable(windows['within_ms'] * MILLISECOND)}"
    return f"{text}; resized {windows['resized']:,} time{'' if windows['resized'] == 1 else 's'}"


def waited_for(report: Mapping[str, Any]) -> str:
    """Where latency comes from, of what a report says.

    >>> causes = {"slack": 300.0, "slowest_stream": 3600.0, "epoch": 0.0}
    >>> waited_for({"latency_by_cause_ms": causes, "slowest_stream": {"stream": "p2", "share": 0.97, "behind_ms": 1.0}})
    '300 ms slack, 3.6 s slowest stream (p2, 97 % of the time), 0 s epoch'
    >>> waited_for({"latency_by_cause_ms": causes, "slowest_stream": None})
    '300 ms slack, 3.6 s next tuple, 0 s epoch'
    """
    causes, slowest = report["latency_by_cause_ms"], report["slowest_stream"]
    if report.get("emit") == ON_ARRIVAL:
        behind, epoch = (readable(causes[name] * MILLISECOND) for name in ("slowest_stream", "epoch"))
        return f"{behind} last member, {epoch} epoch"
    stream = "next tuple"
    if slowest is not None:
        stream = f"slowest stream ({slowest['stream']}, {100 * slowest['share']:.0f} % of the time)"
    slack, behind, epoch = (readable(causes[name] * MILLISECOND) for name in ("slack", "slowest_stream", "epoch"))
    return f"{slack} slack, {behind} {stream}, {epoch} epoch"


def _events(seen: Mapping[str, int]) -> str:
    return f"{seen['events']:,} event{'' if seen['events'] == 1 else 's'}, {size(seen['bytes'])}"


def size(count: float) -> str:
    """Bytes in the unit that suits them.

    >>> size(999), size(1_250_000), size(3e9)
    ('999 B', '1.25 MB', '3 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def _windows(count: float) -> str:
    return (
        "1 window it is not known whether it is"
        if count == 1
        else f"{count:,.0f} windows it is not known whether they are"
    )


def _tuples(count: int) -> str:
    return "1 late tuple is" if count == 1 else f"{count:,} late tuples are"
