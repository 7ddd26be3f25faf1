"""The progress of queries to look at: as text, as a table in a terminal, with small pictures in a notebook, as plain
data.

Invariant: what is shown are the numbers of the progress, scaled where they are drawn, and nothing else. What a user
wrote is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from slackwater.core.engines import computed_by
from slackwater.core.time import readable
from slackwater.observe.imbalance import imbalance_lines
from slackwater.observe.value import QueryProgress, attributes, event_time

if TYPE_CHECKING:
    from rich.table import Table

BARS = "▁▂▃▄▅▆▇█"
WIDTH, HEIGHT = 320, 60
MOST_POINTS = 400
"""Of more values every n-th is drawn, and the last."""


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The last values as a line of bars.

    >>> sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    shown = list(values)[-width:]
    top = max(shown, default=0.0)
    return "".join(
        BARS[min(len(BARS) - 1, round(value / top * (len(BARS) - 1)))] if top else BARS[0] for value in shown
    )


def picture(title: str, values: Sequence[float], line: float | None = None) -> str:
    """A small curve as SVG, with the target as a dashed line where there is one."""
    values = _thinned(values)
    low, high = (
        min(*values, *([] if line is None else [line]), 0 if line is None else 1),
        max(*values, line or 0.0, 1e-9),
    )
    span = (high - low) or 1.0

    def down(value: float) -> float:
        return round(HEIGHT - 4 - (value - low) / span * (HEIGHT - 8), 1)

    step = WIDTH / max(1, len(values) - 1)
    points = " ".join(f"{round(i * step, 1)},{down(value)}" for i, value in enumerate(values))
    target = ""
    if line is not None:
        target = (
            f'<line x1="0" x2="{WIDTH}" y1="{down(line)}" y2="{down(line)}" stroke="#c60" stroke-dasharray="4 3"/>'
            f'<text x="2" y="{down(line) - 3}" font-size="9" fill="#c60">target {line:g}</text>'
        )
    return (
        f'<figure style="display:inline-block;margin:4px"><svg width="{WIDTH}" height="{HEIGHT}">{target}'
        f'<polyline points="{points}" fill="none" stroke="#06c" stroke-width="1.5"/></svg>'
        f"<figcaption>{escape(title)}: {values[-1]:.4g} now</figcaption></figure>"
    )


def _thinned(values: Sequence[float]) -> list[float]:
    """
    >>> len(_thinned(range(1000))), _thinned(range(1000))[-1], _thinned([1, 2])
    (334, 999, [1, 2])
    """
    every = -(-len(values) // MOST_POINTS)
    return list(values) if every < 2 else [*values[:-1:every], values[-1]]


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values as a table of HTML; nothing in them is HTML.

    >>> table([("late", "<3")])
    '<table><tr><td>late</td><td>&lt;3</td></tr></table>'
    """
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


NOTHING = "nothing has run yet"


@dataclass(frozen=True)
class ProgressHistory(Sequence[QueryProgress]):
    """The recent micro-batches of a query, oldest first. `history.slack`, `history.late` and so on are those of the
    latest one."""

    batches: tuple[QueryProgress, ...]
    none_yet: str = "no micro-batch is done yet"
    """The text where there are none."""

    @property
    def latest(self) -> QueryProgress | None:
        """None before the first micro-batch is done."""
        return self.batches[-1] if self.batches else None

    def __getattr__(self, name: str) -> Any:
        known = attributes(QueryProgress)
        if name.startswith("_") or name not in known:
            raise AttributeError(f"progress has no '{name}'; it has {', '.join(known)}")
        if not self.batches:
            raise AttributeError(self.none_yet)
        return getattr(self.batches[-1], name)

    def __getitem__(self, at: Any) -> Any:
        return self.batches[at]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[QueryProgress]:
        return iter(self.batches)

    def __rich__(self) -> Table | str:
        if self.latest is None:
            return self.none_yet
        # Workers import this file and never print.
        from rich.table import Table

        shown = Table(title=f"{self.latest.query}, micro-batch {self.latest.batch}", show_header=False, box=None)
        for name, value in lines(self):
            shown.add_row(name, value)
        return shown

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self.__rich__())
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        return progress_html(self.batches) if self.batches else f"<p>{escape(self.none_yet)}</p>"


def queries_text(queries: Mapping[str, Sequence[QueryProgress]]) -> str:
    """Queries with their progress, oldest first, as lines of text."""
    return "\n\n".join(_text_of(name, progress) for name, progress in queries.items()) or NOTHING


def queries_html(queries: Mapping[str, Sequence[QueryProgress]]) -> str:
    """The same as HTML: a table of the latest progress of each, and curves of slack and quality."""
    shown = (
        f"<p><b>{escape(_title(mine[-1]))}</b></p>{progress_html(mine)}"
        if mine
        else f"<p><b>{escape(name)}</b>: {NOTHING}</p>"
        for name, mine in queries.items()
    )
    return "".join(shown) or f"<p>{NOTHING}</p>"


def progress_html(progress: Sequence[QueryProgress]) -> str:
    """One query, oldest first, as a table and curves."""
    pictures = picture("slack, s", [one.slack.total_seconds() for one in progress])
    qualities = [one.quality for one in progress if one.quality is not None]
    measured = [(quality.target, quality.measured) for quality in qualities if quality.measured is not None]
    if measured:
        title = f"share of {qualities[-1].of}"
        pictures += picture(title, [share for _, share in measured], line=measured[-1][0])
    return f"{table(list(lines(progress)))}{pictures}"


