"""Moments of queries, to look at: as text, and as a table with pictures in a notebook.

Invariant: what is shown are the numbers of the moments and nothing else. Whatever a user wrote is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

from slackwater.core.time import MILLISECOND, format_duration
from slackwater.observe.drawing import picture, sparkline, table
from slackwater.observe.moment import Moment

NOTHING = "nothing has run yet"


def moments_text(queries: Mapping[str, Sequence[Moment]]) -> str:
    """Queries with their moments, oldest first, as lines of text."""
    return "\n\n".join(_text_of(name, moments) for name, moments in queries.items()) or NOTHING


def moments_html(queries: Mapping[str, Sequence[Moment]]) -> str:
    """The same as HTML: a table of the latest moment of each, and curves of slack and quality."""
    return "".join(_html_of(name, moments) for name, moments in queries.items()) or f"<p>{NOTHING}</p>"


def _text_of(name: str, moments: Sequence[Moment]) -> str:
    if not moments:
        return f"{name}: {NOTHING}"
    rows = list(_lines(moments))
    width = max(len(title) for title, _ in rows)
    return "\n".join([_title(moments[-1]), *(f"  {title:<{width}}  {value}" for title, value in rows)])


def _html_of(name: str, moments: Sequence[Moment]) -> str:
    if not moments:
        return f"<p><b>{escape(name)}</b>: {NOTHING}</p>"
    now = moments[-1]
    pictures = picture("slack, s", [one.slack / 1000 for one in moments])
    measured = [one.quality.measured for one in moments if one.quality is not None and one.quality.measured is not None]
    if measured and now.quality is not None:
        pictures += picture(f"share of {now.quality.of}", measured, line=now.quality.target)
    return f"<p><b>{escape(_title(now))}</b></p>{table(list(_lines(moments)))}{pictures}"


def _title(now: Moment) -> str:
    state = "failed" if now.failure is not None else "ended" if now.ended else "paused" if now.paused else "running"
    return f"{now.query}, {state}, {now.batch:,} micro-batches"


def _lines(moments: Sequence[Moment]) -> Iterator[tuple[str, str]]:
    now = moments[-1]
    if now.failure is not None:
        yield "failure", now.failure
    yield "target", now.target
    quality = now.quality
    if quality is not None and quality.measured is not None:
        within = ""
        if quality.low is not None and quality.high is not None and quality.low != quality.high:
            within = f", between {quality.low:.2%} and {quality.high:.2%}"
        yield "measured", f"{quality.measured:.2%} of all {quality.of}{within}"
    elif quality is not None:
        yield "measured", "nothing yet"
    if now.outlook is not None and now.outlook.said is not None:
        yield "unreachable", now.outlook.said
    yield "slack", f"{_text(now.slack)}  {sparkline([one.slack for one in moments])}"
    yield "watermark", "the input has ended" if now.ended and now.watermark is None else _when(now.watermark)
    latency = next((one.latency for one in reversed(moments) if one.latency is not None), None)
    if latency is not None:
        named = "" if latency.stream is None else f" ({latency.stream})"
        parts = (
            f"{_text(latency.slack)} slack, {_text(latency.slowest_stream)} slowest stream{named},"
            f" {_text(latency.micro_batch)} micro-batch"
        )
        yield "latency", f"{_text(latency.average)} on average: {parts}"
    yield "results", f"{now.results:,}"
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in now.rejected.items()) or "0"
    counts = {"in time": now.in_time, "late": now.late, "filtered": now.filtered, "held": now.held}
    yield "tuples", ", ".join(f"{count:,} {name}" for name, count in counts.items()) + f", rejected: {rejected}"
    for one in now.streams:
        rows = "" if one.rows is None else f"{one.rows:,} rows, "
        yield f"stream {one.name}", f"{rows}clock {_when(one.clock)}{', idle' if one.idle else ''}"
    for wrong in now.wrong_clocks:
        yield "wrong clock", f"part {wrong['part']} of stream {wrong['stream']}"


def _text(milliseconds: float) -> str:
    """A duration to the millisecond."""
    return format_duration(round(milliseconds) * MILLISECOND)


def _when(milliseconds: float | None) -> str:
    """An event time; one that no calendar has as its number.

    >>> _when(1_500.0), _when(None), _when(1e18)
    ('1970-01-01 00:00:01.500 UTC', 'not known yet', '1000000000000000000 ms')
    """
    if milliseconds is None:
        return "not known yet"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds:.0f} ms"
