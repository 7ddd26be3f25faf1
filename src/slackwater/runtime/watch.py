"""`slackwater.watch`: a live page of queries that run, on any runtime.

Invariant: nothing of the page is in the way of a query. The page stays when a query ends, until it is stopped or the
process ends.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.page.guard import token_of
from slackwater.page.history import HistoryFile
from slackwater.page.hub import Hub
from slackwater.page.server import Page
from slackwater.page.serving import HOST
from slackwater.runtime.follow import Following, follow, source_of


def watch(
    *queries: Any,
    host: str = HOST,
    port: int | None = None,
    token: str | None = None,
    control: bool = False,
    history: str | os.PathLike[str] | None = None,
) -> Page:
    """Serve a live page of running queries; its address is printed, and is `.address`.

    Takes what `slackwater.start`, `slackwater.queries(...).start`, `slackwater.live` or `writeStream...start()` gives.
    It is served to this machine alone; any other `host` needs a `token`, by default that of SLACKWATER_PAGE_TOKEN. With
    `control` the target can be moved on the page. With a folder as `history` the page can be looked at when the queries
    are over: `slackwater page FOLDER`. Without a `port` it is the usual one, 8470, or any that is free.
    """
    if not queries:
        raise UsageError("watch(query): say which query, or several of them")
    for query in queries:
        source_of(query)
    hub = Hub(None if history is None else HistoryFile(Path(history)))
    page = WatchedPage(hub, host=host, port=port, token=token_of(token), control=control)
    page.following += [follow(query, hub) for query in queries]
    print(f"page: {page.address}")
    return page


class WatchedPage(Page):
    """A page of queries that run in, or are driven from, this process."""

    def __init__(self, hub: Hub, **more: Any) -> None:
        self.following: list[Following] = []
        super().__init__(hub, **more)

    def stop(self) -> None:
        """Serve it no longer, and ask the queries no more."""
        for one in self.following:
            one.stop()
        super().stop()
