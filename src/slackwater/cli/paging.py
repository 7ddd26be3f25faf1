"""What shows the run of a command: a live page, its address and how to look at it again; metrics; a log.

Invariant: without `--page` nothing of a server is imported. What is printed goes to the error stream, so that a program
can still read what the command prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from slackwater.cli.options import Shown
from slackwater.plan.graph_of_plan import graph_of
from slackwater.runtime.recorded import RecordedRun
from slackwater.runtime.watching import Watcher

if TYPE_CHECKING:
    from slackwater.page.hub import Hub
    from slackwater.page.server import Page
    from slackwater.runtime.follow import Reader


class Paged:
    """What shows the queries that a command runs: a page, metrics, a log."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers
        self._watchers: dict[str, Watcher] = {}

    @property
    def is_there(self) -> bool:
        return bool(self._readers)

    def watch(self, name: str, run: RecordedRun, quality_stated: bool = True) -> None:
        for reader in self._readers:
            reader.expect(name, plan=graph_of(run.plan, quality_stated).as_json(), set_target=run.set_target)
            self._watchers[name] = run.watch(name, reader.publish)

    @property
    def names(self) -> list[str]:
        return list(self._watchers)

    def end(self, failures: Mapping[str, str | None] | None = None) -> None:
        for name, watcher in self._watchers.items():
            watcher.end((failures or {}).get(name))


@contextmanager
def paged(asked: Shown, folder: Path) -> Iterator[Paged]:
    """What shows a run while inside; with `stay` the page is served until Ctrl-C. Its history goes into the folder.
    Where nothing is asked for, nothing is imported or opened; what cannot be opened is refused before anything runs."""
    with ExitStack() as stack:
        readers: list[Reader] = []
        if asked.log is not None:
            from slackwater.observe.events import EventLog, event_writer

            readers.append(EventLog(event_writer(asked.log)))
        if asked.metrics is not None:
            from slackwater.observe.metrics import LatestProgress
            from slackwater.runtime.watch import MetricsServer

            served = stack.enter_context(MetricsServer(LatestProgress(), asked.metrics, token=asked.page_token))
            readers.append(served.latest)
            say(f"metrics: {served.address}", Console(stderr=True))
        if asked.page:
            readers.insert(0, stack.enter_context(_page(asked, folder)))
        shown = Paged(*readers)
        try:
            yield shown
        except BaseException as error:
            why = str(error) or type(error).__name__
            shown.end(dict.fromkeys(shown.names, why.splitlines()[0]))
            raise


@contextmanager
def _page(asked: Shown, folder: Path) -> Iterator[Hub]:
    """The hub of a page, which keeps its history in a folder."""
    from slackwater.core.errors import writing
    from slackwater.page.history import HistoryFile
    from slackwater.page.hub import Hub

    console = Console(stderr=True)
    with writing(folder):
        history = HistoryFile(folder)
    with _served(Hub(history), asked) as page:
        say(f"page: {page.address}", console)
        yield page.hub
        if asked.stay:
            say("the query has ended; the page stays until Ctrl-C", console)
            stay(page)
        else:
            # A page that is open asks a few times a second; it should see the end.
            time.sleep(0.5)
    say(f"look at it again: slackwater page {folder}", console)


def _served(hub: Hub, asked: Shown) -> Page:
    """The page of a hub, at the address that is asked for."""
    from slackwater.page.server import Page
    from slackwater.page.serving import HOST

    return Page(
        hub, host=asked.page_host or HOST, port=asked.page_port, token=asked.page_token, control=asked.control
    )  # fmt: skip


def stay(page: Page) -> None:
    """Serve a page until Ctrl-C."""
    try:
        page.wait()
    except KeyboardInterrupt:
        return


def say(sentence: str, console: Console) -> None:
    """A line that is never cut or coloured."""
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def serve_recorded(folder: Path, asked: Shown, console: Console) -> None:
    """Show the history of a run, until Ctrl-C."""
    from slackwater.page.history import read_history
    from slackwater.page.hub import Hub

    recorded = read_history(folder)
    if recorded.broken:
        say(f"note: {recorded.broken} lines of the history cannot be read, and are left out", console)
    with _served(Hub.of_recorded(recorded), asked) as page:
        say(f"page: {page.address} (Ctrl-C ends it)", console)
        stay(page)
