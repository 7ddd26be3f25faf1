"""The live page of a command: its options, the address it prints, and how to look at it again.

Invariant: without `--page` nothing of a server is imported. What is printed goes to the error stream, so that a program
can still read what the command prints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from slackwater.cli.operating import OperatingOptions, readers_of
from slackwater.core.errors import UsageError
from slackwater.plan.graph_of_plan import graph_of
from slackwater.runtime.recorded import RecordedRun
from slackwater.runtime.watching import Watcher

if TYPE_CHECKING:
    from slackwater.page.hub import Hub
    from slackwater.page.server import Page
    from slackwater.runtime.follow import Reader


@dataclass(frozen=True)
class PageOptions:
    """How a page is served."""

    host: str | None = None
    port: int | None = None
    token: str | None = None
    control: bool = False
    stay: bool = False

    def serve(self, hub: Hub) -> Page:
        """The page of a hub, at the address that is asked for."""
        from slackwater.page.server import Page
        from slackwater.page.serving import HOST

        return Page(hub, host=self.host or HOST, port=self.port, token=self.token, control=self.control)


def page_options(
    page: bool, host: str | None, port: int | None, token: str | None, control: bool, stay: bool
) -> PageOptions | None:
    """The options of a page, or None where there is to be none; an option without a page is refused."""
    if not page:
        for name, given in (
            ("--page-host", host), ("--page-port", port is not None), ("--control", control), ("--stay", stay),
        ):  # fmt: skip
            if given:
                raise UsageError(f"{name} is an option of the page; say --page")
        return None
    return PageOptions(host, port, token, control, stay)


class Paged:
    """What shows the queries that a command runs: a page, metrics, a log."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers
        self._watchers: dict[str, Watcher] = {}

    @property
    def is_there(self) -> bool:
        """Whether anybody watches."""
        return bool(self._readers)

    def watch(self, name: str, run: RecordedRun, quality_stated: bool = True) -> None:
        """Show a run under this name."""
        for reader in self._readers:
            reader.expect(name, plan=graph_of(run.plan, quality_stated).as_json(), set_target=run.set_target)
            self._watchers[name] = run.watch(name, reader.publish)

    @property
    def names(self) -> list[str]:
        """The queries that are watched."""
        return list(self._watchers)

    def end(self, failures: Mapping[str, str | None] | None = None) -> None:
        """All queries have ended."""
        for name, watcher in self._watchers.items():
            watcher.end((failures or {}).get(name))


@contextmanager
def paged(options: PageOptions | None, folder: Path, operating: OperatingOptions | None = None) -> Iterator[Paged]:
    """A page while inside, if one is asked for; with `stay`, until Ctrl-C. Its history is kept in the folder. Metrics
    and a log beside it, or without."""
    with readers_of(operating) as readers, _paged(options, folder, readers) as shown:
        try:
            yield shown
        except BaseException as error:
            why = str(error) or type(error).__name__
            shown.end(dict.fromkeys(shown.names, why.splitlines()[0]))
            raise


@contextmanager
def _paged(options: PageOptions | None, folder: Path, readers: Sequence[Reader]) -> Iterator[Paged]:
    if options is None:
        yield Paged(*readers)
        return
    from slackwater.core.errors import writing
    from slackwater.page.history import HistoryFile
    from slackwater.page.hub import Hub

    console = Console(stderr=True)
    with writing(folder):
        history = HistoryFile(folder)
    with options.serve(Hub(history)) as page:
        say(f"page: {page.address}", console)
        yield Paged(page.hub, *readers)
        if options.stay:
            say("the query has ended; the page stays until Ctrl-C", console)
            stay(page)
        else:
            # A page that is open asks a few times a second; it should see the end.
            time.sleep(0.5)
    say(f"look at it again: slackwater page {folder}", console)


def stay(page: Page) -> None:
    """Serve a page until Ctrl-C."""
    try:
        page.wait()
    except KeyboardInterrupt:
        return


def say(sentence: str, console: Console) -> None:
    """A line that is never cut or coloured."""
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def serve_recorded(folder: Path, options: PageOptions, console: Console) -> None:
    """Show the history of a run, until Ctrl-C."""
    from slackwater.page.history import read_history
    from slackwater.page.hub import Hub

    recorded = read_history(folder)
    if recorded.broken:
        say(f"note: {recorded.broken} lines of the history cannot be read, and are left out", console)
    with options.serve(Hub.of_recorded(recorded)) as page:
        say(f"page: {page.address} (Ctrl-C ends it)", console)
        stay(page)
