"""The recent micro-batches of a query, to look at: as text, as a table in a terminal, as a picture in a notebook.

Invariant: what is drawn are the numbers of the `Progress` values and nothing else; attributes are those of the latest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table

from slackwater.core.engines import computed_by
from slackwater.core.time import format_duration
from slackwater.observe.drawing import picture, sparkline, table
from slackwater.runtime.spark.progress.value import Progress


@dataclass(frozen=True)
class History(Sequence[Progress]):
    """Oldest first. `history.slack`, `history.late` and so on are those of the latest micro-batch."""

    batches: tuple[Progress, ...]
    none_yet: str = "no micro-batch is done yet"
    """What is said where there are none."""

    @property
    def latest(self) -> Progress | None:
        """None before the first micro-batch is done."""
        return self.batches[-1] if self.batches else None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in Progress.__dataclass_fields__ | {"late_share": None}:
            raise AttributeError(f"progress has no '{name}'; it has {', '.join(Progress.__dataclass_fields__)}")
        if not self.batches:
            raise AttributeError(self.none_yet)
        return getattr(self.batches[-1], name)

    def __getitem__(self, at: Any) -> Any:
        return self.batches[at]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Progress]:
        return iter(self.batches)

    def __rich__(self) -> Table | str:
        if self.latest is None:
            return self.none_yet
        shown = Table(title=f"{self.latest.query}, micro-batch {self.latest.batch}", show_header=False, box=None)
        for name, value in _lines(self):
            shown.add_row(name, value)
        return shown

    def __str__(self) -> str:
        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self.__rich__())
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        if self.latest is None:
            return f"<p>{escape(self.none_yet)}</p>"
        pictures = picture("slack, s", [one.slack.total_seconds() for one in self.batches])
        qualities = [one.quality for one in self.batches if one.quality is not None]
        measured = [(quality.target, quality.measured) for quality in qualities if quality.measured is not None]
        if measured:
            pictures += picture("measured quality", [share for _, share in measured], line=measured[-1][0])
        return f"{table(list(_lines(self)))}{pictures}"


def _lines(history: History) -> Iterator[tuple[str, str]]:
    now = history.batches[-1]
    yield "target", now.target
    quality = now.quality
    if quality is not None and quality.measured is not None:
        within = f", between {quality.low:.2%} and {quality.high:.2%}" if quality.low != quality.high else ""
        yield "measured", f"{quality.measured:.2%} of all {quality.of}{within}"
    elif quality is not None:
        yield "measured", "nothing yet"
    if now.outlook is not None:
        if now.outlook.said is not None:
            yield "unreachable", now.outlook.said
        yield "cap", now.outlook.how_often
    yield "slack", f"{_text(now.slack)}  {sparkline([one.slack.total_seconds() for one in history.batches])}"
    yield "watermark", "the input has ended" if now.ended else _when(now.watermark)
    if now.latency is not None:
        wait = now.latency
        yield "latency", f"{_text(wait.average)} on average, 95 % within {_text(wait.p95)}"
        named = "" if wait.stream is None else f" ({wait.stream})"
        yield (
            "of that",
            (
                f"{_text(wait.slack)} slack, {_text(wait.slowest_stream)} slowest stream{named},"
                f" {_text(wait.micro_batch)} micro-batch"
            ),
        )
        if wait.advice is not None:
            yield "", wait.advice
    yield "results", f"{now.results:,} ({now.emitted:,} in this micro-batch)"
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in now.rejected.items()) or "0"
    counts = {"in time": now.in_time, "late": now.late, "filtered": now.filtered, "held": now.held}
    yield "tuples", ", ".join(f"{count:,} {name}" for name, count in counts.items()) + f", rejected: {rejected}"
    yield "state", f"{now.state_rows:,} rows, {now.state_bytes:,} bytes in windows"
    if now.engines is not None:
        yield "engines", computed_by(now.engines.as_json())
    for name, stream in now.streams.items():
        yield f"stream {name}", f"{stream.rows:,} rows, clock {_when(stream.clock)}"
    yield "speed", f"{now.rows_per_second:,.0f} rows/s, {now.duration.total_seconds():.2f} s a micro-batch"


def _text(duration: timedelta) -> str:
    """A duration to the millisecond."""
    return format_duration(round(duration.total_seconds() * 1000) * 1000)


def _when(moment: Any) -> str:
    return "not known yet" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
