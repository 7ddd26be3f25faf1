"""A run at a terminal: a progress bar, warnings, and Ctrl-C.

Bar and warnings go to the error stream, so that what a command prints can still be read by a program. The first Ctrl-C
asks the run to end with a report, a second one ends the process.

Invariant: a run is never cut off in the middle of a batch by a first Ctrl-C, wherever it arrives: in the kernel, while
rows are written, or while the bar is drawn.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from slackwater.core.time import readable
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.recorded import RecordedRun, Tick
from slackwater.runtime.side_outputs.rejections import rejected_at_first, rejected_rows
from slackwater.sources.replay import Replay

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
            slack=f"slack {readable(seen.slack)}",
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


@contextmanager
def progress_of(
    total: int, done: Callable[[], int], quiet: bool, news: Callable[[], Iterable[str]] = tuple
) -> Iterator[Tick]:
    """One bar for queries that run together: arrivals in all, those taken in, and what is to be said."""
    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    columns = BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task, shown = bar.add_task("", total=total), time.monotonic()

        def tick() -> None:
            nonlocal shown
            for sentence in news():
                warn(sentence, bar.console)
            if time.monotonic() - shown >= REFRESH:
                shown = time.monotonic()
                bar.update(task, completed=done())

        yield tick
        tick()


@contextmanager
def progress_of_all(runs: Mapping[str, RecordedRun], quiet: bool) -> Iterator[Tick]:
    """The same where every query can be asked meanwhile; their news are told with their names."""
    total = sum(table.num_rows for run in runs.values() for table in run.replay.tables)

    def news() -> list[str]:
        return [f"query {name}: {sentence}" for name, run in runs.items() for sentence in run.take_news()]

    with progress_of(total, lambda: sum(run.done for run in runs.values()), quiet, news) as tick:
        yield tick


def warn_at_first(plan: PhysicalPlan, arrivals: Replay) -> bool:
    """Say what is odd about streams before they are run; whether rows are rejected for it."""
    rejected = rejected_at_first(plan, arrivals)
    for sentence in (*arrivals.notes, *rejected):
        warn(sentence)
    return bool(rejected)


def warn_at_last(run: RecordedRun, reported: bool) -> None:
    """Say what was not said yet, and that most rows of a stream were rejected, unless that was told at first."""
    for sentence in run.take_news():
        warn(sentence)
    if not reported:
        for sentence in rejected_rows(run.plan, run.replay, run.side_outputs):
            warn(sentence)


def warn(sentence: str, console: Console | None = None) -> None:
    """One sentence for whoever watches, on the error stream; where something is drawn there, by who draws it."""
    (console or Console(stderr=True)).print(
        f"warning: {sentence}", style="yellow", highlight=False, markup=False, soft_wrap=True
    )


class Interruptible(Protocol):
    """What can be asked to stop."""

    def interrupt(self) -> None:
        """Stop after the step at hand."""


@contextmanager
def interruptible(run: Interruptible) -> Iterator[None]:
    """While inside, SIGINT interrupts the run instead of raising KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers, and only it is sent signals.
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:
        run.interrupt()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
