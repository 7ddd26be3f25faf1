"""A progress bar for long runs: rate, slack and late tuples as they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from slackwater.cli.warn import warn
from slackwater.core.time import format_duration
from slackwater.runtime.recorded import RecordedRun

REFRESH = 0.2


class RunProgress:
    """Updates the bar a few times a second, however often the run ticks."""

    def __init__(self, bar: Progress, run: RecordedRun) -> None:
        self._bar, self._run = bar, run
        self._task = bar.add_task("", total=len(run.replay), rate="", slack="", late="")
        self._begun = self._shown = time.monotonic()

    def tick(self) -> None:
        """Say what is to be said, and show how the run stands, unless that was done a moment ago."""
        for sentence in self._run.take_news():
            warn(sentence, self._bar.console)
        now = time.monotonic()
        if now - self._shown < REFRESH:
            return
        self._shown = now
        seen = self._run.observe()
        self._bar.update(
            self._task,
            completed=self._run.done,
            rate=f"{self._run.done / (now - self._begun):,.0f} tuples/s",
            slack=f"slack {format_duration(seen.slack)}",
            late=f"late {seen.late:,}",
        )


@contextmanager
def progress(run: RecordedRun, quiet: bool) -> Iterator[RunProgress]:
    """A bar on standard error; nothing where that is not a terminal."""
    console = Console(stderr=True)
    columns = (BarColumn(), TaskProgressColumn(), *(TextColumn(f"{{task.fields[{name}]}}") for name in
               ("rate", "slack", "late")), TimeRemainingColumn())  # fmt: skip
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        yield RunProgress(bar, run)
