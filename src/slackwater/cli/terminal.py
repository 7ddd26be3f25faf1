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
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from slackwater.core.time import readable
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.recorded import RecordedRun
from slackwater.runtime.side_outputs.rejections import rejected_at_first, rejected_rows
from slackwater.sources.replay import Replay

REFRESH = 0.2


class RunProgress:
    """A bar that is updated a few times a second, however often the run ticks."""

    def __init__(
        self,
        bar: Progress,
        total: int,
        done: Callable[[], int],
        news: Callable[[], Iterable[str]],
        run: RecordedRun | None,
    ) -> None:
        """`run` is the one whose slack and late tuples stand beside the bar, where there is one."""
        self._bar, self._done, self._news, self._run = bar, done, news, run
        self._task = bar.add_task("", total=total, detail="")
        self._begun = self._shown = time.monotonic()

    def tick(self) -> None:
        """Print what is new, and how the run is doing, unless that was done just before."""
        for sentence in self._news():
            warn(sentence, self._bar.console)
        now = time.monotonic()
        if now - self._shown < REFRESH:
            return
        self._shown = now
        done, detail = self._done(), ""
        if self._run is not None:
            seen, rate = self._run.observe(), done / (now - self._begun)
            detail = f"{rate:,.0f} tuples/s slack {readable(seen.slack)} late {seen.late:,}"
        self._bar.update(self._task, completed=done, detail=detail)


@contextmanager
def progress_of(
    total: int,
    done: Callable[[], int],
    quiet: bool,
    news: Callable[[], Iterable[str]] = tuple,
    run: RecordedRun | None = None,
) -> Iterator[RunProgress]:
    """A bar on standard error, nothing where that is not a terminal; of all arrivals, how many are taken in."""
    console = Console(stderr=True)
    columns = BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[detail]}"), TimeRemainingColumn()
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        shown = RunProgress(bar, total, done, news, run)
        yield shown
        for sentence in news():
            warn(sentence, console)


def progress(run: RecordedRun, quiet: bool) -> AbstractContextManager[RunProgress]:
    """The bar of one run."""
    return progress_of(len(run.replay), lambda: run.done, quiet, run.take_news, run)


def progress_of_all(runs: Mapping[str, RecordedRun], quiet: bool) -> AbstractContextManager[RunProgress]:
    """One bar for queries that run together; their news come with their names."""
    total = sum(table.num_rows for run in runs.values() for table in run.replay.tables)

    def news() -> list[str]:
        return [f"query {name}: {sentence}" for name, run in runs.items() for sentence in run.take_news()]

    return progress_of(total, lambda: sum(run.done for run in runs.values()), quiet, news)


def warn_at_first(plan: PhysicalPlan, arrivals: Replay) -> bool:
    """Warn of what is unusual about streams before they are run; whether rows are rejected for it."""
    rejected = rejected_at_first(plan, arrivals)
    for sentence in (*arrivals.notes, *rejected):
        warn(sentence)
    return bool(rejected)


def warn_at_last(run: RecordedRun, reported: bool) -> None:
    """Warns when most rows of a stream were rejected, unless that was reported at first."""
    for sentence in run.take_news():
        warn(sentence)
    if not reported:
        for sentence in rejected_rows(run.plan, run.replay, run.side_outputs):
            warn(sentence)


def warn(sentence: str, console: Console | None = None) -> None:
    """Print one sentence on the error stream; where a bar is drawn there, through its console."""
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