def _text_of(name: str, progress: Sequence[QueryProgress]) -> str:
    if not progress:
        return f"{name}: {NOTHING}"
    rows = list(lines(progress))
    width = max(len(title) for title, _ in rows)
    return "\n".join([_title(progress[-1]), *(f"  {title:<{width}}  {value}" for title, value in rows)])


def _title(now: QueryProgress) -> str:
    state = "failed" if now.failure is not None else "ended" if now.ended else "paused" if now.paused else "running"
    return f"{now.query}, {state}, {now.batch:,} micro-batches"


def lines(progress: Sequence[QueryProgress]) -> Iterator[tuple[str, str]]:
    """The latest progress as names and values, with the recent course of slack."""
    now = progress[-1]
    if now.failure is not None:
        yield "failure", now.failure
    yield "target", now.target
    quality = now.quality
    if quality is not None and quality.measured is not None:
        within = f", between {quality.low:.2%} and {quality.high:.2%}" if quality.low != quality.high else ""
        yield "measured", f"{quality.measured:.2%} of all {quality.of}{within}"
        if quality.after_corrections is not None:
            yield "corrected", f"{quality.after_corrections:.2%} of all {quality.of} with corrections"
    elif quality is not None:
        yield "measured", "nothing yet"
    if now.outlook is not None:
        if now.outlook.said is not None:
            yield "unreachable", now.outlook.said
        yield "cap", now.outlook.how_often
    course = sparkline([one.slack.total_seconds() for one in progress])
    if now.on_arrival:
        yield "findable", f"for {_text(now.slack)} beyond the window  {course}"
    else:
        yield "slack", f"{_text(now.slack)}  {course}"
    yield "watermark", "the input has ended" if now.ended and now.watermark is None else _when(now.watermark)
    latency = next((one.latency for one in reversed(progress) if one.waiting.results), None)
    if latency is not None:
        p95 = "" if latency.p95 is None else f", 95 % within {_text(latency.p95)}"
        yield "latency", f"{_text(latency.average)} on average{p95}"
        named = "" if latency.stream is None else f" ({latency.stream})"
        behind = f"{_text(latency.slack)} slack, {_text(latency.slowest_stream)} slowest stream{named}"
        behind = f"{_text(latency.slowest_stream)} last member" if now.on_arrival else behind
        yield "by cause", f"{behind}, {_text(latency.micro_batch)} micro-batch"
        if latency.advice is not None:
            yield "", latency.advice
    # What is of a micro-batch, or waits for the next, means nothing once there is none.
    yield "results", f"{now.results:,}" if now.ended else f"{now.results:,} ({now.emitted:,} in this micro-batch)"
    if now.amends is not None:
        awaited = None if quality is None or now.ended else quality.corrections_expected
        yield now.amends, f"{now.amended:,}" + ("" if awaited is None else f", about {awaited:,.0f} more expected")
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in now.rejected.items()) or "0"
    counts = {"in time": now.in_time, "late": now.late, "filtered": now.filtered, "held": now.held}
    yield "tuples", ", ".join(f"{count:,} {name}" for name, count in counts.items()) + f", rejected: {rejected}"
    if now.history:
        yield "history", f"{now.history:,} of these tuples came out of the history"
    if not now.ended:
        yield "state", f"{now.state_rows:,} rows, {now.state_bytes:,} bytes in windows"
    if now.engines is not None:
        yield "engines", computed_by(now.engines)
    yield from imbalance_lines(now.shares, now.hot_keys, now.taken, now.key_groups)
    for name, stream in now.streams.items():
        rows = "" if stream.rows is None else f"{stream.rows:,} rows, "
        yield f"stream {name}", f"{rows}clock {_when(stream.clock)}{', idle' if stream.idle else ''}"
    for odd in (*now.wrong_clocks, *now.lagging):
        since = f", since {_when(event_time(odd.since))}" if event_time(odd.since) is not None else ""
        yield "lagging" if odd.waited_for else "wrong clock", f"{odd}{since}"
        yield "", odd.remedy
    if now.rows_per_second is not None and not now.ended:
        yield "speed", f"{now.rows_per_second:,.0f} rows/s, {now.seconds:.2f} s a micro-batch"


def _text(duration: timedelta) -> str:
    return readable(duration / timedelta(microseconds=1))


def _when(time: datetime | None) -> str:
    """An event time to the millisecond.

    >>> _when(datetime(1970, 1, 1, 0, 0, 1, 500_000)), _when(None)
    ('1970-01-01 00:00:01.500 UTC', 'not known yet')
    """
    return "not known yet" if time is None else f"{time:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def plain(value: Any) -> Any:
    """What users read of a value, its attributes and theirs, as JSON has it: times and durations in milliseconds.

    >>> plain({"slack": timedelta(seconds=2), "keys": (1, None)})
    {'slack': 2000.0, 'keys': [1, None]}
    """
    if isinstance(value, timedelta):
        return value / timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return value.timestamp() * 1000
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: plain(getattr(value, name)) for name in attributes(kind)}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
